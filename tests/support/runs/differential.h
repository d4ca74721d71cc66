// One random problem through gradc and through the jets, and through gradc again in every way that must make no
// difference. Tested by tests/networks/differential_test.cc
#pragma once

#include "tests/support/drawn/random_graph.h"

#include <string>

namespace gradc::testing {

/// What went wrong; no kind if all agree.
struct Problem {
  std::string kind;  // "values", "status", "error", "body", "beside", or the name of the variation
  std::string text;

  explicit operator bool() const { return !kind.empty(); }
};

/// Counts over the problems checked so far.
struct Outcomes {
  int numChecked = 0;
  int numLowered = 0;  // could be expressed in MXNet's operators
  int numRefused = 0;  // needed an overwritten version
};

/// Gradients, statuses, states and errors against the jets; then RUN-02: bit for bit the same, whatever the cap, the
/// pruning, in-place, the names, the threads, the schedule, the memory plan, zero terms, the dialect, and a round trip
/// through a file.
Problem checkSketch(const Sketch &sketch, Outcomes &outcomes);

/// The nodes beside the graph: without them everything else is the same, in orders 1 and 3, inference and lowering; and
/// all of them are kept, written and read with their bodies. Part of checkSketch.
Problem checkBeside(const Sketch &sketch);

/// The smallest sketch found by leaving out parts that still has a problem of the same kind.
Sketch shrink(Sketch sketch, llvm::StringRef kind);

/// The graph as a file, the request and the variables.
std::string dumpSketch(const Sketch &sketch);

}  // namespace gradc::testing
