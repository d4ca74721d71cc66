// Closed forms, so that a run can be resumed exactly at any step. Tested by tests/training_start_test.cc
#include "runtime/training/schedule.h"

#include <algorithm>
#include <cmath>

namespace gradc {

double RateSchedule::at(uint64_t t) const {
  if (t < warmup) return rate * static_cast<double>(t) / static_cast<double>(warmup);
  if (kind == ScheduleKind::Step) return rate * std::pow(factor, static_cast<double>((t - 1) / every));
  if (kind == ScheduleKind::Constant) return rate;
  if (t >= total || total <= warmup) return lowest;
  const double done = static_cast<double>(t - warmup) / static_cast<double>(total - warmup);
  return lowest + (rate - lowest) * (1 + std::cos(M_PI * done)) / 2;
}

}  // namespace gradc
