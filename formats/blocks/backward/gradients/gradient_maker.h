// The gradient operators of one forward operator, before anything is renamed, summed or pruned.
// Tested by tests/formats/blocks/backward/append_backward_test.cc
#pragma once

#include "formats/blocks/program/gradient_names.h"
#include "formats/blocks/tables/gradient_forms.h"
#include "ir/graph/context.h"

namespace gradc {

class GradientMaker {
 public:
  GradientMaker(Context &context, BlockProgram &program, GradientNames &names)
      : context(context), program(program), names(names) {}

  /// Appends to `made`; gradients in `noGrad` are not requested, and `gradientBlock` holds the gradient of the
  /// operator's block. NotDifferentiable (E-02) for a type without a gradient operator, UnknownOp (E-32) for an unknown
  /// one, BadEntry where a result that the gradient reads has no variable.
  llvm::Error make(uint32_t block, uint32_t op, const NameSet &noGrad, std::optional<uint32_t> gradientBlock,
                   std::vector<BlockOp> &made);

  /// The variable a gradient was made for; invalid for names that no maker has produced.
  TextId variableOf(TextId gradient) const {
    return gradient.value < variables.size() ? variables[gradient.value] : TextId();
  }
  /// Call when a gradient gets a new name.
  void rename(TextId from, TextId to);
  void setVariable(TextId gradient, TextId variable);

 private:
  struct Slot {
    TextId name, source;
    TextId base;  // the source without @GRAD, if it ends in that
    bool keepsEmpty = false;
    bool isAuxiliary = false;  // a result of the operator that only its gradient needs
    bool isRequired = false;   // a result that the gradient operator cannot do without
  };
  struct Form {
    enum { Unknown, Missing, Empty, Made } state = Unknown;
    TextId type;
    bool isEach = false;
    llvm::SmallVector<Slot, 4> inputs, outputs;
  };

  const Form &formOf(TextId type);
  Form parse(llvm::StringRef type, llvm::StringRef text);
  Slot internSlot(const GradientForm::Slot &parts);
  void readSlot(const BlockOp &forward, const Slot &slot, BlockSlot &to);
  bool readsGradient(const BlockOp &op) const;
  llvm::Error checkNamed(uint32_t block, uint32_t index, const Slot &slot, const BlockSlot &made) const;
  void writeSlot(const BlockOp &forward, const Slot &slot, const NameSet &noGrad, BlockSlot &to);
  llvm::Error finishRecurrent(uint32_t block, uint32_t index, BlockOp &op, uint32_t gradientBlock);
  TextId outerArrayIn(uint32_t block) const;
  void finishBatchNorm(const BlockOp &forward, BlockOp &op);
  void finishLoop(const BlockOp &forward, BlockOp &op, uint32_t gradientBlock);
  Attrs attrsOf(uint32_t block, const BlockOp &forward, llvm::StringRef madeType);
  Attrs attrsOfCast(uint32_t block, const BlockOp &forward);

  Context &context;
  BlockProgram &program;
  GradientNames &names;
  std::vector<std::optional<Form>> forms;                     // by type
  std::vector<TextId> variables;                              // by gradient
  DenseMap<std::pair<const void *, uint32_t>, Attrs> edited;  // by the forward operator's list and type
};

/// In the operators of a block from `firstOp` on, gradients that the block declares already, except those in `kept`,
/// get new names. `to` has names that are replaced from the start.
void renameTakenGradients(BlockProgram &program, uint32_t block, size_t firstOp, IdMap<TextId> to, const NameSet &kept,
                          GradientNames &names, GradientMaker &maker);

}  // namespace gradc
