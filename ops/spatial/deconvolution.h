// The linear maps of deconvolution, for operators that reduce to one. All take Deconvolution's attributes.
#pragma once

#include "ir/op/op.h"
#include "ops/spatial/convolution_kernel.h"

namespace gradc {

extern const OpDef kDeconvolution;            // Deconvolution(data, weight[, bias])
extern const OpDef kDeconvolutionDataGrad;    // _deconvolution_data_grad(ograd, weight, data)
extern const OpDef kDeconvolutionWeightGrad;  // _deconvolution_weight_grad(ograd, data, weight)

/// Of Deconvolution and the operators of its gradients: the convolution from images of y to images of x.
ConvGeometry deconvolutionGeometry(const NodeKind &kind, Dims data, Dims output);

}  // namespace gradc
