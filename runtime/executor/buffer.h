// Memory for tensors: aligned as memory plans promise, and an error rather than an abort when there is none.
#pragma once

#include "ir/tensor/tensor.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

#include <memory>

namespace gradc {

using Buffer = std::unique_ptr<char[], void (*)(char *)>;

/// Zeroed bytes aligned to kPlanAlignment; never null, so that empty tensors have an address too. TooLarge, naming
/// `what`
/// ("variable 'x'"), when the machine does not have that much.
llvm::Expected<Buffer> allocateBuffer(size_t bytes, const llvm::Twine &what);
/// The same, where up to `spare` of the bytes may never be touched: the machine may have less than all of them, and
/// pages that are not touched cost nothing.
llvm::Expected<Buffer> allocateBuffer(size_t bytes, size_t spare, const llvm::Twine &what);

/// Copies as many bytes as `to` has, which may be none; `from` is other memory with at least as many.
void copyBytes(const TensorRef &from, const TensorRef &to);

}  // namespace gradc
