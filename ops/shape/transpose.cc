// Axes in another order or direction: transpose, SwapAxis, reverse.
//
// All are linear. The gradient undoes the permutation; reverse is the adjoint of itself. Tested by
// tests/ops/movement_ops_test.cc
#include "ops/shape/transpose.h"

#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/shape/axes.h"

using namespace llvm;

namespace gradc {
namespace {

struct TransposeParams {
  Dims axes;
};
constexpr AttrSpec kTransposeAttrs[] = {
    ofAxis(attr<&TransposeParams::axes>("axes", "()",
                                        "which axis of data each axis of the output is; none: reversed order")),
};

struct SwapAxisParams {
  int64_t dim1, dim2;
};
constexpr AttrSpec kSwapAxisAttrs[] = {
    ofAxis(attr<&SwapAxisParams::dim1>("dim1", "0", "one of the axes; negative: from the end")),
    ofAxis(attr<&SwapAxisParams::dim2>("dim2", "0", "the other")),
};

// The axis of the input that each axis of the output is; none unless `axes` is a permutation of `rank` axes.
std::optional<SmallVector<size_t, 6>> permutation(Dims axes, size_t rank) {
  SmallVector<size_t, 6> order;
  if (axes.empty())
    for (size_t axis = rank; axis-- > 0;) order.push_back(axis);
  if (!axes.empty() && axes.size() != rank) return std::nullopt;
  SmallVector<bool, 6> isUsed(rank, false);
  for (int64_t axis : axes) {
    std::optional<size_t> at = normalizeAxis(axis, rank);
    if (!at || isUsed[*at]) return std::nullopt;
    isUsed[*at] = true;
    order.push_back(*at);
  }
  return order;
}

// Output axis i has the length of input axis order[i].
void permuteShape(ShapeInference &s, ArrayRef<size_t> order) {
  const size_t rank = order.size();
  DimsBuffer in(rank, kUnknownDim), out(rank, kUnknownDim);
  if (s.in(0).hasRank())
    for (size_t axis = 0; axis < rank; ++axis) out[axis] = s.in(0)[order[axis]];
  s.setOut(0, out);
  if (s.hasFailed()) return;
  for (size_t axis = 0; axis < rank; ++axis) in[order[axis]] = s.out(0)[axis];
  s.setIn(0, in);
}

void transposeShape(ShapeInference &s) {
  Dims axes = s.params<TransposeParams>().axes;
  std::optional<size_t> rank = eitherRank(s);
  if (!rank && axes.empty()) return;
  if (!rank) rank = axes.size();
  std::optional<SmallVector<size_t, 6>> order = permutation(axes, *rank);
  if (!order) return s.fail("axes " + tupleText(axes) + " are not a permutation of " + countOf(*rank, "dimension"));
  permuteShape(s, *order);
}

// The permutation that swaps two axes; none if one is out of range.
std::optional<SmallVector<size_t, 6>> swapped(const SwapAxisParams &params, size_t rank) {
  std::optional<size_t> first = normalizeAxis(params.dim1, rank), second = normalizeAxis(params.dim2, rank);
  if (!first || !second) return std::nullopt;
  SmallVector<size_t, 6> order;
  for (size_t axis = 0; axis < rank; ++axis) order.push_back(axis);
  std::swap(order[*first], order[*second]);
  return order;
}

void swapAxisShape(ShapeInference &s) {
  std::optional<size_t> rank = eitherRank(s);
  if (!rank) return;
  const SwapAxisParams &params = s.params<SwapAxisParams>();
  std::optional<SmallVector<size_t, 6>> order = swapped(params, *rank);
  if (!order)
    return s.fail("dim1 " + Twine(params.dim1) + " or dim2 " + Twine(params.dim2) + " is outside " +
                  countOf(*rank, "dimension"));
  permuteShape(s, *order);
}

StridedView permutedView(ArrayRef<size_t> order, Dims whole) {
  const DimsBuffer own = contiguousStrides(whole);
  StridedView view;
  for (size_t axis : order) {
    view.dims.push_back(whole[axis]);
    view.strides.push_back(own[axis]);
  }
  return view;
}

}  // namespace

StridedView transposeView(const NodeKind &kind, Dims whole, Dims) {
  return permutedView(*permutation(kind.params<TransposeParams>().axes, whole.size()), whole);
}

StridedView swapAxisView(const NodeKind &kind, Dims whole, Dims) {
  return permutedView(*swapped(kind.params<SwapAxisParams>(), whole.size()), whole);
}

namespace {

extern const OpDef kBackwardSwapAxis;

// Axes of the transposition that undoes this one.
std::string inverseAxes(Dims axes) {
  DimsBuffer inverse(axes.size(), 0);
  std::optional<SmallVector<size_t, 6>> order = permutation(axes, axes.size());
  if (order)
    for (size_t axis = 0; axis < axes.size(); ++axis) inverse[(*order)[axis]] = static_cast<int64_t>(axis);
  return tupleText(inverse);
}

void swapByTransposing(DecomposeRule &d) {
  const std::optional<SmallVector<size_t, 6>> order = swapped(d.params<SwapAxisParams>(), d.rank(d.x(0)));
  if (!order) return d.refuse(ErrorKind::InferConflict, "swaps an axis that its input does not have");
  if (order->empty()) return d.y(0, d.x(0));
  const DimsBuffer axes(order->begin(), order->end());
  d.y(0, d.emit(kTranspose, {d.x(0)}, {{"axes", d.tuple(axes)}}));
}

}  // namespace

// dx = dy transposed back
constinit const OpDef kTranspose = asMovementOfData({
    .name = "transpose",
    .aliases = {"_np_transpose"},
    .summary = "data with its axes in another order: y[i0, i1, ...] = x[i] where axis axes[k] of x has index ik",
    .attrs = kTransposeAttrs,
    .params = paramsOf<TransposeParams>(),
    .shape = transposeShape,
    .gradient =
        [](GradRule &g) {
          Dims axes = g.params<TransposeParams>().axes;
          const std::string inverse = inverseAxes(axes);
          Attrs attrs = axes.empty() ? Attrs() : g.context().attrs(ArrayRef<AttrText>{{"axes", inverse}});
          g.fused(kTranspose, g.dy(0), attrs);
        },
    .primitive = {.onnx = "Transpose", .c = "y[i] = x[j], j the offset with permuted steps"},
    .kernel = gatherKernel<transposeView>,
});

// dx = dy with the same axes swapped
constinit const OpDef kSwapAxis = asMovementOfData({
    .name = "SwapAxis",
    .aliases = {"swapaxes", "_npi_swapaxes"},
    .summary = "data with two axes swapped",
    .attrs = kSwapAxisAttrs,
    .params = paramsOf<SwapAxisParams>(),
    .shape = swapAxisShape,
    .gradient = [](GradRule &g) { g.fused(kBackwardSwapAxis, {g.dy(0)}); },
    .decompose = swapByTransposing,
    .kernel = gatherKernel<swapAxisView>,
});

namespace {

constinit const OpDef kBackwardSwapAxis = asMovement({
    .name = "_backward_SwapAxis",
    .summary = "gradient of SwapAxis: dx = dy with the same axes swapped",
    .inputs = {"dy"},
    .attrs = kSwapAxisAttrs,
    .params = paramsOf<SwapAxisParams>(),
    .shape = swapAxisShape,
    .flags = {.isBackward = true},
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kSwapAxis, d.x(0), d.attrs())); },
    .kernel = gatherKernel<swapAxisView>,
});

}  // namespace

