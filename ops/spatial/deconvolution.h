// The linear maps of deconvolution, for operators that reduce to one. All take Deconvolution's attributes.
#pragma once

#include "ir/op/op.h"

namespace gradc {

extern const OpDef kDeconvolution;            // Deconvolution(data, weight[, bias])
extern const OpDef kDeconvolutionDataGrad;    // _deconvolution_data_grad(ograd, weight, data)
extern const OpDef kDeconvolutionWeightGrad;  // _deconvolution_weight_grad(ograd, data, weight)

}  // namespace gradc
