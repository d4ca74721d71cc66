// Whether work grows as its input does and no faster, by the clock of the processor, without constants added.
#pragma once

#include "ir/base/process_memory.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>

namespace gradc::testing {

/// Seconds of processor time; the best of three.
inline double secondsOf(llvm::function_ref<void()> work) {
  double best = HUGE_VAL;
  for (int round = 0; round < 3; ++round) {
    const std::clock_t start = std::clock();
    work();
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return best;
}

/// Sixteen times as much may take 40 times as long: 16, and what a larger graph loses in the caches, which has been up
/// to 31 on a machine with busy neighbours. n^1.33 would be 40 times, a square 256 times. What else runs on the machine
/// may take the caches or the processor away from one of the two, so they are measured one after the other until it
/// holds, or an eighth attempt fails.
inline constexpr double kMostTimes = 40;

inline void expectLinear(uint32_t n, llvm::function_ref<double(uint32_t)> secondsFor) {
  keepFreedMemory();
  double small = 0, large = 0;
  for (int attempt = 0; attempt < 8; ++attempt) {
    small = secondsFor(n), large = secondsFor(16 * n);
    if (large < kMostTimes * small) return;
  }
  ADD_FAILURE() << small << " s for " << n << ", " << large << " s for sixteen times as many: " << large / small
                << " times";
}

}  // namespace gradc::testing
