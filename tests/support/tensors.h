// Arrays written as lists, and errors by kind, for tests of the runtime.
#pragma once

#include "ir/base/error.h"
#include "runtime/arrays/npy.h"

#include <cstring>

namespace gradc {

template <class T> Array arrayOf(DType dtype, std::vector<int64_t> shape, std::vector<T> values) {
  Array array{dtype, std::move(shape), std::vector<char>(values.size() * sizeof(T))};
  if (!values.empty()) std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
  return array;
}
inline Array floats(std::vector<int64_t> shape, std::vector<float> values) {
  return arrayOf(DType::Float32, std::move(shape), std::move(values));
}
inline Array doubles(std::vector<int64_t> shape, std::vector<double> values) {
  return arrayOf(DType::Float64, std::move(shape), std::move(values));
}

template <class T> std::vector<T> valuesOf(const TensorRef &tensor) {
  return std::vector<T>(tensor.as<T>(), tensor.as<T>() + tensor.size());
}
template <class T> std::vector<T> valuesOf(const Array &array) {
  std::vector<T> values(array.bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}

/// The GradcError inside `error`; an error of kind Internal called "success" for success.
inline GradcError errorOf(llvm::Error error) {
  GradcError found(ErrorKind::Internal, "success");
  llvm::handleAllErrors(std::move(error), [&](const GradcError &info) { found = info; });
  return found;
}
template <class T> GradcError errorOf(llvm::Expected<T> value) {
  return value ? GradcError(ErrorKind::Internal, "success") : errorOf(value.takeError());
}

}  // namespace gradc
