// Exponentials, logarithms, circular functions and activations made of them, and their gradients: the functions of
// runtime/kernels/elementwise/float_functions.h and float_activations.h in loops. sigmoid and tanh of float32 are
// oneDNN's; its exp is not used, because it turns a NaN into infinity. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#include "runtime/kernels/elementwise/float_activations.h"

#include "ops/elementwise/activation.h"
#include "ops/elementwise/formula.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/dnnl/dnnl_descs.h"
#include "runtime/kernels/elementwise/arithmetic.h"
#include "runtime/kernels/elementwise/element_kernels.h"
#include "runtime/kernels/elementwise/elementwise.h"
#include "runtime/kernels/elementwise/functions.h"

#include <algorithm>

using namespace llvm;

namespace gradc::fast {
namespace {

template <class T> T absolute(T x) { return x < 0 ? -x : x; }

/// y = F(a[, b]), where F takes the sine or cosine of its last operand, block by block. Blocks with a number beyond
/// kReducible use `Any` instead; where both are valid, they give the same bits.
template <class T, auto F, auto Any> class CircularKernel : public PartwiseKernel {
 public:
  using PartwiseKernel::PartwiseKernel;
  void run(const KernelCall &call) override {
    const T *a = call.in[0].as<const T>(), *x = call.in.back().as<const T>();
    T *y = call.out[0].as<T>();
    vectorFor(threads, call.out[0].size(), kElementGrain, [=](int64_t begin, int64_t end) {
      for (; begin < end; begin += kBlock) {
        const int64_t last = std::min(begin + kBlock, end);
        int numFar = 0;
        for (int64_t i = begin; i < last; ++i) numFar += !(absolute(x[i]) <= static_cast<T>(math::kReducible));
        if (numFar != 0) {
          for (int64_t i = begin; i < last; ++i) y[i] = Any(a[i], x[i]);
          continue;
        }
        GRADC_INDEPENDENT
        for (int64_t i = begin; i < last; ++i) y[i] = F(a[i], x[i]);
      }
    });
  }

 private:
  static constexpr int64_t kBlock = 512;
};

template <auto F, auto Any> std::unique_ptr<PreparedKernel> circular(const KernelSite &site) {
  return ofFloatingType(site.out[0].dtype,
                        [&](auto zero) { return std::make_unique<CircularKernel<decltype(zero), F, Any>>(site); });
}

class EltwiseKernel : public PreparedKernel {
 public:
  EltwiseKernel(const KernelSite &site, dnnl::algorithm algorithm) {
    using Forward = dnnl::eltwise_forward;
    const dnnl::memory::desc flat = denseDesc(site.out[0].size(), Layout::Plain);
    const Forward::primitive_desc desc = elementwiseDescOf(algorithm, flat, 0.0f);
    step.input(DNNL_ARG_SRC, flat, flat);
    step.output(DNNL_ARG_DST, flat, flat);
    step.finish(Forward(desc), desc.scratchpad_desc());
  }
  void run(const KernelCall &call) override { step.run({call.in[0].data, call.out[0].data}, call.workspace); }
  size_t workspaceBytes() const override { return step.bytes(); }

