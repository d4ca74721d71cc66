// `gradc grad` of a program of blocks. Tested by tests/tools/golden_test.cc, cases F_blocks_*
#pragma once

#include "tools/gradc/common/tool.h"

#include "formats/blocks/graph/block_gradient.h"

namespace gradc {

/// The call that the flags request, or the file's own: `--of` and `--wrt` as `gradients`, `--of` and `--parameters` as
/// `append_backward`. Usage if neither names what to differentiate.
llvm::Expected<BlockCall> callOf(const Tool &tool, const BlockFile &file);

/// Writes the program with its gradient, its call and the result to `--output`.
llvm::Error writeBackward(Tool &tool, BlockFile file, const BlockCall &call);

/// `--as graph`: the graph and its gradient. `forward` is set to the program as a graph.
llvm::Expected<Graph> gradientAsGraph(Tool &tool, BlockFile file, const BlockCall &call, Graph &forward);

}  // namespace gradc
