// Jet evaluation of operators that overwrite a variable, and of operators on integers.
// Tested by tests/networks/differential_test.cc
#pragma once

#include "tests/support/drawn/jets.h"

#include <optional>

namespace gradc::testing {

/// The outputs, as from `evaluateNode`; none if the operator is not one of these.
std::optional<std::vector<JetTensor>> evaluateSpecial(const SketchNode &node, llvm::ArrayRef<const JetTensor *> inputs);

/// The outputs of a loop, branch or call, and the new values of the inputs that its bodies overwrite; none if a body
/// cannot be evaluated.
struct FlowValues {
  std::vector<JetTensor> outputs, states;
};
std::optional<FlowValues> evaluateFlow(const SketchFlow &flow, llvm::ArrayRef<const JetTensor *> inputs);

/// Whether the operator accepts integers where these inputs have them.
bool takesIntegers(const SketchNode &node, llvm::ArrayRef<const JetTensor *> inputs);

}  // namespace gradc::testing
