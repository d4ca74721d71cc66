// LeakyReLU: x where x > 0 and one of five functions elsewhere (gelu: everywhere), and its fused gradient.
//
// Slopes are computed from x, which selects the piece, and from y where that saves an exponential. Factors are rounded
// to single precision, as MXNet holds them. With prelu the slope is an input (ops/elementwise/prelu_gamma.h).
// rrelu draws the slope of every element from [lower, upper) in training and takes (lower + upper)/2 in inference; the
// slopes are output 1, the mask, and carry all randomness: the gradient reads them as a constant.
// Differences from MXNet: its gradient of selu below 0 is λ·(y + α), where the derivative is y + λ·α. It computes gelu,
// and slope·x below 0, in single precision whatever the type. It sums γ's gradient after writing dx; where its planner
// put dx in place of dy, the result is Σ dx·x, which is γ times the derivative.
// Tested by tests/ops/layer_ops_test.cc, tests/ops/sequence_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/leaky_relu.h"
#include "ops/elementwise/prelu_gamma.h"
#include "ops/elementwise/special_functions.h"
#include "ops/kit/attrs.h"
#include "ops/kit/axis_rows.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

struct LeakyParams {
  LeakyType actType = LeakyType::Leaky;
  double slope = 0.25, lowerBound = 0.125, upperBound = 0.334;
};

constexpr AttrSpec kAttrs[] = {
    attr<&LeakyParams::actType>("act_type", "leaky", "the function"),
    attr<&LeakyParams::slope>("slope", "0.25", "slope of leaky and limit of elu below 0"),
    attr<&LeakyParams::lowerBound>("lower_bound", "0.125", "least slope of rrelu"),
    attr<&LeakyParams::upperBound>("upper_bound", "0.333999991", "largest slope of rrelu"),
};

// Constants of selu, Klambauer et al. 2017.
constexpr double kSeluScale = 1.0507009873554804934193349852946f, kSeluAlpha = 1.6732632423543772848170429916717f;

Error checkParams(const OpDef &, void *params) {
  LeakyParams &p = *static_cast<LeakyParams *>(params);
  p.slope = roundToSingle(p.slope);
  p.lowerBound = roundToSingle(p.lowerBound);
  p.upperBound = roundToSingle(p.upperBound);
  if (p.actType == LeakyType::Rrelu) p.slope = roundToSingle((p.lowerBound + p.upperBound) / 2);
  return Error::success();
}

LeakyType typeOf(const NodeKind &kind) { return kind.params<LeakyParams>().actType; }
bool hasGamma(const NodeKind &kind) { return typeOf(kind) == LeakyType::Prelu; }
bool hasMask(const NodeKind &kind) { return typeOf(kind) == LeakyType::Rrelu; }
// Where the bounds are equal, what is drawn is the slope of inference.
bool drawsSlopes(const NodeKind &kind) {
  const LeakyParams &p = kind.params<LeakyParams>();
  return hasMask(kind) && p.lowerBound != p.upperBound;
}

template <class T> T activate(const LeakyParams &p, T x, T at) {
  const T slope = static_cast<T>(p.slope), scale = static_cast<T>(kSeluScale), alpha = static_cast<T>(kSeluAlpha);
  switch (p.actType) {
    case LeakyType::Elu: return at > T{0} ? x : slope * std::expm1(x);
    case LeakyType::Gelu: return x * normalCdf(x);
    case LeakyType::Selu: return scale * (at > T{0} ? x : alpha * std::expm1(x));
    case LeakyType::Leaky: return at > T{0} ? x : slope * x;
    case LeakyType::Rrelu:
    case LeakyType::Prelu: break;
  }
  return x;
}

// The derivative from x and y; `at` selects the piece.
template <class T> T slopeOf(const LeakyParams &p, T x, T y, T at) {
  const T slope = static_cast<T>(p.slope), scale = static_cast<T>(kSeluScale), alpha = static_cast<T>(kSeluAlpha);
  switch (p.actType) {
    case LeakyType::Elu: return at > T{0} ? T{1} : y + slope;
    case LeakyType::Gelu: return normalCdf(x) + x * normalDensity(x);
    case LeakyType::Selu: return at > T{0} ? scale : y + scale * alpha;
    case LeakyType::Leaky: return at > T{0} ? T{1} : slope;
    case LeakyType::Rrelu:
    case LeakyType::Prelu: break;
  }
  return T{1};
}

