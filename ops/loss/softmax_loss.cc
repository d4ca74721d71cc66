#include "ops/loss/softmax_loss.h"

#include "ir/tensor/dim.h"
#include "ir/rules/kernel.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/loss/softmax_parts.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

int64_t productOrUnknown(Dims dims) { return numElements(dims).value_or(kUnknownDim); }

// Under multi_output a label is (n, d2·d3·…), (n, d2, …), (n, 1, d2, …), or has the shape of the data.
void multiOutputLabel(ShapeInference &s) {
  DimsBuffer data(s.in(0).dims());
  ShapeRef label = s.in(1);
  if (label.hasRank() && label.rank() == data.size()) {
    if (label[1] != data[1]) data[1] = label[1] == kUnknownDim ? kUnknownDim : 1;
  } else if (label.hasRank() && label.rank() == data.size() - 1) {
    data.erase(data.begin() + 1);
  } else {
    data = {data[0], productOrUnknown(Dims(data).drop_front(2))};
  }
  s.setIn(1, data);
}

// Otherwise it is the data without its last axis, or has the shape of the data; vectors take probabilities only.
void singleOutputLabel(ShapeInference &s) {
  Dims data = s.in(0).dims();
  if (data.size() < 2 || (s.in(1).hasRank() && s.in(1).rank() == data.size())) return s.sameInIn(0, 1);
  s.setIn(1, data.drop_back());
  if (s.hasFailed()) return;
  DimsBuffer known(s.in(1).dims());
  known.push_back(kUnknownDim);
  s.setIn(0, known);
}

template <class T> void softmaxRow(const T *x, T *y, int64_t classes, int64_t stride) {
  double largest = -HUGE_VAL, total = 0;
  for (int64_t k = 0; k < classes; ++k) largest = std::max(largest, static_cast<double>(x[k * stride]));
  for (int64_t k = 0; k < classes; ++k) total += std::exp(static_cast<double>(x[k * stride]) - largest);
  for (int64_t k = 0; k < classes; ++k)
    y[k * stride] = static_cast<T>(std::exp(static_cast<double>(x[k * stride]) - largest) / total);
}

}  // namespace

void softmaxDataShape(ShapeInference &s) {
  s.sameInOut(0, 0);
  if (s.hasFailed() || !s.in(0).hasRank()) return;
  if (s.in(0).rank() == 0) return s.fail("data has no dimensions, expected at least one");
  if (s.in(0).rank() == 1 && s.params<SoftmaxOutputParams>().multiOutput)
    s.fail("data has shape " + toString(s.in(0)) + ", expected two dimensions at least under multi_output");
}

void softmaxOutputShape(ShapeInference &s) {
  softmaxDataShape(s);
  if (s.hasFailed() || !s.in(0).hasRank()) return;
  if (s.params<SoftmaxOutputParams>().multiOutput) multiOutputLabel(s);
  else singleOutputLabel(s);
  s.sameInOut(0, 0);
}

ClassShares classSharesOf(const SoftmaxOutputParams &params, int64_t classes) {
  // MXNet smooths only in its two layouts without multi_output.
  if (params.multiOutput || classes < 2) return {1, 0};
  const float alpha = static_cast<float>(params.smoothAlpha);
  return {1.0 - alpha, alpha / static_cast<float>(classes - 1)};
}

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
  shares = classSharesOf(params, rows.classes);
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
  return classOf(value(row)) == classIndex ? shares.onLabel : shares.offLabel;
}

std::optional<SoftmaxLabels::ClassTarget> SoftmaxLabels::classTarget(int64_t row) const {
  if (isProbability) return std::nullopt;
  return ClassTarget{classOf(value(row)), shares.onLabel, shares.offLabel};
}

bool SoftmaxLabels::isIgnored(int64_t row) const {
  return !isProbability && params.useIgnore && classOf(value(row)) == classOf(params.ignoreLabel);
}

double SoftmaxLabels::weight(int64_t row) const { return isIgnored(row) ? 0.0 : scale; }

void softmaxOfRows(const KernelCall &call) {
  if (!call.wants(0)) return;
  const SoftmaxRows rows(call.params<SoftmaxOutputParams>(), call.out[0].shape);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[0].as<const T>();
    T *y = call.out[0].as<T>();
    for (int64_t row = 0; row < rows.count(); ++row)
      softmaxRow(x + rows.begin(row), y + rows.begin(row), rows.classes, rows.inner);
  });
}

}  // namespace gradc
