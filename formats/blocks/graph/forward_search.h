// The operator whose gradient a gradient operator is. Tested by tests/formats/blocks/backward/block_backward_test.cc
#pragma once

#include "formats/blocks/graph/block_body.h"

namespace gradc {

/// Looks for it among the operators that were recorded, in the block of the gradient operator and in its forward block.
///
/// A candidate has the forward type, the operands that the gradient operator reads and its attributes. `pad_grad` reads
/// no operand and `scatter_grad` not all, so among several candidates the names of the gradients decide (`y@GRAD`
/// belongs to y), then the declared shapes. A search that ends with several candidates is an error, unless all have the
/// same gradient.
class ForwardSearch {
 public:
  ForwardSearch(BlockReader &reader, size_t at, const FormSlots &slots, llvm::StringRef forwardType)
      : reader(reader), at(at), slots(slots), forwardType(forwardType) {}

  struct Found {
    BlockReader *in = nullptr;  // null: there is none
    uint32_t op = 0;
  };
  llvm::Expected<Found> find();

  /// Makes a recorded operator known to searches. `slots` are those of its gradient.
  static void add(BlockReader &reader, size_t at, const FormSlots &slots);

  /// The values that a recorded operator had in a slot of its inputs, or else of its outputs.
  static llvm::ArrayRef<Value> valuesIn(const BlockReader &in, uint32_t op, llvm::StringRef slot);
  /// The value of a name in a block; makes no variable for it.
  static Value valueOf(BlockReader &in, TextId name);

 private:
  enum class Shapes : uint8_t { Different, Unknown, Equal };
  struct Match {
    uint32_t op = 0;
    size_t numNames = 0;  // gradients named after the operands of the candidate
    Shapes shapes = Shapes::Different;
  };

  const BlockOp &op() const { return reader.op(at); }
  template <typename Visit> void forEachGradient(Visit visit) const;
  bool readKey(bool isForwardBlock);
  llvm::Expected<Found> findIn(BlockReader &in, bool isForwardBlock);
  bool isCandidate(BlockReader &in, uint32_t candidate) const;
  Match match(BlockReader &in, uint32_t candidate) const;
  Shapes compareShapes(TextId gradient, BlockReader &in, TextId operand) const;
  bool haveOneGradient(BlockReader &in, const Match &a, const Match &b) const;

  BlockReader &reader;
  const size_t at;
  const FormSlots &slots;
  llvm::StringRef forwardType;
  std::vector<Value> key;  // what the gradient operator reads of the forward operator
};

}  // namespace gradc
