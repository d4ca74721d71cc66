// What the kernels of the runtime and other operators read of ops/normalization/softmax_activation.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"
#include "ops/normalization/softmax.h"

namespace gradc {

/// Of SoftmaxActivation and its gradient.
SoftmaxAttrs softmaxActivationAttrs(const NodeKind &kind);

}  // namespace gradc
