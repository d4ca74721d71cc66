// Nodes that run as one. Tested by tests/runtime/fusion_test.cc
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
  /// `members` are the nodes' instructions in `list`, in order. Throws what their kernels throw.
  virtual void run(const InstructionList &list, llvm::ArrayRef<Instruction> members) const = 0;
};

struct FusedGroup {
  std::vector<NodeId> nodes;  // those that run, in the order of the schedule
  std::unique_ptr<GroupKernel> kernel;
};

/// All groups of one graph: for the executor, and, in the same order, for the planner.
struct Fusion {
  std::vector<FusedGroup> groups;
  NodeGroups memory;
};

}  // namespace gradc
