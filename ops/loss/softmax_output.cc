// SoftmaxOutput: a softmax that carries its cross-entropy loss.
//
// Per row with logits x, target distribution t and weight w (ops/loss/softmax_loss.h):
//   loss = w · (ln Σ exp x[k] - Σ t[k] · x[k]), which is w · cross entropy(softmax x, t) where Σ t = 1;
//   dx = w · (softmax x - t).
// The gradient reads the input, so that its derivative is right; MXNet's reads the output, and is what
// `--dialect mxnet` writes. With out_grad the head gradient multiplies, as MXNet documents (D-27).
// Tested by tests/ops/loss_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/loss/softmax_loss.h"
#include "ops/loss/softmax_parts.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

constexpr Domain kDomains[] = {Domain::Any, Domain::ClassIndex};

bool takesHead(const NodeKind &kind) { return kind.params<SoftmaxOutputParams>().outGrad; }
bool takesNoHead(const NodeKind &kind) { return !takesHead(kind); }

extern const OpDef kSoftmaxOutputGrad, kBackwardSoftmaxOutput;

// weight · (p - target), written over p. `label` and the optional head are those of the call.
void lossGradient(const KernelCall &call, const TensorRef &label, const TensorRef *head) {
  const SoftmaxLabels labels(call.params<SoftmaxOutputParams>(), call.out[0].shape, label);
  const SoftmaxRows &rows = labels.rows;
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    T *dx = call.out[0].as<T>();
    for (int64_t row = 0; row < rows.count(); ++row) {
      const double weight = labels.weight(row);
      for (int64_t k = 0; k < rows.classes; ++k) {
        const int64_t at = rows.begin(row) + k * rows.inner;
        const double dy = head ? static_cast<double>(head->as<const T>()[at]) : 1.0;
        dx[at] = static_cast<T>((static_cast<double>(dx[at]) - labels.target(row, k)) * weight * dy);
      }
    }
  });
}

double crossEntropy(const KernelCall &call) {
  const SoftmaxLabels labels(call.params<SoftmaxOutputParams>(), call.in[0].shape, call.in[1]);
  const SoftmaxRows &rows = labels.rows;
  double total = 0;
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t row = 0; row < rows.count(); ++row) {
      const T *x = call.in[0].as<const T>() + rows.begin(row);
      double largest = -HUGE_VAL, partition = 0, expected = 0;
      for (int64_t k = 0; k < rows.classes; ++k) largest = std::max(largest, static_cast<double>(x[k * rows.inner]));
      for (int64_t k = 0; k < rows.classes; ++k) {
        partition += std::exp(static_cast<double>(x[k * rows.inner]) - largest);
        expected += labels.target(row, k) * static_cast<double>(x[k * rows.inner]);
      }
      total += labels.weight(row) * (largest + std::log(partition) - expected);
    }
  });
  return total;
}

// weight · (p - target)[ · dy], where p is a value already in the graph.
Value gradientOf(DecomposeRule &d, Value p, Value data, Value label) {
  Value target = d.emit(kSoftmaxOutputTarget, {data, label}, d.attrs());
  Value weight = d.emit(kSoftmaxOutputWeight, {data, label}, d.attrs());
  return d.emit(kElemwiseMul, {weight, d.emit(kElemwiseSub, {p, target})});
}

