// Loops, branches and calls with other bodies: what reaches an input of a body is looked up by the input, so the attributes
// that say it follow where rewriting a body left inputs out or changed their order. Tested by tests/lower_loops_test.cc
#pragma once

#include "ir/body_flow.h"
#include "ir/context.h"

namespace gradc {

/// A built-in operator with a flow, with these bodies instead of its own: input i of body b is what input was[b][i] of the
/// old body was. A `_foreach`, which has to name a place for every operand, becomes a `_scan` where one has none. Null for operators of a
/// host, and where a loop variable has no place any more.
///
/// With `numAdded`, each body that computes has as many heads more, which are visible outputs: stacked ones of a loop in front of its
/// states, else the last.
llvm::Expected<KindRef> withBodies(Context &context, const NodeKind &kind, llvm::ArrayRef<Graph> bodies,
                                   llvm::ArrayRef<std::vector<uint32_t>> was, size_t numAdded = 0);

/// The attributes of the `_scan` that a loop without a condition is, given which operand each input of its body is given; with
/// stacked outputs more.
Attrs scanAttrs(Context &context, const NodeKind &loop, llvm::ArrayRef<uint32_t> operandOf, size_t numAdded = 0);

}  // namespace gradc
