// Shapes that only readers tell: that of a Reshape without `shape`, of zeros without a size. Tested by
// tests/passes/lowering/lower_mxnet_test.cc
#pragma once

#include "passes/inference/infer.h"
#include "passes/rewrite/rewriter.h"

namespace gradc {

/// The lowered graph; a copied node whose shape was told by a reader that the lowering replaced has it in its attribute
/// `shape`, since what is there in place of the reader may tell less. `known` is of the graph that was lowered.
llvm::Expected<Graph> keepToldShapes(Context &context, const Graph &graph, const Inference &known,
                                     const Rewritten &lowered);

}  // namespace gradc
