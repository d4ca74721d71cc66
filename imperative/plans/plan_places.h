// Where a tape of a plan's structure keeps what the instructions read, and where results, hooks and functions come in.
// Tested by tests/imperative/memory/imperative_cache_test.cc
#pragma once

#include "imperative/plans/plan.h"
#include "imperative/plans/recorded_graph.h"

namespace gradc {

/// Fills the lists of a plan and of its source that come after the instructions, from `draws` on. Linear.
void listPlaces(const Context &context, const Collected &collected, const BackwardRequest &request,
                const RecordedGraph &recorded, const GradientResult &gradient, PlanSource &source, Plan &plan);

/// The node of the gradient graph that a node of the recorded graph has become; invalid: none.
NodeId nodeAfter(const GradientResult &gradient, NodeId recorded);

/// Visits, node by node, the inputs whose contents are read for the requested outputs.
void forReads(const Graph &graph, llvm::function_ref<void(NodeId, EntryId)> visit);

}  // namespace gradc
