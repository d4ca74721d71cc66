// Before a gradient is built: nodes with a flow that it passes through also yield what the gradients of their bodies read.
// Tested by tests/loop_gradient_test.cc
#pragma once

#include "passes/gradient/gradient.h"
#include "passes/infer.h"

#include "ir/grad_rule.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace gradc {

/// Of one node: a gradient for each body, without heads where nothing is asked of it.
struct FlowGradient {
  NodeId node;
  std::vector<BodyGradient> bodies;
};

struct SavingGraph {
  /// Nodes and their outputs have the numbers they had; outputs that were added come last, under the attribute `__saved__`.
  Graph graph;
  std::vector<FlowGradient> flows;     // by node, ascending
  std::optional<Inference> inference;  // what was known, for the entries of `graph`
};

class BodyGradients;

/// A node with a flow whose bodies yield what their gradients read.
struct SavingNode {
  KindRef kind;
  std::vector<BodyGradient> bodies;
};

/// `wanted` by input and `live` by output of a node of this kind; `inference` by body, null where nothing is known. `within`
/// says of an error which body it is of.
llvm::Expected<SavingNode> saveBodies(Context &context, const KindRef &kind, const llvm::BitVector &wanted,
                                      const llvm::BitVector &live, llvm::ArrayRef<const Inference *> inference,
                                      const GradientOptions &options, BodyGradients &bodies,
                                      llvm::function_ref<llvm::Error(llvm::Error, uint32_t)> within);

/// Nothing where no node on a path from a y to an x has a flow. Errors of the bodies, with their path.
llvm::Expected<std::optional<SavingGraph>> saveValues(Context &context, const Graph &graph,
                                                      const GradientRequest &request, const GradientOptions &options,
                                                      BodyGradients &bodies);

}  // namespace gradc
