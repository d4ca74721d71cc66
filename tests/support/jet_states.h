// Operators over jets that overwrite a variable, and those of whole numbers. Tested by tests/differential_test.cc
#pragma once

#include "tests/support/jets.h"

namespace gradc::testing {

/// The outputs as of `evaluateNode`; nothing where the operator is none of these.
std::optional<std::vector<JetTensor>> evaluateSpecial(const SketchNode &node, llvm::ArrayRef<const JetTensor *> inputs);

/// Whether the operator takes whole numbers where these inputs have them.
bool takesIntegers(const SketchNode &node, llvm::ArrayRef<const JetTensor *> inputs);

}  // namespace gradc::testing
