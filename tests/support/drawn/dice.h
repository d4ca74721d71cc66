// Numbers for random problems, after Steele, Lea and Flood's SplitMix64, so that a seed means the same everywhere.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>

namespace gradc::testing {

class Dice {
 public:
  explicit Dice(uint64_t seed) : state(seed) {}

  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  size_t below(size_t n) { return next() % n; }
  bool chance(int percent) { return below(100) < static_cast<size_t>(percent); }
  double uniform(double low, double high) { return low + (high - low) * (static_cast<double>(next() >> 11) * 0x1p-53); }
  template <class T> const T &one(llvm::ArrayRef<T> list) { return list[below(list.size())]; }

 private:
  uint64_t state;
};

}  // namespace gradc::testing