// Slope of rrelu at element i.
double maskAt(const KernelCall &call, int64_t i) {
  const LeakyParams &p = call.params<LeakyParams>();
  if (!call.isTraining) return p.slope;
  return p.lowerBound + (p.upperBound - p.lowerBound) * call.random.uniform(static_cast<uint64_t>(i));
}

template <class T> void rreluForward(const KernelCall &call, const T *at) {
  const T *x = call.in[0].as<const T>();
  for (int64_t i = 0, size = call.out[0].size(); i < size; ++i) {
    const T slope = static_cast<T>(maskAt(call, i));
    if (call.wants(1)) call.out[1].as<T>()[i] = slope;
    if (call.wants(0)) call.out[0].as<T>()[i] = at[i] > T{0} ? x[i] : slope * x[i];
  }
}

template <class T> void preluForward(const KernelCall &call, const T *at) {
  const T *x = call.in[0].as<const T>(), *gamma = call.in[1].as<const T>();
  T *y = call.out[0].as<T>();
  const AxisRows rows = gammaRows(call.out[0].shape, call.in[1].shape);
  for (int64_t c = 0; c < rows.length; ++c)
    rows.forEachAcross(c, [&](int64_t i) { y[i] = at[i] > T{0} ? x[i] : gamma[c] * x[i]; });
}

void forward(const KernelCall &call, const TensorRef &base) {
  const LeakyParams &p = call.params<LeakyParams>();
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[0].as<const T>(), *at = base.as<const T>();
    if (hasMask(*call.kind)) return rreluForward(call, at);
    if (!call.wants(0)) return;
    if (hasGamma(*call.kind)) return preluForward(call, at);
    T *y = call.out[0].as<T>();
    for (int64_t i = 0, size = call.out[0].size(); i < size; ++i) y[i] = activate(p, x[i], at[i]);
  });
}

// Inputs of the fused gradient: dy, x, y; dy, x, gamma, y; dy, its mask gradient, x, y, mask.
size_t dataInput(const NodeKind &kind) { return hasMask(kind) ? 2 : 1; }
size_t outputInput(const NodeKind &kind) { return dataInput(kind) + (hasGamma(kind) ? 2 : 1); }

template <class T> void preluBackward(const KernelCall &call, const T *at) {
  const T *dy = call.in[0].as<const T>(), *x = call.in[1].as<const T>(), *gamma = call.in[2].as<const T>();
  T *dx = call.wants(0) ? call.out[0].as<T>() : nullptr;
  const AxisRows rows = gammaRows(call.in[1].shape, call.in[2].shape);
  for (int64_t c = 0; c < rows.length; ++c) {
    double sum = 0;
    rows.forEachAcross(c, [&](int64_t i) {
      const bool isPositive = at[i] > T{0};
      if (!isPositive) sum += static_cast<double>(dy[i]) * static_cast<double>(x[i]);
      if (dx) dx[i] = isPositive ? dy[i] : dy[i] * gamma[c];
    });
    if (call.wants(1)) call.out[1].as<T>()[c] = static_cast<T>(sum);
  }
}

template <class T> void rreluBackward(const KernelCall &call, const T *at) {
  if (!call.wants(0)) return;
  const T *dy = call.in[0].as<const T>(), *slope = call.in[4].as<const T>();
  T *dx = call.out[0].as<T>();
  for (int64_t i = 0, size = call.out[0].size(); i < size; ++i) dx[i] = at[i] > T{0} ? dy[i] : dy[i] * slope[i];
}

