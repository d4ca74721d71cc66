// Nodes by which a rule is tried out: over variables of their own. Tested by tests/passes/infer_test.cc
#pragma once

#include "ir/graph/graph_builder.h"

namespace gradc {

/// Adds a node of the kind, after a nameless variable for each of its inputs.
NodeId addOverVariables(GraphBuilder &builder, const KindRef &kind);

}  // namespace gradc
