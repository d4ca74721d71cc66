// Gradients of entries inside bodies, as heads of the emitted graph: a loop stacks them, one row per step (§9).
// Tested by tests/passes/gradient/retain_inside_test.cc
#pragma once

#include "passes/gradient/gradient.h"

namespace gradc {

/// The kind with other bodies, each with `numAdded` more heads, which are visible outputs of the node: stacked ones
/// before the states of a loop, else the last ones. Input i of body b was input was[b][i] of the old body. Null if the
/// operator has no such form; for built-in operators see ops/control/rebody.h.
using MoreOutputs = llvm::Expected<KindRef>(Context &context, const NodeKind &kind, llvm::ArrayRef<Graph> bodies,
                                            llvm::ArrayRef<std::vector<uint32_t>> was, size_t numAdded);

/// Appends a head for the gradient of each node that markRetained marked before `gradient`, of order 1, was built, and
/// removes the marks and their taps. In a loop, row t of the head is the gradient in the step that runs row t, and so
/// on for nested loops; where no such step or another branch runs, or no gradient arrives (NL-02), it is zeros. In the
/// table these heads are Retained, in the order of `paths`.
///
/// UnsupportedOption for operators that moreOutputs has no form of; Unreachable if no gradient arrives at a node and
/// only gradients are emitted, so that nothing has its shape.
llvm::Expected<Graph> retainInside(Context &context, const Graph &gradient, llvm::ArrayRef<std::string> paths,
                                   MoreOutputs *moreOutputs);

}  // namespace gradc
