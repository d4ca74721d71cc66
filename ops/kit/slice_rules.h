// Rules shared by operators that cut tensors. They require no known sizes, except for long steps (1024 or more): what
// they need of a size they take from values when the graph runs. Tested by tests/ops/conformance_test.cc
#pragma once

#include "ir/rules/grad_rule.h"

#include <optional>

namespace gradc {

using Bound = std::optional<int64_t>;  // of a slice; negative: from the end; none: the end of the axis

/// data[begin:end] as in Python, axis by axis from axis 0 on.
Value sliceOf(DecomposeRule &d, Value data, llvm::ArrayRef<Bound> begin, llvm::ArrayRef<Bound> end);
/// The same along one axis, which must not be negative.
Value sliceOfAxis(DecomposeRule &d, Value data, int64_t axis, Bound begin, Bound end);

/// How a part was cut from one axis: at index begin, begin + step, …
struct AxisCut {
  int64_t axis;
  Bound begin = {};
  int64_t step = 1;
};

/// Undoes cuts of `whole`: zeros of its shape, and the part where it was cut from. No axis occurs twice or is negative.
Value amongZeros(DecomposeRule &d, Value part, Value whole, llvm::ArrayRef<AxisCut> cuts);

}  // namespace gradc
