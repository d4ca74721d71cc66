// The last pass of `--dialect mxnet`: operators of our own in MXNet 1.9.1's words, or a refusal naming the node.
#pragma once

#include "ir/graph.h"

#include "llvm/Support/Error.h"

namespace gradc {

/// Uses `OpDef::lowerToMxnet`; names, heads and graph attributes are kept. The result is stamped mxnet_version 10901.
llvm::Expected<Graph> lowerToMxnet(Context &context, const Graph &graph);

}  // namespace gradc
