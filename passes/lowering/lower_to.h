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

/// `known` has the shapes that are known; null: none. UnknownOp for an operator that the target lacks and that does not
/// decompose to the target's operators; E-41 for a decomposition without a value for an output that is read, E-40 for
/// one that does not end, and the error of a rule that refuses, E-58 if it needs the size of an unknown axis. Errors
/// name the node.
llvm::Expected<Graph> lowerTo(Context &context, const Graph &graph, const Target &target, const Inference *known);

/// What a host has to offer for the nodes of one operator.
struct OperatorNeeds {
  std::set<const OpDef *> operators;  // that the target lacks and that have no decomposition
  std::set<std::string> refusals;     // messages of refused decompositions
};
/// By operator of the graph; operators that need nothing are left out. For kNoTarget: what each finally decomposes to.
std::map<const OpDef *, OperatorNeeds> needsOf(Context &context, const Graph &graph, const Target &target,
                                               const Inference *known);

}  // namespace gradc
