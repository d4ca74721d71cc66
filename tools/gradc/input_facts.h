// What the operator reference says of inputs: the ranks that shape inference accepts, found by trying, and what their names
// mean. Tested by tests/golden_test.cc
#pragma once

#include "ir/context.h"

#include <string>

namespace gradc {

/// "data (rank 4), weight (rank 4), bias (rank 1)": every input of a node whose attributes are defaults, or such that the
/// operator's check accepts them, with the ranks up to 6 that its shape function takes while nothing else is known. Inputs
/// that such a node lacks, and those of operators of any number, have names alone.
std::string inputsText(Context &context, const OpDef &op);
/// What inputs of this name hold, wherever they occur: "moving_mean" is the running mean. Empty for a name without an entry.
llvm::StringRef meaningOfInput(llvm::StringRef name);

}  // namespace gradc
