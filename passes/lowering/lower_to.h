// Rewrites a graph until every operator in it is one that a target has.
//
// An operator that the target lacks is replaced by the target's row for it, else by its decomposition, and so on for
// the nodes that these emit. Names, heads and the origin of nodes are kept; nodes that rules emit inherit the scope and
// device of the node they replace. Bodies are lowered with the nodes that have them, those of unknown operators too.
// Linear in the nodes of both graphs.
#pragma once

#include "passes/inference/infer.h"
#include "passes/targets/target.h"

#include <map>
#include <set>
#include <string>

namespace gradc {

/// `known` has the shapes that are known; null: none. Decompositions that need the size of an unknown axis are refused.
/// An operator that the target lacks and that does not decompose to the target's operators is an error (UnknownOp) that
/// names the node; so is a decomposition that is refused (of the kind that its rule gives, E-58 for an unknown shape),
/// gives no value for an output that is read (E-41), or does not end (E-40).
llvm::Expected<Graph> lowerTo(Context &context, const Graph &graph, const Target &target, const Inference *known);

/// What the nodes of one operator need of a host.
struct OperatorNeeds {
  std::set<const OpDef *> operators;  // that the target lacks and that have no decomposition
  std::set<std::string> refusals;     // messages of refused decompositions
};
/// By operator of the graph; operators that need nothing are left out. For kNoTarget: what each finally decomposes to.
std::map<const OpDef *, OperatorNeeds> needsOf(Context &context, const Graph &graph, const Target &target,
                                               const Inference *known);

}  // namespace gradc
