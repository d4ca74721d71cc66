// Names that a block reads before it writes them. Tested by tests/formats/blocks/backward/append_backward_test.cc and
// tests/formats/blocks/block_graph_test.cc
#pragma once

#include "formats/blocks/program/block_program.h"

namespace gradc {

/// For an operator that reads `name` in `slot`. UnknownName, naming the operator.
llvm::Error readBeforeWrite(const BlockProgram &program, uint32_t block, size_t op, TextId slot, TextId name);

/// Only the root is given values: an operator with a row that reads a name of its own inner block which nothing in the
/// block has used before is an error. Gradient blocks are not checked: they also see values of their forward block.
/// Linear, times the depth.
llvm::Error checkFirstReads(const BlockProgram &program);

}  // namespace gradc
