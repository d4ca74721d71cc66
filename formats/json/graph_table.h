// How files spell a graph's table: as graph-level attributes (CLI-03, CLI-04, settled: "The emitted gradient graph").
// Tested by tests/ir/graph_table_test.cc
#pragma once

#include "ir/graph/graph.h"

#include "llvm/Support/Error.h"

namespace gradc {

/// Parses the table of a graph with `entryBegin` (one more element than nodes) and `numHeads` heads. An attribute of
/// gradc's that does not fit goes to `malformed`; the fault of a gradient table goes to `gradientFault` (E-35).
GraphTable parseGraphTable(GraphAttrs attrs, llvm::ArrayRef<uint32_t> entryBegin, size_t numHeads);

/// The whole table as attributes.
GraphAttrs spellGraphTable(const GraphTable &table);

/// The graph-level attributes of a graph as a file spells them, and a copy of the graph with other attributes.
GraphAttrs graphAttrsOf(const Graph &graph);
Graph withGraphAttrs(const Graph &graph, GraphAttrs attrs);

}  // namespace gradc
