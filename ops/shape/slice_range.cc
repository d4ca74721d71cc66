// Tested by tests/ops/movement_ops_test.cc
#include "ops/shape/slice_range.h"

#include "ir/base/error.h"
#include "ir/tensor/dim.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

// Indices along one axis: begin, begin + step, …, `length` of them.
struct AxisRange {
  int64_t begin, step, length;
};

int64_t stepOf(const SliceParams &params, size_t axis) {
  return params.step.empty() ? 1 : params.step[axis].value_or(1);
}

// Bounds are clamped to the axis, as in Python slices.
AxisRange axisRange(const SliceParams &params, size_t axis, int64_t size) {
  const int64_t step = stepOf(params, axis);
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  auto bound = [&](std::optional<int64_t> given, int64_t fallback) {
    if (!given) return fallback;
    return std::clamp(*given < 0 ? *given + size : *given, low, high);
  };
  const int64_t begin = bound(params.begin[axis], step > 0 ? low : high);
  const int64_t end = bound(params.end[axis], step > 0 ? high : low);
  const int64_t distance = step > 0 ? end - begin : begin - end;
  const Dim stride = step > 0 ? Dim(step) : -Dim(step);
  return {begin, step, distance > 0 ? ceilDiv(distance, stride).nearest() : 0};
}

// Whether the whole axis is kept, whatever its length.
bool keepsAxis(const SliceParams &params, size_t axis) {
  const int64_t step = stepOf(params, axis);
  return !params.begin[axis] && !params.end[axis] && (step == 1 || step == -1);
}

}  // namespace

Error checkSlice(const OpDef &, void *params) {
  const SliceParams &given = *static_cast<const SliceParams *>(params);
  const size_t size = given.begin.size();
  if (given.end.size() != size)
    return Failure(ErrorKind::BadAttribute, "attribute 'end' has " + Twine(given.end.size()) +
                                                " elements, expected as many as 'begin': " + Twine(size));
  if (!given.step.empty() && given.step.size() != size)
    return Failure(ErrorKind::BadAttribute, "attribute 'step' has " + Twine(given.step.size()) +
                                                " elements, expected as many as 'begin': " + Twine(size));
  if (is_contained(given.step, std::optional<int64_t>(0)))
    return Failure(ErrorKind::BadAttribute, "attribute 'step' has an element 0, expected any other number");
  return Error::success();
}

bool checkSliceRank(ShapeInference &s, const SliceParams &params, ShapeRef whole) {
  if (params.begin.size() <= whole.rank()) return true;
  s.fail("begin has " + Twine(params.begin.size()) + " elements, but the input has shape " + toString(whole));
  return false;
}

void relateSlice(ShapeInference &s, EntryPort whole, EntryPort part) {
  const SliceParams &params = s.params<SliceParams>();
  if (!whole.shape(s).hasRank() || !checkSliceRank(s, params, whole.shape(s))) return;
  DimsBuffer in(whole.shape(s).dims()), out(in);
  for (size_t axis = 0; axis < params.begin.size(); ++axis)
    if (in[axis] != kUnknownDim) out[axis] = axisRange(params, axis, in[axis]).length;
  part.set(s, out);
  if (s.hasFailed()) return;
  for (size_t axis = 0; axis < in.size(); ++axis)
    if (axis >= params.begin.size() || keepsAxis(params, axis)) in[axis] = part.shape(s)[axis];
  whole.set(s, in);
}

StridedView viewOfSlice(const SliceParams &params, Dims whole) {
  StridedView view = wholeView(whole);
  for (size_t axis = 0; axis < params.begin.size(); ++axis) {
    const AxisRange range = axisRange(params, axis, whole[axis]);
    view.dims[axis] = range.length;
    view.offset += range.begin * view.strides[axis];
    // With a single element the step is not used, and may be any number.
    if (range.length > 1) view.strides[axis] *= range.step;
  }
  return view;
}

SmallVector<AxisCut, 6> cutsOf(const SliceParams &params) {
  SmallVector<AxisCut, 6> cuts;
  for (size_t axis = 0; axis < params.begin.size(); ++axis) {
    const int64_t step = stepOf(params, axis);
    if (step != 1 || params.begin[axis] || params.end[axis])
      cuts.push_back({static_cast<int64_t>(axis), params.begin[axis], step});
  }
  return cuts;
}

}  // namespace gradc
