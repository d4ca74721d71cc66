// Programs of blocks as text, one line per operator, and the operators that appendBackward adds to them.
#pragma once

#include "tests/support/blocks/block_programs.h"

#include "formats/blocks/backward/append_backward.h"

namespace gradc::testing {

/// Lines `tanh X=x -> Out=y`; `type:2` owns block 2; `block 1 in 0` begins a block. A name is declared where it first
/// occurs, as a float64 tensor of shape [2], `loss` of shape []; names that begin with `p` are parameters, those with
/// `c` stop the gradient. What decides a loop or a branch is one truth value.
BlockProgram programOf(llvm::StringRef text);

/// The operators of a block from `first` on, as such lines.
std::string dump(const BlockProgram &program, uint32_t block, size_t first = 0);

FluidRequest lossOf(std::string name = "loss");
FluidRequest gradientsOf(std::vector<std::string> targets, std::vector<std::string> inputs);

struct Emitted {
  BlockProgram program;
  std::string pairs;  // `p=p@GRAD `

  std::string ops(uint32_t block, size_t first = 0) const { return dump(program, block, first); }
};

std::string pairsOf(const FluidResult &result);
Emitted emitted(llvm::StringRef text, const FluidRequest &request);
std::string emissionError(llvm::StringRef text, const FluidRequest &request);

}  // namespace gradc::testing
