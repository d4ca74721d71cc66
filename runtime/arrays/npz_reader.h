// Reading NPZ archives. Tested by tests/runtime/npy_test.cc and tests/runtime/npz_open_test.cc
#pragma once

#include "runtime/arrays/npy.h"

#include "llvm/Support/MemoryBuffer.h"

namespace gradc {

/// Members in archive order; stored and deflated ones, zip64 included.
llvm::Expected<std::vector<NamedArray>> parseNpz(llvm::StringRef bytes, llvm::StringRef place);
/// The same without the elements, which stay archived: the directory and the headers are read and checked. Arrays that
/// are never read are never inflated. The arrays share the file.
llvm::Expected<std::vector<NamedArray>> openNpz(std::shared_ptr<const llvm::MemoryBuffer> file, llvm::StringRef place);

}  // namespace gradc
