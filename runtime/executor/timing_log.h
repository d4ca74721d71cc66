// When instructions ran, for Executor::timings. Tested by tests/runtime/loop_run_test.cc, tests/tools/process_test.cc
#pragma once

#include "runtime/executor/instruction_list.h"

#include <chrono>

namespace gradc {

/// One list and the bodies inside it write to one log.
class TimingLog {
 public:
  /// Drops what was recorded; times count from now.
  void restart();
  /// Where instructions run: in which run of a body of which recorded node.
  struct Site {
    uint32_t owner = Executor::Timing::kNone;
    uint32_t body = 0;
    int64_t step = 0;
  };
  /// Records that the instruction starts, and returns the number to end it with. Timings of the bodies of its node come
  /// in between.
  uint32_t begin(const InstructionList &list, const Instruction &instruction, const Site &site);
  void end(uint32_t number, const Instruction &instruction);

  std::vector<Executor::Timing> timings;

 private:
  using Clock = std::chrono::steady_clock;
  double micros() const { return std::chrono::duration<double, std::micro>(Clock::now() - start).count(); }

  Clock::time_point start;
};

}  // namespace gradc
