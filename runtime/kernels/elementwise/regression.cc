// Gradients of the regression outputs: the residual times a weight. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#include "ops/loss/regression_output.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/elementwise/element_kernels.h"
#include "runtime/kernels/elementwise/float_functions.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>

using namespace llvm;

namespace gradc::fast {
namespace {

/// dx = Residual(f, label, weight). Inputs f, label; MXNet's operators have inputs label, f, and a second output, the
/// zero gradient of the label.
template <class T, auto Residual, bool isMxnets> class ResidualKernel : public ThreadedKernel {
 public:
  explicit ResidualKernel(const KernelSite &site) : ThreadedKernel(site.threads) {}

  void run(const KernelCall &call) override {
    if (isMxnets && call.wants(1)) std::memset(call.out[1].data, 0, call.out[1].bytes());
    if (!call.wants(0)) return;
    const TensorRef &labels = call.in[!isMxnets];
    const T *f = call.in[isMxnets].as<const T>(), *label = labels.as<const T>();
    const T weight = static_cast<T>(regressionWeight(*call.kind, labels));
    T *dx = call.out[0].as<T>();
    mapElements(call.out[0].size(), threads, [=](int64_t i) { dx[i] = Residual(f[i], label[i], weight); });
  }
};

template <auto Residual, bool isMxnets> std::unique_ptr<PreparedKernel> residual(const KernelSite &site) {
  const DType type = site.out[0].dtype;
  if (any_of(site.in, [&](const TensorRef &in) { return in.dtype != type; })) return nullptr;
  return ofFloatingType(
      type, [&](auto zero) { return std::make_unique<ResidualKernel<decltype(zero), Residual, isMxnets>>(site); });
}

constexpr auto kDifference = [](auto f, auto label, auto weight) { return weight * (f - label); };
constexpr auto kDifferenceOfSigmoid = [](auto x, auto label, auto weight) {
  return weight * (math::sigmoid(x) - label);
};
constexpr auto kSign = [](auto f, auto label, auto weight) { return f > label ? weight : -weight; };

constexpr KernelFactory differenceRegressionBackward = residual<kDifference, true>;

constexpr FastKernelRow kRows[] = {
    {"_LinearRegressionOutput_grad", residual<kDifference, false>, LayoutRole::Plain},
    {"_LogisticRegressionOutput_grad", residual<kDifferenceOfSigmoid, false>, LayoutRole::Plain},
    {"_MAERegressionOutput_grad", residual<kSign, false>, LayoutRole::Plain},
    {"_backward_linear_reg_out", differenceRegressionBackward, LayoutRole::Plain},
    {"_backward_logistic_reg_out", differenceRegressionBackward, LayoutRole::Plain},
    {"_backward_mae_reg_out", residual<kSign, true>, LayoutRole::Plain},
};

}  // namespace

constinit const FastKernels kRegressionKernels = kRows;

}  // namespace gradc::fast
