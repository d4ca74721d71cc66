// How many processors this process may use. Tested by tests/threads_test.cc
#pragma once

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace gradc {

/// GRADC_NUM_THREADS where it is a number from 1 to 1024; else the processors of the affinity mask, at most as many as
/// the quotas of the process's control groups (versions 1 and 2) pay for, rounded up. At least 1.
unsigned availableThreads();

/// What a control group's `cpu.max` ("QUOTA PERIOD" or "max PERIOD", in µs) pays for; none for text of another form.
std::optional<unsigned> processorsOfQuota(llvm::StringRef text);

}  // namespace gradc
