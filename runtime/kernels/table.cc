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
    {"Embedding", fast::embedding, LayoutRole::Plain},
    {"FullyConnected", fast::fullyConnected, LayoutRole::Plain},
    {"LRN", fast::lrn, LayoutRole::Same},
    {"LayerNorm", fast::layerNorm, LayoutRole::Plain},
    {"LeakyReLU", fast::leakyRelu, LayoutRole::Same},
    {"Pooling", fast::pooling, LayoutRole::Own},
    {"RNN", fast::rnn, LayoutRole::Plain},
    {"SoftmaxActivation", fast::softmaxActivation, LayoutRole::Plain},
    {"SoftmaxOutput", fast::softmaxOutput, LayoutRole::Plain},
    {"_SoftmaxOutput_grad", fast::softmaxOutputGrad, LayoutRole::Plain},
    {"_backward_Activation", fast::activationBackward, LayoutRole::Elements},
    {"_backward_BatchNorm", fast::batchNormBackward, LayoutRole::Same},
    {"_backward_Concat", fast::concatBackward, LayoutRole::Same},
    {"_backward_Convolution",
     fast::convolutionBackward,
     LayoutRole::Own,
     {.in = 2, .out = 1, .suitTiles = fast::convolutionBackwardSuitsTiles}},
    {"_backward_Deconvolution", fast::deconvolutionBackward, LayoutRole::Plain},
    {"_backward_Dropout", fast::dropoutBackward, LayoutRole::Same},
    {"_backward_Embedding", fast::embeddingBackward, LayoutRole::Plain},
    {"_backward_FullyConnected", fast::fullyConnectedBackward, LayoutRole::Plain},
    {"_backward_LRN", fast::lrnBackward, LayoutRole::Same},
    {"_backward_LayerNorm", fast::layerNormBackward, LayoutRole::Plain},
    {"_backward_LeakyReLU", fast::leakyReluBackward, LayoutRole::Same},
    {"_backward_Pooling", fast::poolingBackward, LayoutRole::Own},
    {"_backward_RNN", fast::rnnBackward, LayoutRole::Plain, {}, {"RNN", fast::rnnTapeFits}},
    {"_backward_SoftmaxActivation", fast::softmaxActivationBackward, LayoutRole::Plain},
    {"_backward_broadcast_add", fast::broadcastAddBackward, LayoutRole::Same},
    {"_backward_broadcast_div", fast::broadcastDivideBackward, LayoutRole::Same},
    {"_backward_broadcast_maximum", fast::broadcastMaximumBackward, LayoutRole::Same},
    {"_backward_broadcast_minimum", fast::broadcastMinimumBackward, LayoutRole::Same},
    {"_backward_broadcast_mul", fast::broadcastMultiplyBackward, LayoutRole::Same},
    {"_backward_broadcast_sub", fast::broadcastSubtractBackward, LayoutRole::Same},
    {"_backward_cos", fast::cosineBackward, LayoutRole::Elements},
    {"_backward_dot", fast::dotBackward, LayoutRole::Plain},
    {"_backward_erf", fast::errorFunctionBackward, LayoutRole::Elements},
    {"_backward_expm1", fast::exponentialLessOneBackward, LayoutRole::Elements},
    {"_backward_gelu", fast::geluBackward, LayoutRole::Elements},
    {"_backward_interleaved_matmul_encdec_qk", fast::crossQueryKeyBackward, LayoutRole::Plain},
    {"_backward_interleaved_matmul_encdec_valatt", fast::crossValuesBackward, LayoutRole::Plain},
    {"_backward_interleaved_matmul_selfatt_qk", fast::selfQueryKeyBackward, LayoutRole::Plain},
    {"_backward_interleaved_matmul_selfatt_valatt", fast::selfValuesBackward, LayoutRole::Plain},
    {"_backward_linalg_gemm", fast::linalgGemmBackward, LayoutRole::Plain},
    {"_backward_linalg_gemm2", fast::linalgGemmBackward, LayoutRole::Plain},
    {"_backward_log_sigmoid", fast::logSigmoidBackward, LayoutRole::Elements},
    {"_backward_log_softmax", fast::softmaxBackward, LayoutRole::Plain},
    {"_backward_max", fast::extremumBackward, LayoutRole::Same},
    {"_backward_mean", fast::meanBackward, LayoutRole::Same},
    {"_backward_min", fast::extremumBackward, LayoutRole::Same},
    {"_backward_mish", fast::mishBackward, LayoutRole::Elements},
    {"_backward_relu", fast::reluBackward, LayoutRole::Elements},
    {"_backward_silu", fast::siluBackward, LayoutRole::Elements},
    {"_backward_sin", fast::sineBackward, LayoutRole::Elements},
    {"_backward_softmax", fast::softmaxBackward, LayoutRole::Plain},
    {"_backward_softmin", fast::softmaxBackward, LayoutRole::Plain},
    {"_backward_sum", fast::sumBackward, LayoutRole::Same},
    {"_backward_take", fast::takeBackward, LayoutRole::Plain},
    {"_broadcast_backward", fast::sumDown, LayoutRole::Same},
    {"_channel_window_sum", fast::channelWindowSum, LayoutRole::Same},
    {"_contrib_interleaved_matmul_encdec_qk", fast::crossQueryKey, LayoutRole::Plain},
    {"_contrib_interleaved_matmul_encdec_valatt", fast::crossValues, LayoutRole::Plain},
    {"_contrib_interleaved_matmul_selfatt_qk", fast::selfQueryKey, LayoutRole::Plain},
    {"_contrib_interleaved_matmul_selfatt_valatt", fast::selfValues, LayoutRole::Plain},
    {"_convolution_data_grad",
     fast::convolutionDataGrad,
     LayoutRole::Own,
     {.in = 1, .suitTiles = fast::convolutionDataGradSuitsTiles}},
    {"_convolution_weight_grad",
     fast::convolutionWeightGrad,
     LayoutRole::Own,
     {.out = 0, .suitTiles = fast::convolutionBackwardSuitsTiles}},
    {"_copy", fast::copy, LayoutRole::Elements},
    {"_deconvolution_data_grad", fast::deconvolutionDataGrad, LayoutRole::Plain},
    {"_deconvolution_weight_grad", fast::deconvolutionWeightGrad, LayoutRole::Plain},
    {"_grad_add", fast::add, LayoutRole::Elements},
    {"_linalg_gemm", fast::linalgGemm, LayoutRole::Plain},
    {"_linalg_gemm2", fast::linalgGemm, LayoutRole::Plain},
    {"_sum_like", fast::sumDown, LayoutRole::Same},
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
    {"cos", fast::cosine, LayoutRole::Elements},
    {"dot", fast::dot, LayoutRole::Plain},
    {"elemwise_add", fast::add, LayoutRole::Elements},
    {"elemwise_mul", fast::multiply, LayoutRole::Elements},
    {"elemwise_sub", fast::subtract, LayoutRole::Elements},
    {"erf", fast::errorFunction, LayoutRole::Elements},
    {"exp", fast::exponential, LayoutRole::Elements},
    {"expm1", fast::exponentialLessOne, LayoutRole::Elements},
    {"gelu", fast::gelu, LayoutRole::Elements},
    {"log", fast::logarithm, LayoutRole::Elements},
    {"log1p", fast::logarithmOfOneMore, LayoutRole::Elements},
    {"log_sigmoid", fast::logSigmoid, LayoutRole::Elements},
    {"log_softmax", fast::softmax, LayoutRole::Plain},
    {"max", fast::largest, LayoutRole::Same},
    {"mean", fast::mean, LayoutRole::Same},
    {"min", fast::smallest, LayoutRole::Same},
    {"mish", fast::mish, LayoutRole::Elements},
    {"relu", fast::relu, LayoutRole::Elements},
    {"sigmoid", fast::sigmoid, LayoutRole::Elements},
    {"silu", fast::silu, LayoutRole::Elements},
    {"sin", fast::sine, LayoutRole::Elements},
    {"softmax", fast::softmax, LayoutRole::Plain},
    {"softmin", fast::softmax, LayoutRole::Plain},
    {"sum", fast::sum, LayoutRole::Same},
    {"take", fast::take, LayoutRole::Plain},
    {"tanh", fast::tangent, LayoutRole::Elements},
};

