// Nodes that an executor runs as one, piece by piece of their outputs (runtime/fusion/), as memory planning sees them.
//
// All nodes of a group run at the same time, so everything that a group reads or writes is in use from its first step
// to its last. In return, entries that only the group itself reads need no place at all.
#pragma once

#include "ir/base/ids.h"

#include "llvm/ADT/ArrayRef.h"

#include <vector>

namespace gradc {

struct NodeGroup {
  uint32_t first,
      last;  // steps of the schedule, both inclusive; nodes between them that compute nothing are not members

  bool contains(uint32_t step) const { return first <= step && step <= last; }
};

/// `output` may be written over `input`, which an earlier node of the group reads at the same elements, if nothing
/// reads `input` from the node of `output` on.
struct GroupPair {
  EntryId output, input;
};

struct NodeGroups {
  std::vector<NodeGroup> groups;  // by step; no two of them overlap
  std::vector<EntryId> inside;    // by id: entries that only nodes of the group that computes them read
  std::vector<GroupPair> pairs;   // by output, preferred pairs first

  bool isInside(EntryId e) const;
  /// The group of a step; null: it runs alone.
  const NodeGroup *groupOf(uint32_t step) const;
  llvm::ArrayRef<GroupPair> pairsOf(EntryId output) const;
};

}  // namespace gradc
