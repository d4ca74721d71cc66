// What the gradient of a node keeps from the forward pass (RC-04).
#pragma once

#include "passes/gradient/gradient.h"

namespace gradc {

/// Positions of a node, ascending: inputs and outputs whose contents its gradient reads. Those of which only the shape
/// is used (REG-15) are not kept.
struct KeepList {
  std::vector<uint32_t> inputs, outputs;
};

/// A node whose inputs are distinct variables.
struct SingleNode {
  Graph graph;
  NodeId node;
  std::vector<NodeId> variables;  // by position
};

/// Whether a node reads the contents of an input for those outputs of which `isWanted` is true.
using InputReads = bool (*)(const NodeKind &, size_t input, llvm::function_ref<bool(uint32_t)> isWanted);

struct KeepQuery {
  std::vector<uint32_t> wanted;  // positions whose gradients are requested
  GradientOptions options = {};  // `unused` is ignored
  bool isAnyOrder = false;       // gradients of gradients too, which arrive at hidden outputs
  InputReads reads = nullptr;    // null: every node reads all that it does not ignore
  bool isRecorded = false;       // also what the gradient of a fused gradient operator reads, through its decomposition
};

/// The kind of the node once its bodies also yield what these gradients read, and what the gradients of those yields
/// read; unchanged if it has no flow, or nothing is missing. Errors of buildGradient.
llvm::Expected<KindRef> savingKind(Context &context, const SingleNode &single, const KeepQuery &query);

/// What the requested gradients read. E-02 for an operator without gradient.
llvm::Expected<KeepList> keepListOf(Context &context, const SingleNode &single, const KeepQuery &query);

/// The keep-list of a node of this kind, for the gradients of all inputs that can have one, found by differentiating
/// such a node over variables (REG-03). E-02 for an operator without gradient, E-32 for an unknown one.
llvm::Expected<KeepList> keepListOf(Context &context, const KindRef &kind);

}  // namespace gradc
