// What the kernels of the runtime and other operators read of ops/spatial/convolution.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"
#include "ops/spatial/convolution_kernel.h"

namespace gradc {

extern const OpDef kConvolution;            // Convolution(data, weight[, bias])
extern const OpDef kConvolutionDataGrad;    // _convolution_data_grad(ograd, weight, data)
extern const OpDef kConvolutionWeightGrad;  // _convolution_weight_grad(ograd, data, weight)

/// Of Convolution and the operators of its gradients; `data` and `output` are the shapes of x and y.
ConvGeometry convolutionGeometry(const NodeKind &kind, Dims data, Dims output);

}  // namespace gradc
