#include "runtime/executor/timing_log.h"

#include "ir/graph/body_flow.h"

using namespace llvm;

namespace gradc {

void TimingLog::restart() {
  timings.clear();
  start = Clock::now();
}

uint32_t TimingLog::begin(const InstructionList &list, const Instruction &instruction, const Site &site) {
  const uint32_t number = static_cast<uint32_t>(timings.size());
  const InstructionExtras *extras = list.extrasOf(instruction);
  const bool isGroup = extras && extras->group;
  Executor::Timing timing{instruction.node, 0, 0, 0, Reorders()};
  if (isGroup) timing.fused = extras->group->nodes;
  for (const Instruction &member : ArrayRef(&instruction, isGroup ? extras->numMembers : 1))
    timing.numFast += member.fast && member.fast->isFast();
  timing.owner = site.owner;
  timing.body = site.body;
  timing.step = site.step;
  timings.push_back(timing);
  for (uint32_t r = 0; extras && r < extras->numRunners; ++r)
    list.runners[extras->firstRunner + r]->recordTimes(this, number);
  timings[number].startMicros = micros();
  return number;
}

void TimingLog::end(uint32_t number, const Instruction &instruction) {
  Executor::Timing &timing = timings[number];
  timing.durationMicros = micros() - timing.startMicros;
  if (instruction.fast && timing.fused.empty()) timing.reorders = instruction.fast->reorders();
  if (!instruction.kind->flow || !instruction.kind->flow->isReverse) return;
  // A loop in reverse begins with the last row.
  int64_t numRuns = 0;
  auto isInside = [&](const Executor::Timing &later) { return later.owner == number; };
  const auto inside = MutableArrayRef(timings).drop_front(number + 1);
  for (const Executor::Timing &later : inside)
    if (isInside(later)) numRuns = std::max(numRuns, later.step + 1);
  for (Executor::Timing &later : inside)
    if (isInside(later)) later.step = numRuns - 1 - later.step;
}

}  // namespace gradc
