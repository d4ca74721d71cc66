// The gradients of arrays of tensors. In Paddle's form an element of the gradient is what the reader of the element has stored: right
// where each element is written once and read once. Other arrays are added up: their gradient begins as zeros, a read adds to its
// element, and a write takes the element's gradient and leaves zeros. Tested by tests/array_gradient_test.cc
#pragma once

#include "formats/blocks/array_elements.h"
#include "formats/blocks/gradient_maker.h"

namespace gradc {

class ArrayGradients {
 public:
  ArrayGradients(Context &context, BlockProgram &program, GradientNames &names, GradientMaker &maker)
      : context(context), program(program), names(names), maker(maker) {}

  /// Decides which arrays are added up. Loops that read one get it among their states, as they have those they write.
  void choose();

  /// The gradients of arrays that are added up.
  const NameSet &addedUp() const { return gradients; }

  /// Appends what an operator does to the gradients of arrays that are added up, those in `cut` excepted; true: that is all of its
  /// gradient. NotDifferentiable (E-02) for an array that operators cannot say the gradient of.
  llvm::Expected<bool> make(uint32_t block, uint32_t op, const NameSet &cut, std::vector<BlockOp> &made);

  /// The operators were dropped.
  void forget(llvm::ArrayRef<BlockOp> dropped);

 private:
  llvm::Error check(uint32_t block, uint32_t op, const NameSet &cut);
  void begin(uint32_t block, const BlockOp &forward, const NameSet &cut, std::vector<BlockOp> &made);
  void makeRead(const BlockOp &forward, std::vector<BlockOp> &made);
  void makeWrite(const BlockOp &forward, const NameSet &cut, std::vector<BlockOp> &made);
  TextId gradientOf(TextId variable);
  TextId elementName(TextId gradient);
  BlockOp makeOp(llvm::StringRef type, std::vector<BlockSlot> inputs, TextId out, llvm::ArrayRef<AttrText> own = {});
  BlockSlot slot(llvm::StringRef name, llvm::ArrayRef<TextId> variables);

  Context &context;
  BlockProgram &program;
  GradientNames &names;
  GradientMaker &maker;
  IdMap<ArrayUse> uses;
  NameSet arrays, gradients;  // that are added up
  IdSet begun;                // arrays whose gradients are there
  uint32_t numElements = 0;
};

}  // namespace gradc
