// Kernels of functions of one, two or three elements, in either precision. All operands have the same layout, so they
// are flat lists here. Tested by tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "runtime/kernels/core/prepared_kernel.h"
#include "runtime/kernels/core/vector_loops.h"

#include <type_traits>

namespace gradc::fast {

inline constexpr int64_t kElementGrain = 16384;  // fewer elements are not worth a second thread

/// Calls visit(i) for every element, divided among threads.
template <class F> void mapElements(int64_t size, unsigned threads, F visit) {
  vectorFor(threads, size, kElementGrain, [=](int64_t begin, int64_t end) {
    GRADC_INDEPENDENT
    for (int64_t i = begin; i < end; ++i) visit(i);
  });
}

/// y = F(a[, b[, c]]); b is input `Second`.
template <class T, auto F, size_t Second> class ElementKernel : public PartwiseKernel {
 public:
  using PartwiseKernel::PartwiseKernel;
  void run(const KernelCall &call) override {
    const T *a = call.in[0].as<const T>();
    T *y = call.out[0].as<T>();
    if constexpr (std::is_invocable_v<decltype(F), T>) {
      mapElements(call.out[0].size(), threads, [=](int64_t i) { y[i] = static_cast<T>(F(a[i])); });
    } else if constexpr (std::is_invocable_v<decltype(F), T, T>) {
      const T *b = call.in[Second].as<const T>();
      mapElements(call.out[0].size(), threads, [=](int64_t i) { y[i] = static_cast<T>(F(a[i], b[i])); });
    } else {
      const T *b = call.in[1].as<const T>(), *c = call.in[2].as<const T>();
      mapElements(call.out[0].size(), threads, [=](int64_t i) { y[i] = static_cast<T>(F(a[i], b[i], c[i])); });
    }
  }
};

/// The kernel of a captureless generic lambda.
template <auto F, size_t Second = 1> std::unique_ptr<PreparedKernel> elementKernel(const KernelSite &site) {
  if (site.out[0].dtype == DType::Float32) return std::make_unique<ElementKernel<float, F, Second>>(site);
  if (site.out[0].dtype == DType::Float64) return std::make_unique<ElementKernel<double, F, Second>>(site);
  return nullptr;
}

}  // namespace gradc::fast
