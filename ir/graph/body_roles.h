// What a body receives and yields, in words: sliced, carried, closed over, stacked, saved.
// Tested by tests/ir/text_test.cc
#pragma once

#include "ir/graph/bodies.h"

namespace gradc {

/// `%4`, `%4:1` for a later output, `%4@1` for a version.
std::string valueText(Value v);

struct BodyRole {
  llvm::StringRef
      name;  // "sliced", "carried", "closed over", "passed"; "stacked", "next state", "saved", "yielded", "decision"
  std::string text;  // "sliced from %3", with values of the graph that contains the owner

  bool isKnown() const { return !name.empty(); }
};

/// Of the variable `input` of `list[position]`, and of a head of it, for its listed owner. Unknown for the root, and if
/// the owner has no flow.
BodyRole inputRole(llvm::ArrayRef<NestedGraph> list, size_t position, NodeId input);
BodyRole headRole(llvm::ArrayRef<NestedGraph> list, size_t position, size_t head);

}  // namespace gradc
