// Nodes that an executor runs as one, piece by piece of what they compute (runtime/fusion/), as far as memory is concerned.
//
// While one node of a group runs, so do the others: all that a group reads or writes is in use from its first step to its
// last. In return, what only the group itself reads needs no place at all.
#pragma once

#include "ir/ids.h"

#include "llvm/ADT/ArrayRef.h"

#include <vector>

namespace gradc {

struct NodeGroup {
  uint32_t first,
      last;  // steps of the schedule, both inclusive; nodes between them that compute nothing are no members

  bool contains(uint32_t step) const { return first <= step && step <= last; }
};

/// `output` may be written over `input`, which an earlier node of the group reads at the same elements, if nothing reads
/// `input` from the node of `output` on.
struct GroupPair {
  EntryId output, input;
};

struct NodeGroups {
  std::vector<NodeGroup> groups;  // by step; no two of them overlap
  std::vector<EntryId> inside;    // by id: entries that only nodes of the group that computes them read
  std::vector<GroupPair> pairs;   // by output, those to be preferred first

  bool isInside(EntryId e) const;
  /// The group of a step; null: it runs by itself.
  const NodeGroup *groupOf(uint32_t step) const;
  /// The pairs of an output.
  llvm::ArrayRef<GroupPair> pairsOf(EntryId output) const;
};

}  // namespace gradc
