// Convolution weights between row-major order and the blocked formats oneDNN chooses, several times faster than its
// general reorder. Weights change at every training step, so this is in every step, twice forth and once back.
//
// The idea: in a blocked format the offset of an element is a sum of one number per axis. Tiles of 16 x 16 channels with
// all their taps stay in the first-level cache whichever side is read in order. Tested by tests/fast_kernels_test.cc
#pragma once

#include <dnnl.hpp>

#include <optional>
#include <vector>

namespace gradc {

class WeightReorder {
 public:
  /// For dense weights (o, i, h, w) in float32; nothing when `blocked` pads, or is no blocked format.
  static std::optional<WeightReorder> create(const dnnl::memory::desc &plain, const dnnl::memory::desc &blocked,
                                             unsigned threads);
  void toBlocked(const float *plain, float *blocked) const;
  void toPlain(const float *blocked, float *plain) const;

 private:
  /// Calls move(index in plain, index in blocked) for every element.
  template <class F> void forTiles(F move) const;

  std::vector<int64_t> filter, channel, tap;  // contributions of each index to the blocked offset
  unsigned threads = 1;
};

}  // namespace gradc
