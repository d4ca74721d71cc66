// What is known of variables, for a graph that was made of theirs.
#pragma once

#include "passes/infer.h"

namespace gradc {

/// Types and known shapes of the variables of a graph, for those of the same names in what it was rewritten to, whose
/// operators may say less of their operands.
InferRequest variablesOf(const Graph &graph, const Inference &inference, const Graph &rewritten);

}  // namespace gradc
