// What `run --profile` writes. Tested by tests/tools/cli_test.cc
#pragma once

#include "runtime/executor/executor.h"

#include <string>

namespace gradc {

/// Milliseconds and oneDNN conversions per operator of the last step, the slowest first, as a table. The time of a
/// loop, branch or call is what remains without the nodes inside it.
std::string profileReport(const Graph &graph, llvm::ArrayRef<Executor::Timing> timings);

/// Chrome's trace event format: one complete event (`ph` X) per node, `ts` and `dur` in microseconds, `cat` the
/// operator, `args` the kind of kernel and its conversions. Nodes of bodies are within the event of their owner, named
/// `loop[3] > h2h` after the row.
void writeTrace(llvm::raw_ostream &os, const Graph &graph, llvm::ArrayRef<Executor::Timing> timings);

}  // namespace gradc
