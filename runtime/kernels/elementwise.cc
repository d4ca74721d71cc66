// Element by element kernels: loops the compiler vectorises, shared among threads. Exponentials of float32 are oneDNN's.
//
// Operands have one layout, so they are flat lists here. Tested by tests/fast_kernels_test.cc
#include "ops/kernel_dispatch.h"
#include "ops/layer_attrs.h"
#include "ops/loops.h"
#include "runtime/kernels/dnnl_descs.h"
#include "runtime/kernels/exponential.h"
#include "runtime/kernels/factories.h"
#include "runtime/kernels/threads.h"

#include <algorithm>
#include <cstring>

using namespace llvm;

namespace gradc::fast {
namespace {

constexpr int64_t kGrain = 16384;  // elements below which a second thread costs more than it saves
constexpr int64_t kBlock = 512;    // elements of a sum kept at hand

template <class T, auto F> class UnaryKernel : public PreparedKernel {
 public:
  explicit UnaryKernel(const KernelSite &site) : threads(site.threads) {}
  void run(const KernelCall &call) override {
    const T *x = call.in[0].as<const T>();
    T *y = call.out[0].as<T>();
    parallelFor(threads, call.out[0].size(), kGrain, [=](int64_t begin, int64_t end) {
      GRADC_INDEPENDENT
      for (int64_t i = begin; i < end; ++i) y[i] = F(x[i]);
    });
  }

 private:
  unsigned threads;
};

template <class T, auto F> class BinaryKernel : public PreparedKernel {
 public:
  explicit BinaryKernel(const KernelSite &site) : threads(site.threads) {}
  void run(const KernelCall &call) override {
    const T *a = call.in[0].as<const T>(), *b = call.in[1].as<const T>();
    T *y = call.out[0].as<T>();
    parallelFor(threads, call.out[0].size(), kGrain, [=](int64_t begin, int64_t end) {
      GRADC_INDEPENDENT
      for (int64_t i = begin; i < end; ++i) y[i] = F(a[i], b[i]);
    });
  }

 private:
  unsigned threads;
};

/// Sums are taken in the order of the operands, as the reference kernel takes them.
template <class T> class SumKernel : public PreparedKernel {
 public:
  explicit SumKernel(const KernelSite &site) : threads(site.threads) {}
  void run(const KernelCall &call) override {
    parallelFor(threads, call.out[0].size(), kGrain, [&](int64_t begin, int64_t end) {
      for (; begin < end; begin += kBlock) addBlock(call, begin, std::min(kBlock, end - begin));
    });
  }

 private:
  static void addBlock(const KernelCall &call, int64_t begin, int64_t size) {
    T sum[kBlock];
    std::memcpy(sum, call.in[0].as<const T>() + begin, static_cast<size_t>(size) * sizeof(T));
    for (const TensorRef &operand : call.in.drop_front()) {
      const T *term = operand.as<const T>() + begin;
      for (int64_t i = 0; i < size; ++i) sum[i] += term[i];
    }
    std::memcpy(call.out[0].as<T>() + begin, sum, static_cast<size_t>(size) * sizeof(T));
  }

  unsigned threads;
};

class CopyKernel : public PreparedKernel {
 public:
  explicit CopyKernel(const KernelSite &site) : threads(site.threads) {}
  void run(const KernelCall &call) override {
    const char *from = call.in[0].as<const char>();
    char *to = call.out[0].as<char>();
    if (from == to) return;
    parallelFor(threads, static_cast<int64_t>(call.out[0].bytes()), kGrain * 8, [=](int64_t begin, int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
    });
  }

 private:
  unsigned threads;
};

class EltwiseKernel : public PreparedKernel {
 public:
  EltwiseKernel(const KernelSite &site, dnnl::algorithm algorithm, float alpha) {
    using Forward = dnnl::eltwise_forward;
    const dnnl::memory::desc flat = denseDesc(site.out[0].size(), Layout::Plain);
    const Forward::primitive_desc desc = elementwiseDescOf(algorithm, flat, alpha);
    step.input(DNNL_ARG_SRC, flat, flat);
    step.output(DNNL_ARG_DST, flat, flat);
    step.finish(Forward(desc), desc.scratchpad_desc());
  }
  void run(const KernelCall &call) override { step.run({call.in[0].data, call.out[0].data}, call.workspace); }
  size_t workspaceBytes() const override { return step.bytes(); }

