// Parts of a tensor: slice, slice_axis, slice_like. All are linear; their backward operators put the part back among
// zeros and have the slice as their adjoint. Tested by tests/ops/movement_ops_test.cc
#include "ops/shape/slice.h"

#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/tensor/dim.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

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

namespace {

struct SliceAxisParams {
  int64_t axis;
  int64_t begin;
  std::optional<int64_t> end;
};
constexpr AttrSpec kSliceAxisAttrs[] = {
    ofAxis(required<&SliceAxisParams::axis>("axis", "axis to cut; negative: from the end")),
    required<&SliceAxisParams::begin>("begin", "first index; negative: from the end"),
    required<&SliceAxisParams::end>("end", "index after the last one; None: the length of the axis"),
};

struct SliceLikeParams {
  Dims axes;
};
constexpr AttrSpec kSliceLikeAttrs[] = {
    ofAxis(attr<&SliceLikeParams::axes>("axes", "()", "axes to cut, negative ones count from the end; none: all")),
};

// Unlike those of slice, bounds have to be inside the axis.
void sliceAxisShape(ShapeInference &s) {
  const SliceAxisParams &params = s.params<SliceAxisParams>();
  if (!s.in(0).hasRank()) return;
  DimsBuffer in(s.in(0).dims()), out(in);
  std::optional<size_t> axis = normalizeAxis(params.axis, in.size());
  if (!axis) return s.fail("axis " + Twine(params.axis) + " is outside the shape " + toString(s.in(0)));
  const int64_t size = in[*axis];
  if (size != kUnknownDim) {
    const int64_t begin = params.begin + (params.begin < 0 ? size : 0);
    const int64_t end = params.end ? *params.end + (*params.end < 0 ? size : 0) : size;
    if (begin < 0 || begin >= end || end > size)
      return s.fail("the range from " + Twine(params.begin) + " to " +
                    (params.end ? Twine(*params.end) : Twine("None")) + " is empty or not inside axis " +
                    Twine(params.axis) + " of the shape " + toString(s.in(0)));
    out[*axis] = end - begin;
  }
  s.setOut(0, out);
  if (s.hasFailed()) return;
  in.assign(s.out(0).dims().begin(), s.out(0).dims().end());
  in[*axis] = size;
  s.setIn(0, in);
}

}  // namespace

StridedView sliceAxisView(const NodeKind &kind, Dims whole, Dims part) {
  const SliceAxisParams &params = kind.params<SliceAxisParams>();
  StridedView view = wholeView(whole);
  const size_t axis = *normalizeAxis(params.axis, whole.size());
  view.dims[axis] = part[axis];
  view.offset = (params.begin + (params.begin < 0 ? whole[axis] : 0)) * view.strides[axis];
  return view;
}

namespace {

// Whether each axis is cut; none, after `fail`, if the axes do not fit.
std::optional<SmallVector<bool, 6>> cutAxes(ShapeInference &s) {
  Dims axes = s.params<SliceLikeParams>().axes;
  const size_t rank = s.in(0).rank();
  if (axes.empty() && s.in(1).rank() != rank)
    return s.fail("inputs have shapes " + toString(s.in(0)) + " and " + toString(s.in(1)) +
                  ", expected equally many dimensions or attribute 'axes'"),
           std::nullopt;
  SmallVector<bool, 6> isCut(rank, axes.empty());
  for (int64_t axis : axes) {
    std::optional<size_t> at = normalizeAxis(axis, rank);
    if (!at || *at >= s.in(1).rank())
      return s.fail("axis " + Twine(axis) + " is outside the shapes " + toString(s.in(0)) + " and " +
                    toString(s.in(1))),
             std::nullopt;
    isCut[*at] = true;
  }
  return isCut;
}

void sliceLikeShape(ShapeInference &s) {
  if (!s.in(0).hasRank() || !s.in(1).hasRank()) return;
  std::optional<SmallVector<bool, 6>> isCut = cutAxes(s);
  if (!isCut) return;
  DimsBuffer in(s.in(0).dims()), like(s.in(1).dims()), out(in);
  for (size_t axis = 0; axis < in.size(); ++axis) {
    if (!(*isCut)[axis]) continue;
    if (in[axis] != kUnknownDim && like[axis] > in[axis])
      return s.fail("axis " + Twine(axis) + " of the shape " + toString(s.in(0)) + " cannot be cut to the " +
                    Twine(like[axis]) + " elements of " + toString(s.in(1)));
    out[axis] = like[axis];
  }
  s.setOut(0, out);
  if (s.hasFailed()) return;
  for (size_t axis = 0; axis < in.size(); ++axis) ((*isCut)[axis] ? like : in)[axis] = s.out(0)[axis];
  s.setIn(0, in);
  s.setIn(1, like);
}

}  // namespace

StridedView sliceLikeView(const NodeKind &, Dims whole, Dims part) {
  StridedView view = wholeView(whole);
  view.dims = DimsBuffer(part);
  return view;
}

