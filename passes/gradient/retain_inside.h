// Gradients of entries inside bodies, as heads of the emitted graph: a loop stacks them, one row per step (§9).
// Tested by tests/retain_inside_test.cc
#pragma once

#include "ir/graph.h"

#include "llvm/Support/Error.h"

namespace gradc {

/// Makes a head, behind those there are, of the gradient of each node that markRetained marked before `gradient` was built; the
/// marks and their taps are gone. In a loop the gradient of a step is row t of the head where the step runs row t, zeros where
/// no step runs; of loops within loops it is row t, u, and so on. In the table the head is retained, of the path.
///
/// Unreachable where no gradient arrives at one of `paths`, in the order of which the heads are.
llvm::Expected<Graph> retainInside(Context &context, const Graph &gradient, llvm::ArrayRef<std::string> paths);

}  // namespace gradc
