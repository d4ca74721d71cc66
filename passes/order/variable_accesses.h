// Who reads and who writes each version of the variables a graph overwrites (§12).
//
// At a position that an operator overwrites, version v reads v - 1 and writes v; a 0 there counts as 1. If every input
// has a variable at 0, as in files from before versions, the numbers mean nothing and id order decides: the k-th write
// in id order makes version k. Ignored inputs (REG-15) do not count as reads.
//
// A generated node reads what the node it was generated for read (MUT-03): the gradient of an operator that overwrites
// s refers to the s before, although it spells the same version as its forward node. Tested by
// tests/passes/order_mutation_test.cc
#pragma once

#include "ir/graph/graph_builder.h"

namespace gradc {

struct VariableAccess {
  NodeId variable;
  uint32_t version;  // the one read, or the one made
  bool isWrite;
  uint16_t spelled;  // the version at the input
  NodeId node;
};

/// Accesses to variables some node overwrites, ordered by variable, version, writes before reads, node; empty when no
/// node overwrites any. One row per node, variable and spelling, however often the node reads it. Linear.
std::vector<VariableAccess> listAccesses(const Graph &graph);
std::vector<VariableAccess> listAccesses(const GraphBuilder &builder);

}  // namespace gradc
