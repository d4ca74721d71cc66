// What the operator of a gradient block hands in and takes out, by names. Tested by
// tests/formats/blocks/backward/block_backward_test.cc and tests/formats/blocks/recurrent_test.cc
#pragma once

#include "formats/blocks/program/block_program.h"

namespace gradc {

/// The operator that runs a block: `conditional_block`, `while` or `recurrent`.
enum class BlockOwner : uint8_t { Branch, Loop, Recurrent };

/// The gradients that the owner of a gradient block hands in and takes out.
struct GradientPorts {
  struct Wanted {
    enum class Kind : uint8_t {
      Row,    // each step's gradient is a row of it
      State,  // handed by a step to the preceding one
      Sum,    // over the steps; in a branch, that of the branch
    };
    TextId inside;   // the gradient's name in the block
    TextId outside;  // what it is written to; @EMPTY@: not requested
    TextId forward;  // the variable whose gradient it is
    Kind kind = Kind::Sum;
    TextId carried = {};  // for a state: the name under which a step finds what the following step made
  };
  uint32_t block;  // where the operator is
  size_t op;
  BlockOwner owner;
  std::vector<std::pair<TextId, TextId>> arriving;  // names inside and outside
  std::vector<Wanted> wanted;                       // rows come first
};
/// Of `while_grad`, `conditional_block_grad` or `recurrent_grad`.
llvm::Expected<GradientPorts> gradientPorts(const BlockProgram &program, uint32_t block, size_t op);

}  // namespace gradc
