// The larger and the smaller of two tensors, and clipping to an interval: smooth except where operands meet.
//
// Where the operands are equal, the gradient goes only to lhs, as in MXNet. Elsewhere: comparison with a number
// (ops/elementwise/scalar.cc), extrema along axes (ops/reduction/reduce_extrema.cc).
// Tested by tests/ops/extrema_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/binary/broadcast.h"
#include "ops/binary/extrema.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/families.h"
#include "ops/kit/pieces.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

// A NaN on either side is the result.
constexpr auto kLarger = [](auto a, auto b) { return a >= b || a != a ? a : b; };
constexpr auto kSmaller = [](auto a, auto b) { return a <= b || a != a ? a : b; };

constexpr AttrSpec kClipAttrs[] = {
    required<&ClipAttrs::low>("a_min", "lower bound"),
    required<&ClipAttrs::high>("a_max", "upper bound"),
};

// Clips each element according to where it is at the base point: below, above or inside the bounds.
void clip(const KernelCall &call, const TensorRef &base) {
  const ClipAttrs params = call.params<ClipAttrs>();
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[0].as<const T>(), *bases = base.as<const T>();
    const T low = convertNumber<T>(params.low), high = convertNumber<T>(params.high);
    T *y = call.out[0].as<T>();
    GRADC_INDEPENDENT
    for (int64_t i = 0, size = call.out[0].size(); i < size; ++i) {
      const T value = x[i];
      const double at = static_cast<double>(bases[i]);
      const T notBelow = at < params.low ? low : value;
      y[i] = at > params.high ? high : notBelow;
    }
  });
}

void clipBackward(const KernelCall &call) {
  if (!call.wants(0)) return;
  const ClipAttrs params = call.params<ClipAttrs>();
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *dy = call.in[0].as<const T>(), *x = call.in[1].as<const T>();
    T *dx = call.out[0].as<T>();
    GRADC_INDEPENDENT
    for (int64_t i = 0, size = call.out[0].size(); i < size; ++i) {
      const double at = static_cast<double>(x[i]), head = static_cast<double>(dy[i]);
      dx[i] = static_cast<T>(((at > params.high) | (at < params.low)) ? 0.0 : head);
    }
  });
}

// lhs or rhs, whichever the base point chooses.
template <auto F> void broadcastPiece(const PieceCall &call) {
  const TensorRef operands[] = {call.in[0], call.in[1], call.base[0], call.base[1]};
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    mapBroadcast<T>(call.out[0], operands, [](const T *v) { return F(v[2], v[3]) == v[2] ? v[0] : v[1]; });
  });
}

template <auto F> constexpr OpDef extremum(StringRef name, StringRef legacyName, StringRef summary) {
  OpDef op = asEqualShapes(named({name, legacyName}, summary));
  op.kernelTypes = kFloatingAndIntegers;
  op.kernel = mapNumeric<F>;
  op.piece = broadcastPiece<F>;
  return op;
}

template <auto F> constexpr OpDef broadcastExtremum(StringRef name, StringRef alias, StringRef summary) {
  OpDef op = asBroadcast(named({name, alias}, summary));
  op.kernelTypes = kFloatingAndIntegers;
  op.kernel = broadcastKernel<F>;
  op.piece = broadcastPiece<F>;
  return op;
}

// dlhs = dy where `isChosen`, drhs = dy elsewhere.
template <auto isChosen> constexpr OpDef extremumBackward(StringRef name, StringRef summary) {
  OpDef op = asEqualShapesGradient(named({name}, summary));
  op.kernel = mapTwoFloating<[](auto dy, auto a, auto b) { return isChosen(a, b) ? dy : decltype(dy)(0); },
                             [](auto dy, auto a, auto b) { return isChosen(a, b) ? decltype(dy)(0) : dy; }>;
  op.piece = chooseAtBase<0>;
  return op;
}

