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

}  // namespace gradc
