// Local response normalisation across channels, with its fused gradient.
//
// The hidden output is the norm n = knorm + α/nsize · W(x²), W the sum over a window of nsize channels around each. The
// window is symmetric, so W is self-adjoint: one operator serves every order. Differentiating the gradient reaches n,
// so the rule of LRN adds the gradient through it. Factors are rounded to single precision, as MXNet holds them. Tested
// by tests/ops/layer_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/attrs.h"
#include "ops/kit/axis_rows.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/normalization/lrn.h"

#include <algorithm>
#include <cmath>
#include <vector>

using namespace llvm;

namespace gradc {
namespace {

struct LrnParams {
  double alpha = 1e-4, beta = 0.75, knorm = 2;
  int64_t nsize = 1;

  double scale() const { return static_cast<float>(alpha) / static_cast<float>(nsize); }
};

constexpr AttrSpec kNsizeAttr =
    required<&LrnParams::nsize>("nsize", "channels of the window, odd").atLeast(1).atMost(0x7fffffff);
constexpr AttrSpec kAttrs[] = {
    attr<&LrnParams::alpha>("alpha", "9.99999975e-05", "factor of the mean square"),
    attr<&LrnParams::beta>("beta", "0.75", "exponent of the norm"),
    attr<&LrnParams::knorm>("knorm", "2", "added to the mean square"),
    kNsizeAttr,
};
constexpr AttrSpec kWindowAttrs[] = {kNsizeAttr};

Error checkParams(const OpDef &, void *params) {
  LrnParams &p = *static_cast<LrnParams *>(params);
  p.alpha = roundToSingle(p.alpha);
  p.beta = roundToSingle(p.beta);
  p.knorm = roundToSingle(p.knorm);
  if (p.nsize % 2) return Error::success();
  return Failure(ErrorKind::BadAttribute, "attribute 'nsize' is " + Twine(p.nsize) + ", expected an odd number");
}

constexpr int64_t kCopyRest = -2, kMergeTwo = -3;  // in the shape of a Reshape

void channelShape(ShapeInference &s) {
  s.sameAll();
  if (!s.hasFailed() && s.in(0).hasRank() && s.in(0).rank() < 2)
    s.fail("data has shape " + toString(s.in(0)) + ", expected two axes at least");
}

// The same as forEachWindow, in time that does not depend on the width. The row, with zeros around it, is cut into
// pieces as wide as a window: every window is the end of one piece and the beginning of the next.
template <class F, class V> void forEachWideWindow(const AxisRows &rows, int64_t row, int64_t nsize, F f, V visit) {
  const int64_t begin = rows.begin(row), half = std::min(nsize / 2, rows.length - 1), width = 2 * half + 1;
  const int64_t size = rows.length + 2 * half;
  std::vector<double> untilHere(static_cast<size_t>(size)), fromHere(untilHere.size());
  auto value = [&](int64_t i) { return i < half || i >= half + rows.length ? 0 : f(begin + (i - half) * rows.inner); };
  for (int64_t i = 0; i < size; ++i)
    untilHere[static_cast<size_t>(i)] = value(i) + (i % width ? untilHere[static_cast<size_t>(i - 1)] : 0);
  for (int64_t i = size; i-- > 0;)
    fromHere[static_cast<size_t>(i)] =
        value(i) + ((i + 1) % width && i + 1 < size ? fromHere[static_cast<size_t>(i + 1)] : 0);
  for (int64_t c = 0; c < rows.length; ++c) {
    const double end = c % width ? untilHere[static_cast<size_t>(c + width - 1)] : 0;
    visit(begin + c * rows.inner, fromHere[static_cast<size_t>(c)] + end);
  }
}

// Calls visit(element, Σ of f over the window around it), element by element of one row of channels.
template <class F, class V> void forEachWindow(const AxisRows &rows, int64_t row, int64_t nsize, F f, V visit) {
  if (nsize > kWidestLrnWindow) return forEachWideWindow(rows, row, nsize, f, visit);
  const int64_t begin = rows.begin(row), half = nsize / 2;
  for (int64_t c = 0; c < rows.length; ++c) {
    double sum = 0;
    const int64_t last = std::min(c + half, rows.length - 1);
    for (int64_t k = std::max<int64_t>(c - half, 0); k <= last; ++k) sum += f(begin + k * rows.inner);
    visit(begin + c * rows.inner, sum);
  }
}

void forward(const KernelCall &call) {
  const LrnParams &p = call.params<LrnParams>();
  const AxisRows rows(call.in[0].shape, 1);
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[0].as<const T>();
    T *y = call.wants(0) ? call.out[0].as<T>() : nullptr, *norms = call.wants(1) ? call.out[1].as<T>() : nullptr;
    auto square = [&](int64_t i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); };
    for (int64_t row = 0; row < rows.count(); ++row)
      forEachWindow(rows, row, p.nsize, square, [&](int64_t i, double sum) {
        const double norm = p.knorm + p.scale() * sum;
        if (norms) norms[i] = static_cast<T>(norm);
        if (y) y[i] = static_cast<T>(static_cast<double>(x[i]) * std::pow(norm, -p.beta));
      });
  });
}

