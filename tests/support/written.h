// Graphs as files.
#pragma once

#include "ir/graph/graph.h"

#include <string>

namespace gradc::testing {

/// What writeJson writes of it.
std::string written(const Graph &graph);

}  // namespace gradc::testing