/// Operators without a fast kernel whose reference kernel computes element i of an output from elements i of its inputs
/// and from inputs of another rank, the same whatever i is; besides the steps of optimizers. Sorted.
constexpr StringRef kElementByElement[] = {
    "BlockGrad",
    "ones_like",
    "zeros_like",
};

constexpr const OpFamily *kFamilies[] = {
    &kZerosOnesFamily,
    &kElementwiseBinaryFamily,
    &kElementwiseUnaryFamily,
    &kElementwiseScalarFamily,
    &kDotFamily,
    &kBatchDotFamily,
    &kConcatFamily,
    &kActivationFamily,
    &kLeakyReluFamily,
    &kBatchNormFamily,
    &kConvolutionFamily,
    &kPoolingFamily,
    &kFullyConnectedFamily,
    &kSoftmaxOutputFamily,
    &kExtremaFamily,
    &kPowerFamily,
    &kBroadcastFamily,
    &kBroadcastToFamily,
    &kReduceFamily,
    &kGammaFunctionsFamily,
    &kComparisonFamily,
    &kSpecialFunctionsFamily,
    &kWhereFamily,
    &kSoftmaxFamily,
    &kSoftmaxActivationFamily,
    &kLrnFamily,
    &kDropoutFamily,
    &kLayerNormFamily,
    &kDeconvolutionFamily,
    &kOptimizerFamily,
    &kLossFamily,
    &kTakeFamily,
    &kRnnFamily,
    &kInterleavedMatmulFamily,
    &kLinalgGemmFamily,
    &kReduceExtremaFamily,
    &kTrigonometricFamily,
    &kActivationFunctionsFamily,
};