template <auto isChosen> constexpr OpDef broadcastExtremumBackward(StringRef name, StringRef summary) {
  OpDef op = asBroadcastGradient(named({name}, summary));
  op.kernel = broadcastBackwardKernel<[](auto v) { return isChosen(v[1], v[2]) ? v[0] : 0; },
                                      [](auto v) { return isChosen(v[1], v[2]) ? 0 : v[0]; }>;
  op.piece = chooseAtBase<0>;
  return op;
}

constexpr auto kAtLeast = [](auto a, auto b) { return a >= b; };
constexpr auto kAtMost = [](auto a, auto b) { return a <= b; };

// dy times the mask for lhs, and times the opposite mask for rhs; `sums`: summed down to the operands.
void maskBoth(DecomposeRule &d, const OpDef &chosen, bool sums) {
  Value parts[2];
  const Value mask = d.emit(chosen, {d.x(1), d.x(2)});
  if (d.wants(0)) parts[0] = d.emit(kElemwiseMul, {d.x(0), mask});
  if (d.wants(1)) parts[1] = d.emit(kElemwiseMul, {d.x(0), d.emit(kEqualScalar, {mask}, {{"scalar", "0"}})});
  for (size_t i = 0; i < 2; ++i)
    if (d.wants(i)) d.y(i, sums ? d.emit(kSumLike, {parts[i], d.x(1 + i)}) : parts[i]);
}

constexpr OpDef withGradient(OpDef op, void (*gradient)(GradRule &)) {
  op.gradient = gradient;
  return op;
}

constinit const OpDef kBackwardMaximum =
    withDecomposition(extremumBackward<kAtLeast>(
                          "_backward_maximum", "gradient of _maximum: dlhs = dy where lhs >= rhs, drhs = dy elsewhere"),
                      [](DecomposeRule &d) { maskBoth(d, kGreaterEqual, false); });
constinit const OpDef kBackwardMinimum =
    withDecomposition(extremumBackward<kAtMost>(
                          "_backward_minimum", "gradient of _minimum: dlhs = dy where lhs <= rhs, drhs = dy elsewhere"),
                      [](DecomposeRule &d) { maskBoth(d, kLesserEqual, false); });
constinit const OpDef kBackwardBroadcastMaximum = withDecomposition(
    broadcastExtremumBackward<kAtLeast>(
        "_backward_broadcast_maximum",
        "gradient of broadcast_maximum: dlhs = sum of dy where lhs >= rhs, drhs = sum of dy elsewhere"),
    [](DecomposeRule &d) { maskBoth(d, kBroadcastGreaterEqual, true); });
constinit const OpDef kBackwardBroadcastMinimum = withDecomposition(
    broadcastExtremumBackward<kAtMost>(
        "_backward_broadcast_minimum",
        "gradient of broadcast_minimum: dlhs = sum of dy where lhs <= rhs, drhs = sum of dy elsewhere"),
    [](DecomposeRule &d) { maskBoth(d, kBroadcastLesserEqual, true); });

// dlhs = dy where lhs >= rhs, drhs = dy elsewhere
constinit const OpDef kMaximum = withDecomposition(
    withGradient(extremum<kLarger>("_maximum", "_Maximum", "y = max(lhs, rhs), operands of equal shape"),
                 [](GradRule &g) { g.fused(kBackwardMaximum, {g.dy(0), g.x(0), g.x(1)}); }),
    [](DecomposeRule &d) { d.y(0, d.emit(kBroadcastMaximum, {d.x(0), d.x(1)})); });
// dlhs = dy where lhs <= rhs, drhs = dy elsewhere
constinit const OpDef kMinimum = withDecomposition(
    withGradient(extremum<kSmaller>("_minimum", "_Minimum", "y = min(lhs, rhs), operands of equal shape"),
                 [](GradRule &g) { g.fused(kBackwardMinimum, {g.dy(0), g.x(0), g.x(1)}); }),
    [](DecomposeRule &d) { d.y(0, d.emit(kBroadcastMinimum, {d.x(0), d.x(1)})); });
}  // namespace

