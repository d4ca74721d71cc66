// The operator families `registerBuiltinOps` lists; each array is the last definition of the file named like it.
#pragma once

#include "ir/op.h"

namespace gradc {

using OpFamily = llvm::ArrayRef<const OpDef *>;

extern const OpFamily kZerosOnesFamily;
extern const OpFamily kElementwiseBinaryFamily;
extern const OpFamily kElementwiseScalarFamily;
extern const OpFamily kElementwiseUnaryFamily;
extern const OpFamily kBroadcastFamily;
extern const OpFamily kReduceFamily;
extern const OpFamily kShapeOpsFamily;
extern const OpFamily kDotFamily;
extern const OpFamily kConcatFamily;
extern const OpFamily kConstantFamily;
extern const OpFamily kLossFamily;
extern const OpFamily kSoftmaxOutputFamily;
extern const OpFamily kSoftmaxPartsFamily;
extern const OpFamily kRegressionOutputFamily;
extern const OpFamily kActivationFamily;
extern const OpFamily kBatchNormFamily;
extern const OpFamily kConvolutionFamily;
extern const OpFamily kDropoutFamily;
extern const OpFamily kFullyConnectedFamily;
extern const OpFamily kPoolingFamily;
extern const OpFamily kTransposeFamily;
extern const OpFamily kReverseFamily;
extern const OpFamily kRepeatFamily;
extern const OpFamily kReshapeFamily;
extern const OpFamily kSliceFamily;
extern const OpFamily kSplitStackFamily;
extern const OpFamily kBroadcastToFamily;
extern const OpFamily kCropFamily;
extern const OpFamily kPadFamily;
extern const OpFamily kAssignFamily;
extern const OpFamily kCastFamily;
extern const OpFamily kInTrainingFamily;
extern const OpFamily kIndexLikeFamily;
extern const OpFamily kRandomFamily;
extern const OpFamily kRangesFamily;
extern const OpFamily kSampleFamily;
extern const OpFamily kWhereFamily;
extern const OpFamily kExtremaFamily;
extern const OpFamily kPowerFamily;
extern const OpFamily kComparisonFamily;
extern const OpFamily kReduceExtremaFamily;
extern const OpFamily kLeakyReluFamily;
extern const OpFamily kTrigonometricFamily;
extern const OpFamily kRoundingFamily;
extern const OpFamily kSpecialFunctionsFamily;
extern const OpFamily kSoftmaxFamily;
extern const OpFamily kSoftmaxActivationFamily;
extern const OpFamily kLrnFamily;
extern const OpFamily kDeconvolutionFamily;
extern const OpFamily kUpSamplingFamily;
extern const OpFamily kAdaptivePoolingFamily;
extern const OpFamily kLayerNormFamily;
extern const OpFamily kEmbeddingFamily;
extern const OpFamily kBatchDotFamily;
extern const OpFamily kL2NormalizationFamily;
extern const OpFamily kOptimizerFamily;
extern const OpFamily kBilinearResizeFamily;
extern const OpFamily kInstanceNormFamily;
extern const OpFamily kGammaFunctionsFamily;
extern const OpFamily kSequenceFamily;

}  // namespace gradc
