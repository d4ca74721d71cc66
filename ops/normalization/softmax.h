// What the kernels of the runtime and other operators read of ops/normalization/softmax.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"

#include <cstdint>

namespace gradc {

/// Of softmax, softmin, log_softmax and their gradients, and of SoftmaxActivation
/// (ops/normalization/softmax_activation.h): rows of x · factor.
struct SoftmaxAttrs {
  int64_t axis;   // counted from the end when negative
  double factor;  // also of the gradient
  bool isLog, hasLength;
};
SoftmaxAttrs softmaxAttrs(const NodeKind &kind);

extern const OpDef kLogSoftmax;  // log_softmax(x; axis)

}  // namespace gradc
