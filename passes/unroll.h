// Loops, branches and calls without their nodes: the bodies take their place, as often as they run.
//
// Which node is a loop, and how a step is called, its flow says (ir/body_flow.h), so a loop that a host adds is unrolled as
// well. Nodes of a step are named behind it, `loop[3]/h2h`; the number is that of the row, of a loop without rows that of
// the step. Names, origins, control dependencies, what bodies overwrite and the graph's table are kept. Bodies in
// nodes that stay are gone through as well. Linear in the nodes and edges of the result. Random operators draw other
// numbers than in a loop, where they draw by the step. Tested by tests/unroll_test.cc
#pragma once

#include "ir/row_ops.h"
#include "passes/infer.h"

namespace gradc {

struct UnrollOptions {
  /// Of the graph. Without it no length is known, and calls alone are replaced.
  const Inference *known = nullptr;
  RowOps rowOps;
  /// A result of more nodes is refused (TooLarge).
  uint32_t maxNodes = 1 << 22;
};

struct Unrolled {
  Graph graph;
  /// What stayed, and why: "loop 'decode': its number of steps is known only when it runs".
  std::vector<std::string> kept;
};

/// Replaces the loops whose number of steps is known: by the shapes of what they slice, by a bound that is a known value,
/// by a condition that known values decide at every step. A value is known that depends on no variable, if it is small.
llvm::Expected<Unrolled> unrollLoops(Context &context, const Graph &graph, const UnrollOptions &options);

/// Replaces every call, and the branches whose choice is a known value.
llvm::Expected<Unrolled> inlineCalls(Context &context, const Graph &graph, const UnrollOptions &options);

}  // namespace gradc
