// An operator of ops/normalization/softmax.cc that losses emit. Tested by tests/ops/layer_ops_test.cc
#pragma once

#include "ir/op/op.h"

namespace gradc {

extern const OpDef kLogSoftmax;  // log_softmax(x; axis)

}  // namespace gradc
