// Nodes on which a rule is run to see what it emits: their inputs are fresh variables. Tested by
// tests/passes/infer_test.cc
#pragma once

#include "ir/graph/graph_builder.h"

namespace gradc {

/// Adds a node of the kind, after a nameless variable for each of its inputs.
NodeId addOverVariables(GraphBuilder &builder, const KindRef &kind);

}  // namespace gradc
