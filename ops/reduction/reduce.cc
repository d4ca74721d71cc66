// Sums and means over axes, and the operators that undo a broadcast or repeat along axes.
//
// `sum` and `mean` follow MXNet: no axis means all of them, also under `exclude`; a result without axes left has shape
// (1,). Tested by tests/ops/reduce_ops_test.cc
#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/attrs.h"
#include "ops/kit/broadcast_loops.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/reduction/reduce_axes.h"
#include "ops/shape/axes.h"

using namespace llvm;

namespace gradc {
namespace {

struct AxisParams {
  int64_t axis;
};
constexpr AttrSpec kAxisAttrs[] = {ofAxis(required<&AxisParams::axis>("axis", "the axis the vector runs along"))};

// Input 0 summed down to the shape `part`: that of the output, perhaps with more axes of one element.
void sumTo(const KernelCall &call, Dims part) {
  if (!call.wants(0)) return;
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    sumOnto<T>(call.out[0].as<T>(), part, call.in[0].shape, call.in[0], [](const T *v) { return v[0]; });
  });
}

void sumKernel(const KernelCall &call) { sumTo(call, keptShape(call.params<ReduceParams>(), call.in[0].shape)); }
void sumLikeKernel(const KernelCall &call) { sumTo(call, call.out[0].shape); }

void meanKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  sumKernel(call);
  const int64_t size = call.out[0].size();
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T count = size == 0 ? T(1) : static_cast<T>(call.in[0].size() / size);
    for (int64_t i = 0; i < size; ++i) call.out[0].as<T>()[i] /= count;
  });
}

// dx = dy repeated over the reduced axes, divided by `isMean ? elements per sum : 1`.
void repeatHeadKernel(const KernelCall &call, bool isMean) {
  if (!call.wants(0)) return;
  DimsBuffer part = keptShape(call.params<ReduceParams>(), call.out[0].shape);
  const TensorRef dy{call.in[0].data, call.in[0].dtype, part};
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T count = isMean && dy.size() > 0 ? static_cast<T>(call.out[0].size() / dy.size()) : T(1);
    mapBroadcast<T>(call.out[0], dy, [&](const T *v) { return v[0] / count; });
  });
}

// Whether `part` broadcasts to `whole` (unknown dimensions do).
bool broadcastsTo(ShapeRef part, ShapeRef whole) {
  if (part.rank() > whole.rank()) return false;
  for (size_t back = 1; back <= part.rank(); ++back) {
    const int64_t small = part[part.rank() - back], large = whole[whole.rank() - back];
    if (small != 1 && small != kUnknownDim && large != kUnknownDim && small != large) return false;
  }
  return true;
}

// Only input 1, `x`, gives the shape of the output.
void likeSecond(ShapeInference &s) { s.sameInOut(1, 0); }

void sumLikeShape(ShapeInference &s) {
  likeSecond(s);
  if (s.in(0).hasRank() && s.in(1).hasRank() && !broadcastsTo(s.in(1), s.in(0)))
    s.fail("shape " + toString(s.in(0)) + " does not sum down to " + toString(s.in(1)));
}

extern const OpDef kBackwardSum, kBackwardMean;

template <const OpDef &Backward, void (*Kernel)(const KernelCall &)>
constexpr OpDef total(StringRef name, NameList aliases, StringRef summary) {
  OpDef op = reduction(name, summary);
  op.aliases = aliases;
  op.gradient = [](GradRule &g) { g.fused(Backward, {g.dy(0)}); };
  op.kernel = Kernel;
  return op;
}

// Elements per sum, counted when the graph runs.
Value countLike(DecomposeRule &d, Value x) { return d.emit(kSum, {d.emit(kOnesLike, {x})}, d.attrs()); }

constexpr OpDef withoutIntegers(OpDef op) {
  op.kernelTypes = kFloatingTypes;
  return op;
}

// Linear in dy, and its adjoint is the forward operator.
template <const OpDef &Forward, bool isMean> constexpr OpDef totalGradient(StringRef name, StringRef summary) {
  OpDef op = reductionGradient(name, summary);
  op.inputs = {"dy"};
  op.gradient = [](GradRule &g) { g.dx(0, g.emit(Forward, {g.dy(0)}, g.attrs())); };
  op.kernel = [](const KernelCall &call) { repeatHeadKernel(call, isMean); };
  return op;
}

}  // namespace

