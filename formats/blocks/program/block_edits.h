// Edits of one block, collected per operator and applied at once: replaced names, copies by `assign`, and branches for
// cases that a program leaves out. Tested by tests/formats/blocks/backward/copy_overwritten_test.cc
#pragma once

#include "formats/blocks/program/gradient_names.h"
#include "formats/blocks/program/name_table.h"
#include "ir/graph/context.h"

namespace gradc {

/// An operator to add to a forward program, with the attributes that Paddle gives to all operators.
BlockOp makeForwardOp(Context &context, BlockProgram &program, llvm::StringRef type, std::vector<BlockSlot> inputs,
                      std::vector<BlockSlot> outputs, llvm::ArrayRef<AttrText> attrs);

/// Inserts each operator before the one at its position; they are in the order of these. The number of operators is the
/// end.
void insertBefore(std::vector<BlockOp> &ops, std::vector<std::pair<size_t, BlockOp>> made);

class BlockEdits {
 public:
  using Assign = std::pair<TextId, TextId>;  // from, to

  BlockEdits(Context &context, BlockProgram &program, UnusedNames &unused, uint32_t block)
      : context(context), program(program), unused(unused), block(block) {}

  /// Declares `<name>@COPY@<k>` with the type of `name`, which `like` declares.
  TextId declareCopy(TextId name, const BlockVariable &like);

  void renameInput(size_t op, TextId from, TextId to) { changes[op].inputs[from.value] = to; }
  /// Also renames within the operator's sub-block, unless that declares the name.
  void renameOutput(size_t op, TextId from, TextId to) { changes[op].outputs[from.value] = to; }
  /// Before operator `op`; at the end of the block if `op` is the number of operators.
  void assignBefore(size_t op, TextId from, TextId to) { changes[op].before.push_back({from, to}); }

  /// Completes a branch that writes `name` and has no counterpart: adds a branch for the other case, which passes on
  /// the value before, and selects between the two, as Paddle's `cond` does. The given branch writes `taken`, which
  /// starts as `before` if the branch may keep it; the added one writes `left`; the result is `to`.
  void mergeBranch(size_t op, TextId name, TextId before, TextId taken, TextId left, TextId to);

  void apply();

 private:
  using NameMap = DenseMap<uint32_t, TextId>;

  struct Change {
    NameMap inputs, outputs;
    std::vector<Assign> before;
    std::vector<Assign> first;  // at the beginning of the operator's block
    std::vector<BlockOp> behind;
  };

  BlockOp makeOp(llvm::StringRef type, std::vector<BlockSlot> inputs, std::vector<BlockSlot> outputs,
                 llvm::ArrayRef<AttrText> own);
  BlockOp assign(TextId from, TextId to);
  TextId addVariable(llvm::StringRef like, FluidType kind, std::optional<FluidType> dtype);
  /// How a branch uses outer names, found once.
  struct BranchUse {
    NameSet inputs;        // in its slots
    NameSet readsOrKeeps;  // that its block reads, or hands to an inner block, before one of its operators writes them
  };
  const BranchUse &useOf(size_t branch);
  void rename(BlockOp &op, Change &change);
  void renameBelow(uint32_t inner, const NameMap &names);
  void renameMerged(const BlockOp &branch, Change &change);
  void renameRecurrent(BlockOp &op, Change &change);
  void addReads(BlockOp &branch, llvm::ArrayRef<Assign> first);

  Context &context;
  BlockProgram &program;
  UnusedNames &unused;
  const uint32_t block;
  DenseMap<size_t, Change> changes;  // by operator; the number of operators is the end
  DenseMap<size_t, BranchUse> uses;  // by branch, where requested
  uint32_t numCopies = 0;
};

}  // namespace gradc
