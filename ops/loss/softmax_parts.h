// The differentiable and the constant parts of SoftmaxOutput's gradient. All take SoftmaxOutput's attributes.
#pragma once

#include "ir/op/op.h"

namespace gradc {

extern const OpDef kSoftmaxOutputSoftmax;  // _SoftmaxOutput_softmax(data)
extern const OpDef kSoftmaxOutputTarget;   // _SoftmaxOutput_target(data, label)
extern const OpDef kSoftmaxOutputWeight;   // _SoftmaxOutput_weight(data, label)

/// Shapes of (data, …) and of output 0, which has the shape of data: whether it has the axes that rows need.
void softmaxDataShape(ShapeInference &s);
/// Shapes of (data, label, …) and of output 0.
void softmaxOutputShape(ShapeInference &s);

}  // namespace gradc