void backward(const KernelCall &call, ArrayRef<TensorRef> base) {
  const LeakyParams &p = call.params<LeakyParams>();
  const size_t data = dataInput(*call.kind);
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *at = base[data].as<const T>();
    if (hasGamma(*call.kind)) return preluBackward(call, at);
    if (hasMask(*call.kind)) return rreluBackward(call, at);
    if (!call.wants(0)) return;
    const bool readsOutput = p.actType == LeakyType::Elu || p.actType == LeakyType::Selu;
    const T *dy = call.in[0].as<const T>(), *x = call.in[data].as<const T>();
    const T *y = readsOutput ? call.in[outputInput(*call.kind)].as<const T>() : x;
    T *dx = call.out[0].as<T>();
    for (int64_t i = 0, size = call.out[0].size(); i < size; ++i) dx[i] = dy[i] * slopeOf(p, x[i], y[i], at[i]);
  });
}

bool isBackwardIgnored(const NodeKind &kind, size_t input) {
  switch (typeOf(kind)) {
    case LeakyType::Elu:
    case LeakyType::Selu: return false;
    case LeakyType::Gelu:
    case LeakyType::Leaky: return input == 2;
    case LeakyType::Prelu: return input == 3;
    case LeakyType::Rrelu: return input == 1 || input == 3;
  }
  return false;
}

// The mask is random, not a function of the data.
bool isBackwardStopped(const NodeKind &kind, size_t input) { return hasMask(kind) && input == 4; }

extern const OpDef kBackwardLeakyReLU;

// 1 where x > 0, and 1 where it is not.
struct Pieces {
  Value above, below;
};

Pieces piecesOf(DecomposeRule &d) {
  const Value above = d.emit(kGreaterScalar, {d.x(dataInput(d.kind()))}, {{"scalar", "0"}});
  return {above, d.emit(kRminusScalar, {above}, {{"scalar", "1"}})};
}

// Φ(x)
Value normalCdfOf(DecomposeRule &d, Value x) {
  const Value inner = d.emit(kErf, {d.emit(kMulScalar, {x}, {{"scalar", d.number(std::sqrt(0.5))}})});
  return d.emit(kMulScalar, {d.emit(kPlusScalar, {inner}, {{"scalar", "1"}})}, {{"scalar", "0.5"}});
}

// Φ(x) + x · φ(x)
Value geluSlope(DecomposeRule &d, Value x) {
  const Value cdf = normalCdfOf(d, x);
  const Value bell = d.emit(kExp, {d.emit(kMulScalar, {d.emit(kSquare, {x})}, {{"scalar", "-0.5"}})});
  const Value density = d.emit(kMulScalar, {bell}, {{"scalar", d.number(kNormalPeak)}});
  return d.emit(kElemwiseAdd, {cdf, d.emit(kElemwiseMul, {x, density})});
}

// above · a + below · (y + b)
Value exponentialSlope(DecomposeRule &d, double a, double b) {
  const Pieces pieces = piecesOf(d);
  const Value rest = d.emit(kPlusScalar, {d.x(2)}, {{"scalar", d.number(b)}});
  return d.emit(kElemwiseAdd, {d.emit(kMulScalar, {pieces.above}, {{"scalar", d.number(a)}}),
                               d.emit(kElemwiseMul, {pieces.below, rest})});
}

Value emitSlope(DecomposeRule &d) {
  const LeakyParams &p = d.params<LeakyParams>();
  switch (p.actType) {
    case LeakyType::Elu: return exponentialSlope(d, 1, p.slope);
    case LeakyType::Gelu: return geluSlope(d, d.x(1));
    case LeakyType::Selu: return exponentialSlope(d, kSeluScale, kSeluScale * kSeluAlpha);
    case LeakyType::Leaky:
    case LeakyType::Rrelu:
    case LeakyType::Prelu: break;
  }
  const Pieces pieces = piecesOf(d);
  Value below;
  if (hasGamma(d.kind())) below = d.emit(kElemwiseMul, {pieces.below, d.emit(kGammaSpread, {d.x(2), d.x(1)})});
  else if (hasMask(d.kind())) below = d.emit(kElemwiseMul, {pieces.below, d.x(4)});
  else below = d.emit(kMulScalar, {pieces.below}, {{"scalar", d.number(p.slope)}});
  return d.emit(kElemwiseAdd, {pieces.above, below});
}

