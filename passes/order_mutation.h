// Keeps every reader of an overwritten variable at the version it means (§12, IR-09, MUT-03).
//
// A write waits for the reads of the version before it, or for that write when nothing reads it; a read waits for the
// write that made its version. Where ids have the order already this only adds control dependencies, and ids stay. A
// generated node that reads what has been overwritten by then gets a saved copy instead: no dependency ever makes a
// forward node wait for the backward part. Forward nodes get copies only where the dependencies would close a cycle, and where a
// body overwrites what its node also reads as another input.
//
// A head that is a variable is not kept: it shows what the variable holds when the run ends.
// Tested by tests/order_mutation_test.cc
#pragma once

#include "passes/gradient/gradient.h"
#include "passes/schedule.h"

#include "ir/graph_builder.h"

namespace gradc {

struct OrderedGraph {
  Graph graph;
  std::vector<NodeId> newId;                    // by node of the graph given
  uint32_t numDependencies = 0, numCopies = 0;  // added
};

/// The same graph when nothing has to be added; so doing it twice changes nothing. E-30 where an operator overwrites
/// something else than a variable, E-31 for a generated reader under OverwrittenPolicy::Error or without a copy operator,
/// E-43 where versions contradict the edges. Linear.
llvm::Expected<OrderedGraph> orderMutations(Context &context, const Graph &graph, OverwrittenPolicy policy);

/// E-31 for the first node that would read another version than it means when nodes run in this order; what versions
/// mean does not depend on it. BadPlan for a schedule that is not one of the graph's. After orderMutations every schedule
/// that is one of the graph passes.
llvm::Error checkMutationOrder(const Graph &graph, const Schedule &schedule = Schedule());

/// `freeze` for a gradient graph over `base`: generated nodes wait for the writes they read, then as `orderMutations`.
llvm::Expected<Frozen> freezeInOrder(GraphBuilder &&builder, const Graph &base, llvm::ArrayRef<Value> heads,
                                     OverwrittenPolicy policy);

}  // namespace gradc