 private:
  DnnlStep step;
};

template <auto F> std::unique_ptr<PreparedKernel> unary(const KernelSite &site) {
  if (site.out[0].dtype == DType::Float32) return std::make_unique<UnaryKernel<float, F>>(site);
  if (site.out[0].dtype == DType::Float64) return std::make_unique<UnaryKernel<double, F>>(site);
  return nullptr;
}

template <auto F> std::unique_ptr<PreparedKernel> binary(const KernelSite &site) {
  if (site.out[0].dtype == DType::Float32) return std::make_unique<BinaryKernel<float, F>>(site);
  if (site.out[0].dtype == DType::Float64) return std::make_unique<BinaryKernel<double, F>>(site);
  return nullptr;
}

/// oneDNN's function for float32, the reference kernel's otherwise.
std::unique_ptr<PreparedKernel> eltwise(const KernelSite &site, dnnl::algorithm algorithm) {
  if (site.out[0].dtype != DType::Float32) return sliced(site);
  std::unique_ptr<PreparedKernel> kernel;
  if (!guarded([&] { kernel = std::make_unique<EltwiseKernel>(site, algorithm, 0.0f); })) return sliced(site);
  return kernel;
}

}  // namespace

std::unique_ptr<PreparedKernel> exponential(const KernelSite &site) {
  return eltwise(site, dnnl::algorithm::eltwise_exp);
}
std::unique_ptr<PreparedKernel> sigmoid(const KernelSite &site) {
  return eltwise(site, dnnl::algorithm::eltwise_logistic);
}
std::unique_ptr<PreparedKernel> tangent(const KernelSite &site) { return eltwise(site, dnnl::algorithm::eltwise_tanh); }

std::unique_ptr<PreparedKernel> errorFunction(const KernelSite &site) {
  return unary<[](auto x) { return errorFunction(x); }>(site);
}
// Inputs dy, x.
std::unique_ptr<PreparedKernel> errorFunctionBackward(const KernelSite &site) {
  return binary<[](auto dy, auto x) {
    return dy * (static_cast<decltype(x)>(1.1283791670955125739) * expOfNonPositive(-x * x));
  }>(site);
}

// NaN stays NaN.
std::unique_ptr<PreparedKernel> relu(const KernelSite &site) {
  return unary<[](auto x) { return x <= 0 ? decltype(x){0} : x; }>(site);
}

// Inputs dy, y.
std::unique_ptr<PreparedKernel> reluBackward(const KernelSite &site) {
  return binary<[](auto dy, auto y) { return (y > 0) ? dy : decltype(dy){0}; }>(site);
}

std::unique_ptr<PreparedKernel> activation(const KernelSite &site) {
  switch (activationType(*site.kind)) {
    case ActType::Relu: return relu(site);
    case ActType::Sigmoid: return sigmoid(site);
    case ActType::Tanh: return tangent(site);
    default: return sliced(site);
  }
}

std::unique_ptr<PreparedKernel> activationBackward(const KernelSite &site) {
  switch (activationType(*site.kind)) {
    case ActType::Relu: return reluBackward(site);
    case ActType::Sigmoid: return binary<[](auto dy, auto y) { return dy * (y * (1 - y)); }>(site);
    case ActType::Tanh: return binary<[](auto dy, auto y) { return dy * (1 - y * y); }>(site);
    default: return sliced(site);
  }
}

std::unique_ptr<PreparedKernel> add(const KernelSite &site) {
  if (site.in.size() == 2) return binary<[](auto a, auto b) { return a + b; }>(site);
  if (site.out[0].dtype == DType::Float32) return std::make_unique<SumKernel<float>>(site);
  if (site.out[0].dtype == DType::Float64) return std::make_unique<SumKernel<double>>(site);
  return nullptr;
}

std::unique_ptr<PreparedKernel> subtract(const KernelSite &site) {
  return binary<[](auto a, auto b) { return a - b; }>(site);
}

std::unique_ptr<PreparedKernel> multiply(const KernelSite &site) {
  return binary<[](auto a, auto b) { return a * b; }>(site);
}

std::unique_ptr<PreparedKernel> copy(const KernelSite &site) { return std::make_unique<CopyKernel>(site); }

}  // namespace gradc::fast
