// Loops, branches and calls with rewritten bodies. Their attributes map operands to body inputs by position, so they
// have to follow when a rewrite drops inputs of a body or reorders them (OpDef::rebody). Tested by
// tests/passes/lowering/lower_loops_test.cc
#pragma once

#include "ir/graph/body_flow.h"
#include "ir/graph/context.h"

#include <string>

namespace gradc {

/// The kind of a node with other bodies (NewBodies). Null if its operator has no `rebody`, or a loop variable is no
/// longer an input of the body. `_foreach` has to name a position for every operand, so it becomes a `_scan` where an
/// operand has none.
llvm::Expected<KindRef> withBodies(Context &context, const NodeKind &kind, llvm::ArrayRef<Graph> bodies,
                                   llvm::ArrayRef<std::vector<uint32_t>> was, size_t numAdded = 0);

// ---- for `rebody` of an operator

/// The operand that each input of a new body reads.
std::vector<uint32_t> operandsOf(const NodeKind &kind, const NewBodies &given, size_t body);

/// By operand: how many inputs of a body read it, and the first of them.
struct BodyReads {
  size_t count = 0, first = 0;
};
std::vector<BodyReads> readsOf(const BodyFlow &flow, llvm::ArrayRef<uint32_t> operandOf);

/// The kind with the new bodies, these attributes and, for added heads, larger counts of outputs.
llvm::Expected<KindRef> rebodied(Context &context, const NodeKind &kind, const NewBodies &given,
                                 llvm::ArrayRef<AttrText> locations);

/// "(0,2,)"
template <class List> std::string listText(const List &list) {
  std::string text = "(";
  for (auto element : list) text += std::to_string(element) + ",";
  return text + ")";
}

}  // namespace gradc
