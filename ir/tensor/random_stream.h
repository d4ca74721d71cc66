// Counter-based random numbers, and the draws of one key for use in loops: what they share is computed once.
//
// Tested by tests/runtime/kernels/kernel_test.cc, tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include <cstdint>

namespace gradc {

/// The upper 53 bits, as a number in [0, 1).
inline double unitInterval(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

/// Draws of a random operator: a pure function of (seed, step, ordinal of the node among random forward nodes,
/// counter).
struct RandomKey {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint64_t ordinal = 0;

  uint64_t bits(uint64_t counter) const;
  /// Uniform in [0, 1).
  double uniform(uint64_t counter) const { return unitInterval(bits(counter)); }
};

class RandomStream {
 public:
  explicit RandomStream(const RandomKey &key)
      : base(mix(mix(mix(key.seed + kGolden) ^ (key.step + kGolden)) ^ (key.ordinal + 2 * kGolden))) {}

  uint64_t bits(uint64_t counter) const { return mix(base + (counter + 1) * kGolden); }
  /// Uniform in [0, 1).
  double uniform(uint64_t counter) const { return unitInterval(bits(counter)); }

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
