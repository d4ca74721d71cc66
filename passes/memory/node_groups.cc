// Tested by tests/runtime/fusion_test.cc
#include "passes/memory/node_groups.h"

#include <algorithm>

using namespace llvm;

namespace gradc {

bool NodeGroups::isInside(EntryId e) const { return std::binary_search(inside.begin(), inside.end(), e); }

const NodeGroup *NodeGroups::groupOf(uint32_t step) const {
  auto at = std::partition_point(groups.begin(), groups.end(), [&](const NodeGroup &g) { return g.last < step; });
  return at != groups.end() && at->contains(step) ? &*at : nullptr;
}

ArrayRef<GroupPair> NodeGroups::pairsOf(EntryId output) const {
  auto begin = std::partition_point(pairs.begin(), pairs.end(), [&](const GroupPair &p) { return p.output < output; });
  auto end = std::partition_point(begin, pairs.end(), [&](const GroupPair &p) { return p.output == output; });
  return ArrayRef(pairs).slice(static_cast<size_t>(begin - pairs.begin()), static_cast<size_t>(end - begin));
}

}  // namespace gradc
