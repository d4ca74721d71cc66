// A program of blocks as the graph that verbs work on. Tested by tests/tools/golden_test.cc, cases F_blocks_*
#pragma once

#include "tools/gradc/common/tool.h"

#include "formats/blocks/graph/graph_of_blocks.h"

namespace gradc {

/// Heads are what the file's call differentiates, then the gradients that the file's result lists, each once, with a
/// gradient table, as `grad` writes it; without a call, all names that the root writes. Sets `tool.headNames`. Messages
/// about its nodes name operators.
llvm::Expected<Graph> blocksAsGraph(Tool &tool, BlockFile file);
/// Node places refer to the graph of a program from now on, and messages name its operators.
void setInput(Tool &tool, BlockProgram program, BlockGraph graph);

}  // namespace gradc
