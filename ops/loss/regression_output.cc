// Outputs that carry a regression loss: LinearRegressionOutput, LogisticRegressionOutput, MAERegressionOutput.
//
// With f the output, l the label in the shape of x, and w = grad_scale / (labels per sample):
//   Linear    f = x           loss = w · Σ (x - l)² / 2             dx = w · (f - l)
//   Logistic  f = sigmoid x   loss = w · Σ (ln(1 + eˣ) - l · x)     dx = w · (f - l)
//   MAE       f = x           loss = w · Σ |x - l|                  dx = w where f > l, else -w
// The gradient reads the input; MXNet's reads the output. Tested by tests/ops/loss_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/loss/regression_output.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

struct RegressionParams {
  double gradScale;
};
constexpr AttrSpec kRegressionAttrs[] = {attr<&RegressionParams::gradScale>(
    "grad_scale", "1", "factor of the gradient, before dividing by labels per sample")};

constexpr Domain kProbabilityLabel[] = {Domain::Any, Domain::Probability};

enum class Regression { Linear, Logistic, Mae };

// Names and summaries of the gradient operators of one regression.
struct Names {
  StringRef own, mxnet, summary, mxnetSummary;
};

// A label of unknown shape gets that of the data, except that data (batch, 1) gives (batch,). A known one needs the
// same batch size and number of elements.
void relateLabel(ShapeInference &s, size_t dataInput, size_t labelInput) {
  if (s.hasFailed() || !s.in(dataInput).hasRank()) return;
  Dims data = s.in(dataInput).dims();
  ShapeRef label = s.in(labelInput);
  if (!label.hasRank()) {
    if (data.size() == 2 && data[1] == kUnknownDim) return;
    return s.setIn(labelInput, data.size() == 2 && data[1] == 1 ? data.take_front() : data);
  }
  if (label.rank() == data.size()) return s.sameInIn(dataInput, labelInput);
  if (label.isFullyKnown() && s.in(dataInput).isFullyKnown() &&
      (data.empty() || label.rank() == 0 || label[0] != data[0] || numElements(label.dims()) != numElements(data)))
    s.fail("label has shape " + toString(label) + ", expected the batch and number of elements of " +
           toString(s.in(dataInput)));
}

// Data and label.
void regressionShape(ShapeInference &s) {
  s.sameInOut(0, 0);
  relateLabel(s, 0, 1);
  s.sameInOut(0, 0);
}

}  // namespace

// MXNet divides in float32. If the label has no elements, nothing is multiplied by the weight.
double regressionWeight(const NodeKind &kind, const TensorRef &label) {
  const int64_t batch = label.shape.empty() ? 1 : label.shape[0];
  const int64_t perSample = label.size() == 0 ? 1 : label.size() / batch;
  return static_cast<float>(kind.params<RegressionParams>().gradScale) / static_cast<float>(perSample);
}

namespace {

struct Logistic {
  template <class T> T operator()(T x) const { return T(1) / (T(1) + std::exp(-x)); }
};

// w · residual, where `f` is the output's value; `base` decides the sign of MAE.
template <Regression R, class T> void gradientLoop(const KernelCall &call, const T *f, const T *label, const T *base) {
  const T weight = static_cast<T>(regressionWeight(*call.kind, call.in[1]));
  T *dx = call.out[0].as<T>();
  for (int64_t i = 0, size = call.out[0].size(); i < size; ++i) {
    if constexpr (R == Regression::Mae) dx[i] = base[i] > label[i] ? weight : -weight;
    else if constexpr (R == Regression::Logistic) dx[i] = weight * (Logistic()(f[i]) - label[i]);
    else dx[i] = weight * (f[i] - label[i]);
  }
}

template <Regression R> void gradientKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[0].as<const T>();
    gradientLoop<R, T>(call, x, call.in[1].as<const T>(), x);
  });
}

template <Regression R> void gradientPiece(const PieceCall &call) {
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    gradientLoop<R, T>(call, call.in[0].as<const T>(), call.in[1].as<const T>(), call.base[0].as<const T>());
  });
}

// MXNet's operand order is (label, y); y is the output already, so the residual is linear for the logistic one too.
template <Regression R> void mxnetKernel(const KernelCall &call) {
  const TensorRef swapped[] = {call.in[1], call.in[0]};
  KernelCall own = call;
  own.in = swapped;
  gradientKernel<R == Regression::Logistic ? Regression::Linear : R>(own);
  if (call.wants(1)) std::memset(call.out[1].data, 0, call.out[1].bytes());
}

