// What the operator reference says about inputs: the ranks that shape inference accepts, determined by trying, and the
// meaning of their names. Tested by tests/tools/golden_test.cc
#pragma once

#include "ir/graph/context.h"

#include <string>

namespace gradc {

/// "data (rank 4), weight (rank 4), bias (rank 1)": every input of a node with default attributes, or with ones that
/// the operator's check accepts, and the ranks up to 6 that its shape function takes if nothing else is known. Inputs
/// that such a node lacks, and those of variadic operators, have only names.
std::string inputsText(Context &context, const OpDef &op);
/// What inputs of this name hold, wherever they occur: "moving_mean" is the running mean. Empty for a name without an
/// entry.
llvm::StringRef meaningOfInput(llvm::StringRef name);

}  // namespace gradc
