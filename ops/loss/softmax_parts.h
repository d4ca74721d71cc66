// What gradients of softmax losses are made of: their differentiable and constant parts, which take SoftmaxOutput's
// attributes, and labels that are class numbers. Tested by tests/ops/loss_ops_test.cc
#pragma once

#include "ir/rules/grad_rule.h"

namespace gradc {

extern const OpDef kSoftmaxOutputSoftmax;  // _SoftmaxOutput_softmax(data)
extern const OpDef kSoftmaxOutputTarget;   // _SoftmaxOutput_target(data, label)
extern const OpDef kSoftmaxOutputWeight;   // _SoftmaxOutput_weight(data, label)

/// The class number of a label, without its fraction. Beyond 32 bits and for NaN it is -2^62, which equals no class.
inline int64_t classOf(double label) {
  constexpr double kLimit = 2147483648.0;
  return label > -kLimit && label < kLimit ? static_cast<int64_t>(label) : -(int64_t{1} << 62);
}

/// The least probability in softmax_cross_entropy, in single precision as in MXNet.
inline constexpr double kLeastProbability = 1e-8f;

/// 1 where the index along the last axis of data is the label's class, else 0; labels have the other axes.
inline Value classTargets(RuleContext &rule, Value data, Value label) {
  return rule.emit(kSoftmaxOutputTarget, {data, label}, {{"preserve_shape", "True"}});
}

}  // namespace gradc
