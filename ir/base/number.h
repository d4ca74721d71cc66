// Conversions and integer arithmetic without C++'s undefined cases: kernels meet every value that a file can contain.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace gradc {

/// Like static_cast, but a floating-point number that an integer type cannot hold becomes the nearest one it can, and
/// NaN becomes 0. As a bool, everything but 0 is true, NaN included.
template <class To, class From> constexpr To convertNumber(From value) {
  if constexpr (std::is_integral_v<To> && !std::is_same_v<To, bool> && std::is_floating_point_v<From>) {
    using Limits = std::numeric_limits<To>;
    // 2^digits, the first number above the range; the largest integer itself may not be representable.
    constexpr From above = static_cast<From>(uint64_t{1} << (Limits::digits - 1)) * 2;
    if (value != value) return 0;
    if (value >= above) return Limits::max();
    if (value <= static_cast<From>(Limits::min())) return Limits::min();
  }
  return static_cast<To>(value);
}

namespace detail {
// Unsigned, and no narrower than unsigned, so that promotion to int cannot make the arithmetic signed again.
template <class T> using Modular = std::make_unsigned_t<std::common_type_t<T, int>>;
}  // namespace detail

/// Sums, differences, products and negatives: modulo 2^bits for integers, as usual for floating-point numbers.
template <class T> constexpr T wrappingAdd(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<detail::Modular<T>>(a) + static_cast<detail::Modular<T>>(b));
  else return a + b;
}
template <class T> constexpr T wrappingSub(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<detail::Modular<T>>(a) - static_cast<detail::Modular<T>>(b));
  else return a - b;
}
template <class T> constexpr T wrappingMul(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<detail::Modular<T>>(a) * static_cast<detail::Modular<T>>(b));
  else return a * b;
}
template <class T> constexpr T wrappingNegate(T a) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(detail::Modular<T>{0} - static_cast<detail::Modular<T>>(a));
  else return -a;
}

}  // namespace gradc
