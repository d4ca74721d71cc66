// How many processors this process may use. Tested by tests/runtime/threads_test.cc
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>

namespace gradc {

/// GRADC_NUM_THREADS if that is set in the environment, which must be a number from 1 to 1024, else Usage; without it
/// the processors in the affinity mask, limited by the quotas of the process's control groups (versions 1 and 2),
/// rounded up. At least 1.
llvm::Expected<unsigned> availableThreads();

/// The number of processors that a control group's `cpu.max` ("QUOTA PERIOD", in µs) allows; none for "max PERIOD",
/// which sets no limit, and for other text.
std::optional<unsigned> processorsOfQuota(llvm::StringRef text);

}  // namespace gradc
