// Attributes common to operators that carry their own loss.
//
// The gradient of such an operator is that of the loss, whatever head gradient arrives. MXNet keeps their factors in
// float32, also where tensors are float64; gradc rounds where MXNet does, so that gradients agree to the last bits.
#pragma once

#include "ir/op/attr_spec.h"

namespace gradc {

/// The divisor of a loss.
enum class LossNormalization { Null, Batch, Valid };

inline constexpr llvm::StringRef kLossNormalizationNames[] = {"null", "batch", "valid"};
constexpr llvm::ArrayRef<llvm::StringRef> enumNames(LossNormalization) { return kLossNormalizationNames; }

}  // namespace gradc
