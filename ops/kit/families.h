// The operator families that `registerBuiltinOps` lists; each array is the last definition of the file of that name.
#pragma once

#include "ir/op/op.h"

namespace gradc {

using OpFamily = llvm::ArrayRef<const OpDef *>;

extern const OpFamily kActivationFamily;
extern const OpFamily kActivationFunctionsFamily;
extern const OpFamily kAdaptivePoolingFamily;
extern const OpFamily kAlongAxisFamily;
extern const OpFamily kAmpCastFamily;
extern const OpFamily kArgExtremaFamily;
extern const OpFamily kAssignFamily;
extern const OpFamily kBatchDotFamily;
extern const OpFamily kBatchNormFamily;
extern const OpFamily kBilinearResizeFamily;
extern const OpFamily kBinaryFunctionsFamily;
extern const OpFamily kBroadcastFamily;
extern const OpFamily kBroadcastToFamily;
extern const OpFamily kCallFamily;
extern const OpFamily kCastFamily;
extern const OpFamily kComparisonFamily;
extern const OpFamily kConcatFamily;
extern const OpFamily kCondFamily;
extern const OpFamily kConstantFamily;
extern const OpFamily kConvolutionFamily;
extern const OpFamily kCropFamily;
extern const OpFamily kCtcLossFamily;
extern const OpFamily kCumsumFamily;
extern const OpFamily kDeconvolutionFamily;
extern const OpFamily kDepthToSpaceFamily;
extern const OpFamily kDiagFamily;
extern const OpFamily kDotFamily;
extern const OpFamily kDropoutFamily;
extern const OpFamily kElementwiseBinaryFamily;
extern const OpFamily kElementwiseScalarFamily;
extern const OpFamily kElementwiseUnaryFamily;
extern const OpFamily kExtremaFamily;
extern const OpFamily kForeachFamily;
extern const OpFamily kFullyConnectedFamily;
extern const OpFamily kGammaFunctionsFamily;
extern const OpFamily kGatherNdFamily;
extern const OpFamily kGroupNormFamily;
extern const OpFamily kIm2colFamily;
extern const OpFamily kInTrainingFamily;
extern const OpFamily kIndexCopyFamily;
extern const OpFamily kIndexLikeFamily;
extern const OpFamily kInstanceNormFamily;
extern const OpFamily kInterleavedMatmulFamily;
extern const OpFamily kKhatriRaoFamily;
extern const OpFamily kL2NormalizationFamily;
extern const OpFamily kLastReverseFamily;
extern const OpFamily kLayerNormFamily;
extern const OpFamily kLeakyReluFamily;
extern const OpFamily kLinalgGemmFamily;
extern const OpFamily kLossFamily;
extern const OpFamily kLrnFamily;
extern const OpFamily kMultiIndexFamily;
extern const OpFamily kNormFamily;
extern const OpFamily kOptimizerFamily;
extern const OpFamily kOrderingFamily;
extern const OpFamily kPadFamily;
extern const OpFamily kPickFamily;
extern const OpFamily kPoolingFamily;
extern const OpFamily kPowerFamily;
extern const OpFamily kProductFamily;
extern const OpFamily kRandomFamily;
extern const OpFamily kRangesFamily;
extern const OpFamily kReduceExtremaFamily;
extern const OpFamily kReduceFamily;
extern const OpFamily kRegressionOutputFamily;
extern const OpFamily kRepeatFamily;
extern const OpFamily kReshapeFamily;
extern const OpFamily kReverseFamily;
extern const OpFamily kRnnFamily;
extern const OpFamily kRoundingFamily;
extern const OpFamily kSampleFamily;
extern const OpFamily kScanFamily;
extern const OpFamily kSequenceFamily;
extern const OpFamily kShapeArrayFamily;
extern const OpFamily kShapeOpsFamily;
extern const OpFamily kShuffleFamily;
extern const OpFamily kSliceAssignFamily;
extern const OpFamily kSliceFamily;
extern const OpFamily kSoftmaxActivationFamily;
extern const OpFamily kSoftmaxCrossEntropyFamily;
extern const OpFamily kSoftmaxFamily;
extern const OpFamily kSoftmaxOutputFamily;
extern const OpFamily kSoftmaxPartsFamily;
extern const OpFamily kSpecialFunctionsFamily;
extern const OpFamily kSplitStackFamily;
extern const OpFamily kStraightThroughFamily;
extern const OpFamily kSvmOutputFamily;
extern const OpFamily kTakeFamily;
extern const OpFamily kTransposeFamily;
extern const OpFamily kTrigonometricFamily;
extern const OpFamily kUpSamplingFamily;
extern const OpFamily kWhereFamily;
extern const OpFamily kWhileLoopFamily;
extern const OpFamily kZerosOnesFamily;

}  // namespace gradc
