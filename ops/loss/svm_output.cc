// SVMOutput: class scores that carry the loss of support vector machines, one against the rest.
//
// With t = 1 for the label's class and −1 for every other one, m = margin − t · x:
//   squared hinge (default)  loss = reg · Σ max(0, m)²    dx = −2 · reg · t · max(0, m)
//   hinge (use_linear)       loss = reg · Σ max(0, m)     dx = −reg · t where m > 0, else 0
// A label out of range matches no class. The gradient reads the input, so that its derivative is right;
// MXNet's reads the output, which has the same values. Tested by tests/ops/network_ops_test.cc
#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/loss/softmax_parts.h"

#include <algorithm>

using namespace llvm;

namespace gradc {
namespace {

struct SvmParams {
  double margin = 1, regularization = 1;
  bool useLinear = false;
};
constexpr AttrSpec kAttrs[] = {
    attr<&SvmParams::margin>("margin", "1", "least distance of scores from 0, on the right side"),
    attr<&SvmParams::regularization>("regularization_coefficient", "1", "factor of the loss"),
    attr<&SvmParams::useLinear>("use_linear", "False", "hinge loss instead of the squared one"),
};

// MXNet holds both numbers in single precision.
Error checkParams(const OpDef &, void *params) {
  SvmParams &p = *static_cast<SvmParams *>(params);
  p.margin = roundToSingle(p.margin);
  p.regularization = roundToSingle(p.regularization);
  return Error::success();
}

// Labels have the data's axes except the last, that of the classes.
void relateShapes(ShapeInference &s, size_t data, size_t label) {
  s.sameInOut(data, 0);
  if (s.hasFailed()) return;
  if (s.in(data).hasRank() && s.in(data).rank() < 2)
    return s.fail("data has shape " + toString(s.in(data)) +
                  ", expected at least an axis of samples and one of classes");
  if (s.in(label).hasRank() && s.in(label).rank() == 0)
    return s.fail("label has no dimensions, expected at least an axis of samples");
  if (s.in(data).hasRank()) s.setIn(label, s.in(data).dims().drop_back());
  if (s.hasFailed() || !s.in(label).hasRank()) return;
  DimsBuffer dims(s.in(label).dims());
  dims.push_back(kUnknownDim);
  s.setIn(data, dims);
  s.sameInOut(data, 0);
}

// Calls visit(index, t) for every element of the scores, row by row.
template <class T, class F> void forScores(const TensorRef &scores, const TensorRef &label, F visit) {
  const int64_t classes = scores.shape.back();
  for (int64_t row = 0; row < label.size(); ++row) {
    const int64_t own = classOf(static_cast<double>(label.as<const T>()[row]));
    for (int64_t k = 0; k < classes; ++k) visit(row * classes + k, k == own ? 1.0 : -1.0);
  }
}

// `base` decides which margins are kept.
void gradientFrom(const KernelCall &call, const TensorRef &base) {
  if (call.wants(1)) std::memset(call.out[1].data, 0, call.out[1].bytes());
  if (!call.wants(0)) return;
  const SvmParams &p = call.params<SvmParams>();
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[1].as<const T>(), *at = base.as<const T>();
    forScores<T>(call.in[1], call.in[0], [&](int64_t i, double t) {
      const bool isNear = p.margin > t * static_cast<double>(at[i]);
      const double slope = p.useLinear ? 1 : 2 * (p.margin - t * static_cast<double>(x[i]));
      call.out[0].as<T>()[i] = isNear ? static_cast<T>(-p.regularization * t * slope) : T{0};
    });
  });
}

double lossOf(const KernelCall &call) {
  const SvmParams &p = call.params<SvmParams>();
  double total = 0;
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    forScores<T>(call.in[0], call.in[1], [&](int64_t i, double t) {
      const double hinge = std::max(0.0, p.margin - t * static_cast<double>(call.in[0].as<const T>()[i]));
      total += p.useLinear ? hinge : hinge * hinge;
    });
  });
  return total * p.regularization;
}

void decomposeBackward(DecomposeRule &d) {
  const SvmParams &p = d.params<SvmParams>();
  const Value label = d.x(0), x = d.x(1);
  if (d.wants(1)) d.y(1, d.emit(kZerosLike, {label}));
  if (!d.wants(0)) return;
  const Value twice = d.emit(kMulScalar, {classTargets(d, x, label)}, {{"scalar", "2"}});
  const Value t = d.emit(kMinusScalar, {twice}, {{"scalar", "1"}});
  const Value m = d.emit(kRminusScalar, {d.emit(kElemwiseMul, {t, x})}, {{"scalar", d.number(p.margin)}});
  const Value slope = p.useLinear ? d.emit(kGreaterScalar, {m}, {{"scalar", "0"}}) : d.emit(kRelu, {m});
  const double factor = -p.regularization * (p.useLinear ? 1 : 2);
  d.y(0, d.emit(kMulScalar, {d.emit(kElemwiseMul, {t, slope})}, {{"scalar", d.number(factor)}}));
}

constexpr Domain kDomains[] = {Domain::Any, Domain::ClassIndex}, kBackwardDomains[] = {Domain::ClassIndex};

constinit const OpDef kBackwardSvmOutput = {
    .name = "_backward_SVMOutput",
    .summary = "gradient of SVMOutput: with t = 1 for the label's class, else −1, dx = −2·reg·t·max(0, margin − t·x), "
               "or with use_linear −reg·t where margin > t·x",
    .inputs = {"label", "out"},
    .outputs = {"ddata", "dlabel"},
    .attrs = kAttrs,
    .params = paramsOf<SvmParams>(),
    .check = checkParams,
    .shape =
        [](ShapeInference &s) {
          s.sameInOut(0, 1);
          relateShapes(s, 1, 0);
          s.sameInOut(0, 1);
        },
    .stopped = {0},
    .flags = {.isBackward = true},
    .domains = kBackwardDomains,
    .decompose = decomposeBackward,
    .kernel = [](const KernelCall &call) { gradientFrom(call, call.in[1]); },
    .piece = [](const PieceCall &call) { gradientFrom(call, call.base[1]); },
};

constinit const OpDef kSvmOutput = {
    .name = "SVMOutput",
    .summary = "y = x, with the gradient of a loss of support vector machines: loss = reg·Σ max(0, margin − t·x)², "
               "with use_linear without the square, t = 1 for the label's class and −1 for the others",
    .inputs = {"data", "label"},
    .attrs = kAttrs,
    .params = paramsOf<SvmParams>(),
    .check = checkParams,
    .shape = [](ShapeInference &s) { relateShapes(s, 0, 1); },
    .inplace = kInplaceIdentity,
    .ignored = {1},
    .stopped = {1},
    .flags = {.isConstantInGradcheck = true},
    .domains = kDomains,
    .gradient =
        [](GradRule &g) {
          g.noGrad(1);
          if (g.isZero(0)) return g.dx(0, g.emit(kZerosLike, {g.x(0)}));
          g.fused(kBackwardSvmOutput, {g.x(1), g.x(0)});
        },
    .hostGradient = [](GradRule &g) { g.fused(kBackwardSvmOutput, {g.x(1), g.y(0)}); },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kCopy, {d.x(0)}, {loweredFrom(d)})); },
    .kernel = copyBytes,
    .impliedLoss = lossOf,
    .ignoresHead = true,
};

}  // namespace

constinit const OpFamily kSvmOutputFamily = kOps<kSvmOutput, kBackwardSvmOutput>;

}  // namespace gradc
