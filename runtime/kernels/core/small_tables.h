// A bound on what kernels prepare. Tested by tests/runtime/machine_memory_test.cc
#pragma once

#include "runtime/kernels/core/prepared_kernel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace gradc::fast {

/// Whether `count` rows of `rowBytes` bytes are less than the tensors of the node, or few. A table along one long axis
/// may be larger than they are; then the reference kernel computes, which needs none.
inline bool isSmallTable(const KernelSite &site, int64_t count, size_t rowBytes) {
  constexpr uint64_t kFew = 1 << 16;
  uint64_t tensors = kFew;
  for (const TensorRef &tensor : llvm::concat<const TensorRef>(site.in, site.out))
    tensors = llvm::SaturatingAdd<uint64_t>(tensors, tensor.bytes());
  return static_cast<uint64_t>(count) <= tensors / rowBytes;
}

}  // namespace gradc::fast
