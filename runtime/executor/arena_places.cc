// Tested by tests/imperative/imperative_loops_test.cc
#include "runtime/executor/instructions.h"

namespace gradc {

ArenaPlaces::ArenaPlaces(const InstructionList &list, const MemoryPlan &plan, char *arena)
    : entries(list.graph.numEntries()), at(arena) {
  for (uint32_t e = 0; e < entries.size(); ++e)
    if (plan.offset[EntryId(e)] >= 0 && list.address[EntryId(e)]) entries.set(e);
  uint32_t runner = 0;
  for (uint32_t i = 0; i < list.instructions.size(); ++i) {
    const Instruction &instruction = list.instructions[i];
    const int64_t offset = plan.workspace[instruction.node];
    // A fast kernel that is not in the plan has its workspace elsewhere.
    if (offset >= 0 && instruction.workspace == arena + offset) workspaces.push_back({i, offset});
    if (!instruction.kind->flow) continue;
    const FlowPlan &flow = *findFlowPlan(plan.flows, instruction.node);
    for (size_t b = 0; b < flow.bodies.size(); ++b, ++runner)
      if (offset >= 0) bodies.push_back({runner, offset + flow.ownBytes});
  }
  workspaces.shrink_to_fit();
}

void ArenaPlaces::move(InstructionList &list, char *arena) {
  const auto shift = reinterpret_cast<uintptr_t>(arena) - reinterpret_cast<uintptr_t>(at);
  for (unsigned e : entries.set_bits()) {
    char *&address = list.address[EntryId(e)];
    address = reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(address) + shift);
  }
  at = arena;
  for (const Place &place : workspaces) list.instructions[place.of].workspace = arena + place.offset;
  for (const Place &place : bodies) list.runners[place.of]->moveArena(arena + place.offset);
}

size_t ArenaPlaces::heapBytes() const {
  return (workspaces.capacity() + bodies.capacity()) * sizeof(Place) + entries.getMemorySize();
}

}  // namespace gradc
