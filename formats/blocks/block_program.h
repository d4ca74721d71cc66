// Programs of nested blocks in which operators name their operands, as Fluid writes them, and how they become graphs.
//
// A name is looked up in the block and then in those around it (IR-11). A name may be written several times: each write
// is an entry of its own, and a reader sees the latest write before it (IR-12), so the graph needs no names to be right.
// Structure alone: what an operator with a block of its own does with it is not known here.
// Tested by tests/block_program_test.cc
#pragma once

#include "ir/graph.h"

#include "llvm/Support/Error.h"

namespace gradc {

struct BlockOp {
  std::string type;
  std::vector<std::string> inputs, outputs;  // names, by position
  Attrs attrs;
  std::optional<uint32_t> subBlock;
};

struct Block {
  std::optional<uint32_t> parent;      // none: the root, which is block 0
  std::optional<uint32_t> forward;     // of a gradient block: the block it is the gradient of, which is its parent
  std::vector<std::string> variables;  // declared here
  std::vector<BlockOp> ops;
};

struct BlockProgram {
  std::vector<Block> blocks;

  /// The nearest block, from `block` outwards, that declares the name.
  std::optional<uint32_t> declaringBlock(uint32_t block, llvm::StringRef name) const;
};

/// Parents come before their blocks, a gradient block's parent is its forward block, an operator's block is a child of the
/// block it is in and nobody else's (E-33), every name is declared where it is used (E-44).
llvm::Error verifyBlocks(const BlockProgram &program);

/// The graph of the root block; those of other blocks are bodies of the nodes that own them. Names read before they are written in a block are variables of its graph; its heads
/// are what each name holds at the end, in the order of first writes. Unknown types become opaque nodes. Errors of
/// `verifyBlocks`, E-42 and E-48 for known operators.
llvm::Expected<Graph> graphOfBlocks(Context &context, const BlockProgram &program);

}  // namespace gradc
