// Loops, branches and calls of a sketch as operators of gradc. Tested by tests/networks/differential_test.cc
#pragma once

#include "tests/support/drawn/random_graph.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace gradc::testing {

struct FlowSpec {
  std::string op;
  std::vector<Graph> bodies;
  std::vector<std::pair<std::string, std::string>> attrs;
};

/// The operator, its bodies and the attributes that map their inputs. A `_foreach` if that can express the loop.
llvm::Expected<FlowSpec> describeFlow(const SketchNode &node,
                                      llvm::function_ref<llvm::Expected<SketchGraph>(const SketchBody &)> build);

}  // namespace gradc::testing
