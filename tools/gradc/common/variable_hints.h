// Carries what is known of variables over to a rewritten graph.
#pragma once

#include "passes/inference/infer.h"

namespace gradc {

/// Types and known shapes of the variables of a graph, as hints for those of the same names in the rewritten graph,
/// whose operators may determine less about their operands. Nothing is known of variables that share a name but not
/// their shape and type: a rewrite can change which node is which.
InferRequest variablesOf(const Graph &graph, const Inference &inference, const Graph &rewritten);

}  // namespace gradc
