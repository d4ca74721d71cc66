// Fills a registry with every built-in operator. Tested by tests/registry_test.cc
#include "ops/registry.h"

#include "ops/families.h"
#include "ops/primitives.h"

#include "llvm/Support/Error.h"

using namespace llvm;

namespace gradc {
namespace {

// Registration order is of no consequence: the registry sorts by name.
constexpr const OpFamily *kFamilies[] = {
    &kZerosOnesFamily, &kElementwiseBinaryFamily, &kElementwiseScalarFamily, &kElementwiseUnaryFamily,
    &kBroadcastFamily, &kReduceFamily,            &kShapeOpsFamily,          &kDotFamily,
    &kConcatFamily,    &kConstantFamily,          &kLossFamily,              &kSoftmaxOutputFamily,     &kRegressionOutputFamily,
    &kActivationFamily, &kBatchNormFamily, &kConvolutionFamily, &kDropoutFamily, &kFullyConnectedFamily,
    &kPoolingFamily, &kSoftmaxPartsFamily,
    &kTrigonometricFamily, &kRoundingFamily,
    &kLeakyReluFamily, &kSpecialFunctionsFamily, &kSoftmaxFamily, &kSoftmaxActivationFamily, &kLrnFamily,
    &kDeconvolutionFamily, &kUpSamplingFamily, &kAdaptivePoolingFamily, &kLayerNormFamily, &kEmbeddingFamily,
    &kBatchDotFamily, &kL2NormalizationFamily, &kOptimizerFamily,
    &kTransposeFamily, &kReverseFamily, &kRepeatFamily, &kReshapeFamily, &kSliceFamily, &kSplitStackFamily, &kBroadcastToFamily, &kCropFamily, &kPadFamily,
    &kAssignFamily, &kCastFamily, &kWhereFamily, &kExtremaFamily, &kPowerFamily, &kComparisonFamily, &kReduceExtremaFamily,
    &kBilinearResizeFamily, &kInstanceNormFamily, &kGammaFunctionsFamily, &kSequenceFamily,
    &kInTrainingFamily, &kIndexLikeFamily, &kRandomFamily, &kRangesFamily, &kSampleFamily,
};

}  // namespace

void registerBuiltinOps(OpRegistry &registry) {
  for (const OpFamily *family : kFamilies)
    for (const OpDef *op : *family) {
      Error error = registry.add(*op);
      assert(!error && "two built-in operators share a name");
      consumeError(std::move(error));
    }
  registry.wellKnown = {
      .zerosLike = &kZerosLike,
      .onesLike = &kOnesLike,
      .zerosPlaceholder = &kZerosPlaceholder,
      .copy = &kCopy,
      .identityLike = registry.find("_identity_with_attr_like_rhs"),
      .sum = &kElementWiseSum,
      .add = &kGradAdd,
  };
}

}  // namespace gradc
