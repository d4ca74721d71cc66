// How files spell a graph's table: as graph-level attributes (CLI-03, CLI-04, settled: "The emitted gradient graph").
// Tested by tests/graph_table_test.cc
#pragma once

#include "ir/graph.h"

#include "llvm/Support/Error.h"

namespace gradc {

/// The table that `attrs` spell, of a graph with `entryBegin` (one more element than nodes) and `numHeads` heads. An
/// attribute of gradc's that does not fit is set apart as malformed; of a gradient table the fault is noted (E-35).
GraphTable parseGraphTable(GraphAttrs attrs, llvm::ArrayRef<uint32_t> entryBegin, size_t numHeads);

/// All of the table as attributes.
GraphAttrs spellGraphTable(const GraphTable &table);

/// The graph-level attributes of a graph, as a file spells them, and the graph with others.
GraphAttrs graphAttrsOf(const Graph &graph);
Graph withGraphAttrs(const Graph &graph, GraphAttrs attrs);

}  // namespace gradc