namespace {

void sliceLikeBackward(const KernelCall &call) {
  scatterKernel<sliceLikeView>(call);
  if (call.wants(1)) std::memset(call.out[1].data, 0, call.out[1].bytes());
}

void restoreSlice(DecomposeRule &d) {
  d.y(0, amongZeros(d, d.x(0), d.forwardInput(0), cutsOf(d.params<SliceParams>())));
}

int64_t axisFromFront(DecomposeRule &d, Value data) {
  const int64_t axis = d.params<SliceAxisParams>().axis;
  return axis < 0 ? axis + static_cast<int64_t>(d.rank(data)) : axis;
}

void sliceOneAxis(DecomposeRule &d) {
  const SliceAxisParams &params = d.params<SliceAxisParams>();
  d.y(0, sliceOfAxis(d, d.x(0), axisFromFront(d, d.x(0)), params.begin, params.end));
}

void restoreOneAxis(DecomposeRule &d) {
  const Value whole = d.forwardInput(0);
  d.y(0, amongZeros(d, d.x(0), whole, AxisCut{axisFromFront(d, whole), d.params<SliceAxisParams>().begin}));
}

// The first elements are kept; an axis may be named twice.
void restoreLike(DecomposeRule &d) {
  if (d.wants(1)) d.y(1, d.emit(kZerosLike, {d.forwardInput(1)}));
  if (!d.wants(0)) return;
  const Value whole = d.forwardInput(0);
  const Dims axes = d.params<SliceLikeParams>().axes;
  const size_t rank = d.rank(whole);
  SmallVector<AxisCut, 6> cuts;
  for (size_t axis = 0; axis < rank; ++axis)
    if (axes.empty() || any_of(axes, [&](int64_t named) { return normalizeAxis(named, rank) == axis; }))
      cuts.push_back({static_cast<int64_t>(axis)});
  d.y(0, amongZeros(d, d.x(0), whole, cuts));
}

extern const OpDef kBackwardSlice, kBackwardSliceAxis, kBackwardSliceLike;

}  // namespace

// dx = zeros with dy in the place of the part
constinit const OpDef kSlice = asMovementOfData({
    .name = "slice",
    .aliases = {"crop", "_sparse_slice", "_npi_slice", "_npx_slice"},
    .summary = "data[begin:end:step] as in Python, axis by axis",
    .attrs = kSliceAttrs,
    .params = paramsOf<SliceParams>(),
    .check = checkSlice,
    .shape = [](ShapeInference &s) { relateSlice(s, {0}, {0, true}); },
    .gradient = [](GradRule &g) { g.fused(kBackwardSlice, {g.dy(0)}); },
    .primitive = {.onnx = "Slice", .c = "y[i] = x[begin + step * i], axis by axis"},
    .kernel = gatherKernel<sliceView>,
});

// dx = zeros with dy in the place of the part
constinit const OpDef kSliceAxis = asMovementOfData({
    .name = "slice_axis",
    .summary = "data[begin:end] along one axis",
    .attrs = kSliceAxisAttrs,
    .params = paramsOf<SliceAxisParams>(),
    .shape = sliceAxisShape,
    .gradient = [](GradRule &g) { g.fused(kBackwardSliceAxis, {g.dy(0)}); },
    .decompose = sliceOneAxis,
    .kernel = gatherKernel<sliceAxisView>,
});

// dx = zeros with dy in the place of the part, dlike = 0
constinit const OpDef kSliceLike = asMovement({
    .name = "slice_like",
    .summary = "the first elements of data along some axes, as many as shape_like has",
    .inputs = {"data", "shape_like"},
    .attrs = kSliceLikeAttrs,
    .params = paramsOf<SliceLikeParams>(),
    .shape = sliceLikeShape,
    .dtype = [](DTypeInference &t) { t.sameInOut(0, 0); },
    .ignored = {1},
    .gradient = [](GradRule &g) { g.fused(kBackwardSliceLike, {g.dy(0)}); },
    .primitive = {.onnx = "Shape, Gather, Slice", .c = "y[i] = x[i], axis by axis"},
    .kernel = gatherKernel<sliceLikeView>,
});

namespace {

constinit const OpDef kBackwardSlice = {
    .name = "_backward_slice",
    .summary = "gradient of slice: dx[begin:end:step] = dy, zeros elsewhere",
    .inputs = {"dy"},
    .attrs = kSliceAttrs,
    .params = paramsOf<SliceParams>(),
    .check = checkSlice,
    .flags = {.isBackward = true},
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kSlice, g.dy(0), g.attrs())); },
    .decompose = restoreSlice,
    .kernel = scatterKernel<sliceView>,
};

constinit const OpDef kBackwardSliceAxis = {
    .name = "_backward_slice_axis",
    .summary = "gradient of slice_axis: dx[begin:end] = dy, zeros elsewhere",
    .inputs = {"dy"},
    .attrs = kSliceAxisAttrs,
    .params = paramsOf<SliceAxisParams>(),
    .flags = {.isBackward = true},
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kSliceAxis, g.dy(0), g.attrs())); },
    .decompose = restoreOneAxis,
    .kernel = scatterKernel<sliceAxisView>,
};

// Its adjoint cuts to the shape of dy on every axis: the others have the length of dy anyway.
constinit const OpDef kBackwardSliceLike = {
    .name = "_backward_slice_like",
    .summary = "gradient of slice_like: dx has dy in its first elements and zeros elsewhere, dlike = 0",
    .inputs = {"dy"},
    .outputs = {"dx", "dlike"},
    .attrs = kSliceLikeAttrs,
    .params = paramsOf<SliceLikeParams>(),
    .dtype = [](DTypeInference &t) { t.sameInOut(0, 0); },
    .flags = {.isBackward = true},
    .gradient =
        [](GradRule &g) {
          const bool reachesData = !g.isZero(0);
          g.dx(0, reachesData ? g.emit(kSliceLike, {g.dy(0), g.x(0)}) : g.emit(kZerosLike, {g.x(0)}));
        },
    .decompose = restoreLike,
    .kernel = sliceLikeBackward,
};

}  // namespace

constinit const OpFamily kSliceFamily =
    kOps<kSlice, kSliceAxis, kSliceLike, kBackwardSlice, kBackwardSliceAxis, kBackwardSliceLike>;

}  // namespace gradc
