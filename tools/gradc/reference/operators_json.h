// The definitions of operators as JSON, for programs. Tested by tests/tools/golden_test.cc
#pragma once

#include "ir/op/op.h"

#include "llvm/Support/raw_ostream.h"

namespace gradc {

/// One array element per operator: names, ports, attribute schema, what is overwritten and what carries no gradient.
/// A bound that an attribute does not have is left out, and so is the default of a required one.
void printOperatorsJson(llvm::raw_ostream &os, llvm::ArrayRef<const OpDef *> operators);

}  // namespace gradc
