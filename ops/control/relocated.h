// Loops, branches and calls with other bodies: what reaches an input of a body is looked up by the input, so the attributes
// that say it follow where rewriting a body left inputs out or changed their order. Tested by tests/lower_loops_test.cc
#pragma once

#include "ir/body_flow.h"
#include "ir/context.h"

namespace gradc {

/// A built-in operator with a flow, with these bodies instead of its own: input i of body b is what input was[b][i] of the
/// old body was. A `_foreach`, which has to name a place for every operand, becomes a `_scan` where one has none. Null for operators of a
/// host, and where a loop variable has no place any more.
llvm::Expected<KindRef> withBodies(Context &context, const NodeKind &kind, llvm::ArrayRef<Graph> bodies,
                                   llvm::ArrayRef<std::vector<uint32_t>> was);

/// The attributes of the `_scan` that a loop without a condition is, given which operand each input of its body is given.
Attrs scanAttrs(Context &context, const NodeKind &loop, llvm::ArrayRef<uint32_t> operandOf);

}  // namespace gradc