// dx = dy·n^−β − 2·β·α/nsize · x · W(dy·x·n^(−β−1))
void backward(const KernelCall &call) {
  if (!call.wants(0)) return;
  const LrnParams &p = call.params<LrnParams>();
  const AxisRows rows(call.out[0].shape, 1);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *dy = call.in[0].as<const T>(), *x = call.in[1].as<const T>(), *norms = call.in[2].as<const T>();
    auto share = [&](int64_t i) {
      return static_cast<double>(dy[i]) * static_cast<double>(x[i]) *
             std::pow(static_cast<double>(norms[i]), -p.beta - 1);
    };
    for (int64_t row = 0; row < rows.count(); ++row)
      forEachWindow(rows, row, p.nsize, share, [&](int64_t i, double sum) {
        const double direct = static_cast<double>(dy[i]) * std::pow(static_cast<double>(norms[i]), -p.beta);
        call.out[0].as<T>()[i] = static_cast<T>(direct - 2 * p.beta * p.scale() * static_cast<double>(x[i]) * sum);
      });
  });
}

void windowSum(const KernelCall &call) {
  if (!call.wants(0)) return;
  const AxisRows rows(call.in[0].shape, 1);
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[0].as<const T>();
    for (int64_t row = 0; row < rows.count(); ++row)
      forEachWindow(
          rows, row, call.params<LrnParams>().nsize, [&](int64_t i) { return static_cast<double>(x[i]); },
          [&](int64_t i, double sum) { call.out[0].as<T>()[i] = static_cast<T>(sum); });
  });
}

// The channels become an axis of pixels, over which sum pooling slides a window of nsize times 1 times 1. Pooling takes
// at most three axes of pixels, so further axes are merged first.
void decomposeWindowSum(DecomposeRule &d) {
  Value v = d.x(0);
  if (d.shape(v).hasRank() && is_contained(d.shape(v).dims(), 0)) return d.y(0, d.emit(kZerosLike, {v}));
  size_t rank = d.rank(v);
  while (rank > 4) {
    DimsBuffer merged = {0, 0, kMergeTwo, kCopyRest};
    v = d.emit(kReshape, {v}, {{"shape", d.tuple(merged)}});
    --rank;
  }
  const int64_t nsize = d.params<LrnParams>().nsize;
  DimsBuffer kernel(std::max<size_t>(rank, 2) - 1, 1), pad(kernel.size(), 0);
  kernel[0] = nsize;
  pad[0] = nsize / 2;
  v = d.emit(kExpandDims, {v}, {{"axis", "1"}});
  v = d.emit(kPooling, {v}, {{"pool_type", "sum"}, {"kernel", d.tuple(kernel)}, {"pad", d.tuple(pad)}});
  d.y(0, d.emit(kReshapeLike, {v, d.x(0)}));
}

// y = W(x); W is symmetric
constinit const OpDef kChannelWindowSum = {
    .name = "_channel_window_sum",
    .summary = "y[c] = Σ of x over the nsize channels (axis 1) around c, those beyond the ends left out",
    .inputs = {"data"},
    .attrs = kWindowAttrs,
    .params = paramsOf<LrnParams>(),
    .check = checkParams,
    .shape = channelShape,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kChannelWindowSum, {g.dy(0)}, g.attrs())); },
    .decompose = decomposeWindowSum,
    .kernel = windowSum,
};

