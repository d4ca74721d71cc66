// How graph-level attributes follow the nodes and entries they are about when a graph becomes another one.
// Tested by tests/graph_attrs_test.cc
#pragma once

#include "ir/graph.h"

#include <string>
#include <vector>

namespace gradc {

/// Where the nodes and entries of a graph, or of a file, went.
struct Renumbering {
  llvm::ArrayRef<NodeId> newId;         // by old id; invalid: dropped
  llvm::ArrayRef<uint32_t> entryBegin;  // first entry of each old node; one more element than nodes
  llvm::ArrayRef<Value> newValue = {};  // by old entry, where entries did not simply go with their nodes; invalid: dropped
};

/// Makes `attrs` of the old graph fit `graph`. Lists with one element per old node or entry, whoever wrote them, are
/// permuted; where nodes were added, or an operator has another number of outputs, they are dropped, and their names are
/// returned. Lists of ids (`grad_of_node`, `head_pairs`, `grad_constants`) name the new ones: a pair that lost a value is left
/// out, so is a constant that is gone or a variable. Linear.
std::vector<std::string> renumberGraphAttrs(GraphAttrs &attrs, const Renumbering &renumbering, const Graph &graph);

/// Takes out what inference and planning noted about entries.
void eraseEntryAttrs(GraphAttrs &attrs);

}  // namespace gradc
