// The operators SoftmaxOutput's gradient is made of: weight · (softmax(x) - target).
//
// Only the softmax is differentiable; target and weight are functions of the label and constants (counts inside
// normalization too). Tested by tests/loss_ops_test.cc
#include "ir/grad_rule.h"
#include "ir/inference.h"
#include "ir/kernel.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/primitives.h"
#include "ops/softmax_loss.h"
#include "ops/softmax_parts.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

// Class number a label stands for, its fraction dropped; -2^62, which no class equals, beyond 32 bits and for NaN.
int64_t classOf(double label) {
  constexpr double kLimit = 2147483648.0;
  return label > -kLimit && label < kLimit ? static_cast<int64_t>(label) : -(int64_t{1} << 62);
}

template <class T> void softmaxRow(const T *x, T *y, int64_t classes, int64_t stride) {
  double largest = -HUGE_VAL, total = 0;
  for (int64_t k = 0; k < classes; ++k) largest = std::max(largest, static_cast<double>(x[k * stride]));
  for (int64_t k = 0; k < classes; ++k) total += std::exp(static_cast<double>(x[k * stride]) - largest);
  for (int64_t k = 0; k < classes; ++k)
    y[k * stride] = static_cast<T>(std::exp(static_cast<double>(x[k * stride]) - largest) / total);
}

// Writes f(row, class) to every element of output 0.
template <class F> void fillRows(const KernelCall &call, F f) {
  if (!call.wants(0)) return;
  const SoftmaxLabels labels(call.params<SoftmaxOutputParams>(), call.out[0].shape, call.in[1]);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t row = 0; row < labels.rows.count(); ++row)
      for (int64_t k = 0; k < labels.rows.classes; ++k)
        call.out[0].as<T>()[labels.rows.begin(row) + k * labels.rows.inner] = static_cast<T>(f(labels, row, k));
  });
}

void noGradients(GradRule &g) {
  for (size_t i = 0; i < g.numInputs(); ++i) g.noGrad(i);
}

// The attributes with which `sum` adds up each row.
Value sumRows(GradRule &g, Value v) {
  const SoftmaxOutputParams &params = g.params<SoftmaxOutputParams>();
  if (params.multiOutput) return g.emit(kSum, {v}, {{"axis", "1"}, {"keepdims", "True"}});
  if (params.preserveShape) return g.emit(kSum, {v}, {{"axis", "-1"}, {"keepdims", "True"}});
  return g.emit(kSum, {v}, {{"axis", "0"}, {"exclude", "True"}, {"keepdims", "True"}});
}

}  // namespace

SoftmaxRows::SoftmaxRows(const SoftmaxOutputParams &params, Dims shape) : outer(1), classes(1), inner(1) {
  auto product = [](Dims dims) { return TensorRef{nullptr, DType::Unknown, dims}.size(); };
  if (params.multiOutput) {
    outer = shape[0];
    classes = shape[1];
    inner = product(shape.drop_front(2));
  } else if (params.preserveShape) {
    outer = product(shape.drop_back());
    classes = shape.back();
  } else {
    outer = shape[0];
    classes = product(shape.drop_front());
  }
}

SoftmaxLabels::SoftmaxLabels(const SoftmaxOutputParams &params, Dims shape, const TensorRef &label)
    : rows(params, shape), params(params), label(label), isProbability(label.shape == shape) {
  assert((isProbability || label.size() >= rows.count()) && "inference gives every row a label");
  scale = factor();
  // MXNet smooths in its two layouts without multi_output only.
  if (params.multiOutput || rows.classes < 2) return;
  const float alpha = static_cast<float>(params.smoothAlpha);
  onLabel = 1.0 - alpha;
  offLabel = alpha / static_cast<float>(rows.classes - 1);
}

double SoftmaxLabels::value(int64_t index) const {
  return label.dtype == DType::Float64 ? label.as<const double>()[index] : double{label.as<const float>()[index]};
}

float SoftmaxLabels::factor() const {
  float result = static_cast<float>(params.gradScale);
  if (isProbability) return result;
  if (params.multiOutput && params.normalization != LossNormalization::Valid) result /= static_cast<float>(rows.inner);
  if (params.normalization == LossNormalization::Batch) return result / static_cast<float>(rows.outer);
  if (params.normalization == LossNormalization::Null) return result;
  int64_t numValid = 0;
  for (int64_t row = 0; row < rows.count(); ++row) numValid += value(row) != static_cast<float>(params.ignoreLabel);
  return result / static_cast<float>(std::max<int64_t>(numValid, 1));
}

