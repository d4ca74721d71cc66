// Cuts a combined graph where its forward part ends: the rest becomes a separate graph, whose variables are the head
// gradients and the values that it reads from the forward part.
//
//   GradientResult result = cantFail(buildGradient(context, graph, request, options));
//   SplitGradient split =
//       cantFail(splitGradient(context, result.graph, result.stats.numForwardNodes, graph.heads().size()));
//
// A host that runs the parts separately keeps the `saved` entries from one to the other, and nothing else (RC-04). An
// entry that generated nodes have only at ignored positions (REG-15) is a variable as well, so that every node keeps
// its operands; its shape and type are used, its contents are not.
//
// The forward node of a fused backward operator (control dependency 0) is in the other part, so the backward graph
// lacks the correspondence that inference relies on (INF-08): `backwardInference` takes over what is known of the
// combined graph. Tested by tests/passes/split_gradient_test.cc
#pragma once

#include "passes/inference/infer.h"

namespace gradc {

/// An entry of the combined graph's forward part, and the variable of the backward graph that takes it.
struct CrossingValue {
  Value entry;
  NodeId variable;
  friend bool operator==(const CrossingValue &, const CrossingValue &) = default;
};

struct SplitGradient {
  /// Its heads are the gradient heads of the combined graph, in order, and generated nodes keep their names and their
  /// order. A variable that replaces a computed entry has the entry's listed name (IR-16), one that replaces a variable
  /// its name and attributes. The table is empty, and no node has an origin (see `source`).
  Graph backward;
  /// Entries that a generated node reads at a position that is not ignored, in the order of first use; then those that
  /// are gradient heads themselves. A variable has the version that is read.
  std::vector<CrossingValue> saved;
  std::vector<CrossingValue> shapesOnly;  // the other entries, in the order of first use
  std::vector<NodeId> newId;  // by node of the combined graph; invalid for forward nodes and unused variables
  std::vector<Value> source;  // by node of `backward`: output 0 of its original, or the entry that it replaces
};

/// Cuts after the first `numForwardNodes` nodes (GradientStats) and `numForwardHeads` heads: for a graph of order k,
/// those of order k - 1. StaleVersion where a generated node reads what the forward part has overwritten by the time it
/// ends (OverwrittenPolicy::Save leaves no such read), BadMutation where one overwrites a variable of the forward part.
///
/// Control dependencies on forward nodes are dropped; a variable replaces the first one of a fused backward operator
/// that waits for other nodes as well, so that none of these is mistaken for its forward node. Linear.
llvm::Expected<SplitGradient> splitGradient(Context &context, const Graph &combined, uint32_t numForwardNodes,
                                            size_t numForwardHeads);

/// What is known of the entries of `combined`, carried over to those of `split.backward`; shapes are in the same table.
Inference backwardInference(const SplitGradient &split, const Graph &combined, const Inference &inference);

}  // namespace gradc
