// The data gradient of a convolution as a convolution of dy: with stride 1, dx = dy * w', where w'(c, f, t) = w(f, c,
// −t) has filters and channels exchanged and the window rotated by 180°.
//
// On channels-last images oneDNN's forward code is 4 to 40 % faster than its code for data gradients, the more so the
// larger the images. Tested by tests/runtime/kernels/adjoint_convolution_test.cc
#pragma once

#include "runtime/kernels/dnnl/dnnl_step.h"

namespace gradc {

/// One group, stride 1. Images (n, c, h, w) in their present formats and those to compute in, filters (f, c, kh, kw) in
/// their present one.
struct UnitStrideConvolution {
  dnnl::memory::desc x, insideX, w, y, insideY;
  dnnl::memory::dims dilate, pad;  // `dilate` is 0 for dense windows
};

class AdjointConvolution {
 public:
  /// Empty where oneDNN has no faster forward code: without AVX-512, where channels or filters do not fill vectors of
  /// 16, where the padding is wider than the window, and for filters neither row-major nor in tiles. Throws as oneDNN
  /// does.
  static std::optional<AdjointConvolution> create(const UnitStrideConvolution &convolution);

  size_t bytes() const { return step.bytes(); }
  Reorders reorders() const;
  /// Throws as PreparedKernel::run does.
  void run(void *dy, void *w, void *dx, void *workspace);

 private:
  explicit AdjointConvolution(const WeightReorder &filters) : filters(filters) {}

  WeightReorder filters;
  bool isPlain = false;    // w; otherwise it is in tiles
  size_t weightBytes = 0;  // of w
  int64_t block = 0;       // channels of w' that are contiguous
  DnnlStep step;
};

}  // namespace gradc
