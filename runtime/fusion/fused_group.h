// Nodes that run as one. Tested by tests/fusion_test.cc
#pragma once

#include "passes/memory/node_groups.h"

#include "llvm/ADT/ArrayRef.h"

#include <memory>
#include <vector>

namespace gradc {

struct Instruction;
struct InstructionList;

/// Made once for the nodes of a group, run once per step.
class GroupKernel {
 public:
  virtual ~GroupKernel() = default;
  /// The instructions of the nodes, in their order, of `list`. Throws what their kernels throw.
  virtual void run(const InstructionList &list, llvm::ArrayRef<Instruction> members) const = 0;
};

struct FusedGroup {
  std::vector<NodeId> nodes;  // those that compute something, in the order of the schedule
  std::unique_ptr<GroupKernel> kernel;
};

/// All groups of one graph: what the executor runs, and what the planner has to know, group by group.
struct Fusion {
  std::vector<FusedGroup> groups;
  NodeGroups memory;
};

}  // namespace gradc
