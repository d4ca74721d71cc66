// Loops over the elements of a kernel's operands. Tested by tests/runtime/kernels/fast_kernels_test.cc,
// tests/runtime/kernels/instruction_sets_test.cc
#pragma once

#include "ir/base/instruction_sets.h"

#include <type_traits>

// An output may be exactly the memory of an input and never overlaps one otherwise, so iterations are independent.
#if defined(__clang__)
#define GRADC_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define GRADC_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace gradc {

/// Calls visit(i) for every element. For elements of a floating type T, the loop is compiled for every instruction set;
/// what `visit` reads it captures by value.
template <class T, class F> void forElements(int64_t size, F visit) {
  auto loop = [=] {
    GRADC_INDEPENDENT
    for (int64_t i = 0; i < size; ++i) visit(i);
  };
  if constexpr (std::is_floating_point_v<T>) onMachine(loop);
  else loop();
}

}  // namespace gradc
