// Lowering does not rename heads. Tested by tests/passes/lowering/lower_to_test.cc
#pragma once

#include "ir/graph/graph.h"

namespace gradc {

/// States in `lowered` the listed names (IR-16) of those forward heads that `before` lists otherwise: a node of one
/// output may have become a loop of several. Linear.
llvm::Expected<Graph> keepHeadNames(Context &context, const Graph &before, const Graph &lowered);

}  // namespace gradc