constinit const OpDef kBackwardLeakyReLU = {
    .name = "_backward_LeakyReLU",
    .summary =
        "gradient of LeakyReLU: dx = dy where x > 0, else dy·slope (leaky), dy·mask (rrelu), dy·(y + slope) (elu), "
        "dy·γ (prelu); gelu: dy·(Φ(x) + x·φ(x)); selu: dy·λ, dy·(y + λ·α); dγ = Σ dy·x where x ≤ 0",
    .inputs = {{}, [](const NodeKind &k) { return hasMask(k)    ? 5u
                                                  : hasGamma(k) ? 4u
                                                                : 3u; }, true},
    .outputs = {{"data_grad", "gamma_grad"}, [](const NodeKind &k) { return hasGamma(k) ? 2u : 1u; }},
    .attrs = kAttrs,
    .params = paramsOf<LeakyParams>(),
    .check = checkParams,
    .shape =
        [](ShapeInference &s) {
          if (!hasGamma(s.kind())) return s.sameAll();
          for (int pass = 0; pass < 2; ++pass)
            for (size_t i : {size_t{0}, dataInput(s.kind()), outputInput(s.kind())}) s.sameInOut(i, 0);
          if (s.hasFailed()) return;
          s.sameInOut(2, 1);
          relateGamma(s, 1, 2);
          s.sameInOut(2, 1);
        },
    .inplace = kInplaceFirst,
    .ignored = isBackwardIgnored,
    .stopped = isBackwardStopped,
    .flags = {.isBackward = true},
    .decompose =
        [](DecomposeRule &d) {
          if (d.wants(0)) d.y(0, d.emit(kElemwiseMul, {d.x(0), emitSlope(d)}));
          if (!hasGamma(d.kind()) || !d.wants(1)) return;
          const Value live = d.emit(kElemwiseMul, {d.x(0), piecesOf(d).below});
          d.y(1, d.emit(kGammaSum, {d.emit(kElemwiseMul, {live, d.x(1)}), d.x(2)}));
        },
    .kernel = [](const KernelCall &call) { backward(call, call.in); },
    .piece = [](const PieceCall &call) { backward(call, call.base); },
};

// float64 numbers between the bounds, in the shape of x. MXNet takes bounds in either order, _uniform_like does not.
Value drawBetweenBounds(DecomposeRule &d, Value x) {
  const double lower = d.params<LeakyParams>().lowerBound, upper = d.params<LeakyParams>().upperBound;
  if (lower <= upper) {
    const AttrText range[] = {{"low", d.number(lower)}, {"high", d.number(upper)}};
    return d.emit(kUniformLike, x, d.context().attrs(ArrayRef<AttrText>(range)));
  }
  const Value scaled = d.emit(kMulScalar, {d.emit(kUniformLike, {x})}, {{"scalar", d.number(upper - lower)}});
  return d.emit(kPlusScalar, {scaled}, {{"scalar", d.number(lower)}});
}

// Slopes of rrelu, drawn in training.
Value drawSlopes(DecomposeRule &d) {
  const LeakyParams &p = d.params<LeakyParams>();
  const Value x = d.x(0), ones = d.emit(kOnesLike, {x});
  const Value drawn = d.emit(kCastLike, {drawBetweenBounds(d, x), x});
  const Value fixed = d.emit(kMulScalar, {ones}, {{"scalar", d.number(p.slope)}});
  return d.emit(kWhere, {d.emit(kInTraining, {ones}), drawn, fixed});
}

// Finite where it is not read: 0 times an infinite slope is not 0.
Value expm1Below(DecomposeRule &d, Value x) { return d.emit(kExpm1, {d.emit(kMinimumScalar, {x}, {{"scalar", "0"}})}); }

// y where x is not above 0.
Value emitBelow(DecomposeRule &d, Value slopes) {
  const LeakyParams &p = d.params<LeakyParams>();
  const Value x = d.x(0);
  auto times = [&](Value v, double factor) { return d.emit(kMulScalar, {v}, {{"scalar", d.number(factor)}}); };
  switch (p.actType) {
    case LeakyType::Elu: return times(expm1Below(d, x), p.slope);
    case LeakyType::Selu: return times(times(expm1Below(d, x), kSeluAlpha), kSeluScale);
    case LeakyType::Leaky: return times(x, p.slope);
    case LeakyType::Prelu: return d.emit(kElemwiseMul, {x, d.emit(kGammaSpread, {d.x(1), x})});
    case LeakyType::Rrelu: return d.emit(kElemwiseMul, {x, slopes});
    case LeakyType::Gelu: break;
  }
  return x;
}

