// Loops over elements that the compiler vectorises for whatever machine they run on, shared among threads.
// Tested by tests/instruction_sets_test.cc, tests/fast_kernels_test.cc
#pragma once

#include "runtime/kernels/instruction_sets.h"
#include "ops/loops.h"
#include "runtime/kernels/threads.h"

namespace gradc::fast {

/// parallelFor over loops in plain C++ (runtime/kernels/instruction_sets.h).
template <class F> void vectorFor(unsigned threads, int64_t size, int64_t grain, const F &body) {
  parallelFor(threads, size, grain, [&](int64_t begin, int64_t end) { onMachine([=] { body(begin, end); }); });
}

}  // namespace gradc::fast
