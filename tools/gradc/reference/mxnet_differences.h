// Where MXNet 1.9.1 answers otherwise than an operator here, in words; docs/mxnet_differences.md has the proofs.
// Tested by tests/tools/operator_reference_test.cc
#pragma once

#include "llvm/ADT/StringRef.h"

#include <vector>

namespace gradc {

/// What MXNet does with the operator; empty if no difference is known.
std::vector<llvm::StringRef> mxnetDifferences(llvm::StringRef op);

}  // namespace gradc
