#include "ir/base/instruction_sets.h"

#include <algorithm>
#include <atomic>

namespace gradc {
namespace {

InstructionSet bestOfMachine() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return InstructionSet::Avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
    return InstructionSet::Avx2;
#endif
  return InstructionSet::Baseline;
}

std::atomic<InstructionSet> limit{InstructionSet::Avx512};

}  // namespace

InstructionSet instructionSet() {
  static const InstructionSet best = bestOfMachine();
  return std::min(best, limit.load(std::memory_order_relaxed));
}

InstructionSet limitInstructions(InstructionSet most) {
  const InstructionSet before = instructionSet();
  limit.store(most, std::memory_order_relaxed);
  return before;
}

}  // namespace gradc
