// What must hold between a y and its head gradient: shapes are equal (E-38), types are of one class (E-39), and a y
// without a seed has one element under HeadPolicy::Scalar (E-03). A gradient has the shape and the type of what it is
// the gradient of (INF-10).
//
// A request is checked with the shapes known so far. Pairs that are not fully known yet go into the table of the
// emitted graph, so that the next inference with more shapes gives the same error. Gradient rules know no shapes: one
// that forgets to undo a broadcast, or to cast back, is found once an inference of the emitted graph knows both
// entries. Tested by tests/passes/gradient/gradient_heads_test.cc and tests/passes/gradient_shapes_test.cc
#pragma once

#include "ir/graph/graph_table.h"
#include "passes/inference/infer.h"

namespace gradc {

/// Checks what is known of the pair; `inference` is of `graph`.
llvm::Error checkHeadPair(const Graph &graph, const Inference &inference, HeadPair pair);

/// Whether everything that has to be checked of the pair is known.
bool isFullyChecked(const Graph &graph, const Inference *inference, HeadPair pair);

/// `checkHeadPair` for all pairs in the graph's table.
llvm::Error checkHeadPairs(const Graph &graph, const Inference &inference);

/// E-57 for the first gradient head of an emitted graph that differs; success for other graphs. Linear in the heads.
llvm::Error checkGradientShapes(const Graph &graph, const Inference &inference);

}  // namespace gradc
