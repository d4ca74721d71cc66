// An NPY file in two parts, for archives. Tested by tests/npy_test.cc
#pragma once

#include "ir/tensor.h"

#include "llvm/Support/Error.h"

#include <string>

namespace gradc {

/// What comes before the data. UnsupportedOption for an unknown dtype.
llvm::Expected<std::string> npyHeader(const TensorRef &tensor);
/// The data: the tensor's own bytes; bools as 0 or 1, in `scratch`.
llvm::StringRef npyData(const TensorRef &tensor, std::string &scratch);

}  // namespace gradc
