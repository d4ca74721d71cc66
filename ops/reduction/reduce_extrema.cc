// Largest and smallest elements over axes.
//
// Gradients are MXNet's: every element that equals the extremum gets the whole of dy. Sums and means are in
// ops/reduction/reduce.cc, products in ops/reduction/product.cc. Tested by tests/ops/extrema_ops_test.cc
#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/kit/families.h"
#include "ops/kit/pieces.h"
#include "ops/kit/primitives.h"
#include "ops/reduction/grouped_loops.h"

#include <limits>

using namespace llvm;

namespace gradc {
namespace {

template <class T, auto isBetter> T worst() {
  using Limits = std::numeric_limits<T>;
  const T low = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  const T high = Limits::has_infinity ? Limits::infinity() : Limits::max();
  return isBetter(high, low) ? low : high;
}

template <auto isBetter> void extremumKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[0].as<const T>();
    forEachGroup(call.params<ReduceParams>(), call.in[0].shape, [&](int64_t i, auto &forEach) {
      T best = worst<T, isBetter>();
      bool isFirst = true;
      forEach([&](int64_t at) {
        if (isFirst || isBetter(x[at], best)) best = x[at];
        isFirst = false;
      });
      call.out[0].as<T>()[i] = best;
    });
  });
}

// The extremum at the base point, and how far the elements that have it there have moved from it: the gradient gives
// each of them the whole of dy.
template <auto isBetter> void extremumPiece(const PieceCall &call) {
  if (!call.wants(0)) return;
  KernelCall atBase = call;
  atBase.in = call.base;
  extremumKernel<isBetter>(atBase);
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[0].as<const T>(), *base = call.base[0].as<const T>();
    forEachGroup(call.params<ReduceParams>(), call.base[0].shape, [&](int64_t i, auto &forEach) {
      T &y = call.out[0].as<T>()[i];
      const T best = y;
      bool isFirst = true;
      forEach([&](int64_t at) {
        if (base[at] != best) return;
        if (isFirst) y = x[at];
        else if (x[at] != best) y = static_cast<T>(y + (x[at] - best));
        isFirst = false;
      });
    });
  });
}

extern const OpDef kBackwardMax, kBackwardMin;

// dy and y of a backward operator repeated over the reduced axes.
Value repeated(DecomposeRule &d, Value v) { return d.emit(kRepeatAxesLike, {v, d.x(1)}, d.attrs()); }

void maskExtrema(DecomposeRule &d) {
  Value mask = d.emit(kEqual, {d.x(1), repeated(d, d.x(2))});
  d.y(0, d.emit(kElemwiseMul, {repeated(d, d.x(0)), mask}));
}

// dx = dy where x is the extremum, repeated over the reduced axes
template <auto isBetter, const OpDef &Backward>
constexpr OpDef extremum(StringRef name, StringRef alias, StringRef summary) {
  OpDef op = reduction(name, summary);
  op.aliases = {alias};
  op.gradient = [](GradRule &g) { g.fused(Backward, {g.dy(0), g.x(0), g.y(0)}); };
  op.kernel = extremumKernel<isBetter>;
  op.piece = extremumPiece<isBetter>;
  return op;
}

constexpr OpDef extremumGradient(StringRef name, StringRef summary) {
  OpDef op = reductionGradient(name, summary);
  op.inputs = {"dy", "x", "y"};
  op.decompose = maskExtrema;
  op.kernel = repeatedKernel<[](auto dy, auto x, auto y) { return x == y ? dy : decltype(dy)(0); }>;
  op.piece = chooseAtBase<0>;
  return op;
}

}  // namespace

constinit const OpDef kMax =
    asPrimitive(extremum<kIsLarger, kBackwardMax>("max", "max_axis", "largest element over axes"),
                {.onnx = "ReduceMax", .c = "y[j] = x[i] > y[j] ? x[i] : y[j]"});
constinit const OpDef kMin =
    asPrimitive(extremum<kIsSmaller, kBackwardMin>("min", "min_axis", "smallest element over axes"),
                {.onnx = "ReduceMin", .c = "y[j] = x[i] < y[j] ? x[i] : y[j]"});

namespace {

constinit const OpDef kBackwardMax = extremumGradient(
    "_backward_max", "gradient of max: dx = dy where x = y, else 0, dy and y repeated over the reduced axes");
constinit const OpDef kBackwardMin = extremumGradient(
    "_backward_min", "gradient of min: dx = dy where x = y, else 0, dy and y repeated over the reduced axes");
// v gets its axes of one element back, and is repeated over them.
void repeatAxes(DecomposeRule &d) {
  const ReduceParams &params = d.params<ReduceParams>();
  const size_t rank = d.rank(d.x(1));
  if (rank == 0) return d.y(0, d.emit(kReshapeLike, {d.x(0), d.x(1)}));
  Value v = d.x(0);
  const std::optional<SmallVector<bool, 6>> isReduced = reducedAxes(params, rank);
  if (!isReduced) return d.refuse(ErrorKind::InferConflict, "has an axis that its input does not have");
  const bool isScalar = llvm::all_of(*isReduced, [](bool is) { return is; });
  for (size_t axis = 0; axis < rank && !params.keepDims && !isScalar; ++axis)
    if ((*isReduced)[axis]) v = d.emit(kExpandDims, {v}, {{"axis", d.number(static_cast<int64_t>(axis))}});
  d.y(0, d.emit(kBroadcastLike, {v, d.x(1)}));
}

}  // namespace

// dv = dy summed over the reduced axes
constinit const OpDef kRepeatAxesLike = {
    .name = "_repeat_axes_like",
    .summary = "v, shaped like a reduction of x over these axes, repeated over them to the shape of x; x is not read",
    .inputs = {"v", "x"},
    .attrs = kReduceAttrs,
    .params = paramsOf<ReduceParams>(),
    .shape =
        [](ShapeInference &s) {
          s.sameInOut(1, 0);
          if (!s.hasFailed()) relateReduction(s, 1, 0);
          s.sameInOut(1, 0);
        },
    .ignored = {1},
    .stopped = {1},
    .kernelTypes = kFloatingAndIntegers,
    .gradient =
        [](GradRule &g) {
          g.dx(0, g.emit(kSum, g.dy(0), g.attrs()));
          g.noGrad(1);
        },
    .decompose = repeatAxes,
    .kernel =
        [](const KernelCall &call) {
          if (!call.wants(0)) return;
          const DimsBuffer part = keptShape(call.params<ReduceParams>(), call.out[0].shape);
          repeatTo(call.out[0], {call.in[0].data, call.in[0].dtype, part});
        },
};

constinit const OpFamily kReduceExtremaFamily = kOps<kMax, kMin, kBackwardMax, kBackwardMin, kRepeatAxesLike>;

}  // namespace gradc
