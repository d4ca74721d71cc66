// From a dtype at run time to a template over the element type, for reference kernels.
//
//   dispatchFloating(call.out[0].dtype, [&](auto zero) { scale<decltype(zero)>(call); });
//
// Reference kernels exist for the types listed here; the executor refuses a node of any other type before it runs.
// Tested by tests/ops/nn_ops_test.cc
#pragma once

#include "ir/tensor/types.h"

#include "llvm/Support/ErrorHandling.h"

namespace gradc {

/// Element types `dispatchFloating` accepts.
constexpr bool isFloatingKernelType(DType type) { return type == DType::Float32 || type == DType::Float64; }

/// Calls `f` with a zero of the floating element type.
template <class F> void dispatchFloating(DType type, F &&f) {
  switch (type) {
    case DType::Float64: return f(double{0});
    case DType::Float32: return f(float{0});
    default: llvm_unreachable("reference kernels compute in float64 and float32");
  }
}

/// Calls `f` with a zero of the element type, integers and bool (as uint8_t) included.
template <class F> void dispatchNumeric(DType type, F &&f) {
  switch (type) {
    case DType::UInt8:
    case DType::Bool: return f(uint8_t{0});
    case DType::Int8: return f(int8_t{0});
    case DType::Int16: return f(int16_t{0});
    case DType::Int32: return f(int32_t{0});
    case DType::Int64: return f(int64_t{0});
    case DType::UInt16: return f(uint16_t{0});
    case DType::UInt32: return f(uint32_t{0});
    case DType::UInt64: return f(uint64_t{0});
    default: return dispatchFloating(type, f);
  }
}

}  // namespace gradc
