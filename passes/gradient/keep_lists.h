// What the gradient of a node keeps of its forward pass (RC-04).
#pragma once

#include "passes/gradient/gradient.h"

namespace gradc {

/// Positions of a node, rising: inputs and outputs whose contents its gradient reads. Where only the shape counts
/// (REG-15) nothing is kept.
struct KeepList {
  std::vector<uint32_t> inputs, outputs;
};

/// A node, and its inputs, each a variable of its own.
struct SingleNode {
  Graph graph;
  NodeId node;
  std::vector<NodeId> variables;  // by position
};

struct KeepQuestion {
  std::vector<uint32_t> wanted;  // positions whose gradients are requested
  GradientOptions options = {};  // `unused` is ignored
  bool isAnyOrder = false;       // gradients of gradients too, which arrive at hidden outputs
  bool isRecorded = false;       // also what the gradient of a fused gradient operator reads, through its decomposition
};

/// The kind of the node once its bodies yield what these gradients read, and what the gradients of those yields read; the
/// kind it has where it has no flow, or nothing is missing. Errors of buildGradient.
llvm::Expected<KindRef> savingKind(Context &context, const SingleNode &single, const KeepQuestion &question);

/// What the gradients requested read. E-02 for an operator without gradient.
llvm::Expected<KeepList> keepListOf(Context &context, const SingleNode &single, const KeepQuestion &question);

/// That of a node of this kind, for gradients of all inputs that can have one: found by differentiating such a node over
/// variables (REG-03). E-02 for an operator without gradient, E-32 for an unknown one.
llvm::Expected<KeepList> keepListOf(Context &context, const KindRef &kind);

}  // namespace gradc