constexpr FastKernelRow kHostRow = {"", [](const KernelSite &site) { return site.kind->op->fastKernel(site); },
                                    LayoutRole::Plain};

constexpr FastKernelRow kElementwiseRow = {"", fast::sliced, LayoutRole::Elements};
constexpr FastKernelRow kStepRow = {"", fast::optimizerStep, LayoutRole::Elements};

/// An operator of a host that merely has the name of another is not that one.
bool isBuiltin(const OpDef &op) {
  return llvm::any_of(kFamilies, [&](const OpFamily *family) { return llvm::is_contained(*family, &op); });
}

}  // namespace

ArrayRef<FastKernelRow> fastKernelTable() { return kRows; }

const FastKernelRow *findFastKernel(const OpDef &op) {
  if (op.fastKernel) return &kHostRow;
  const FastKernelRow *row =
      llvm::lower_bound(kRows, op.name, [](const FastKernelRow &r, StringRef name) { return r.name < name; });
  const bool isListed = row != std::end(kRows) && row->name == op.name && isBuiltin(op);
  if (isListed) return row;
  if (op.flags.isStep && isBuiltin(op)) return &kStepRow;
  return op.flags.isElementwise ? &kElementwiseRow : nullptr;
}

LayoutRole referenceRole(const OpDef &op) {
  const bool isListed = std::binary_search(std::begin(kElementByElement), std::end(kElementByElement), op.name);
  return (isListed || op.flags.isStep) && isBuiltin(op) ? LayoutRole::Elements : LayoutRole::Plain;
}

}  // namespace gradc
