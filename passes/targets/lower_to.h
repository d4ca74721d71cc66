// Rewrites a graph until every operator in it is one that a target has.
//
// An operator that the target lacks becomes what the target's row for it says, else what its decomposition says, and so on
// with what those emit. Names, heads and the origin of nodes are kept; what the rules of a node emit follows it in scope
// and device. Bodies are lowered with the nodes that have them, those of unknown operators too. Linear in the nodes of both
// graphs.
#pragma once

#include "passes/infer.h"
#include "passes/targets/target.h"

#include <map>
#include <set>
#include <string>

namespace gradc {

/// `known` has the shapes that are known; null: none. Decompositions that need the size of an unknown axis are refused.
/// An operator that is neither the target's nor decomposes to its operators is an error (UnknownOp) that names the
/// node; so is a decomposition that was refused, of the kind that its rule gives (E-58 for want of a shape), fails to give an
/// output that is read (E-41), or does not end (E-40).
llvm::Expected<Graph> lowerTo(Context &context, const Graph &graph, const Target &target, const Inference *known);

/// What the nodes of one operator need of a host.
struct OperatorNeeds {
  std::set<const OpDef *> operators;  // that the target lacks and that have no decomposition
  std::set<std::string> refusals;     // of decompositions, as they are worded
};
/// By operator of the graph, those left out that need nothing. Under kNoTarget: the operators each ends in.
std::map<const OpDef *, OperatorNeeds> needsOf(Context &context, const Graph &graph, const Target &target,
                                               const Inference *known);

}  // namespace gradc