 private:
  DnnlStep step;
};

/// oneDNN's function for float32 if it has one, else F.
template <auto F> std::unique_ptr<PreparedKernel> byDnnl(const KernelSite &site, dnnl::algorithm algorithm) {
  std::unique_ptr<PreparedKernel> kernel;
  const bool isMade = site.out[0].dtype == DType::Float32 &&
                      guarded(site, [&] { kernel = std::make_unique<EltwiseKernel>(site, algorithm); });
  return isMade ? std::move(kernel) : elementKernel<F>(site);
}

constexpr auto kExp = [](auto x) { return math::exp(x); };
constexpr auto kSigmoid = [](auto x) { return math::sigmoid(x); };
constexpr auto kTanh = [](auto x) { return math::tanh(x); };

}  // namespace

// Inputs dy, x.
constexpr KernelFactory exponentialLessOneBackward = elementKernel<[](auto dy, auto x) { return dy * math::exp(x); }>;
constexpr KernelFactory logarithm = elementKernel<[](auto x) { return math::log(x); }>;
constexpr KernelFactory logarithmOfOneMore = elementKernel<[](auto x) { return math::log1p(x); }>;
std::unique_ptr<PreparedKernel> sigmoid(const KernelSite &site) {
  return byDnnl<kSigmoid>(site, dnnl::algorithm::eltwise_logistic);
}
std::unique_ptr<PreparedKernel> tanhKernel(const KernelSite &site) {
  return byDnnl<kTanh>(site, dnnl::algorithm::eltwise_tanh);
}

constexpr KernelFactory sine =
    circular<[](auto, auto x) { return math::sin(x); }, [](auto, auto x) { return math::sinOfAny(x); }>;
constexpr KernelFactory cosine =
    circular<[](auto, auto x) { return math::cos(x); }, [](auto, auto x) { return math::cosOfAny(x); }>;
// Inputs dy, x.
constexpr KernelFactory sineBackward =
    circular<[](auto dy, auto x) { return dy * math::cos(x); }, [](auto dy, auto x) { return dy * math::cosOfAny(x); }>;
constexpr KernelFactory cosineBackward = circular<[](auto dy, auto x) { return dy * -math::sin(x); },
                                                  [](auto dy, auto x) { return dy * -math::sinOfAny(x); }>;

// Inputs dy, x.
constexpr KernelFactory errorFunctionBackward = elementKernel<[](auto dy, auto x) {
  return dy * (static_cast<decltype(x)>(1.1283791670955125739) * math::expOfNonPositive(-x * x));
}>;

// Gradients have inputs dy, x.
constexpr KernelFactory logSigmoid = elementKernel<[](auto x) { return math::logSigmoid(x); }>;
constexpr KernelFactory logSigmoidBackward =
    elementKernel<[](auto dy, auto x) { return dy * math::logSigmoidSlope(x); }>;
constexpr KernelFactory silu = elementKernel<[](auto x) { return math::silu(x); }>;
constexpr KernelFactory siluBackward = elementKernel<[](auto dy, auto x) { return dy * math::siluSlope(x); }>;
constexpr KernelFactory mish = elementKernel<[](auto x) { return math::mish(x); }>;
constexpr KernelFactory mishBackward = elementKernel<[](auto dy, auto x) { return dy * math::mishSlope(x); }>;
std::unique_ptr<PreparedKernel> gelu(const KernelSite &site) {
  return elementKernel<[](auto x) { return math::gelu(x); }>(site);
}
std::unique_ptr<PreparedKernel> geluBackward(const KernelSite &site) {
  return elementKernel<[](auto dy, auto x) { return dy * math::geluSlope(x); }>(site);
}

std::unique_ptr<PreparedKernel> activation(const KernelSite &site) {
  switch (activationType(*site.kind)) {
    case ActType::Relu: return relu(site);
    case ActType::Sigmoid: return sigmoid(site);
    case ActType::Tanh: return tanhKernel(site);
    case ActType::Softrelu: return elementKernel<[](auto x) { return math::softplus(x); }>(site);
    case ActType::Softsign: return elementKernel<[](auto x) { return softsign(x); }>(site);
  }
  return nullptr;
}

// Inputs dy, y[, x]; softsign's reads x.
std::unique_ptr<PreparedKernel> activationBackward(const KernelSite &site) {
  switch (activationType(*site.kind)) {
    case ActType::Relu: return reluBackward(site);
    case ActType::Sigmoid: return sigmoidBackward(site);
    case ActType::Tanh: return tangentBackward(site);
    case ActType::Softrelu: return elementKernel<[](auto dy, auto y) { return dy * -math::expm1(-y); }>(site);
    case ActType::Softsign:
      return elementKernel<[](auto dy, auto x) {
        const auto root = 1 + std::abs(x);
        return dy * (1 / (root * root));
      },
                           2>(site);
  }
  return nullptr;
}

namespace {

constexpr FastKernelRow kRows[] = {
    {"Activation", activation, LayoutRole::Elements},
    {"LogisticRegressionOutput", sigmoid, LayoutRole::Plain},
    {"_backward_Activation", activationBackward, LayoutRole::Elements},
    {"_backward_cos", cosineBackward, LayoutRole::Elements},
    {"_backward_erf", errorFunctionBackward, LayoutRole::Elements},
    {"_backward_expm1", exponentialLessOneBackward, LayoutRole::Elements},
    {"_backward_gelu", geluBackward, LayoutRole::Elements},
    {"_backward_log_sigmoid", logSigmoidBackward, LayoutRole::Elements},
    {"_backward_mish", mishBackward, LayoutRole::Elements},
    {"_backward_silu", siluBackward, LayoutRole::Elements},
    {"_backward_sin", sineBackward, LayoutRole::Elements},
    {"cos", cosine, LayoutRole::Elements},
    {"erf", elementKernel<[](auto x) { return math::erf(x); }>, LayoutRole::Elements},
    {"exp", elementKernel<kExp>, LayoutRole::Elements},
    {"expm1", elementKernel<[](auto x) { return math::expm1(x); }>, LayoutRole::Elements},
    {"gelu", gelu, LayoutRole::Elements},
    {"log", logarithm, LayoutRole::Elements},
    {"log1p", logarithmOfOneMore, LayoutRole::Elements},
    {"log_sigmoid", logSigmoid, LayoutRole::Elements},
    {"mish", mish, LayoutRole::Elements},
    {"sigmoid", sigmoid, LayoutRole::Elements},
    {"silu", silu, LayoutRole::Elements},
    {"sin", sine, LayoutRole::Elements},
    {"tanh", tanhKernel, LayoutRole::Elements},
};

}  // namespace

constinit const FastKernels kFunctionsKernels = kRows;

}  // namespace gradc::fast
