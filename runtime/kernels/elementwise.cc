// Element-wise sums, products, relu and copies. Tested by tests/fast_kernels_test.cc
#include "ops/kernel_dispatch.h"
#include "runtime/kernels/element_kernels.h"
#include "runtime/kernels/factories.h"

#include <algorithm>
#include <cstring>

using namespace llvm;

namespace gradc::fast {
namespace {

constexpr int64_t kBlock = 512;  // elements of a sum held in an array

/// Adds in the order of the operands, as the reference kernel does.
template <class T> class SumKernel : public PreparedKernel {
 public:
  explicit SumKernel(const KernelSite &site) : threads(site.threads) {}
  void run(const KernelCall &call) override {
    vectorFor(threads, call.out[0].size(), kElementGrain, [&](int64_t begin, int64_t end) {
      for (; begin < end; begin += kBlock) addBlock(call, begin, std::min(kBlock, end - begin));
    });
  }
  bool takesParts() const override { return true; }

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
    parallelFor(threads, static_cast<int64_t>(call.out[0].bytes()), kElementGrain * 8, [=](int64_t begin, int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
    });
  }
  bool takesParts() const override { return true; }

 private:
  unsigned threads;
};

}  // namespace

// NaN stays NaN.
std::unique_ptr<PreparedKernel> relu(const KernelSite &site) {
  return elementKernel<[](auto x) { return x <= 0 ? decltype(x){0} : x; }>(site);
}

// Inputs dy, y.
std::unique_ptr<PreparedKernel> reluBackward(const KernelSite &site) {
  return elementKernel<[](auto dy, auto y) { return keptWhere(y, dy); }>(site);
}

std::unique_ptr<PreparedKernel> add(const KernelSite &site) {
  if (site.in.size() == 2) return elementKernel<[](auto a, auto b) { return a + b; }>(site);
  if (site.out[0].dtype == DType::Float32) return std::make_unique<SumKernel<float>>(site);
  if (site.out[0].dtype == DType::Float64) return std::make_unique<SumKernel<double>>(site);
  return nullptr;
}

std::unique_ptr<PreparedKernel> subtract(const KernelSite &site) {
  return elementKernel<[](auto a, auto b) { return a - b; }>(site);
}

std::unique_ptr<PreparedKernel> multiply(const KernelSite &site) {
  return elementKernel<[](auto a, auto b) { return a * b; }>(site);
}

std::unique_ptr<PreparedKernel> copy(const KernelSite &site) { return std::make_unique<CopyKernel>(site); }

}  // namespace gradc::fast
