// What a gradient check holds constant at the base point, in graphs and bodies alike. docs/gradcheck.md gives the
// reasons.
#pragma once

#include "ir/tensor/tensor.h"
#include "passes/gradient/select.h"

namespace gradc {

inline bool isLoss(const OpDef &op) { return op.impliedLoss != nullptr; }

/// Constants for the gradient: BlockGrad, losses, marked nodes, and steps such as comparisons, which a difference may
/// cross.
inline bool isHeld(const Graph &graph, NodeId n) {
  const OpDef &op = *graph.op(n);
  return op.flags.isConstantInGradcheck || op.flags.hasNoGradient || isLoss(op) || isMarkedStopped(graph, n);
}

/// Inputs that the operator reads at the base point: those without a gradient, and those that it truncates.
inline bool isHeldInput(const NodeKind &kind, size_t input) {
  if (kind.flow || kind.isMutated(input) || (kind.isIgnored(input) && !isLoss(*kind.op))) return false;
  return kind.isStopped(input) || isWholeNumber(domainOf(kind, input));
}

/// "node 'y' (_power_scalar) is nan", of the first element that is not finite; empty if all are. Hidden outputs are not
/// checked.
std::string describeNotFinite(const Graph &graph, NodeId n, llvm::ArrayRef<TensorRef> outputs);

}  // namespace gradc
