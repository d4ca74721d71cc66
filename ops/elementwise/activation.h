// What the kernels of the runtime and other operators read of ops/elementwise/activation.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"

#include <cstdint>

namespace gradc {

/// Of Activation and its gradient.
enum class ActType : uint8_t { Relu, Sigmoid, Softrelu, Softsign, Tanh };
inline constexpr llvm::StringRef kActTypeNames[] = {"relu", "sigmoid", "softrelu", "softsign", "tanh"};
constexpr llvm::ArrayRef<llvm::StringRef> enumNames(ActType) { return kActTypeNames; }
ActType activationType(const NodeKind &kind);

}  // namespace gradc
