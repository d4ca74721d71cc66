// Attributes that lowering adds to nodes that stay, because others have gone. Tested by
// tests/passes/lowering/lower_to_test.cc and tests/passes/lowering/lower_mxnet_test.cc
#pragma once

#include "passes/inference/infer.h"
#include "passes/rewrite/rewriter.h"

namespace gradc {

/// The lowered graph, in which a copied node whose shape came from a reader that was replaced (a Reshape without
/// `shape`, zeros without a size) states it in its attribute `shape`. `known` is of the graph that was lowered.
llvm::Expected<Graph> restateShapes(Context &context, const Graph &graph, const Inference &known,
                                    const Rewritten &lowered);

/// States in `lowered` the listed names (IR-16) of those forward heads that `before` lists otherwise: a node of one
/// output may have become a loop of several. Linear.
llvm::Expected<Graph> keepHeadNames(Context &context, const Graph &before, const Graph &lowered);

}  // namespace gradc
