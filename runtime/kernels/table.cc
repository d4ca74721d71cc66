// Tested by tests/fast_kernels_test.cc
#include "runtime/kernels/table.h"

#include "ops/families.h"
#include "runtime/kernels/factories.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr FastKernelRow kRows[] = {
    {"Activation", fast::activation, LayoutRole::Same},
    {"BatchNorm", fast::batchNorm, LayoutRole::Same},
    {"Concat", fast::concat, LayoutRole::Same},
    {"Convolution", fast::convolution, LayoutRole::Own},
    {"FullyConnected", fast::fullyConnected, LayoutRole::Plain},
    {"LeakyReLU", fast::leakyRelu, LayoutRole::Same},
    {"Pooling", fast::pooling, LayoutRole::Own},
    {"SoftmaxOutput", fast::softmaxOutput, LayoutRole::Plain},
    {"_SoftmaxOutput_grad", fast::softmaxOutputGrad, LayoutRole::Plain},
    {"_backward_Activation", fast::activationBackward, LayoutRole::Same},
    {"_backward_BatchNorm", fast::batchNormBackward, LayoutRole::Same},
    {"_backward_Concat", fast::concatBackward, LayoutRole::Same},
    {"_backward_Convolution", fast::convolutionBackward, LayoutRole::Own},
    {"_backward_FullyConnected", fast::fullyConnectedBackward, LayoutRole::Plain},
    {"_backward_LeakyReLU", fast::leakyReluBackward, LayoutRole::Same},
    {"_backward_Pooling", fast::poolingBackward, LayoutRole::Own},
    {"_backward_relu", fast::reluBackward, LayoutRole::Same},
    {"_convolution_data_grad", fast::convolutionDataGrad, LayoutRole::Own},
    {"_convolution_weight_grad", fast::convolutionWeightGrad, LayoutRole::Own},
    {"_copy", fast::copy, LayoutRole::Same},
    {"_grad_add", fast::add, LayoutRole::Same},
    {"add_n", fast::add, LayoutRole::Same},
    {"dot", fast::dot, LayoutRole::Plain},
    {"elemwise_add", fast::add, LayoutRole::Same},
    {"elemwise_mul", fast::multiply, LayoutRole::Same},
    {"elemwise_sub", fast::subtract, LayoutRole::Same},
    {"relu", fast::relu, LayoutRole::Same},
};

constexpr const OpFamily *kFamilies[] = {
    &kZerosOnesFamily,  &kElementwiseBinaryFamily, &kElementwiseUnaryFamily, &kDotFamily,     &kConcatFamily,
    &kActivationFamily, &kBatchNormFamily,         &kConvolutionFamily,      &kPoolingFamily, &kFullyConnectedFamily,
    &kSoftmaxOutputFamily, &kLeakyReluFamily,
};

}  // namespace

ArrayRef<FastKernelRow> fastKernelTable() { return kRows; }

const FastKernelRow *findFastKernel(const OpDef &op) {
  const FastKernelRow *row = llvm::lower_bound(kRows, op.name, [](const FastKernelRow &r, StringRef name) {
    return r.name < name;
  });
  if (row == std::end(kRows) || row->name != op.name) return nullptr;
  const bool isBuiltin =
      llvm::any_of(kFamilies, [&](const OpFamily *family) { return llvm::is_contained(*family, &op); });
  return isBuiltin ? row : nullptr;
}

}  // namespace gradc
