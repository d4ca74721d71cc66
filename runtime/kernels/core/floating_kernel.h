// Kernels that are templates over the element type. Tested by tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "runtime/kernels/core/prepared_kernel.h"

namespace gradc::fast {

/// What `make` returns for a zero of the floating `type`; null for other types, which the reference kernel computes.
template <class Make> std::unique_ptr<PreparedKernel> ofFloatingType(DType type, Make make) {
  if (type == DType::Float32) return make(float{0});
  if (type == DType::Float64) return make(double{0});
  return nullptr;
}

/// A `Kernel<T>` made of the arguments, where T is the floating `type`; null for other types.
template <template <class> class Kernel, class... Args>
std::unique_ptr<PreparedKernel> floatingKernel(DType type, const Args &...args) {
  return ofFloatingType(type, [&](auto zero) { return std::make_unique<Kernel<decltype(zero)>>(args...); });
}

}  // namespace gradc::fast