template <Regression R> double lossOf(const KernelCall &call) {
  double total = 0;
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0, size = call.in[0].size(); i < size; ++i) {
      const double x = call.in[0].as<const T>()[i], label = call.in[1].as<const T>()[i];
      if constexpr (R == Regression::Mae) total += std::abs(x - label);
      else if constexpr (R == Regression::Logistic)
        total += std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))) - label * x;
      else total += 0.5 * (x - label) * (x - label);
    }
  });
  return total * regressionWeight(*call.kind, call.in[1]);
}

extern const OpDef kLinearGrad, kLogisticGrad, kMaeGrad, kBackwardLinear, kBackwardLogistic, kBackwardMae, kWeight;

template <const OpDef &Grad> void lossRule(GradRule &g) {
  g.noGrad(1);
  if (g.isZero(0)) return g.dx(0, g.emit(kZerosLike, {g.x(0)}));
  g.fused(Grad, {g.x(0), g.x(1)});
}

template <const OpDef &Backward> void hostRule(GradRule &g) { g.fused(Backward, {g.x(1), g.y(0)}); }

// weight · residual of a value that already went through the link function.
Value weighted(DecomposeRule &d, Value f, Value label, Regression kind) {
  Value residual = d.emit(kElemwiseSub, {f, d.emit(kReshapeLike, {label, f})});
  if (kind == Regression::Mae) {
    Value isAbove = d.emit(kMulScalar, {d.emit(kGreaterScalar, {residual}, {{"scalar", "0"}})}, {{"scalar", "2"}});
    residual = d.emit(kMinusScalar, {isAbove}, {{"scalar", "1"}});
  }
  return d.emit(kElemwiseMul, {d.emit(kWeight, SmallVector<Value, 2>{f, label}, d.attrs()), residual});
}

template <Regression R> constexpr OpDef ownGradient(const Names &names) {
  OpDef op = named({names.own}, names.summary);
  op.inputs = {"data", "label"};
  op.attrs = kRegressionAttrs;
  op.params = paramsOf<RegressionParams>();
  op.shape = regressionShape;
  op.inplace = kInplaceFirst;
  op.stopped = {1};
  op.flags.isBackward = true;
  op.decompose = [](DecomposeRule &d) {
    d.y(0, weighted(d, R == Regression::Logistic ? d.emit(kSigmoid, {d.x(0)}) : d.x(0), d.x(1), R));
  };
  op.kernel = gradientKernel<R>;
  if (R == Regression::Mae) op.piece = gradientPiece<R>;
  return op;
}

template <Regression R> constexpr OpDef mxnetGradient(const Names &names) {
  OpDef op = named({names.mxnet}, names.mxnetSummary);
  op.inputs = {"label", "y"};
  op.outputs = {"ddata", "dlabel"};
  op.attrs = kRegressionAttrs;
  op.params = paramsOf<RegressionParams>();
  op.shape = [](ShapeInference &s) {
    s.sameInOut(1, 0);
    relateLabel(s, 1, 0);
    s.sameInOut(1, 0);
    s.sameInOut(0, 1);
  };
  op.stopped = {0};
  op.flags.isBackward = true;
  op.decompose = [](DecomposeRule &d) {
    d.y(0, weighted(d, d.x(1), d.x(0), R));
    if (d.wants(1)) d.y(1, d.emit(kZerosLike, {d.x(0)}));
  };
  op.kernel = mxnetKernel<R>;
  return op;
}

/// y = x. Logistic regression replaces what follows from that.
template <Regression R, const OpDef &Gradient, const OpDef &HostGradient>
constexpr OpDef regressionOutput(StringRef name, StringRef alias, StringRef summary) {
  OpDef op = named({name, alias}, summary);
  op.inputs = {"data", "label"};
  op.attrs = kRegressionAttrs;
  op.params = paramsOf<RegressionParams>();
  op.shape = regressionShape;
  op.inplace = kInplaceIdentity;
  op.ignored = {1};
  op.stopped = {1};
  op.flags.isConstantInGradcheck = true;
  op.gradient = lossRule<Gradient>;
  op.hostGradient = hostRule<HostGradient>;
  op.decompose = [](DecomposeRule &d) { d.y(0, d.emit(kCopy, {d.x(0)}, {loweredFrom(d)})); };
  op.kernel = copyBytes;
  op.impliedLoss = lossOf<R>;
  op.ignoresHead = true;
  return op;
}

constinit const OpDef kLinearRegressionOutput = regressionOutput<Regression::Linear, kLinearGrad, kBackwardLinear>(
    "LinearRegressionOutput", "_sparse_LinearRegressionOutput",
    "y = x, with the gradient of a squared error: dx = w * (x - label), w = grad_scale / labels per sample;"
    " loss = w * sum of (x - label)^2 / 2");

