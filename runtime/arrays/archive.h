// Files of named arrays. Tested by tests/runtime/params_test.cc
#pragma once

#include "runtime/arrays/npy.h"

#include "llvm/Support/MemoryBuffer.h"

namespace gradc {

/// The arrays of an NPZ archive or of a file of MXNet's parameters, whichever its bytes are, without elements, as
/// openNpz and openParams.
llvm::Expected<std::vector<NamedArray>> openArchive(std::shared_ptr<const llvm::MemoryBuffer> file,
                                                    llvm::StringRef place, std::vector<std::string> &notes);

}  // namespace gradc
