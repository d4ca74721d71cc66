// What must hold of a gradient request before any node is made (§4, §7, §8, §23).
#pragma once

#include "passes/gradient/gradient.h"

namespace gradc {

/// The request with defaults filled in: every head of the graph when no y is named, targets with request `null`
/// dropped.
llvm::Expected<GradientRequest> checkRequest(const Graph &graph, const GradientRequest &request,
                                             const GradientOptions &options);

/// E-05 unless some y depends on a variable (H-10). Linear; used when an x is not reached.
llvm::Error checkNotConstant(const Graph &graph, llvm::ArrayRef<GradientHead> heads);

}  // namespace gradc
