// What the kernels of the runtime and other operators read of ops/random/dropout.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"

namespace gradc {

/// Of dropout: whether it drops when training, and the probability that an element stays.
struct DropoutAttrs {
  bool alwaysDrops;
  double keep;
};
DropoutAttrs dropoutAttrs(const NodeKind &kind);

}  // namespace gradc
