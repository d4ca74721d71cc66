// Shorthands for tests of sessions.
#pragma once

#include "runtime/session/session.h"
#include "tests/support/test_graph.h"

namespace gradc::testing {

/// A session of the test program's context.
inline llvm::Expected<Session> open(const Graph &graph, const SessionOptions &options,
                                    std::vector<NamedArray> bindings = {}) {
  return Session::create(testContext(), graph, std::move(bindings), options);
}

}  // namespace gradc::testing
