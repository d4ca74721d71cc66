// Shared by batch, layer, group and instance normalization: output 0 is normalized data, outputs 1 and 2 are the
// statistics by which it is normalized.
#pragma once

#include "ir/rules/grad_rule.h"
#include "ir/rules/missing_inputs.h"
#include "ops/kit/attrs.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/kit/primitives.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace gradc {

/// Entries by shape. `data` and output 0 have the data's; vectors have that of γ and β, one number per channel or along
/// the axis; rows have that of the statistics, one per normalized row.
struct NormPorts {
  size_t data;
  llvm::ArrayRef<size_t> vectorInputs, vectorOutputs, rowInputs, rowOutputs;
};

/// Mean and biased variance of x(0), …, x(count − 1), in two passes.
struct Moments {
  double mean, variance;
};
template <class F> Moments momentsOf(int64_t count, F x) {
  double sum = 0, squares = 0;
  for (int64_t k = 0; k < count; ++k) sum += static_cast<double>(x(k));
  const double mean = sum / static_cast<double>(count);
  for (int64_t k = 0; k < count; ++k) {
    const double centred = static_cast<double>(x(k)) - mean;
    squares += centred * centred;
  }
  return {mean, squares / static_cast<double>(count)};
}

/// `kernel` of an operator whose loops are `rows(T{0}, call)`, T the floating type of input 0. Missing inputs are
/// filled in.
template <auto rows> void normalizationKernel(const KernelCall &call) {
  withMissingInputs(call, [](const KernelCall &filled) {
    dispatchFloating(filled.in[0].dtype, [&](auto zero) { rows(zero, filled); });
  });
}

/// `check` of operators with an eps, which MXNet holds in single precision.
template <class P> llvm::Error roundEps(const OpDef &, void *params) {
  P &p = *static_cast<P *>(params);
  p.eps = roundToSingle(p.eps);
  return llvm::Error::success();
}

/// Sums of tensors (image, channel, …) over the elements of each channel of each image, and their adjoints, on behalf
/// of one node.
class ChannelSums {
 public:
  explicit ChannelSums(RuleContext &rule) : rule(rule) {}

  /// These keep the axes.
  Value sum(Value v) { return overElements(kSum, v); }
  Value mean(Value v) { return overElements(kMean, v); }
  /// The sum over images, too.
  Value perChannel(Value v) { return rule.emit(kSum, {v}, {{"axis", "1"}, {"exclude", "True"}}); }
  Value spread(Value vector, Value like) { return rule.emit(kBroadcastAxisLike, {vector, like}, {{"axis", "1"}}); }
  /// A statistic with the axes of `like`, which has one element for each.
  Value keep(Value statistic, Value like) { return rule.emit(kReshapeLike, {statistic, like}); }
  /// Undoes `keep`: the axes of one element are summed away.
  Value perRow(Value kept) { return rule.emit(kSum, {kept}, {{"axis", "(0,1)"}, {"exclude", "True"}}); }

 protected:
  RuleContext &rule;

 private:
  Value overElements(const OpDef &op, Value v) {
    return rule.emit(op, {v}, {{"axis", "(0,1)"}, {"exclude", "True"}, {"keepdims", "True"}});
  }
};

/// The gradient: that of `fused` through output 0 and, for the data, also that through the statistics unless they are
/// constants. Either is called only if a gradient arrives there.
inline void normalizationGradient(GradRule &g, bool areConstants, llvm::function_ref<Value()> fused,
                                  llvm::function_ref<Value()> throughStatistics) {
  const bool hasDirect = !g.isZero(0), hasStatistics = (!g.isZero(1) || !g.isZero(2)) && g.wants(0) && !areConstants;
  Value dx;
  if (hasDirect) dx = fused();
  for (size_t i = hasStatistics ? 1 : 0; i < g.numInputs() && !hasDirect; ++i) g.noGrad(i);
  if (!hasStatistics) return;
  const Value extra = throughStatistics();
  g.dx(0, hasDirect ? g.emit(kElemwiseAdd, {dx, extra}) : extra);
}

}  // namespace gradc
