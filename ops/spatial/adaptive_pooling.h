// What the kernels of the runtime and other operators read of ops/spatial/adaptive_pooling.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include <cstdint>

namespace gradc {

/// Rows or columns of an image that row or column i of an adaptive mean covers.
struct AdaptiveWindow {
  int64_t begin, end;

  /// ⌊i·in/out⌋ and ⌈(i + 1)·in/out⌉, computed without overflow.
  AdaptiveWindow(int64_t i, int64_t in, int64_t out)
      : begin(i * (in / out) + i * (in % out) / out),
        end((i + 1) * (in / out) + ((i + 1) * (in % out) + out - 1) / out) {}
};

}  // namespace gradc
