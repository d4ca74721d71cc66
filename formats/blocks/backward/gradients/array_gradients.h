// The gradients of arrays of tensors. In Paddle's form the reader of an element stores the element's gradient, which is
// right if each element is written once and read once. Other arrays are accumulated: their gradient starts as zeros,
// the gradient of a read adds to its element, and that of a write takes the element and leaves zeros. Tested by
// tests/formats/blocks/backward/array_gradient_test.cc
#pragma once

#include "formats/blocks/arrays/array_elements.h"
#include "formats/blocks/backward/gradients/gradient_maker.h"

namespace gradc {

class ArrayGradients {
 public:
  ArrayGradients(Context &context, BlockProgram &program, GradientNames &names, GradientMaker &maker)
      : context(context), program(program), names(names), maker(maker) {}

  /// Decides which arrays are accumulated. Makes each of them a state of the loops that only read it, too.
  void choose();

  /// The gradients of accumulated arrays.
  const NameSet &addedUp() const { return gradients; }

  /// Appends what an operator's gradient does to accumulated arrays, except those in `cut`; true if that is its whole
  /// gradient. NotDifferentiable (E-02) for an array whose gradient cannot be expressed with operators.
  llvm::Expected<bool> make(uint32_t block, uint32_t op, const NameSet &cut, std::vector<BlockOp> &made);

  /// Call for operators from `make` that were dropped.
  void forget(llvm::ArrayRef<BlockOp> dropped);

 private:
  llvm::Error check(uint32_t block, uint32_t op, const NameSet &cut);
  void begin(uint32_t block, const BlockOp &forward, const NameSet &cut, std::vector<BlockOp> &made);
  void makeRead(const BlockOp &forward, std::vector<BlockOp> &made);
  bool makeWhole(const BlockOp &forward, const NameSet &cut, std::vector<BlockOp> &made);
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
  NameSet arrays, gradients;  // that are accumulated
  IdSet begun;                // arrays whose gradients have their zeros
  uint32_t numElements = 0;
};

}  // namespace gradc
