// What must hold of a gradient request before any node is made (§4, §7, §8, §23).
#pragma once

#include "passes/gradient.h"

namespace gradc {

/// The request with defaults filled in: every head of the graph when no y is named, targets asked `null` left out.
llvm::Expected<GradientRequest> checkRequest(const Graph &graph, const GradientRequest &request,
                                             const GradientOptions &options);

}  // namespace gradc
