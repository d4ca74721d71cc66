// Element access by dtype. Tested by tests/runtime/session_test.cc
#include "runtime/arrays/elements.h"

#include "ir/base/number.h"
#include "ir/tensor/half.h"

#include "llvm/Support/ErrorHandling.h"

#include <cmath>
#include <cstring>

namespace gradc {
namespace {

/// Distinct types, so that halves are not taken for the 16-bit integer they are stored in.
template <DType type> struct Half {
  uint16_t bits;
};
using Float16 = Half<DType::Float16>;
using BFloat16 = Half<DType::BFloat16>;

/// Also a distinct type: every nonzero byte is true, and kernels that add and multiply bools store values other than 1.
struct Flag {
  uint8_t byte;
};

double widen(Float16 value) { return float16ToFloat(value.bits); }
double widen(BFloat16 value) { return bfloat16ToFloat(value.bits); }
double widen(Flag value) { return value.byte != 0; }
template <class T> double widen(T value) { return static_cast<double>(value); }

template <class T> T narrow(double value) {
  if constexpr (std::is_same_v<T, Float16>) return T{doubleToHalf(DType::Float16, value)};
  else if constexpr (std::is_same_v<T, BFloat16>) return T{doubleToHalf(DType::BFloat16, value)};
  else if constexpr (std::is_same_v<T, Flag>) return Flag{convertNumber<bool>(value)};
  else return convertNumber<T>(value);
}

/// Calls `use` with a null pointer of the element type.
template <class F> decltype(auto) withType(DType type, F use) {
  switch (type) {
    case DType::Float32: return use(static_cast<float *>(nullptr));
    case DType::Float64: return use(static_cast<double *>(nullptr));
    case DType::Float16: return use(static_cast<Float16 *>(nullptr));
    case DType::UInt8: return use(static_cast<uint8_t *>(nullptr));
    case DType::Int32: return use(static_cast<int32_t *>(nullptr));
    case DType::Int8: return use(static_cast<int8_t *>(nullptr));
    case DType::Int64: return use(static_cast<int64_t *>(nullptr));
    case DType::Bool: return use(static_cast<Flag *>(nullptr));
    case DType::Int16: return use(static_cast<int16_t *>(nullptr));
    case DType::UInt16: return use(static_cast<uint16_t *>(nullptr));
    case DType::UInt32: return use(static_cast<uint32_t *>(nullptr));
    case DType::UInt64: return use(static_cast<uint64_t *>(nullptr));
    case DType::BFloat16: return use(static_cast<BFloat16 *>(nullptr));
    case DType::Unknown: break;
  }
  llvm_unreachable("no element access for this dtype");
}

/// Integers do not go through double: they are rounded to float32 once, and wrap around in another integer type.
template <class From, class To> To convert(From value) {
  if constexpr (std::is_integral_v<From> && std::is_arithmetic_v<To>) return static_cast<To>(value);
  else return narrow<To>(widen(value));
}

template <class T> void addTyped(const TensorRef &from, const TensorRef &to) {
  T *sum = to.as<T>();
  const T *term = from.as<T>();
  for (int64_t i = 0, size = to.size(); i < size; ++i) sum[i] = static_cast<T>(sum[i] + term[i]);
}

template <auto Widen, auto Narrow> void addHalves(const TensorRef &from, const TensorRef &to) {
  uint16_t *sum = to.as<uint16_t>();
  const uint16_t *term = from.as<uint16_t>();
  for (int64_t i = 0, size = to.size(); i < size; ++i) sum[i] = Narrow(Widen(sum[i]) + Widen(term[i]));
}

}  // namespace

double readElement(const TensorRef &tensor, int64_t index) {
  return withType(tensor.dtype, [&](auto *type) {
    using T = std::remove_pointer_t<decltype(type)>;
    return widen(tensor.as<T>()[index]);
  });
}

void writeElement(const TensorRef &tensor, int64_t index, double value) {
  withType(tensor.dtype, [&](auto *type) {
    using T = std::remove_pointer_t<decltype(type)>;
    tensor.as<T>()[index] = narrow<T>(value);
  });
}

void convertElements(const TensorRef &from, const TensorRef &to) {
  assert(from.size() == to.size());
  int64_t size = from.size();
  if (from.dtype == to.dtype) {
    if (size != 0) std::memcpy(to.data, from.data, from.bytes());
    return;
  }
  withType(from.dtype, [&](auto *source) {
    using From = std::remove_pointer_t<decltype(source)>;
    withType(to.dtype, [&](auto *target) {
      using To = std::remove_pointer_t<decltype(target)>;
      for (int64_t i = 0; i < size; ++i) to.as<To>()[i] = convert<From, To>(from.as<From>()[i]);
    });
  });
}

void addElements(const TensorRef &from, const TensorRef &to) {
  switch (to.dtype) {
    case DType::Float32: return addTyped<float>(from, to);
    case DType::Float64: return addTyped<double>(from, to);
    case DType::Float16: return addHalves<float16ToFloat, floatToFloat16>(from, to);
    case DType::BFloat16: return addHalves<bfloat16ToFloat, floatToBFloat16>(from, to);
    // Two's complement: one addition serves both signs.
    case DType::Int8:
    case DType::UInt8: return addTyped<uint8_t>(from, to);
    case DType::Int16:
    case DType::UInt16: return addTyped<uint16_t>(from, to);
    case DType::Int32:
    case DType::UInt32: return addTyped<uint32_t>(from, to);
    case DType::Int64:
    case DType::UInt64: return addTyped<uint64_t>(from, to);
    default: llvm_unreachable("callers refuse other types");
  }
}

}  // namespace gradc
