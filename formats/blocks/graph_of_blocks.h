// What a program of blocks means, as a graph without names. Tested by tests/block_program_test.cc
#pragma once

#include "formats/blocks/block_program.h"
#include "ir/graph.h"

namespace gradc {

/// The graph of the root block; those of other blocks are bodies of the nodes that own them. Names read before they are
/// written in a block are variables of its graph; its heads are what each name holds at the end, in the order of first
/// writes. Unknown types become opaque nodes. Errors of `verifyBlocks`, E-42 and E-48 for known operators.
llvm::Expected<Graph> graphOfBlocks(Context &context, const BlockProgram &program);

}  // namespace gradc
