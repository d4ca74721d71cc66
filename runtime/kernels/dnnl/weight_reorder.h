// Converts filters between row-major order (o, c, taps) and tiles of 16 filters by 16 channels, Layout::FilterTiles,
// the layout in which oneDNN produces gradients of weights.
//
// oneDNN converts tiles to row-major order element by element. Here blocks of four rows are transposed in registers:
// two to three times as fast while the caches hold them, and never slower. Tested by
// tests/runtime/kernels/weight_reorder_test.cc
#pragma once

#include "ir/rules/kernel.h"

#include <optional>
#include <vector>

namespace gradc {

class WeightReorder {
 public:
  /// Empty unless `shape` has rank four and filters and channels fill whole tiles.
  static std::optional<WeightReorder> create(Dims shape);
  static bool hasTiles(Dims shape) { return shape.size() == 4 && shape[0] % kTile == 0 && shape[1] % kTile == 0; }

  /// Both divide the work among the threads of the scope. The arguments must not overlap.
  void toPlain(const float *tiles, float *plain) const;
  void toTiles(const float *plain, float *tiles) const;
  /// The filters of the adjoint convolution (runtime/kernels/convolution/adjoint_convolution.h), in groups of `block`
  /// channels, which 16 divides: [channel / block][taps, from the last][filter][channel % block]. The last group is
  /// filled up with zeros.
  void toAdjoint(const float *tiles, int64_t block, float *adjoint) const;

 private:
  static constexpr int64_t kTile = 16;
  template <class F> void forQuads(F visit) const;

  int64_t filters = 0, channels = 0, taps = 0;
  std::vector<int64_t> rowOffset;  // offsets in a tile of the 16 filters of each (channel, tap), channel-major
};

}  // namespace gradc
