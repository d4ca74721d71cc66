// An array's file in two parts, for archives of them. Tested by tests/npy_test.cc
#pragma once

#include "ir/tensor.h"

#include "llvm/Support/Error.h"

#include <string>

namespace gradc {

/// What comes before the data. UnsupportedOption for bfloat16.
llvm::Expected<std::string> npyHeader(const TensorRef &tensor);
/// The data: the tensor's own bytes, or in `scratch` where they have to be others.
llvm::StringRef npyData(const TensorRef &tensor, std::string &scratch);

}  // namespace gradc