// dx = dy, repeated over the reduced axes
constinit const OpDef kSum =
    asPrimitive(total<kBackwardSum, sumKernel>("sum", {"sum_axis", "_sparse_sum"}, "sum over axes"),
                {.onnx = "ReduceSum", .c = "y[j] += x[i]"});
// dx = dy / n, repeated over the reduced axes, n elements per mean
constinit const OpDef kMean =
    withDecomposition(withoutIntegers(total<kBackwardMean, meanKernel>("mean", {"_sparse_mean"}, "mean over axes")),
                      [](DecomposeRule &d) {
                        const Value sum = d.emit(kSum, {d.x(0)}, d.attrs());
                        d.y(0, d.emit(kBroadcastDiv, {sum, countLike(d, d.x(0))}));
                      });

// dv = dy, repeated to the shape of v
constinit const OpDef kSumLike = linearInFirst<kBroadcastLike>({
    .name = "_sum_like",
    .summary = "v summed over the axes along which x would be repeated to its shape: undoes a broadcast",
    .inputs = {"v", "x"},
    .shape = sumLikeShape,
    .kernelTypes = kFloatingAndIntegers,
    .primitive = {.onnx = "Shape, Shape, Equal, Not, NonZero, ReduceSum, Reshape",
                  .c = "y[j] += v[i]; a repeated axis of y has step 0"},
    .kernel = sumLikeKernel,
});

namespace {

struct BroadcastLikeParams {
  Dims lhsAxes, rhsAxes;
};
constexpr AttrSpec kBroadcastLikeAttrs[] = {
    ofAxis(attr<&BroadcastLikeParams::lhsAxes>("lhs_axes", "None",
                                               "axes of lhs to repeat; none given: all, aligned at the last")),
    ofAxis(attr<&BroadcastLikeParams::rhsAxes>("rhs_axes", "None",
                                               "the axes of rhs whose lengths they get, one for each")),
};

Error checkBroadcastLike(const OpDef &, void *params) {
  const BroadcastLikeParams &given = *static_cast<const BroadcastLikeParams *>(params);
  if (given.lhsAxes.size() == given.rhsAxes.size()) return Error::success();
  return Failure(ErrorKind::BadAttribute, "attribute 'lhs_axes' has " + Twine(given.lhsAxes.size()) +
                                              " elements and 'rhs_axes' " + Twine(given.rhsAxes.size()) +
                                              ", expected the same number");
}

void broadcastLikeShape(ShapeInference &s) {
  const BroadcastLikeParams &params = s.params<BroadcastLikeParams>();
  if (params.lhsAxes.empty()) {
    likeSecond(s);
    if (s.in(0).hasRank() && s.in(1).hasRank() && !broadcastsTo(s.in(0), s.in(1)))
      s.fail("shape " + toString(s.in(0)) + " does not broadcast to " + toString(s.in(1)));
    return;
  }
  if (!s.in(0).hasRank() || !s.in(1).hasRank()) return;
  DimsBuffer out(s.in(0).dims());
  SmallVector<bool, 6> isRepeated(out.size(), false);
  for (auto [lhsAxis, rhsAxis] : zip(params.lhsAxes, params.rhsAxes)) {
    std::optional<size_t> to = normalizeAxis(lhsAxis, out.size()), from = normalizeAxis(rhsAxis, s.in(1).rank());
    if (!to || !from) return s.fail("an axis is outside the shapes " + toString(s.in(0)) + " and " + toString(s.in(1)));
    if (isRepeated[*to])
      return s.fail("lhs_axes name axis " + Twine(lhsAxis) + " of the shape " + toString(s.in(0)) + " twice");
    isRepeated[*to] = true;
    out[*to] = s.in(1)[*from];
  }
  s.setOut(0, out);
  if (!s.hasFailed() && !broadcastsTo(s.in(0), s.out(0)))
    s.fail("shape " + toString(s.in(0)) + " does not broadcast to " + toString(s.out(0)));
}

}  // namespace

