// The steps of a loop, one after the other. Tested by tests/passes/unroll_test.cc
#pragma once

#include "passes/unroll/expansion.h"

namespace gradc {

/// Unrolls a loop and returns its outputs; empty, with the reason, if the number of steps is not known.
llvm::Expected<llvm::SmallVector<Value, 8>> unrollLoop(Expansion &expansion, const Expansion::Scope &scope, NodeId n,
                                                       llvm::ArrayRef<Value> operands, std::string &whyNot);

}  // namespace gradc
