// Counter-based random numbers. Tested by tests/kernel_test.cc
#include "ir/kernel.h"

namespace gradc {
namespace {

// Finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64-bit words with full avalanche.
uint64_t mix(uint64_t word) {
  word ^= word >> 30;
  word *= 0xbf58476d1ce4e5b9u;
  word ^= word >> 27;
  word *= 0x94d049bb133111ebu;
  return word ^ (word >> 31);
}

}  // namespace

uint64_t RandomKey::bits(uint64_t counter) const {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;
  uint64_t word = mix(seed + kGolden);
  word = mix(word ^ (step + kGolden));
  word = mix(word ^ (ordinal + 2 * kGolden));
  return mix(word + (counter + 1) * kGolden);
}

}  // namespace gradc
