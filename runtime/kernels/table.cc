// Tested by tests/fast_kernels_test.cc
#include "runtime/kernels/table.h"

#include "ops/families.h"
#include "runtime/kernels/factories.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;

namespace gradc {
namespace {

constexpr FastKernelRow kRows[] = {
    {"Activation", fast::activation, LayoutRole::Elements},
    {"BatchNorm", fast::batchNorm, LayoutRole::Same},
    {"Concat", fast::concat, LayoutRole::Same},
    {"Convolution", fast::convolution, LayoutRole::Own, {.in = 1, .suitTiles = fast::convolutionSuitsTiles}},
    {"Deconvolution", fast::deconvolution, LayoutRole::Plain},
    {"Dropout", fast::dropout, LayoutRole::Plain},
    {"FullyConnected", fast::fullyConnected, LayoutRole::Plain},
    {"LRN", fast::lrn, LayoutRole::Same},
    {"LayerNorm", fast::layerNorm, LayoutRole::Plain},
    {"LeakyReLU", fast::leakyRelu, LayoutRole::Same},
    {"Pooling", fast::pooling, LayoutRole::Own},
    {"SoftmaxActivation", fast::softmaxActivation, LayoutRole::Plain},
    {"SoftmaxOutput", fast::softmaxOutput, LayoutRole::Plain},
    {"_SoftmaxOutput_grad", fast::softmaxOutputGrad, LayoutRole::Plain},
    {"_backward_Activation", fast::activationBackward, LayoutRole::Elements},
    {"_backward_BatchNorm", fast::batchNormBackward, LayoutRole::Same},
    {"_backward_Concat", fast::concatBackward, LayoutRole::Same},
    {"_backward_Convolution", fast::convolutionBackward, LayoutRole::Own,
     {.in = 2, .out = 1, .suitTiles = fast::convolutionBackwardSuitsTiles}},
    {"_backward_Deconvolution", fast::deconvolutionBackward, LayoutRole::Plain},
    {"_backward_Dropout", fast::dropoutBackward, LayoutRole::Same},
    {"_backward_FullyConnected", fast::fullyConnectedBackward, LayoutRole::Plain},
    {"_backward_LRN", fast::lrnBackward, LayoutRole::Same},
    {"_backward_LayerNorm", fast::layerNormBackward, LayoutRole::Plain},
    {"_backward_LeakyReLU", fast::leakyReluBackward, LayoutRole::Same},
    {"_backward_Pooling", fast::poolingBackward, LayoutRole::Own},
    {"_backward_SoftmaxActivation", fast::softmaxActivationBackward, LayoutRole::Plain},
    {"_backward_abs", fast::sliced, LayoutRole::Elements},
    {"_backward_broadcast_add", fast::broadcastAddBackward, LayoutRole::Same},
    {"_backward_broadcast_div", fast::broadcastDivideBackward, LayoutRole::Same},
    {"_backward_broadcast_maximum", fast::broadcastMaximumBackward, LayoutRole::Same},
    {"_backward_broadcast_minimum", fast::broadcastMinimumBackward, LayoutRole::Same},
    {"_backward_broadcast_mul", fast::broadcastMultiplyBackward, LayoutRole::Same},
    {"_backward_broadcast_sub", fast::broadcastSubtractBackward, LayoutRole::Same},
    {"_backward_clip", fast::sliced, LayoutRole::Elements},
    {"_backward_div", fast::sliced, LayoutRole::Elements},
    {"_backward_div_scalar", fast::sliced, LayoutRole::Elements},
    {"_backward_dot", fast::dotBackward, LayoutRole::Plain},
    {"_backward_erf", fast::errorFunctionBackward, LayoutRole::Elements},
    {"_backward_expm1", fast::sliced, LayoutRole::Elements},
    {"_backward_gamma", fast::sliced, LayoutRole::Elements},
    {"_backward_gammaln", fast::sliced, LayoutRole::Elements},
    {"_backward_hard_sigmoid", fast::sliced, LayoutRole::Elements},
    {"_backward_log", fast::sliced, LayoutRole::Elements},
    {"_backward_log1p", fast::sliced, LayoutRole::Elements},
    {"_backward_log_softmax", fast::softmaxBackward, LayoutRole::Plain},
    {"_backward_maximum", fast::sliced, LayoutRole::Elements},
    {"_backward_maximum_scalar", fast::sliced, LayoutRole::Elements},
    {"_backward_mean", fast::meanBackward, LayoutRole::Same},
    {"_backward_minimum", fast::sliced, LayoutRole::Elements},
    {"_backward_minimum_scalar", fast::sliced, LayoutRole::Elements},
    {"_backward_mul", fast::sliced, LayoutRole::Elements},
    {"_backward_mul_scalar", fast::sliced, LayoutRole::Elements},
    {"_backward_power", fast::sliced, LayoutRole::Elements},
    {"_backward_power_scalar", fast::sliced, LayoutRole::Elements},
    {"_backward_rdiv_scalar", fast::sliced, LayoutRole::Elements},
    {"_backward_reciprocal", fast::sliced, LayoutRole::Elements},
    {"_backward_relu", fast::reluBackward, LayoutRole::Elements},
    {"_backward_rpower_scalar", fast::sliced, LayoutRole::Elements},
    {"_backward_sigmoid", fast::sliced, LayoutRole::Elements},
    {"_backward_sign", fast::sliced, LayoutRole::Elements},
    {"_backward_smooth_l1", fast::sliced, LayoutRole::Elements},
    {"_backward_softmax", fast::softmaxBackward, LayoutRole::Plain},
    {"_backward_softmin", fast::softmaxBackward, LayoutRole::Plain},
    {"_backward_softsign", fast::sliced, LayoutRole::Elements},
    {"_backward_sqrt", fast::sliced, LayoutRole::Elements},
    {"_backward_square", fast::sliced, LayoutRole::Elements},
    {"_backward_sub", fast::sliced, LayoutRole::Elements},
    {"_backward_sum", fast::sumBackward, LayoutRole::Same},
    {"_backward_tanh", fast::sliced, LayoutRole::Elements},
    {"_backward_where", fast::sliced, LayoutRole::Elements},
    {"_broadcast_backward", fast::sumDown, LayoutRole::Same},
    {"_channel_window_sum", fast::channelWindowSum, LayoutRole::Same},
    {"_convolution_data_grad", fast::convolutionDataGrad, LayoutRole::Own,
     {.in = 1, .suitTiles = fast::convolutionDataGradSuitsTiles}},
    {"_convolution_weight_grad", fast::convolutionWeightGrad, LayoutRole::Own,
     {.out = 0, .suitTiles = fast::convolutionBackwardSuitsTiles}},
    {"_copy", fast::copy, LayoutRole::Elements},
    {"_deconvolution_data_grad", fast::deconvolutionDataGrad, LayoutRole::Plain},
    {"_deconvolution_weight_grad", fast::deconvolutionWeightGrad, LayoutRole::Plain},
    {"_div_scalar", fast::sliced, LayoutRole::Elements},
    {"_equal", fast::sliced, LayoutRole::Elements},
    {"_equal_scalar", fast::sliced, LayoutRole::Elements},
    {"_grad_add", fast::add, LayoutRole::Elements},
    {"_greater", fast::sliced, LayoutRole::Elements},
    {"_greater_equal", fast::sliced, LayoutRole::Elements},
    {"_greater_equal_scalar", fast::sliced, LayoutRole::Elements},
    {"_greater_scalar", fast::sliced, LayoutRole::Elements},
    {"_lesser", fast::sliced, LayoutRole::Elements},
    {"_lesser_equal", fast::sliced, LayoutRole::Elements},
    {"_lesser_equal_scalar", fast::sliced, LayoutRole::Elements},
    {"_lesser_scalar", fast::sliced, LayoutRole::Elements},
    {"_maximum", fast::sliced, LayoutRole::Elements},
    {"_maximum_scalar", fast::sliced, LayoutRole::Elements},
    {"_minimum", fast::sliced, LayoutRole::Elements},
    {"_minimum_scalar", fast::sliced, LayoutRole::Elements},
    {"_minus_scalar", fast::sliced, LayoutRole::Elements},
    {"_mul_scalar", fast::sliced, LayoutRole::Elements},
    {"_not_equal", fast::sliced, LayoutRole::Elements},
    {"_not_equal_scalar", fast::sliced, LayoutRole::Elements},
    {"_plus_scalar", fast::sliced, LayoutRole::Elements},
    {"_power", fast::sliced, LayoutRole::Elements},
    {"_power_scalar", fast::sliced, LayoutRole::Elements},
    {"_rdiv_scalar", fast::sliced, LayoutRole::Elements},
    {"_rminus_scalar", fast::sliced, LayoutRole::Elements},
    {"_rpower_scalar", fast::sliced, LayoutRole::Elements},
    {"_sum_like", fast::sumDown, LayoutRole::Same},
    {"abs", fast::sliced, LayoutRole::Elements},
    {"add_n", fast::add, LayoutRole::Elements},
    {"batch_dot", fast::batchDot, LayoutRole::Plain},
    {"broadcast_add", fast::broadcastAdd, LayoutRole::Same},
    {"broadcast_axis", fast::repeat, LayoutRole::Same},
    {"broadcast_div", fast::broadcastDivide, LayoutRole::Same},
    {"broadcast_like", fast::repeat, LayoutRole::Same},
    {"broadcast_maximum", fast::broadcastMaximum, LayoutRole::Same},
    {"broadcast_minimum", fast::broadcastMinimum, LayoutRole::Same},
    {"broadcast_mul", fast::broadcastMultiply, LayoutRole::Same},
    {"broadcast_sub", fast::broadcastSubtract, LayoutRole::Same},
    {"broadcast_to", fast::repeat, LayoutRole::Same},
    {"clip", fast::sliced, LayoutRole::Elements},
    {"dot", fast::dot, LayoutRole::Plain},
    {"elemwise_add", fast::add, LayoutRole::Elements},
    {"elemwise_div", fast::sliced, LayoutRole::Elements},
    {"elemwise_mul", fast::multiply, LayoutRole::Elements},
    {"elemwise_sub", fast::subtract, LayoutRole::Elements},
    {"erf", fast::errorFunction, LayoutRole::Elements},
    {"exp", fast::exponential, LayoutRole::Elements},
    {"expm1", fast::sliced, LayoutRole::Elements},
    {"gamma", fast::sliced, LayoutRole::Elements},
    {"gammaln", fast::sliced, LayoutRole::Elements},
    {"hard_sigmoid", fast::sliced, LayoutRole::Elements},
    {"log", fast::sliced, LayoutRole::Elements},
    {"log1p", fast::sliced, LayoutRole::Elements},
    {"log_softmax", fast::softmax, LayoutRole::Plain},
    {"mean", fast::mean, LayoutRole::Same},
    {"negative", fast::sliced, LayoutRole::Elements},
    {"reciprocal", fast::sliced, LayoutRole::Elements},
    {"relu", fast::relu, LayoutRole::Elements},
    {"sigmoid", fast::sigmoid, LayoutRole::Elements},
    {"sign", fast::sliced, LayoutRole::Elements},
    {"smooth_l1", fast::sliced, LayoutRole::Elements},
    {"softmax", fast::softmax, LayoutRole::Plain},
    {"softmin", fast::softmax, LayoutRole::Plain},
    {"softsign", fast::sliced, LayoutRole::Elements},
    {"sqrt", fast::sliced, LayoutRole::Elements},
    {"square", fast::sliced, LayoutRole::Elements},
    {"sum", fast::sum, LayoutRole::Same},
    {"tanh", fast::tangent, LayoutRole::Elements},
    {"where", fast::sliced, LayoutRole::Elements},
};

/// Operators without a fast kernel whose reference kernel computes element i of an output from elements i of its inputs
/// and from inputs of another rank, the same whatever i is. Sorted.
constexpr StringRef kElementByElement[] = {
    "BlockGrad",
    "_scheduled_adam_update",
    "_scheduled_sgd_mom_update",
    "_scheduled_sgd_update",
    "adam_update",
    "ones_like",
    "sgd_mom_update",
    "sgd_update",
    "zeros_like",
};

constexpr const OpFamily *kFamilies[] = {
    &kZerosOnesFamily,       &kElementwiseBinaryFamily, &kElementwiseUnaryFamily, &kElementwiseScalarFamily,
    &kDotFamily,             &kBatchDotFamily,          &kConcatFamily,           &kActivationFamily,
    &kLeakyReluFamily,       &kBatchNormFamily,         &kConvolutionFamily,      &kPoolingFamily,
    &kFullyConnectedFamily,  &kSoftmaxOutputFamily,     &kExtremaFamily,          &kPowerFamily,
    &kBroadcastFamily,       &kBroadcastToFamily,       &kReduceFamily,           &kGammaFunctionsFamily,
    &kComparisonFamily,      &kSpecialFunctionsFamily,  &kWhereFamily,
    &kSoftmaxFamily,         &kSoftmaxActivationFamily, &kLrnFamily,              &kDropoutFamily,
    &kLayerNormFamily,       &kDeconvolutionFamily,     &kOptimizerFamily,        &kLossFamily,
};

constexpr FastKernelRow kHostRow = {"", [](const KernelSite &site) { return site.kind->op->fastKernel(site); },
                                    LayoutRole::Plain};

/// An operator of a host that merely has the name of another is not that one.
bool isBuiltin(const OpDef &op) {
  return llvm::any_of(kFamilies, [&](const OpFamily *family) { return llvm::is_contained(*family, &op); });
}

}  // namespace

ArrayRef<FastKernelRow> fastKernelTable() { return kRows; }

const FastKernelRow *findFastKernel(const OpDef &op) {
  if (op.fastKernel) return &kHostRow;
  const FastKernelRow *row = llvm::lower_bound(kRows, op.name, [](const FastKernelRow &r, StringRef name) {
    return r.name < name;
  });
  if (row == std::end(kRows) || row->name != op.name) return nullptr;
  return isBuiltin(op) ? row : nullptr;
}

LayoutRole referenceRole(const OpDef &op) {
  const bool isListed = std::binary_search(std::begin(kElementByElement), std::end(kElementByElement), op.name);
  return isListed && isBuiltin(op) ? LayoutRole::Elements : LayoutRole::Plain;
}

}  // namespace gradc
