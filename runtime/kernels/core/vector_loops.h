// Loops over elements that the compiler vectorises for the machine they run on, divided among threads.
// Tested by tests/runtime/kernels/instruction_sets_test.cc, tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ops/kit/loops.h"
#include "runtime/kernels/core/threads.h"

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace gradc::fast {

/// parallelFor over loops in plain C++ (ir/base/instruction_sets.h).
template <class F> void vectorFor(unsigned threads, int64_t size, int64_t grain, const F &body) {
  parallelFor(threads, size, grain, [&](int64_t begin, int64_t end) { onMachine([=] { body(begin, end); }); });
}

/// `x` if `sign` > 0, otherwise 0. Computed in integers, because compilers turn a comparison into a masked load, which
/// processors do not prefetch. The bits of a positive number are at least 1 and at most those of infinity.
template <class T> T keptWhere(T sign, T x) {
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  using Wrapping = std::make_unsigned_t<Bits>;
  constexpr Wrapping kInfinity = std::bit_cast<Wrapping>(std::numeric_limits<T>::infinity());
  const Wrapping bits = std::bit_cast<Wrapping>(sign), outside = bits | (bits - 1) | (kInfinity - bits);
  const Bits dropped = static_cast<Bits>(outside) >> (8 * sizeof(T) - 1);
  return std::bit_cast<T>(std::bit_cast<Bits>(x) & ~dropped);
}

}  // namespace gradc::fast
