// Whether work grows as its input does and no faster, by the clock of the processor, without constants added.
//
// Sixteen times as much work may take sixteen times as long, and a quarter more than that. A larger graph also falls out of
// the caches, which alone can double the time of a pass; so plain passes over as much memory are timed beside the work, and
// what they lose is divided out. Tested by tests/linear_time_test.cc
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace gradc::testing {

/// Seconds of processor time; the best of three.
double secondsOf(llvm::function_ref<void()> work);

/// The memory that `work` touches.
size_t bytesOf(llvm::function_ref<void()> work);

/// How many times longer plain passes take over a byte of the larger memory.
double cacheLoss(size_t small, size_t large);

struct LinearTime {
  double small = 0, large = 0;  // of the work
  double loss = 1;              // of caches

  /// For 16 times as much, less what the caches lose. n^1.2 would be 28 times, a square 256 times.
  double times() const { return large / small / loss; }
  bool isLinear() const { return times() < kMostTimes; }

  static constexpr double kMostTimes = 20;
};

/// The least times of up to eight attempts, until they are linear: what else runs on the machine may take the caches or the
/// processor away from either.
LinearTime linearTimeOf(uint32_t n, llvm::function_ref<double(uint32_t)> secondsFor);

void expectLinear(uint32_t n, llvm::function_ref<double(uint32_t)> secondsFor);

}  // namespace gradc::testing
