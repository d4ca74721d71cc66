// The condition of a loop or branch: a single element of any type that has kernels.
#pragma once

#include "ir/tensor/tensor.h"

#include <optional>

namespace gradc {

/// Whether the element is not 0; true for NaN. Nullopt for a type without kernels.
inline std::optional<bool> isTrue(const TensorRef &decision) {
  switch (decision.dtype) {
    case DType::Float32: return *decision.as<float>() != 0;
    case DType::Float64: return *decision.as<double>() != 0;
    case DType::Bool:
    case DType::UInt8:
    case DType::Int8: return *decision.as<uint8_t>() != 0;
    case DType::Int16:
    case DType::UInt16: return *decision.as<uint16_t>() != 0;
    case DType::Int32:
    case DType::UInt32: return *decision.as<uint32_t>() != 0;
    case DType::Int64:
    case DType::UInt64: return *decision.as<uint64_t>() != 0;
    case DType::Float16:
    case DType::BFloat16: return (*decision.as<uint16_t>() & 0x7fff) != 0;  // neither 0 nor −0
    case DType::Unknown: break;
  }
  return std::nullopt;
}

}  // namespace gradc
