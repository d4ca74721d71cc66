// The weight gradients of convolutions by oneDNN.
#pragma once

#include "runtime/kernels/convolution/convolution_parts.h"

namespace gradc::fast {

/// From inputs dy (0) and x (1) to output `weight`.
void addWeightGrad(ConvolutionKernel &kernel, const KernelSite &site, const ConvolutionOperands &operands,
                   uint8_t weight);

}  // namespace gradc::fast
