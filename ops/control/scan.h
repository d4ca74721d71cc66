// `_scan`, the loop that gradients and decompositions emit (ops/kit/primitives.h). Tested by
// tests/ops/control_flow_test.cc
#pragma once

#include "ir/graph/context.h"

namespace gradc {

/// The attributes of the `_scan` that is equivalent to a loop without a condition. `operandOf` gives the operand that
/// each input of the body reads, `numAdded` the number of additional stacked outputs.
Attrs scanAttrs(Context &context, const NodeKind &loop, llvm::ArrayRef<uint32_t> operandOf, size_t numAdded = 0);

/// Whether only the rows of executed steps of a loop's operand have values: attribute `short_data` of `_scan`.
bool isShortData(const NodeKind &kind, uint32_t operand);

/// The kind of a `_scan` that adds `count` stacks of `length` rows, in the rows of executed steps alone
/// (WellKnownOps::sumOfRows).
llvm::Expected<KindRef> sumOfRows(Context &context, size_t count, int64_t length);

}  // namespace gradc