// y = softmax(x)
constinit const OpDef kSoftmaxOutput = {
    .name = "SoftmaxOutput",
    .aliases = {"Softmax"},
    .summary =
        "softmax, with the gradient of a cross entropy: dx = w * (softmax(x) - target(label)), w = grad_scale / n;"
        " loss = w * (ln(sum exp(x)) - sum target * x) over rows. A label that is not a class number matches no class",
    .inputs = {"data", "label"},
    .attrs = kSoftmaxOutputAttrs,
    .params = paramsOf<SoftmaxOutputParams>(),
    .shape = softmaxOutputShape,
    .inplace = kInplaceFirst,
    .ignored = {1},
    .stopped = {1},
    .flags = {.isConstantInGradcheck = true},
    .domains = kDomains,
    .gradient =
        [](GradRule &g) {
          g.noGrad(1);
          if (g.isZero(0)) return g.dx(0, g.emit(kZerosLike, {g.x(0)}));
          SmallVector<Value, 3> operands = {g.x(0), g.x(1)};
          if (takesHead(g.kind())) operands.push_back(g.dy(0));
          g.fused(kSoftmaxOutputGrad, operands);
        },
    .hostGradient =
        [](GradRule &g) {
          Attrs attrs = g.attrs();
          if (takesHead(g.kind())) attrs = g.context().withAttrs(attrs, {{"out_grad", "False"}});
          g.fused(kBackwardSoftmaxOutput, SmallVector<Value, 2>{g.y(0), g.x(1)}, attrs);
        },
    .decompose =
        [](DecomposeRule &d) {
          const Attrs attrs = d.context().withAttrs(d.attrs(), {loweredFrom(d)});
          d.y(0, d.emit(kSoftmaxOutputSoftmax, {d.x(0)}, attrs));
        },
    .kernel = softmaxOfRows,
    .impliedLoss = crossEntropy,
    .ignoresHead = takesNoHead,
};

constinit const OpDef kSoftmaxOutputGrad = {
    .name = "_SoftmaxOutput_grad",
    .summary =
        "gradient of SoftmaxOutput from its input: dx = w * (softmax(x) - target(label)), times dy under out_grad",
    .inputs = {{"data", "label", "dy"}, [](const NodeKind &kind) { return takesHead(kind) ? 3u : 2u; }},
    .attrs = kSoftmaxOutputAttrs,
    .params = paramsOf<SoftmaxOutputParams>(),
    .shape =
        [](ShapeInference &s) {
          softmaxOutputShape(s);
          if (s.numInputs() == 3) s.sameInIn(0, 2);
        },
    .inplace = kInplaceFirst,
    .stopped = {1},
    .flags = {.isBackward = true},
    .domains = kDomains,
    .decompose =
        [](DecomposeRule &d) {
          Value p = d.emit(kSoftmaxOutputSoftmax, {d.x(0)}, d.attrs());
          Value loss = gradientOf(d, p, d.x(0), d.x(1));
          d.y(0, d.numInputs() == 3 ? d.emit(kElemwiseMul, {loss, d.x(2)}) : loss);
        },
    .kernel =
        [](const KernelCall &call) {
          if (!call.wants(0)) return;
          softmaxOfRows(call);
          lossGradient(call, call.in[1], call.in.size() == 3 ? &call.in[2] : nullptr);
        },
};

// MXNet's own gradient operator, which its files have. It takes no head gradient: under out_grad MXNet multiplies by
// the output.
constinit const OpDef kBackwardSoftmaxOutput = {
    .name = "_backward_SoftmaxOutput",
    .summary = "gradient of SoftmaxOutput from its output, as MXNet's files have it: dx = w * (y - target(label))",
    .inputs = {"y", "label"},
    .outputs = {"ddata", "dlabel"},
    .attrs = kSoftmaxOutputAttrs,
    .params = paramsOf<SoftmaxOutputParams>(),
    .shape =
        [](ShapeInference &s) {
          softmaxOutputShape(s);
          s.sameInOut(1, 1);
        },
    .stopped = {1},
    .flags = {.isBackward = true},
    .domains = kDomains,
    .decompose =
        [](DecomposeRule &d) {
          Value loss = gradientOf(d, d.x(0), d.x(0), d.x(1));
          d.y(0, takesHead(d.kind()) ? d.emit(kElemwiseMul, {loss, d.x(0)}) : loss);
          if (d.wants(1)) d.y(1, d.emit(kZerosLike, {d.x(1)}));
        },
    .kernel =
        [](const KernelCall &call) {
          if (call.wants(1)) std::memset(call.out[1].data, 0, call.out[1].bytes());
          if (!call.wants(0)) return;
          std::memcpy(call.out[0].data, call.in[0].data, call.out[0].bytes());
          lossGradient(call, call.in[1], takesHead(*call.kind) ? &call.in[0] : nullptr);
        },
};

}  // namespace

constinit const OpFamily kSoftmaxOutputFamily = kOps<kSoftmaxOutput, kSoftmaxOutputGrad, kBackwardSoftmaxOutput>;

}  // namespace gradc
