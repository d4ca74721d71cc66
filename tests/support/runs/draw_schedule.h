// Schedules drawn at random. Tested by tests/passes/schedule_test.cc
#pragma once

#include "passes/order/schedule.h"

namespace gradc::testing {

/// Each step picks one of the nodes whose inputs and control dependencies have run. The same for the same seed.
Schedule drawSchedule(const Graph &graph, uint64_t seed);

/// The nodes of these names, in this order.
Schedule scheduleOf(const Graph &graph, llvm::ArrayRef<llvm::StringRef> names);

}  // namespace gradc::testing
