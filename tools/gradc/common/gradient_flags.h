// The flags that describe a gradient request, and the request that they make. Tested by tests/tools/cli_test.cc
#pragma once

#include "tools/gradc/common/tool.h"

namespace gradc {

/// Rows in addition to those of options.cc.
llvm::ArrayRef<Flag> gradFlags();

/// Heads from --of and --seed, x from --wrt with their --req, and the entries of --retain, --no-grad, --stop. A note
/// lists what `--wrt all` skipped. `inference` is of `graph` and decides which variables `all` can mean.
llvm::Expected<GradientRequest> resolveGradient(Tool &tool, const Graph &graph, const Inference &inference);

}  // namespace gradc
