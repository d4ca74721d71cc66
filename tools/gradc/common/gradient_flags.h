// Turns the flags of `grad` and `gradcheck` into a GradientRequest. Tested by tests/tools/cli_test.cc
#pragma once

#include "tools/gradc/common/tool.h"

namespace gradc {

/// Heads from --of and --seed, x from --wrt with their --req, and the entries of --retain, --no-grad, --stop. A note
/// lists what `--wrt all` skipped. `inference` is of `graph` and decides which variables `all` can mean.
llvm::Expected<GradientRequest> resolveGradient(Tool &tool, const Graph &graph, const Inference &inference);

}  // namespace gradc
