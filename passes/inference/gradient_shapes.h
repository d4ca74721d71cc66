// A gradient has the shape and the type of what it is the gradient of (INF-10).
//
// Rules know no shapes: one that forgets to undo a broadcast, or to cast back, is found here, once an inference of the
// emitted graph knows both entries. Tested by tests/passes/gradient_shapes_test.cc
#pragma once

#include "passes/inference/infer.h"

namespace gradc {

/// E-57 for the first gradient head of an emitted graph that differs; success for other graphs. Linear in the heads.
llvm::Error checkGradientShapes(const Graph &graph, const Inference &inference);

}  // namespace gradc
