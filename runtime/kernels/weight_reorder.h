// Filters from the blocked order in which oneDNN leaves gradients of weights to row-major order (o, i, taps).
//
// oneDNN converts them element by element; here blocks of four rows are transposed in registers: two to three times as fast
// while the caches hold them, and never slower. Into blocked orders oneDNN's own conversions are as good. Whole blocks of 16
// filters and 16 channels only, without groups. Tested by tests/weight_reorder_test.cc
#pragma once

#include <dnnl.hpp>

#include <optional>
#include <vector>

namespace gradc {

class WeightReorder {
 public:
  /// From `blocked` to `plain`; nothing unless the one is ABcd16b16a and the other row-major, both float32.
  static std::optional<WeightReorder> create(const dnnl::memory::desc &blocked, const dnnl::memory::desc &plain);

  /// Shared among the threads of the scope.
  void run(const float *from, float *to) const;

 private:
  void runTile(const float *from, float *to, int64_t filterBlock, int64_t channelBlock) const;

  int64_t filters = 0, channels = 0, taps = 0;
  std::vector<int64_t> rowOffset;  // in a tile, of the 16 filters of (channel, tap), channel-major
};

}  // namespace gradc
