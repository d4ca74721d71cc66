// Closed forms, so that a run can be resumed exactly at any step. Tested by tests/runtime/training_start_test.cc
#include "runtime/training/rate_schedule.h"

#include "ir/base/error.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace gradc {

Error RateSchedule::check() const {
  if (kind != ScheduleKind::Step || every >= 1) return Error::success();
  return Failure(ErrorKind::UnsupportedOption, "the learning rate drops every 0 steps, expected at least 1");
}

double RateSchedule::at(uint64_t t) const {
  if (t < warmup) return rate * static_cast<double>(t) / static_cast<double>(warmup);
  if (kind == ScheduleKind::Step)
    return rate * std::pow(factor, static_cast<double>((t - 1) / std::max<uint64_t>(every, 1)));
  if (kind == ScheduleKind::Constant) return rate;
  if (t >= total || total <= warmup) return lowest;
  const double done = static_cast<double>(t - warmup) / static_cast<double>(total - warmup);
  return lowest + (rate - lowest) * (1 + std::cos(M_PI * done)) / 2;
}

}  // namespace gradc
