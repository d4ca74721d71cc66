// A network in a file, for programs that take it with shapes on the command line.
#pragma once

#include "ir/graph/context.h"
#include "passes/inference/infer.h"

#include <chrono>

namespace gradc::bench {

Graph readNetwork(Context &context, const char *path);

/// NAME=D,D,… for each argument; names of no variable are left out.
InferRequest readShapes(const Graph &graph, llvm::ArrayRef<char *> arguments);

inline double wallMs() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace gradc::bench