double SoftmaxLabels::target(int64_t row, int64_t classIndex) const {
  if (isProbability) return value(rows.begin(row) + classIndex * rows.inner);
  return classOf(value(row)) == classIndex ? onLabel : offLabel;
}

std::optional<SoftmaxLabels::ClassTarget> SoftmaxLabels::classTarget(int64_t row) const {
  if (isProbability) return std::nullopt;
  return ClassTarget{classOf(value(row)), onLabel, offLabel};
}

bool SoftmaxLabels::isIgnored(int64_t row) const {
  return !isProbability && params.useIgnore && classOf(value(row)) == classOf(params.ignoreLabel);
}

double SoftmaxLabels::weight(int64_t row) const { return isIgnored(row) ? 0.0 : scale; }

void softmaxOfRows(const SoftmaxRows &rows, const TensorRef &x, const TensorRef &y) {
  dispatchFloating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t row = 0; row < rows.count(); ++row)
      softmaxRow(x.as<const T>() + rows.begin(row), y.as<T>() + rows.begin(row), rows.classes, rows.inner);
  });
}

// dx = y · (dy - Σ dy · y), summed over the row
constinit const OpDef kSoftmaxOutputSoftmax = {
    .name = "_SoftmaxOutput_softmax",
    .summary = "softmax of the rows SoftmaxOutput's attributes describe: y[k] = exp(x[k]) / sum over j of exp(x[j])",
    .inputs = {"data"},
    .attrs = kSoftmaxOutputAttrs,
    .params = paramsOf<SoftmaxOutputParams>(),
    .shape = softmaxDataShape,
    .inplace = kInplaceFirst,
    .gradient =
        [](GradRule &g) {
          Value inRow = sumRows(g, g.emit(kElemwiseMul, {g.dy(0), g.y(0)}));
          g.dx(0, g.emit(kElemwiseMul, {g.y(0), g.emit(kBroadcastSub, {g.dy(0), inRow})}));
        },
    .kernel =
        [](const KernelCall &call) {
          const SoftmaxRows rows(call.params<SoftmaxOutputParams>(), call.out[0].shape);
          if (call.wants(0)) softmaxOfRows(rows, call.in[0], call.out[0]);
        },
};

constinit const OpDef kSoftmaxOutputTarget = {
    .name = "_SoftmaxOutput_target",
    .summary = "the distribution SoftmaxOutput's label stands for, in the shape of data",
    .inputs = {"data", "label"},
    .attrs = kSoftmaxOutputAttrs,
    .params = paramsOf<SoftmaxOutputParams>(),
    .shape = softmaxOutputShape,
    .ignored = {0},
    .stopped = {0, 1},
    .flags = {.hasNoGradient = true},
    .gradient = noGradients,
    .kernel =
        [](const KernelCall &call) {
          fillRows(call, [](const SoftmaxLabels &labels, int64_t row, int64_t k) { return labels.target(row, k); });
        },
};

constinit const OpDef kSoftmaxOutputWeight = {
    .name = "_SoftmaxOutput_weight",
    .summary = "the factor SoftmaxOutput gives each row: grad_scale / n, 0 for ignored labels, in the shape of data",
    .inputs = {"data", "label"},
    .attrs = kSoftmaxOutputAttrs,
    .params = paramsOf<SoftmaxOutputParams>(),
    .shape = softmaxOutputShape,
    .ignored = {0},
    .stopped = {0, 1},
    .flags = {.hasNoGradient = true},
    .gradient = noGradients,
    .kernel =
        [](const KernelCall &call) {
          fillRows(call, [](const SoftmaxLabels &labels, int64_t row, int64_t) { return labels.weight(row); });
        },
};

namespace {

constexpr const OpDef *kOps[] = {&kSoftmaxOutputSoftmax, &kSoftmaxOutputTarget, &kSoftmaxOutputWeight};

}  // namespace

constinit const OpFamily kSoftmaxPartsFamily = kOps;

}  // namespace gradc
