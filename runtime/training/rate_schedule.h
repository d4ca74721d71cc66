// The learning rate as a function of the step. Tested by tests/runtime/training_start_test.cc
#pragma once

#include "llvm/Support/Error.h"

#include <cstdint>

namespace gradc {

enum class ScheduleKind : uint8_t { Constant, Step, Cosine };

/// While t < warmup, where t counts steps from 1, the rate rises linearly: rate · t / warmup. Then
///   Constant  rate
///   Step      rate · factor^floor((t - 1) / every)
///   Cosine    lowest + (rate - lowest) · (1 + cos π·u) / 2, u = (t - warmup) / (total - warmup), at most 1
/// These are MXNet's schedulers: LRScheduler with warm-up, FactorScheduler, CosineScheduler.
struct RateSchedule {
  ScheduleKind kind = ScheduleKind::Constant;
  double rate = 0.05;
  uint64_t warmup = 0;    // steps
  uint64_t every = 1000;  // Step
  double factor = 0.1;    // Step
  uint64_t total = 1;     // Cosine: where it ends
  double lowest = 0;      // Cosine: what it ends at

  /// UnsupportedOption for a rate that drops every 0 steps.
  llvm::Error check() const;
  /// Of a schedule that `check` accepts.
  double at(uint64_t t) const;
};

}  // namespace gradc
