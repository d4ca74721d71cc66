// Arrays of samples as tensors of the tape.
#pragma once

#include "imperative/imperative.h"
#include "tests/support/ops/naive.h"

#include <gtest/gtest.h>

namespace gradc::testing {

/// An array as a tensor of a type, which is float32, float64, int32 or int64.
inline Tensor tensorOf(Imperative &im, const Array &array, DType type) {
  Tensor tensor = llvm::cantFail(im.make(array.shape, type));
  for (size_t i = 0; i < array.values.size(); ++i) {
    if (type == DType::Float32) tensor.data<float>()[i] = static_cast<float>(array.values[i]);
    else if (type == DType::Float64) tensor.data<double>()[i] = array.values[i];
    else if (type == DType::Int32) tensor.data<int32_t>()[i] = static_cast<int32_t>(array.values[i]);
    else if (type == DType::Int64) tensor.data<int64_t>()[i] = static_cast<int64_t>(array.values[i]);
    else ADD_FAILURE() << "no values of type " << dtypeName(type).str();
  }
  return tensor;
}

}  // namespace gradc::testing
