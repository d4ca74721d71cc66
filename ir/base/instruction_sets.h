// Loops that are compiled once per instruction set and run with the best one that the machine has.
//
//   onMachine([=] {
//     GRADC_INDEPENDENT
//     for (int64_t i = begin; i < end; ++i) y[i] = a[i] + b[i];
//   });
//
// The body, with everything it calls that the compiler can see, is inlined into functions whose attributes enable more
// instructions, so each loop is written once, in plain C++, in the file it belongs to. No shared function is compiled
// for more than the baseline. Products and sums are not contracted, so all sets give the same bits on every machine.
//
// Lanes of a sum get their terms from an array, as in addRun of runtime/kernels/core/channel_loops.h. GCC before 12.4
// miscompiles the direct form for AVX2 and AVX-512 where a term is read under a condition (`x[i] > 0 ? 0 : y[i] *
// x[i]`): in a group of unrolled lanes the vectoriser forgets to permute masked loads (GCC bug 114375). Loops over
// elements have no such groups. Tested by tests/runtime/kernels/instruction_sets_test.cc
#pragma once

#include <cstdint>

namespace gradc {

enum class InstructionSet : uint8_t {
  Baseline,  // SSE2 on x86-64
  Avx2,      // and FMA and F16C, as every processor with AVX2 has
  Avx512,    // and F, DQ and VL
};

/// The set that loops use: the best that the machine has, up to the limit.
InstructionSet instructionSet();
/// Limits later calls of `onMachine` to `most`, on all threads: for tests and comparisons. Returns the set used before.
InstructionSet limitInstructions(InstructionSet most);

namespace detail {

// A body that is passed by value cannot alias the loop's stores: otherwise the compiler reloads its captures every
// time.

template <class F> void runBaseline(F body) { body(); }
#if defined(__x86_64__)
#if defined(__clang__)
#define GRADC_WIDE_VECTORS
#else
#define GRADC_WIDE_VECTORS ",prefer-vector-width=512"
#endif
template <class F> __attribute__((flatten, noinline, target("avx2"))) void runAvx2(F body) { body(); }
template <class F>
__attribute__((flatten, noinline, target("avx512f,avx512dq,avx512vl" GRADC_WIDE_VECTORS))) void runAvx512(
    const F &body) {
  body();
}
#undef GRADC_WIDE_VECTORS
#endif

}  // namespace detail

/// Runs `body`, a lambda around a loop that captures by value what the loop reads. The loop should call only inline
/// functions that do nothing but arithmetic.
template <class F> inline void onMachine(F body) {
#if defined(__x86_64__)
  switch (instructionSet()) {
    case InstructionSet::Avx512: return detail::runAvx512(body);
    case InstructionSet::Avx2: return detail::runAvx2(body);
    case InstructionSet::Baseline: break;
  }
#endif
  detail::runBaseline(body);
}

}  // namespace gradc