namespace {

struct ReverseParams {
  Dims axis;
};
constexpr AttrSpec kReverseAttrs[] = {
    ofAxis(required<&ReverseParams::axis>("axis", "axes to run backwards, negative ones count from the end")),
};

void reverseShape(ShapeInference &s) {
  s.sameAll();
  if (s.hasFailed() || !s.in(0).hasRank()) return;
  for (int64_t axis : s.params<ReverseParams>().axis)
    if (!normalizeAxis(axis, s.in(0).rank()))
      return s.fail("axis " + Twine(axis) + " is outside the shape " + toString(s.in(0)));
}

}  // namespace

// An axis named twice is reversed twice.
StridedView reverseView(const NodeKind &kind, Dims whole, Dims) {
  StridedView view = wholeView(whole);
  for (int64_t axis : kind.params<ReverseParams>().axis) {
    const size_t at = *normalizeAxis(axis, whole.size());
    view.offset += (whole[at] - 1) * view.strides[at];
    view.strides[at] = -view.strides[at];
  }
  return view;
}

namespace {

extern const OpDef kBackwardReverse;

// An axis named twice is reversed twice.
void reverseBySlicing(DecomposeRule &d) {
  const size_t rank = d.rank(d.x(0));
  DimsBuffer step(rank, 1);
  for (int64_t axis : d.params<ReverseParams>().axis) {
    const std::optional<size_t> at = normalizeAxis(axis, rank);
    if (!at) return d.refuse(ErrorKind::InferConflict, "reverses an axis that its input does not have");
    step[*at] = -step[*at];
  }
  std::string all;
  for (size_t axis = 0; axis < rank; ++axis) all += "None,";
  const std::string bounds = "(" + all + ")";
  if (rank == 0) return d.y(0, d.x(0));
  d.y(0, d.emit(kSlice, {d.x(0)}, {{"begin", bounds}, {"end", bounds}, {"step", d.tuple(step)}}));
}

}  // namespace

// dx = dy reversed along the same axes
constinit const OpDef kReverse = asMovementOfData({
    .name = "reverse",
    .aliases = {"flip", "_npi_flip"},
    .summary = "data with the order of elements reversed along axes: y[..., i, ...] = x[..., n - 1 - i, ...]",
    .attrs = kReverseAttrs,
    .params = paramsOf<ReverseParams>(),
    .shape = reverseShape,
    .gradient = [](GradRule &g) { g.fused(kBackwardReverse, {g.dy(0)}); },
    .decompose = reverseBySlicing,
    .kernel = gatherKernel<reverseView>,
});

namespace {

constinit const OpDef kBackwardReverse = asMovement({
    .name = "_backward_reverse",
    .summary = "gradient of reverse: dx = dy reversed along the same axes",
    .inputs = {"dy"},
    .attrs = kReverseAttrs,
    .params = paramsOf<ReverseParams>(),
    .shape = reverseShape,
    .flags = {.isBackward = true},
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kReverse, d.x(0), d.attrs())); },
    .kernel = gatherKernel<reverseView>,
});

}  // namespace

constinit const OpFamily kTransposeFamily = kOps<kTranspose, kSwapAxis, kBackwardSwapAxis, kReverse, kBackwardReverse>;

}  // namespace gradc
