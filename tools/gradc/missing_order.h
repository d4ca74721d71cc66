// Which operators cannot be differentiated K times (HO-02): tried, not declared.
// Tested by tests/cli_test.cc
#pragma once

#include "ir/context.h"

#include <string>
#include <vector>

namespace gradc {

struct MissingOrder {
  const OpDef *op;
  uint64_t order;      // the first order that fails
  std::string reason;  // the message of the gradient pass
};

/// Builds a graph of one node for every operator a model may contain, attributes at their defaults, and differentiates it
/// `order` times with respect to all inputs. Fused gradient operators are reached through their forward operator.
/// Operators nothing flows through by definition count as differentiable.
std::vector<MissingOrder> missingOrder(Context &context, uint64_t order);

}  // namespace gradc
