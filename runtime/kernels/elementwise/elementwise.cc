// Element-wise sums, products, relu and copies. Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/core/sliced.h"
#include "runtime/kernels/elementwise/element_kernels.h"
#include "runtime/kernels/elementwise/elementwise.h"

#include <algorithm>
#include <cstring>

using namespace llvm;

namespace gradc::fast {
namespace {

constexpr int64_t kBlock = 512;  // elements of a sum in an array

/// Adds in the order of the operands, as the reference kernel does.
template <class T> class SumKernel : public PartwiseKernel {
 public:
  using PartwiseKernel::PartwiseKernel;
  void run(const KernelCall &call) override {
    vectorFor(threads, call.out[0].size(), kElementGrain, [&](int64_t begin, int64_t end) {
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
};

class CopyKernel : public PartwiseKernel {
 public:
  using PartwiseKernel::PartwiseKernel;
  void run(const KernelCall &call) override {
    const char *from = call.in[0].as<const char>();
    char *to = call.out[0].as<char>();
    if (from == to) return;
    parallelFor(threads, static_cast<int64_t>(call.out[0].bytes()), kElementGrain * 8, [=](int64_t begin, int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
    });
  }
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
  return floatingKernel<SumKernel>(site.out[0].dtype, site);
}

std::unique_ptr<PreparedKernel> multiply(const KernelSite &site) {
  return elementKernel<[](auto a, auto b) { return a * b; }>(site);
}

std::unique_ptr<PreparedKernel> cast(const KernelSite &site) {
  return site.wants(0) ? referenceSlices(site, kElementGrain) : nullptr;
}

// Every element is the same number; the operand, if there is one, is not read.
std::unique_ptr<PreparedKernel> fill(const KernelSite &site) {
  return site.wants(0) ? referenceSlices(site, kElementGrain * 2) : nullptr;
}

std::unique_ptr<PreparedKernel> copy(const KernelSite &site) { return std::make_unique<CopyKernel>(site); }

namespace {

constexpr FastKernelRow kRows[] = {
    {"BlockGrad", copy, LayoutRole::Elements},
    {"Cast", cast, LayoutRole::Elements},
    {"Flatten", copy, LayoutRole::Plain},
    {"LinearRegressionOutput", copy, LayoutRole::Plain},
    {"MAERegressionOutput", copy, LayoutRole::Plain},
    {"Reshape", copy, LayoutRole::Plain},
    {"_as_rows", copy, LayoutRole::Plain},
    {"_backward_cast", cast, LayoutRole::Elements},
    {"_backward_copy", copy, LayoutRole::Plain},
    {"_backward_relu", reluBackward, LayoutRole::Elements},
    {"_backward_reshape", copy, LayoutRole::Plain},
    {"_backward_squeeze", copy, LayoutRole::Plain},
    {"_cast_like", cast, LayoutRole::Elements},
    {"_contrib_gradientmultiplier", copy, LayoutRole::Elements},
    {"_copy", copy, LayoutRole::Elements},
    {"_grad_add", add, LayoutRole::Elements},
    {"_identity_with_attr_like_rhs", copy, LayoutRole::Plain},
    {"add_n", add, LayoutRole::Elements},
    {"elemwise_add", add, LayoutRole::Elements},
    {"elemwise_mul", multiply, LayoutRole::Elements},
    {"elemwise_sub", elementKernel<[](auto a, auto b) { return a - b; }>, LayoutRole::Elements},
    {"expand_dims", copy, LayoutRole::Plain},
    {"ones_like", fill, LayoutRole::Elements},
    {"relu", relu, LayoutRole::Elements},
    {"reshape_like", copy, LayoutRole::Plain},
    {"squeeze", copy, LayoutRole::Plain},
    {"zeros_like", fill, LayoutRole::Elements},
};

}  // namespace

constinit const FastKernels kElementwiseKernels = kRows;

}  // namespace gradc::fast
