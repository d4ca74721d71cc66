// Makes every reader of an overwritten variable see the version it refers to (§12, IR-09, MUT-03).
//
// A write waits for the reads of the preceding version, or for the write of that version if nothing reads it; a read
// waits for the write that made its version. If ids are in that order already, this only adds control dependencies, and
// ids stay. A generated node that reads a version already overwritten by then gets a saved copy instead: no dependency
// ever makes a forward node wait for the backward part. Forward nodes get copies only where the dependencies would
// close a cycle, or where a body overwrites what its node also reads as another input.
//
// A head that is a variable is not preserved: it is whatever the variable holds when the run ends.
// Tested by tests/passes/order_mutation_test.cc
#pragma once

#include "passes/order/schedule.h"

#include "ir/graph/graph_builder.h"

namespace gradc {

/// MUT-03: a gradient that reads a version of a variable which a later node overwrites. Save inserts a copy, Error is
/// E-31.
enum class OverwrittenPolicy : uint8_t { Save, Error };

struct OrderedGraph {
  Graph graph;
  std::vector<NodeId> newId;                    // by node of the graph given
  uint32_t numDependencies = 0, numCopies = 0;  // added
};

/// The same graph if nothing has to be added, so a second call changes nothing. E-30 where an operator overwrites
/// something other than a variable or a body overwrites one variable as two inputs, E-31 for a generated reader under
/// OverwrittenPolicy::Error or without a copy operator, E-43 where versions contradict the edges. Linear.
llvm::Expected<OrderedGraph> orderMutations(Context &context, const Graph &graph, OverwrittenPolicy policy);

/// E-30 as above; E-31 for the first node that would read another version than it refers to when nodes run in this
/// order; BadPlan for a schedule that does not fit the graph. After orderMutations every schedule that fits the graph
/// passes.
llvm::Error checkMutationOrder(const Graph &graph, const Schedule &schedule = Schedule());

/// `freeze` for a gradient graph over `base`: makes generated nodes wait for the writes they read, then orderMutations.
llvm::Expected<Frozen> freezeInOrder(GraphBuilder &&builder, const Graph &base, llvm::ArrayRef<Value> heads,
                                     OverwrittenPolicy policy);

}  // namespace gradc
