// What the kernels of the runtime and other operators read of ops/spatial/up_sampling.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"
#include "ops/spatial/convolution_kernel.h"

namespace gradc {

/// Of UpSampling and its gradient.
struct UpSamplingAttrs {
  bool isBilinear, isConcat;  // not bilinear: pixels are repeated; not concat: several images are added up
};
UpSamplingAttrs upSamplingAttrs(const NodeKind &kind);
/// The geometry of the deconvolution that bilinear upsampling is.
ConvGeometry upSamplingGeometry(const NodeKind &kind, Dims data, Dims output);

}  // namespace gradc
