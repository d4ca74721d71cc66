// Errors of lowering, in terms of the original graph's node. Tested by tests/passes/lowering/lower_to_test.cc
#pragma once

#include "ir/graph/graph.h"
#include "passes/targets/target.h"

#include "llvm/Support/Error.h"

namespace gradc {

/// The node that is being replaced.
struct LoweredSite {
  const Graph &graph;
  NodeId node;
  const Target &target;
};

/// "operator 'take' of node 'pick'".
std::string describeLowered(const LoweredSite &site);

/// UnknownOp: the target lacks `op`, and it does not decompose.
llvm::Error lackingOperator(const LoweredSite &site, const OpDef &op);
/// GradientNull: the decomposition of `op` leaves out an output that is read.
llvm::Error unansweredOutput(const LoweredSite &site, const OpDef &op, size_t output);
/// GradientCount: `op` is still there after kMaxDecompositions levels.
llvm::Error endlessDecomposition(const LoweredSite &site, const OpDef &op);
/// TooLarge: more than kMaxDecomposedNodes.
llvm::Error hugeDecomposition(const LoweredSite &site);

}  // namespace gradc
