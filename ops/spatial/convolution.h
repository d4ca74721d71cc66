// What the kernels of the runtime and other operators read of ops/spatial/convolution.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"
#include "ops/spatial/convolution_kernel.h"

namespace gradc {

/// Of Convolution and the operators of its gradients; `data` and `output` are the shapes of x and y.
ConvGeometry convolutionGeometry(const NodeKind &kind, Dims data, Dims output);

}  // namespace gradc