void decomposeForward(DecomposeRule &d) {
  const LeakyType type = typeOf(d.kind());
  const Value x = d.x(0);
  if (type == LeakyType::Gelu) return d.y(0, d.emit(kElemwiseMul, {x, normalCdfOf(d, x)}));
  const Value slopes = hasMask(d.kind()) ? drawSlopes(d) : Value(), below = emitBelow(d, slopes);
  const Value above = type == LeakyType::Selu ? d.emit(kMulScalar, {x}, {{"scalar", d.number(kSeluScale)}}) : x;
  d.y(0, d.emit(kWhere, {d.emit(kGreaterScalar, {x}, {{"scalar", "0"}}), above, below}));
  if (slopes.isValid()) d.y(1, slopes);
}

// The initialiser of a prelu slope in files that predate the attribute.
constexpr InputDefault kGammaDefault[] = {{1, "__init__", "[\"Constant\", {\"value\": 0.25}]", hasGamma}};

void leakyGradient(GradRule &g) {
  if (hasMask(g.kind())) {
    // The mask does not depend on the data.
    if (g.isZero(0)) return g.noGrad(0);
    g.fused(kBackwardLeakyReLU, {g.dy(0), g.dy(1), g.x(0), g.y(0), g.y(1)});
  } else if (hasGamma(g.kind())) {
    g.fused(kBackwardLeakyReLU, {g.dy(0), g.x(0), g.x(1), g.y(0)});
  } else {
    g.fused(kBackwardLeakyReLU, {g.dy(0), g.x(0), g.y(0)});
  }
}

}  // namespace

extern const OpDef kLeakyReLU;

constinit const OpDef kLeakyReLU = {
    .name = "LeakyReLU",
    .aliases = {"_npx_leaky_relu"},
    .summary =
        "y = x where x > 0, else slope·x (leaky), slope·(exp x − 1) (elu), γ·x (prelu), mask·x (rrelu: "
        "drawn from [lower, upper) in training, else (lower + upper)/2); selu: λ·x, λ·α·(exp x − 1); gelu: x·Φ(x)",
    .inputs = {{"data", "gamma"}, [](const NodeKind &k) { return hasGamma(k) ? 2u : 1u; }},
    .outputs = {{"output", "mask"}, [](const NodeKind &k) { return hasMask(k) ? 2u : 1u; }},
    .attrs = kAttrs,
    .params = paramsOf<LeakyParams>(),
    .check = checkParams,
    .shape =
        [](ShapeInference &s) {
          s.sameInOut(0, 0);
          if (s.numOutputs() == 2) s.sameOutOut(0, 1);
          s.sameInOut(0, 0);
          if (!s.hasFailed() && s.numInputs() == 2) relateGamma(s, 0, 1);
        },
    .inplace = kInplaceFirst,
    .flags = {.isRandom = true},
    .draws = [](const NodeKind &k) { return k.params<LeakyParams>().actType == LeakyType::Rrelu; },
    .readsForm = drawsSlopes,
    .inputDefaults = kGammaDefault,
    .gradient = leakyGradient,
    .decompose = decomposeForward,
    .kernel = [](const KernelCall &call) { forward(call, call.in[0]); },
    .piece = [](const PieceCall &call) { forward(call, call.base[0]); },
};

LeakyAttrs leakyAttrs(const NodeKind &kind) {
  const LeakyParams &p = kind.params<LeakyParams>();
  const bool isSelu = p.actType == LeakyType::Selu;
  return {p.actType, isSelu ? kSeluAlpha : p.slope, isSelu ? kSeluScale : 1};
}

namespace {}  // namespace

constinit const OpFamily kLeakyReluFamily = kOps<kLeakyReLU, kBackwardLeakyReLU, kGammaSpread, kGammaSum>;

}  // namespace gradc