constinit const OpDef kBroadcastMaximum = asPrimitive(
    withGradient(broadcastExtremum<kLarger>("broadcast_maximum", "_npi_maximum", "y = max(lhs, rhs) with broadcasting"),
                 [](GradRule &g) { g.fused(kBackwardBroadcastMaximum, {g.dy(0), g.x(0), g.x(1)}); }),
    {.onnx = "Max", .c = "y[i] = a[j] >= b[k] || a[j] != a[j] ? a[j] : b[k]; a repeated axis has step 0"});
constinit const OpDef kBroadcastMinimum =
    asPrimitive(withGradient(broadcastExtremum<kSmaller>("broadcast_minimum", "_npi_minimum",
                                                         "y = min(lhs, rhs) with broadcasting"),
                             [](GradRule &g) { g.fused(kBackwardBroadcastMinimum, {g.dy(0), g.x(0), g.x(1)}); }),
                {.onnx = "Min", .c = "y[i] = a[j] <= b[k] || a[j] != a[j] ? a[j] : b[k]; a repeated axis has step 0"});

namespace {

extern const OpDef kBackwardClip;

// dx = dy where a_min <= x <= a_max, else 0
constinit const OpDef kClip = asFunction({
    .name = "clip",
    .aliases = {"_sparse_clip", "_npi_clip"},
    .summary = "y = a_max where x > a_max, a_min where x < a_min, else x",
    .attrs = kClipAttrs,
    .params = paramsOf<ClipAttrs>(),
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.fused(kBackwardClip, {g.dy(0), g.x(0)}); },
    .decompose =
        [](DecomposeRule &d) {
          const ClipAttrs &params = d.params<ClipAttrs>();
          const StringRef low = d.number(params.low), high = d.number(params.high);
          const Value raised = d.emit(kMaximumScalar, {d.x(0)}, {{"scalar", low}});
          if (params.low <= params.high) return d.y(0, d.emit(kMinimumScalar, {raised}, {{"scalar", high}}));
          const Value isAbove = d.emit(kGreaterScalar, {d.x(0)}, {{"scalar", high}});
          d.y(0, d.emit(kWhere, {isAbove, d.emit(kMinimumScalar, {d.x(0)}, {{"scalar", high}}), raised}));
        },
    .kernel =
        [](const KernelCall &call) {
          if (call.wants(0)) clip(call, call.in[0]);
        },
    .piece = [](const PieceCall &call) { clip(call, call.base[0]); },
});

constinit const OpDef kBackwardClip = asSlope({
    .name = "_backward_clip",
    .summary = "gradient of clip: dx = dy where a_min <= x <= a_max, else 0",
    .inputs = {"dy", "x"},
    .attrs = kClipAttrs,
    .params = paramsOf<ClipAttrs>(),
    .decompose =
        [](DecomposeRule &d) {
          const ClipAttrs &params = d.params<ClipAttrs>();
          Value above = d.emit(kGreaterScalar, {d.x(1)}, {{"scalar", d.number(params.high)}});
          Value below = d.emit(kLesserScalar, {d.x(1)}, {{"scalar", d.number(params.low)}});
          Value inside = d.emit(kEqualScalar, {d.emit(kElemwiseAdd, {above, below})}, {{"scalar", "0"}});
          d.y(0, d.emit(kElemwiseMul, {d.x(0), inside}));
        },
    .kernel = clipBackward,
    .piece = chooseAtBase<0>,
});

}  // namespace

ClipAttrs clipAttrs(const NodeKind &kind) { return kind.params<ClipAttrs>(); }

constinit const OpFamily kExtremaFamily =
    kOps<kMaximum, kMinimum, kBroadcastMaximum, kBroadcastMinimum, kClip, kBackwardMaximum, kBackwardMinimum,
         kBackwardBroadcastMaximum, kBackwardBroadcastMinimum, kBackwardClip>;

}  // namespace gradc
