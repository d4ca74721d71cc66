// The factories that runtime/kernels/table.cc lists, by the file they are in. Tested by tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/graph/graph.h"
#include "runtime/kernels/core/prepared_kernel.h"

namespace gradc::fast {

// runtime/kernels/convolution/convolution.cc
std::unique_ptr<PreparedKernel> convolution(const KernelSite &site);
std::unique_ptr<PreparedKernel> convolutionBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> convolutionDataGrad(const KernelSite &site);
std::unique_ptr<PreparedKernel> convolutionWeightGrad(const KernelSite &site);
// their FilterOperands::suitTiles; the second serves convolutionWeightGrad too
bool convolutionSuitsTiles(const KernelSite &site);
bool convolutionBackwardSuitsTiles(const KernelSite &site);
bool convolutionDataGradSuitsTiles(const KernelSite &site);

// runtime/kernels/convolution/gemm_convolution.cc: any floating type, plain operands
std::unique_ptr<PreparedKernel> gemmConvolution(const KernelSite &site);
std::unique_ptr<PreparedKernel> gemmConvolutionBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> gemmConvolutionDataGrad(const KernelSite &site);
std::unique_ptr<PreparedKernel> gemmConvolutionWeightGrad(const KernelSite &site);

// runtime/kernels/normalization/batch_norm.cc
std::unique_ptr<PreparedKernel> batchNorm(const KernelSite &site);
std::unique_ptr<PreparedKernel> batchNormBackward(const KernelSite &site);

// runtime/kernels/spatial/pooling.cc
std::unique_ptr<PreparedKernel> pooling(const KernelSite &site);
std::unique_ptr<PreparedKernel> poolingBackward(const KernelSite &site);

// runtime/kernels/matrix/dense.cc
std::unique_ptr<PreparedKernel> fullyConnected(const KernelSite &site);
std::unique_ptr<PreparedKernel> fullyConnectedBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> dot(const KernelSite &site);
std::unique_ptr<PreparedKernel> dotBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> batchDot(const KernelSite &site);

// runtime/kernels/matrix/matrix_batches.cc
std::unique_ptr<PreparedKernel> linalgGemm(const KernelSite &site);
std::unique_ptr<PreparedKernel> linalgGemmBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> selfQueryKey(const KernelSite &site);
std::unique_ptr<PreparedKernel> selfQueryKeyBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> selfValues(const KernelSite &site);
std::unique_ptr<PreparedKernel> selfValuesBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> crossQueryKey(const KernelSite &site);
std::unique_ptr<PreparedKernel> crossQueryKeyBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> crossValues(const KernelSite &site);
std::unique_ptr<PreparedKernel> crossValuesBackward(const KernelSite &site);

// runtime/kernels/elementwise/elementwise.cc
std::unique_ptr<PreparedKernel> relu(const KernelSite &site);
std::unique_ptr<PreparedKernel> reluBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> add(const KernelSite &site);
std::unique_ptr<PreparedKernel> subtract(const KernelSite &site);
std::unique_ptr<PreparedKernel> multiply(const KernelSite &site);
std::unique_ptr<PreparedKernel> copy(const KernelSite &site);
std::unique_ptr<PreparedKernel> fill(const KernelSite &site);
std::unique_ptr<PreparedKernel> cast(const KernelSite &site);

// runtime/kernels/elementwise/functions.cc
std::unique_ptr<PreparedKernel> exponential(const KernelSite &site);
std::unique_ptr<PreparedKernel> exponentialLessOne(const KernelSite &site);
std::unique_ptr<PreparedKernel> exponentialLessOneBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> logarithm(const KernelSite &site);
std::unique_ptr<PreparedKernel> logarithmOfOneMore(const KernelSite &site);
std::unique_ptr<PreparedKernel> sigmoid(const KernelSite &site);
std::unique_ptr<PreparedKernel> tangent(const KernelSite &site);
std::unique_ptr<PreparedKernel> sine(const KernelSite &site);
std::unique_ptr<PreparedKernel> sineBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> cosine(const KernelSite &site);
std::unique_ptr<PreparedKernel> cosineBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> errorFunction(const KernelSite &site);
std::unique_ptr<PreparedKernel> errorFunctionBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> logSigmoid(const KernelSite &site);
std::unique_ptr<PreparedKernel> logSigmoidBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> silu(const KernelSite &site);
std::unique_ptr<PreparedKernel> siluBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> mish(const KernelSite &site);
std::unique_ptr<PreparedKernel> mishBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> gelu(const KernelSite &site);
std::unique_ptr<PreparedKernel> geluBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> activation(const KernelSite &site);
std::unique_ptr<PreparedKernel> activationBackward(const KernelSite &site);

// runtime/kernels/elementwise/arithmetic.cc
std::unique_ptr<PreparedKernel> plusScalar(const KernelSite &site);
std::unique_ptr<PreparedKernel> minusScalar(const KernelSite &site);
std::unique_ptr<PreparedKernel> scalarMinus(const KernelSite &site);
std::unique_ptr<PreparedKernel> timesScalar(const KernelSite &site);
std::unique_ptr<PreparedKernel> overScalar(const KernelSite &site);
std::unique_ptr<PreparedKernel> scalarOver(const KernelSite &site);
std::unique_ptr<PreparedKernel> scalarOverBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> maximumScalar(const KernelSite &site);
std::unique_ptr<PreparedKernel> maximumScalarBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> minimumScalar(const KernelSite &site);
std::unique_ptr<PreparedKernel> minimumScalarBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> greaterScalar(const KernelSite &site);
std::unique_ptr<PreparedKernel> negative(const KernelSite &site);
std::unique_ptr<PreparedKernel> clip(const KernelSite &site);
std::unique_ptr<PreparedKernel> clipBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> absolute(const KernelSite &site);
std::unique_ptr<PreparedKernel> absoluteBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> square(const KernelSite &site);
std::unique_ptr<PreparedKernel> squareBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> squareRoot(const KernelSite &site);
std::unique_ptr<PreparedKernel> squareRootBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> reciprocal(const KernelSite &site);
std::unique_ptr<PreparedKernel> reciprocalBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> logarithmBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> sigmoidBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> tangentBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> divide(const KernelSite &site);
std::unique_ptr<PreparedKernel> divideBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> multiplyBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> maximum(const KernelSite &site);
std::unique_ptr<PreparedKernel> minimum(const KernelSite &site);
std::unique_ptr<PreparedKernel> maximumBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> minimumBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> choose(const KernelSite &site);

std::unique_ptr<PreparedKernel> powerScalar(const KernelSite &site);
std::unique_ptr<PreparedKernel> powerScalarBackward(const KernelSite &site);

// runtime/kernels/core/sliced.cc: element-wise operators, by their reference kernels. referenceLoop is for those whose loop the
// compiler vectorises for every instruction set; it counts as fast.
std::unique_ptr<PreparedKernel> sliced(const KernelSite &site);
std::unique_ptr<PreparedKernel> referenceLoop(const KernelSite &site);

// runtime/kernels/elementwise/leaky_relu.cc
std::unique_ptr<PreparedKernel> leakyRelu(const KernelSite &site);
std::unique_ptr<PreparedKernel> leakyReluBackward(const KernelSite &site);

// runtime/kernels/normalization/softmax_output.cc
std::unique_ptr<PreparedKernel> softmaxOutput(const KernelSite &site);
std::unique_ptr<PreparedKernel> softmaxOutputGrad(const KernelSite &site);
std::unique_ptr<PreparedKernel> softmaxOutputBackward(const KernelSite &site);

// runtime/kernels/elementwise/broadcast.cc
std::unique_ptr<PreparedKernel> broadcastAdd(const KernelSite &site);
std::unique_ptr<PreparedKernel> broadcastSubtract(const KernelSite &site);
std::unique_ptr<PreparedKernel> broadcastMultiply(const KernelSite &site);
std::unique_ptr<PreparedKernel> broadcastDivide(const KernelSite &site);
std::unique_ptr<PreparedKernel> broadcastMaximum(const KernelSite &site);
std::unique_ptr<PreparedKernel> broadcastMinimum(const KernelSite &site);
std::unique_ptr<PreparedKernel> broadcastMaximumBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> broadcastMinimumBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> broadcastAddBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> broadcastSubtractBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> broadcastMultiplyBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> broadcastDivideBackward(const KernelSite &site);

// runtime/kernels/reduction/reduce.cc
std::unique_ptr<PreparedKernel> sum(const KernelSite &site);
std::unique_ptr<PreparedKernel> mean(const KernelSite &site);
std::unique_ptr<PreparedKernel> sumBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> meanBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> sumDown(const KernelSite &site);
std::unique_ptr<PreparedKernel> repeat(const KernelSite &site);

// runtime/kernels/reduction/extrema.cc: max, min and their gradients
std::unique_ptr<PreparedKernel> largest(const KernelSite &site);
std::unique_ptr<PreparedKernel> smallest(const KernelSite &site);
std::unique_ptr<PreparedKernel> extremumBackward(const KernelSite &site);

// runtime/kernels/reduction/product.cc: prod and nanprod
std::unique_ptr<PreparedKernel> product(const KernelSite &site);
std::unique_ptr<PreparedKernel> productBackward(const KernelSite &site);

// runtime/kernels/elementwise/optimizer_steps.cc
std::unique_ptr<PreparedKernel> optimizerStep(const KernelSite &site);

// runtime/kernels/normalization/softmax.cc
std::unique_ptr<PreparedKernel> softmax(const KernelSite &site);
std::unique_ptr<PreparedKernel> softmaxBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> softmaxActivation(const KernelSite &site);
std::unique_ptr<PreparedKernel> softmaxActivationBackward(const KernelSite &site);

// runtime/kernels/spatial/lrn.cc
std::unique_ptr<PreparedKernel> lrn(const KernelSite &site);
std::unique_ptr<PreparedKernel> lrnBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> channelWindowSum(const KernelSite &site);

// runtime/kernels/elementwise/dropout.cc
std::unique_ptr<PreparedKernel> dropout(const KernelSite &site);
std::unique_ptr<PreparedKernel> dropoutBackward(const KernelSite &site);

// runtime/kernels/normalization/layer_norm.cc
std::unique_ptr<PreparedKernel> layerNorm(const KernelSite &site);
std::unique_ptr<PreparedKernel> layerNormBackward(const KernelSite &site);

// runtime/kernels/convolution/deconvolution.cc
std::unique_ptr<PreparedKernel> deconvolution(const KernelSite &site);
std::unique_ptr<PreparedKernel> deconvolutionBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> deconvolutionDataGrad(const KernelSite &site);
std::unique_ptr<PreparedKernel> deconvolutionWeightGrad(const KernelSite &site);
std::unique_ptr<PreparedKernel> bilinearUpSampling(const KernelSite &site);
std::unique_ptr<PreparedKernel> bilinearUpSamplingBackward(const KernelSite &site);

// runtime/kernels/index/rows.cc
std::unique_ptr<PreparedKernel> take(const KernelSite &site);
std::unique_ptr<PreparedKernel> takeBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> gatherNd(const KernelSite &site);
std::unique_ptr<PreparedKernel> gatherNdBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> addAtTuples(const KernelSite &site);
std::unique_ptr<PreparedKernel> embedding(const KernelSite &site);
std::unique_ptr<PreparedKernel> embeddingBackward(const KernelSite &site);

// runtime/kernels/index/put_rows.cc
std::unique_ptr<PreparedKernel> scatterNd(const KernelSite &site);
std::unique_ptr<PreparedKernel> putAtTuples(const KernelSite &site);
std::unique_ptr<PreparedKernel> putAtTuplesOfZeros(const KernelSite &site);
std::unique_ptr<PreparedKernel> indexCopy(const KernelSite &site);
std::unique_ptr<PreparedKernel> indexCopyBackward(const KernelSite &site);

// runtime/kernels/index/pick.cc
std::unique_ptr<PreparedKernel> pick(const KernelSite &site);
std::unique_ptr<PreparedKernel> pickBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> oneHot(const KernelSite &site);

// runtime/kernels/reduction/norm.cc
std::unique_ptr<PreparedKernel> norm(const KernelSite &site);
std::unique_ptr<PreparedKernel> normBackward(const KernelSite &site);

// runtime/kernels/reduction/cumsum.cc
std::unique_ptr<PreparedKernel> cumsum(const KernelSite &site);
std::unique_ptr<PreparedKernel> cumsumBackward(const KernelSite &site);

// runtime/kernels/normalization/softmax_cross_entropy.cc
std::unique_ptr<PreparedKernel> softmaxCrossEntropy(const KernelSite &site);
std::unique_ptr<PreparedKernel> softmaxCrossEntropyBackward(const KernelSite &site);

// runtime/kernels/convolution/im2col.cc: im2col and the gradient of col2im; the other way round
std::unique_ptr<PreparedKernel> toColumns(const KernelSite &site);
std::unique_ptr<PreparedKernel> toImage(const KernelSite &site);

// runtime/kernels/index/ordering.cc: topk, sort and argsort, and their gradient; _sort_order
std::unique_ptr<PreparedKernel> ordering(const KernelSite &site);
std::unique_ptr<PreparedKernel> orderingBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> sortOrder(const KernelSite &site);

// runtime/kernels/rnn/rnn.cc
std::unique_ptr<PreparedKernel> rnn(const KernelSite &site);
std::unique_ptr<PreparedKernel> rnnBackward(const KernelSite &site);
// TapeOperands::fit of rnnBackward
bool rnnTapeFits(const NodeKind &forward, llvm::ArrayRef<Value> forwardInputs, llvm::ArrayRef<Value> backwardInputs);

// runtime/kernels/movement/concat.cc
std::unique_ptr<PreparedKernel> concat(const KernelSite &site);
std::unique_ptr<PreparedKernel> concatBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> splitParts(const KernelSite &site);
std::unique_ptr<PreparedKernel> joinParts(const KernelSite &site);

// runtime/kernels/movement/views.cc
std::unique_ptr<PreparedKernel> transpose(const KernelSite &site);
std::unique_ptr<PreparedKernel> swapAxis(const KernelSite &site);
std::unique_ptr<PreparedKernel> slice(const KernelSite &site);
std::unique_ptr<PreparedKernel> sliceBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> sliceAxis(const KernelSite &site);
std::unique_ptr<PreparedKernel> sliceAxisBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> sliceLike(const KernelSite &site);
std::unique_ptr<PreparedKernel> sliceLikeBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> crop(const KernelSite &site);
std::unique_ptr<PreparedKernel> cropBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> repeatElements(const KernelSite &site);
std::unique_ptr<PreparedKernel> repeatElementsBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> tile(const KernelSite &site);
std::unique_ptr<PreparedKernel> tileBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> reverse(const KernelSite &site);
std::unique_ptr<PreparedKernel> depthToSpace(const KernelSite &site);
std::unique_ptr<PreparedKernel> spaceToDepth(const KernelSite &site);

// runtime/kernels/movement/pad.cc
std::unique_ptr<PreparedKernel> pad(const KernelSite &site);
std::unique_ptr<PreparedKernel> padBackward(const KernelSite &site);

// runtime/kernels/spatial/up_sampling.cc
std::unique_ptr<PreparedKernel> upSampling(const KernelSite &site);
std::unique_ptr<PreparedKernel> upSamplingBackward(const KernelSite &site);

// runtime/kernels/spatial/resize.cc
std::unique_ptr<PreparedKernel> bilinearResize(const KernelSite &site);
std::unique_ptr<PreparedKernel> bilinearResizeBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> adaptivePooling(const KernelSite &site);
std::unique_ptr<PreparedKernel> adaptivePoolingBackward(const KernelSite &site);

// runtime/kernels/normalization/instance_norm.cc
std::unique_ptr<PreparedKernel> groupNorm(const KernelSite &site);
std::unique_ptr<PreparedKernel> groupNormBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> instanceNorm(const KernelSite &site);
std::unique_ptr<PreparedKernel> instanceNormBackward(const KernelSite &site);

// runtime/kernels/normalization/l2_normalization.cc
std::unique_ptr<PreparedKernel> l2Normalization(const KernelSite &site);
std::unique_ptr<PreparedKernel> l2NormalizationBackward(const KernelSite &site);

// runtime/kernels/elementwise/regression.cc: gradc's own gradients, from the input, and MXNet's, from the output
std::unique_ptr<PreparedKernel> linearRegressionGrad(const KernelSite &site);
std::unique_ptr<PreparedKernel> logisticRegressionGrad(const KernelSite &site);
std::unique_ptr<PreparedKernel> maeRegressionGrad(const KernelSite &site);
std::unique_ptr<PreparedKernel> differenceRegressionBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> maeRegressionBackward(const KernelSite &site);

}  // namespace gradc::fast
