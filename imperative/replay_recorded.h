// Runs a compiled backward so that its calls are recorded. Tested by tests/imperative/imperative_order_test.cc
#pragma once

#include "imperative/replay.h"

namespace gradc {

/// The same as `replay`, call by call and recorded (§15). Nothing is released.
llvm::Error replayRecorded(const ReplayRequest &request);

}  // namespace gradc
