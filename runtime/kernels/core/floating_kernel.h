// Kernels that are templates over the element type. Tested by tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "runtime/kernels/core/prepared_kernel.h"

namespace gradc::fast {

/// A `Kernel<T>` made of the arguments, where T is the floating `type`; null for other types, which the reference
/// kernel computes.
template <template <class> class Kernel, class... Args>
std::unique_ptr<PreparedKernel> floatingKernel(DType type, const Args &...args) {
  if (type == DType::Float32) return std::make_unique<Kernel<float>>(args...);
  if (type == DType::Float64) return std::make_unique<Kernel<double>>(args...);
  return nullptr;
}

}  // namespace gradc::fast