constinit const OpDef kLogisticRegressionOutput = [] {
  OpDef op = regressionOutput<Regression::Logistic, kLogisticGrad, kBackwardLogistic>(
      "LogisticRegressionOutput", "_sparse_LogisticRegressionOutput",
      "y = sigmoid(x), with the gradient of a cross entropy: dx = w * (y - label), w = grad_scale / labels per"
      " sample; loss = w * sum of ln(1 + exp(x)) - label * x");
  op.inplace = kInplaceFirst;
  op.domains = kProbabilityLabel;
  op.decompose = [](DecomposeRule &d) { d.y(0, d.emit(kSigmoid, {d.x(0)}, {loweredFrom(d)})); };
  op.kernel = mapFloating<Logistic{}>;
  return op;
}();

constinit const OpDef kMaeRegressionOutput = regressionOutput<Regression::Mae, kMaeGrad, kBackwardMae>(
    "MAERegressionOutput", "_sparse_MAERegressionOutput",
    "y = x, with the gradient of an absolute error: dx = w where x > label, else -w, w = grad_scale /"
    " labels per sample; loss = w * sum of |x - label|");

constexpr Names kLinearNames = {"_LinearRegressionOutput_grad", "_backward_linear_reg_out",
                                "gradient of LinearRegressionOutput from its input: dx = w * (x - label)",
                                "gradient of LinearRegressionOutput from its output: dx = w * (y - label)"};
constexpr Names kLogisticNames = {"_LogisticRegressionOutput_grad", "_backward_logistic_reg_out",
                                  "gradient of LogisticRegressionOutput from its input: dx = w * (sigmoid(x) - label)",
                                  "gradient of LogisticRegressionOutput from its output: dx = w * (y - label)"};
constexpr Names kMaeNames = {"_MAERegressionOutput_grad", "_backward_mae_reg_out",
                             "gradient of MAERegressionOutput from its input: dx = w where x > label, else -w",
                             "gradient of MAERegressionOutput from its output: dx = w where y > label, else -w"};

constinit const OpDef kLinearGrad = ownGradient<Regression::Linear>(kLinearNames);
constinit const OpDef kLogisticGrad = ownGradient<Regression::Logistic>(kLogisticNames);
constinit const OpDef kMaeGrad = ownGradient<Regression::Mae>(kMaeNames);
constinit const OpDef kBackwardLinear = mxnetGradient<Regression::Linear>(kLinearNames);
constinit const OpDef kBackwardLogistic = mxnetGradient<Regression::Logistic>(kLogisticNames);
constinit const OpDef kBackwardMae = mxnetGradient<Regression::Mae>(kMaeNames);

// Labels per sample are counted in one sample, and the division is in float32.
void decomposeWeight(DecomposeRule &d) {
  const Value ones = d.emit(kOnesLike, {d.x(0)}), label = d.x(1);
  const double scale = static_cast<float>(d.params<RegressionParams>().gradScale);
  if (d.rank(label) == 0) return d.y(0, d.emit(kMulScalar, {ones}, {{"scalar", d.number(scale)}}));
  const Value sample = d.emit(kSlice, {label}, {{"begin", "(0,)"}, {"end", "(1,)"}});
  const Value single = d.emit(kCast, {d.emit(kOnesLike, {sample})}, {{"dtype", "float32"}});
  const Value count = d.emit(kReshape, {d.emit(kSum, {single})}, {{"shape", "(1,)"}});
  const Value weight = d.emit(kRdivScalar, {count}, {{"scalar", d.number(scale)}});
  d.y(0, d.emit(kBroadcastMul, {ones, d.emit(kCastLike, {weight, d.x(0)})}));
}

// A constant by which the decompositions multiply residuals.
constinit const OpDef kWeight = {
    .name = "_RegressionOutput_weight",
    .summary = "grad_scale / labels per sample, in the shape of data; neither operand's contents are read",
    .inputs = {"data", "label"},
    .attrs = kRegressionAttrs,
    .params = paramsOf<RegressionParams>(),
    .shape = regressionShape,
    .ignored = {0, 1},
    .stopped = {0, 1},
    .flags = {.hasNoGradient = true},
    .gradient =
        [](GradRule &g) {
          g.noGrad(0);
          g.noGrad(1);
        },
    .decompose = decomposeWeight,
    .kernel =
        [](const KernelCall &call) {
          if (!call.wants(0)) return;
          const double weight = regressionWeight(*call.kind, call.in[1]);
          dispatchFloating(call.out[0].dtype, [&](auto zero) {
            using T = decltype(zero);
            std::fill_n(call.out[0].as<T>(), call.out[0].size(), static_cast<T>(weight));
          });
        },
};

}  // namespace

constinit const OpFamily kRegressionOutputFamily =
    kOps<kLinearRegressionOutput, kLogisticRegressionOutput, kMaeRegressionOutput, kLinearGrad, kLogisticGrad, kMaeGrad,
         kBackwardLinear, kBackwardLogistic, kBackwardMae, kWeight>;

}  // namespace gradc
