// Processor time for sixteen times as much, compared with sixteen times the processor time.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

#include <gtest/gtest.h>

#include <cmath>
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

/// `secondsFor(n)`, twice. A square would be a factor of 256; caches are allowed 2.5. Other work on
/// the machine may cost one of the two its caches, so there are three attempts.
inline void expectLinear(uint32_t n, llvm::function_ref<double(uint32_t)> secondsFor) {
  double small = 0, large = 0;
  for (int attempt = 0; attempt < 3; ++attempt) {
    small = secondsFor(n), large = secondsFor(16 * n);
    if (large < 40 * small) break;
  }
  EXPECT_LT(large, 40 * small) << small << " s for " << n << ", " << large << " s for sixteen times as many";
}

}  // namespace gradc::testing
