// Programs of nested blocks in which operators name their operands, as Paddle Fluid writes them.
//
// A name is looked up in its block and then in the enclosing ones (IR-11). A name may be written several times. A
// gradient block is a child or a sibling of its forward block, or a child of the gradient block of the forward block's
// parent; the variables of its forward block come directly after those it declares, and hold what that block had at the
// step. The meaning of a program is a graph (formats/blocks/graph/graph_of_blocks.h), its file is JSON
// (formats/blocks/files/block_file.h). Tested by tests/formats/blocks/block_program_test.cc
#pragma once

#include "formats/blocks/program/fluid_types.h"
#include "formats/blocks/program/name_table.h"
#include "ir/base/dense_map.h"
#include "ir/base/error.h"
#include "ir/op/attrs.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <vector>

namespace gradc {

/// `@EMPTY@`, which names no variable: in a slot, a value that is not requested. Every program has this text.
inline constexpr TextId kEmptyName = TextId(0);

struct BlockVariable {
  TextId name;
  FluidType kind = FluidType::LodTensor;
  std::optional<FluidType> dtype = {};       // of tensors, rows and arrays
  llvm::SmallVector<int64_t, 4> shape = {};  // with dtype; -1: not known
  std::optional<int64_t> lodLevel = {};
  bool isPersistable = false, stopsGradient = false, isParameter = false, isData = false;
};

/// A named list of operands: `X: [a, b]`.
struct BlockSlot {
  TextId name;
  llvm::SmallVector<TextId, 1> variables;
};

struct BlockOp {
  TextId type;
  std::vector<BlockSlot> inputs, outputs;  // in the order of the file
  /// All other attributes, each value as its file spells it: `["INT",1]` (formats/blocks/program/block_attrs.h).
  Attrs attrs = {};
  std::optional<uint32_t> subBlock = {};  // attribute `sub_block`
  TextId callstack = {};                  // attribute `op_callstack`, as JSON; invalid: none
  int64_t offset = -1;                    // where the operator begins in its file
  int64_t number = -1;                    // its position in the program that was given, where edits moved it
};

struct Block {
  std::optional<uint32_t> parent = {};   // none: the root, which is block 0
  std::optional<uint32_t> forward = {};  // of a gradient block: the block it is the gradient of
  std::vector<BlockVariable> variables = {};
  std::vector<BlockOp> ops = {};
};

struct BlockParameter {
  TextId name;
  bool isTrainable = true;
};

class BlockProgram {
 public:
  NameTable texts;
  std::vector<Block> blocks;
  std::vector<BlockParameter> parameters;  // in the order of their creation

  BlockProgram() { texts.intern("@EMPTY@"); }
  BlockProgram(const BlockProgram &other);
  BlockProgram(BlockProgram &&) = default;
  BlockProgram &operator=(BlockProgram &&) = default;

  TextId intern(llvm::StringRef text) { return texts.intern(text); }
  llvm::StringRef text(TextId id) const { return texts.text(id); }

  /// Declares a variable; false when the block declares its name already. A declaration of `@EMPTY@`, which Paddle's
  /// programs may have, is left out. No other function declares variables.
  bool addVariable(uint32_t block, BlockVariable variable);
  /// The block's own declaration of the name; null: none. Valid until a variable is added to the block.
  const BlockVariable *find(uint32_t block, TextId name) const;
  BlockVariable *find(uint32_t block, TextId name);
  /// The nearest block, from `block` outwards, that declares the name (IR-11). Requires valid links (verifyBlocks).
  std::optional<uint32_t> declaringBlock(uint32_t block, TextId name) const;

  /// The operands in the slot; empty when the operator does not have the slot.
  llvm::ArrayRef<TextId> variables(llvm::ArrayRef<BlockSlot> slots, llvm::StringRef slot) const;

 private:
  struct Place {
    uint32_t block = 0xffffffff;
    uint32_t position = 0;  // in Block::variables
    bool hasOthers = false;
  };

  std::vector<Place> places;                                         // by name: in the block that declared it first
  DenseMap<std::pair<uint32_t, uint32_t>, uint32_t> otherPositions;  // by block and name: in those that did later
};

/// The record in the nearest enclosing block that declares the name; null if none does.
const BlockVariable *visibleVariable(const BlockProgram &program, uint32_t block, TextId name);

/// Whether it is a tensor, not an array of them, with a floating-point type. False for null.
bool isFloatTensor(const BlockVariable *variable);

/// Whether a block sees a floating-point tensor under the name that does not stop gradients.
bool carriesGradient(const BlockProgram &program, uint32_t block, TextId name);

/// Call before edits that move operators, so that messages give the positions that the user knows.
void numberOps(BlockProgram &program);
/// Call when the edited program is what the user gets.
void forgetNumbers(BlockProgram &program);
/// The operator's position in the program that was given.
uint32_t numberOf(const BlockOp &op, size_t position);

/// "block 1, operator 3 (while)", for messages.
std::string describe(const BlockProgram &program, uint32_t block, size_t op);

/// An error about an operator, with its description, where it begins in its file and where the user created it.
Failure failureAt(const BlockProgram &program, uint32_t block, size_t op, ErrorKind kind, const llvm::Twine &what);
/// The same for an error of code that knows no operators of programs.
llvm::Error blameOp(const BlockProgram &program, uint32_t block, size_t op, llvm::Error error);

/// Checks that parents precede their blocks, at most 64 levels deep, that gradient blocks are placed as described
/// above, and that an operator's sub-block is a child of the block it is in and no other operator's (E-33); and that
/// every name that is used is declared (E-44). Errors name block, operator, slot and variable, and the call site in
/// Paddle if the file contains it. Linear.
llvm::Error verifyBlocks(const BlockProgram &program);

}  // namespace gradc
