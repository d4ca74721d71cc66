// Gradients that Paddle's gradient operators leave out: that of a soft label, of the weight of a class, of
// probabilities that a loss hands out besides itself. A graph has them. Tested by
// tests/formats/blocks/block_rules_test.cc
#pragma once

#include "formats/blocks/program/gradient_names.h"

namespace gradc {

/// Whether a gradient gets through an input slot of an operator, or from an output slot into it, where the type has a
/// gradient operator. Slots that hold only numbers and shapes are among those that let it through, for nothing gets
/// lost there.
bool passesGradient(llvm::StringRef type, llvm::StringRef slot);

/// Whether an operator reads the variable and writes it, such as the moving statistics of `batch_norm`.
bool isUpdated(const BlockOp &op, TextId name);

/// The gradient of a variable that an operator of a program leaves out, in words that outlive the program.
struct LostGradient {
  std::string op;  // as describe() spells it
  std::string gradientType, slot, variable;
  bool isOutput = false;  // the gradient operator does not read it; else it does not compute it
};

/// Those on the way from `targets` of `block` to `sources`, variables of the root. Names in `noGrad` and flagged
/// variables end a way. Linear; where no operator could lose a gradient, one look at each.
std::vector<LostGradient> findLostGradients(const BlockProgram &program, uint32_t block, llvm::ArrayRef<TextId> targets,
                                            llvm::ArrayRef<TextId> sources, const NameSet &noGrad);

}  // namespace gradc
