// Which operators cannot be differentiated K times (HO-02): tried, not declared.
// Tested by tests/tools/cli_test.cc
#pragma once

#include "ir/graph/graph.h"

#include <optional>
#include <string>
#include <vector>

namespace gradc {

/// A sample kind of the operator: required attributes have values by type, the others their defaults as far as the
/// operator's check allows.
llvm::Expected<KindRef> sampleKind(Context &context, const OpDef &op);
/// A graph of one such node, named "y", on variables.
llvm::Expected<Graph> sampleGraph(Context &context, const KindRef &kind);

struct MissingOrder {
  const OpDef *op;
  uint64_t order;      // the first order that fails
  std::string reason;  // the message of the gradient pass
};

/// Builds a graph of one node for every operator a model may contain, attributes at their defaults, and differentiates
/// it `order` times with respect to all inputs. Fused gradient operators are reached through their forward operator.
/// Operators that no gradient flows through by definition count as differentiable.
std::vector<MissingOrder> missingOrder(Context &context, uint64_t order);

/// How often a node of this kind can be differentiated with respect to all its inputs, at most `limit`; and its first
/// gradient graph, if there is one. Operators that no gradient flows through reach the limit.
struct ReachedOrder {
  uint64_t order = 0;
  std::optional<Graph> gradient;  // forward and gradient nodes
};
ReachedOrder reachedOrder(Context &context, const KindRef &kind, uint64_t limit);

}  // namespace gradc
