// Tested by tests/imperative_loops_test.cc
#include "runtime/instructions.h"

namespace gradc {

ArenaPlaces::ArenaPlaces(const InstructionList &list, const MemoryPlan &plan, char *arena) {
  const uint32_t numEntries = list.graph.numEntries();
  for (uint32_t e = 0; e < numEntries; ++e)
    if (plan.offset[EntryId(e)] >= 0 && list.address[EntryId(e)]) entries.push_back({e, plan.offset[EntryId(e)]});
  uint32_t runner = 0;
  for (uint32_t i = 0; i < list.instructions.size(); ++i) {
    const Instruction &instruction = list.instructions[i];
    const int64_t offset = plan.workspace[instruction.node];
    // A fast kernel that the plan does not know of has memory of its own.
    if (offset >= 0 && instruction.call.workspace == arena + offset) workspaces.push_back({i, offset});
    if (!instruction.call.kind->flow) continue;
    const FlowPlan &flow = *findFlowPlan(plan.flows, instruction.node);
    for (size_t b = 0; b < flow.bodies.size(); ++b, ++runner)
      if (offset >= 0) bodies.push_back({runner, offset + flow.ownBytes});
  }
  entries.shrink_to_fit();
  workspaces.shrink_to_fit();
}

void ArenaPlaces::move(InstructionList &list, char *arena) const {
  for (const Place &place : entries) list.address[EntryId(place.of)] = arena + place.offset;
  for (const Place &place : workspaces) list.instructions[place.of].call.workspace = arena + place.offset;
  for (const Place &place : bodies) list.runners[place.of]->moveArena(arena + place.offset);
}

size_t ArenaPlaces::heapBytes() const {
  return (entries.capacity() + workspaces.capacity() + bodies.capacity()) * sizeof(Place);
}

}  // namespace gradc