Value windowSumOf(RuleContext &rule, Value v) {
  return rule.emit(kChannelWindowSum, {v}, {{"nsize", rule.number(rule.params<LrnParams>().nsize)}});
}

Value scaled(RuleContext &rule, Value v, double factor) {
  return rule.emit(kMulScalar, {v}, {{"scalar", rule.number(factor)}});
}

constinit const OpDef kBackwardLrn = {
    .name = "_backward_LRN",
    .summary = "gradient of LRN: dx = dy·n^−β − 2·β·alpha/nsize·x·Σ over the window of dy·x·n^(−β−1)",
    .inputs = {"ograd", "data", "norm"},
    .attrs = kAttrs,
    .params = paramsOf<LrnParams>(),
    .check = checkParams,
    .shape = channelShape,
    .flags = {.isBackward = true},
    .decompose =
        [](DecomposeRule &d) {
          const LrnParams &p = d.params<LrnParams>();
          const Value dy = d.x(0), x = d.x(1), norm = d.x(2);
          auto power = [&](double exponent) { return d.emit(kPowerScalar, {norm}, {{"scalar", d.number(exponent)}}); };
          const Value share = d.emit(kElemwiseMul, {d.emit(kElemwiseMul, {dy, x}), power(-p.beta - 1)});
          const Value spread = d.emit(kElemwiseMul, {x, windowSumOf(d, share)});
          d.y(0, d.emit(kElemwiseSub,
                        {d.emit(kElemwiseMul, {dy, power(-p.beta)}), scaled(d, spread, 2 * p.beta * p.scale())}));
        },
    .kernel = backward,
};

// Through the norm: dn gives 2·α/nsize · x · W(dn).
void lrnGradient(GradRule &g) {
  Value dx;
  const bool hasDirect = !g.isZero(0);
  if (hasDirect) dx = g.fused(kBackwardLrn, {g.dy(0), g.x(0), g.y(1)});
  if (g.isZero(1)) return hasDirect ? void() : g.noGrad(0);
  const Value spread = g.emit(kElemwiseMul, {g.x(0), windowSumOf(g, g.dy(1))});
  const Value extra = scaled(g, spread, 2 * g.params<LrnParams>().scale());
  g.dx(0, hasDirect ? g.emit(kElemwiseAdd, {dx, extra}) : extra);
}

void decomposeForward(DecomposeRule &d) {
  const LrnParams &p = d.params<LrnParams>();
  const Value sum = scaled(d, windowSumOf(d, d.emit(kSquare, {d.x(0)})), p.scale());
  const Value norm = d.emit(kPlusScalar, {sum}, {{"scalar", d.number(p.knorm)}});
  if (d.wants(1)) d.y(1, norm);
  if (!d.wants(0)) return;
  const Value power = d.emit(kPowerScalar, {norm}, {{"scalar", d.number(-p.beta)}});
  d.y(0, d.emit(kElemwiseMul, {d.x(0), power}));
}

constinit const OpDef kLrn = {
    .name = "LRN",
    .summary = "y = x·n^−β, n = knorm + alpha/nsize · Σ of x² over the nsize channels (axis 1) around each",
    .inputs = {"data"},
    .outputs = {"output", "norm"},
    .visibleOutputs = [](const NodeKind &) { return 1u; },
    .attrs = kAttrs,
    .params = paramsOf<LrnParams>(),
    .check = checkParams,
    .shape = channelShape,
    .gradient = lrnGradient,
    .decompose = decomposeForward,
    .kernel = forward,
};

}  // namespace

LrnAttrs lrnAttrs(const NodeKind &kind) {
  const LrnParams &p = kind.params<LrnParams>();
  return {p.scale(), p.beta, p.knorm, p.nsize};
}

constinit const OpFamily kLrnFamily = kOps<kLrn, kBackwardLrn, kChannelWindowSum>;

}  // namespace gradc
