// The rows of the flags that describe a gradient request. Tested by tests/tools/cli_test.cc
#pragma once

#include "tools/gradc/common/options.h"

namespace gradc {

/// Rows in addition to those of options.cc.
llvm::ArrayRef<Flag> gradFlags();

}  // namespace gradc
