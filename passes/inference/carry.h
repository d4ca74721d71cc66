// What is known of a graph, for a graph made of it. Tested by tests/passes/split_gradient_test.cc and
// tests/passes/gradient/higher_order_test.cc
#pragma once

#include "passes/inference/infer.h"

namespace gradc {

/// Nothing is known of the graph; shapes are to be in this table.
Inference unknownInference(const Graph &graph, std::shared_ptr<const ShapeTable> shapes);

/// Copies what is known of entry `of` in `from`, whose shapes are in the same table, to `entry`.
void setEntry(Inference &to, EntryId entry, const Inference &from, EntryId of);

/// By node of a rewritten graph of `numNodes` nodes: output 0 of the node that it was, invalid for an added one.
/// `newId` by node of the old graph, invalid for those that are gone.
std::vector<Value> sourcesOf(llvm::ArrayRef<NodeId> newId, uint32_t numNodes);

/// What is known of the entries of `before`, carried over to the entries of `now`: outputs of node n get what is known
/// of the entry `source[n]` and the outputs after it, and others are unknown. Shapes are in the same table; nothing is
/// carried for bodies.
Inference carry(const Inference &known, const Graph &before, const Graph &now, llvm::ArrayRef<Value> source);

/// What is known of the variables, as hints.
InferRequest knownVariables(const Graph &graph, const Inference &known);

/// The same, as hints for the variables of the same names in a rewritten graph, whose operators may determine less
/// about their operands. Nothing is known of variables that share a name but not their shape and type: which is which
/// can change in a rewrite.
InferRequest knownVariables(const Graph &graph, const Inference &known, const Graph &rewritten);

}  // namespace gradc
