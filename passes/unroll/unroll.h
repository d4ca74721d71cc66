// Replaces loops, branches and calls by copies of their bodies, one for each time they run.
//
// A node's flow (ir/graph/body_flow.h) determines whether it is a loop and what a step does, so a loop that a host adds
// is unrolled as well. Names of nodes begin with their step, `loop[3]/h2h`; the number is that of the row, or of the
// step in a loop without rows. Names, origins, control dependencies, writes of bodies and the graph's table are kept
// . Bodies of nodes that stay are processed as well. Random operators draw other numbers than in a loop, where
// they depend on the step. Linear in the nodes and edges of the result. Tested by tests/passes/unroll_test.cc
#pragma once

#include "ir/op/op.h"
#include "passes/inference/infer.h"

namespace gradc {

struct UnrollOptions {
  /// Inference of the graph. Without it no length is known, and only calls are replaced.
  const Inference *known = nullptr;
  RowOps rowOps;
  /// A result with more nodes is refused (TooLarge).
  uint32_t maxNodes = 1 << 22;
};

struct Unrolled {
  Graph graph;
  /// Nodes that were not replaced, and why: "loop 'decode': its number of steps is known only at run time".
  std::vector<std::string> kept;
};

/// Replaces the loops whose number of steps is known: from the shapes of sliced operands, from a bound that is a known
/// value, or from a condition that known values decide at every step. A value is known if it is small and depends on no
/// variable.
llvm::Expected<Unrolled> unrollLoops(Context &context, const Graph &graph, const UnrollOptions &options);

/// Replaces every call, and the branches whose choice is a known value.
llvm::Expected<Unrolled> inlineCalls(Context &context, const Graph &graph, const UnrollOptions &options);

}  // namespace gradc
