// The draws of one RandomKey, for use in loops: computes the part that they share once.
//
// Tested by tests/runtime/kernels/kernel_test.cc, tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/rules/kernel.h"

namespace gradc {

class RandomStream {
 public:
  explicit RandomStream(const RandomKey &key)
      : base(mix(mix(mix(key.seed + kGolden) ^ (key.step + kGolden)) ^ (key.ordinal + 2 * kGolden))) {}

  uint64_t bits(uint64_t counter) const { return mix(base + (counter + 1) * kGolden); }
  /// Uniform in [0, 1), 53 bits.
  double uniform(uint64_t counter) const { return static_cast<double>(bits(counter) >> 11) * 0x1.0p-53; }

 private:
  static constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;

  /// Finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64-bit words with full avalanche.
  static constexpr uint64_t mix(uint64_t word) {
    word ^= word >> 30;
    word *= 0xbf58476d1ce4e5b9u;
    word ^= word >> 27;
    word *= 0x94d049bb133111ebu;
    return word ^ (word >> 31);
  }

  uint64_t base;
};

}  // namespace gradc
