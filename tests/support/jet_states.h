// Operators over jets that overwrite a variable, and those of whole numbers. Tested by tests/differential_test.cc
#pragma once

#include "tests/support/jets.h"

#include <optional>

namespace gradc::testing {

/// The outputs as of `evaluateNode`; nothing where the operator is none of these.
std::optional<std::vector<JetTensor>> evaluateSpecial(const SketchNode &node, llvm::ArrayRef<const JetTensor *> inputs);

/// What a loop, branch or call yields, and what it leaves in the inputs that its bodies overwrite; none where a body cannot be
/// evaluated.
struct FlowValues {
  std::vector<JetTensor> outputs, states;
};
std::optional<FlowValues> evaluateFlow(const SketchFlow &flow, llvm::ArrayRef<const JetTensor *> inputs);

/// Whether the operator takes whole numbers where these inputs have them.
bool takesIntegers(const SketchNode &node, llvm::ArrayRef<const JetTensor *> inputs);

}  // namespace gradc::testing
