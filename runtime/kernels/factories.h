// The factories that runtime/kernels/table.cc lists, by the file they are in. Tested by tests/fast_kernels_test.cc
#pragma once

#include "runtime/kernels/prepared_kernel.h"

namespace gradc::fast {

// runtime/kernels/convolution.cc
std::unique_ptr<PreparedKernel> convolution(const KernelSite &site);
std::unique_ptr<PreparedKernel> convolutionBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> convolutionDataGrad(const KernelSite &site);
std::unique_ptr<PreparedKernel> convolutionWeightGrad(const KernelSite &site);

// runtime/kernels/gemm_convolution.cc: any floating type, plain operands
std::unique_ptr<PreparedKernel> gemmConvolution(const KernelSite &site);
std::unique_ptr<PreparedKernel> gemmConvolutionBackward(const KernelSite &site);

// runtime/kernels/batch_norm.cc
std::unique_ptr<PreparedKernel> batchNorm(const KernelSite &site);
std::unique_ptr<PreparedKernel> batchNormBackward(const KernelSite &site);

// runtime/kernels/pooling.cc
std::unique_ptr<PreparedKernel> pooling(const KernelSite &site);
std::unique_ptr<PreparedKernel> poolingBackward(const KernelSite &site);

// runtime/kernels/dense.cc
std::unique_ptr<PreparedKernel> fullyConnected(const KernelSite &site);
std::unique_ptr<PreparedKernel> fullyConnectedBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> dot(const KernelSite &site);

// runtime/kernels/elementwise.cc
std::unique_ptr<PreparedKernel> activation(const KernelSite &site);
std::unique_ptr<PreparedKernel> activationBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> relu(const KernelSite &site);
std::unique_ptr<PreparedKernel> reluBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> add(const KernelSite &site);
std::unique_ptr<PreparedKernel> subtract(const KernelSite &site);
std::unique_ptr<PreparedKernel> multiply(const KernelSite &site);
std::unique_ptr<PreparedKernel> copy(const KernelSite &site);

// runtime/kernels/leaky_relu.cc
std::unique_ptr<PreparedKernel> leakyRelu(const KernelSite &site);
std::unique_ptr<PreparedKernel> leakyReluBackward(const KernelSite &site);

// runtime/kernels/softmax_output.cc
std::unique_ptr<PreparedKernel> softmaxOutput(const KernelSite &site);
std::unique_ptr<PreparedKernel> softmaxOutputGrad(const KernelSite &site);

// runtime/kernels/concat.cc
std::unique_ptr<PreparedKernel> concat(const KernelSite &site);
std::unique_ptr<PreparedKernel> concatBackward(const KernelSite &site);

}  // namespace gradc::fast
