// Loops, branches and calls with rewritten bodies. Their attributes map operands to body inputs by position, so they
// have to follow when a rewrite drops inputs of a body or reorders them. Tested by
// tests/passes/lowering/lower_loops_test.cc
#pragma once

#include "ir/graph/body_flow.h"
#include "ir/graph/context.h"

namespace gradc {

/// A built-in operator with a flow, with these bodies instead of its own: input i of body b was input was[b][i] of the
/// old body. `_foreach` has to name a position for every operand, so it becomes a `_scan` where an operand has none.
/// Null for operators of a host, and if a loop variable has no position any more.
///
/// With `numAdded`, each body that computes has that many more heads. They become visible outputs: of a loop, stacked
/// outputs before its states; otherwise the last outputs.
llvm::Expected<KindRef> withBodies(Context &context, const NodeKind &kind, llvm::ArrayRef<Graph> bodies,
                                   llvm::ArrayRef<std::vector<uint32_t>> was, size_t numAdded = 0);

/// The attributes of the `_scan` that is equivalent to a loop without a condition. `operandOf` gives the operand that
/// each input of the body reads, `numAdded` the number of additional stacked outputs.
Attrs scanAttrs(Context &context, const NodeKind &loop, llvm::ArrayRef<uint32_t> operandOf, size_t numAdded = 0);

}  // namespace gradc
