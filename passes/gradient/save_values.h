// Prepares a gradient: makes nodes with a flow that it passes through also yield what the gradients of their bodies
// read. Tested by tests/passes/gradient/loop_gradient_test.cc
#pragma once

#include "passes/gradient/gradient.h"
#include "passes/inference/infer.h"

#include "ir/rules/grad_rule.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace gradc {

/// The gradients of one node's bodies; without heads for a body of which nothing is requested.
struct FlowGradient {
  NodeId node;
  std::vector<BodyGradient> bodies;
  llvm::BitVector wanted;  // by input: whether a gradient there can become one of an x other than zero
};

struct SavingGraph {
  /// Nodes and their outputs keep their numbers; added outputs come last, and the attribute `__saved__` counts them.
  Graph graph;
  std::vector<FlowGradient> flows;     // by node, ascending
  std::optional<Inference> inference;  // what was known before, for the entries of `graph`
};

class BodyGradients;

/// A node with a flow whose bodies yield what their gradients read.
struct SavingNode {
  KindRef kind;
  std::vector<BodyGradient> bodies;
};

/// `wanted` by input, `live` and `cut` by output of a node of this kind; `inference` by body, null where nothing is
/// known. Gradients do not read values from outputs that are `cut`: at the next order nothing would flow through them.
/// `within` adds to an error the body that it comes from.
llvm::Expected<SavingNode> saveBodies(Context &context, const KindRef &kind, const llvm::BitVector &wanted,
                                      const llvm::BitVector &live, const llvm::BitVector &cut,
                                      llvm::ArrayRef<const Inference *> inference, const GradientOptions &options,
                                      BodyGradients &bodies,
                                      llvm::function_ref<llvm::Error(llvm::Error, uint32_t)> within);

/// nullopt if no node on a path from a y to an x has a flow. Errors of the bodies, with their path.
llvm::Expected<std::optional<SavingGraph>> saveValues(Context &context, const Graph &graph,
                                                      const GradientRequest &request, const GradientOptions &options,
                                                      BodyGradients &bodies);

}  // namespace gradc
