// What the kernels of the runtime and other operators read of ops/elementwise/leaky_relu.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"

#include <cstdint>

namespace gradc {

/// Of LeakyReLU and its gradient.
enum class LeakyType : uint8_t { Elu, Gelu, Leaky, Prelu, Rrelu, Selu };
inline constexpr llvm::StringRef kLeakyTypeNames[] = {"elu", "gelu", "leaky", "prelu", "rrelu", "selu"};
constexpr llvm::ArrayRef<llvm::StringRef> enumNames(LeakyType) { return kLeakyTypeNames; }
struct LeakyAttrs {
  LeakyType type;
  double slope;  // of leaky; elu approaches -slope, selu -slope · scale
  double scale;  // selu's slope above 0; else 1
};
LeakyAttrs leakyAttrs(const NodeKind &kind);

}  // namespace gradc
