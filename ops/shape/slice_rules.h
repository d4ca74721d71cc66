// Rules that operators which cut tensors have in common. They ask for no size: what they need of one they take from
// values when the graph runs. Tested by tests/conformance_test.cc
#pragma once

#include "ir/grad_rule.h"

#include <optional>

namespace gradc {

using Bound = std::optional<int64_t>;  // of a slice, negative: from the end; nothing: the end of the axis

/// data[begin:end] as in Python, axis by axis from axis 0 on.
Value sliceOf(DecomposeRule &d, Value data, llvm::ArrayRef<Bound> begin, llvm::ArrayRef<Bound> end);
/// The same of one axis, which is not counted from the end.
Value sliceOfAxis(DecomposeRule &d, Value data, int64_t axis, Bound begin, Bound end);

/// How a part was cut from one axis: at index begin, begin + step, …
struct AxisCut {
  int64_t axis;
  Bound begin = {};
  int64_t step = 1;
};

/// Undoes cuts of `whole`: zeros of its shape, and the part where it was cut from. No axis occurs twice or is counted
/// from the end.
Value amongZeros(DecomposeRule &d, Value part, Value whole, llvm::ArrayRef<AxisCut> cuts);

}  // namespace gradc