// dv = dy summed over the repeated axes. Unlike in MXNet, operands may differ in rank if no axes are given.
constinit const OpDef kBroadcastLike = asMovement({
    .name = "broadcast_like",
    .summary = "lhs repeated to the shape of rhs",
    .inputs = {"lhs", "rhs"},
    .attrs = kBroadcastLikeAttrs,
    .params = paramsOf<BroadcastLikeParams>(),
    .check = checkBroadcastLike,
    .shape = broadcastLikeShape,
    .ignored = {1},
    .gradient =
        [](GradRule &g) {
          // MXNet sums with its reduction kernel, whose attributes must state that the axes are kept.
          g.fused(kBroadcastBackward, g.dy(0), g.context().attrs(ArrayRef<AttrText>{{"keepdims", "True"}}));
          if (g.wants(1)) g.dx(1, g.emit(kZerosLike, {g.x(1)}));
        },
    .primitive = {.onnx = "Shape, Expand; with axes: Shape, Gather, ScatterElements, Expand",
                  .c = "y[i] = x[j]; a repeated axis of x has step 0"},
    .kernel =
        [](const KernelCall &call) {
          if (call.wants(0)) repeatTo(call.out[0], call.in[0]);
        },
});

// dv = dy summed over every other axis
constinit const OpDef kBroadcastAxisLike = {
    .name = "_broadcast_axis_like",
    .summary = "vector v along one axis of the shape of x, repeated over every other axis",
    .inputs = {"v", "x"},
    .attrs = kAxisAttrs,
    .params = paramsOf<AxisParams>(),
    .shape =
        [](ShapeInference &s) {
          likeSecond(s);
          if (s.hasFailed() || !s.in(1).hasRank()) return;
          const int64_t axis = s.params<AxisParams>().axis;
          std::optional<size_t> at = normalizeAxis(axis, s.in(1).rank());
          if (!at) return s.fail("axis " + Twine(axis) + " is outside the shape " + toString(s.in(1)));
          s.setIn(0, s.in(1)[*at]);
          if (s.hasFailed()) return;
          DimsBuffer dims(s.in(1).dims());
          dims[*at] = s.in(0)[0];
          s.setIn(1, dims);
        },
    .ignored = {1},
    .stopped = {1},
    .kernelTypes = kFloatingAndIntegers,
    .gradient =
        [](GradRule &g) {
          StringRef axis = g.number(g.params<AxisParams>().axis);
          g.dx(0, g.emit(kSum, {g.dy(0)}, {{"axis", axis}, {"exclude", "True"}}));
          g.noGrad(1);
        },
    .decompose =
        [](DecomposeRule &d) {
          const size_t rank = d.rank(d.x(1));
          const std::optional<size_t> at = normalizeAxis(d.params<AxisParams>().axis, rank);
          if (!at) return d.refuse(ErrorKind::InferConflict, "has an axis that its input does not have");
          DimsBuffer column(rank, 1);
          column[*at] = -1;
          const Value shaped = d.emit(kReshape, {d.x(0)}, {{"shape", d.tuple(column)}});
          d.y(0, d.emit(kBroadcastLike, {shaped, d.x(1)}));
        },
    .kernel =
        [](const KernelCall &call) {
          if (!call.wants(0)) return;
          const Dims shape = call.out[0].shape;
          DimsBuffer part(shape.size(), 1);
          const size_t axis = *normalizeAxis(call.params<AxisParams>().axis, shape.size());
          part[axis] = shape[axis];
          repeatTo(call.out[0], {call.in[0].data, call.in[0].dtype, part});
        },
};

constinit const OpDef kBroadcastBackward = {
    .name = "_broadcast_backward",
    .summary = "gradient of operators that broadcast one input: dy summed over the repeated axes",
    .inputs = {"dy"},
    .flags = {.isBackward = true},
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kBroadcastLike, {g.dy(0), g.x(0)})); },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kSumLike, {d.x(0), d.forwardInput(0)})); },
    .kernel = sumLikeKernel,
};

namespace {

Value repeatHead(DecomposeRule &d, Value dy) { return d.emit(kRepeatAxesLike, {dy, d.forwardInput(0)}, d.attrs()); }

constinit const OpDef kBackwardSum =
    withDecomposition(totalGradient<kSum, false>("_backward_sum", "gradient of sum: dy repeated over the reduced axes"),
                      [](DecomposeRule &d) { d.y(0, repeatHead(d, d.x(0))); });
constinit const OpDef kBackwardMean = withDecomposition(
    totalGradient<kMean, true>("_backward_mean",
                               "gradient of mean: dy / n repeated over the reduced axes, n elements per mean"),
    [](DecomposeRule &d) { d.y(0, repeatHead(d, d.emit(kBroadcastDiv, {d.x(0), countLike(d, d.forwardInput(0))}))); });

}  // namespace

constinit const OpFamily kReduceFamily =
    kOps<kSum, kMean, kSumLike, kBroadcastLike, kBroadcastAxisLike, kBackwardSum, kBackwardMean, kBroadcastBackward>;

}  // namespace gradc
