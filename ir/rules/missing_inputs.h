// For kernels that compute several outputs in one loop over all inputs.
#pragma once

#include "ir/rules/kernel.h"

#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <vector>

namespace gradc {

/// Runs `body` on the call. Inputs without memory, which only outputs that are not requested depend on (OpDef::reads),
/// get that of input 0: what is computed of them is dropped.
template <class Body> void withMissingInputs(const KernelCall &call, Body body) {
  const auto isMissing = [](const TensorRef &input) { return !input.data && input.size() != 0; };
  if (std::none_of(call.in.begin(), call.in.end(), isMissing)) return body(call);
  llvm::SmallVector<TensorRef, 8> in(call.in.begin(), call.in.end());
  size_t bytes = 0;
  for (const TensorRef &input : in)
    if (isMissing(input)) bytes = std::max(bytes, input.bytes());
  // Input 0 is smaller only where it has no elements, or fewer bytes each.
  std::vector<char> zeros(bytes > in[0].bytes() ? bytes : 0);
  for (TensorRef &input : in)
    if (isMissing(input)) input.data = zeros.empty() ? in[0].data : zeros.data();
  KernelCall filled = call;
  filled.in = in;
  body(filled);
}

}  // namespace gradc
