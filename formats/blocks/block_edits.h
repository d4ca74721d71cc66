// Edits of one block, collected by operator and applied at once: names that are replaced, copies by `assign`, branches for cases
// that a program leaves out. Tested by tests/copy_overwritten_test.cc
#pragma once

#include "formats/blocks/gradient_names.h"
#include "ir/context.h"

namespace gradc {

class BlockEdits {
 public:
  using Assign = std::pair<TextId, TextId>;  // from, to

  BlockEdits(Context &context, BlockProgram &program, uint32_t block)
      : context(context), program(program), block(block) {}

  /// Declares `<name>@COPY@<k>` with the type of `name`, which `like` declares.
  TextId declareCopy(TextId name, const BlockVariable &like);

  void renameInput(size_t op, TextId from, TextId to) { changes[op].inputs[from.value] = to; }
  /// In the operator's own block too, where that does not declare the name.
  void renameOutput(size_t op, TextId from, TextId to) { changes[op].outputs[from.value] = to; }
  /// Before the operator; behind the last one for a position behind it.
  void assignBefore(size_t op, TextId from, TextId to) { changes[op].before.push_back({from, to}); }

  /// A branch that writes `name` or leaves it, with nothing for the other case: that case gets a branch that hands on the value
  /// before, and the two are selected from, as Paddle's `cond` does. The branch writes `taken`, which begins as `before` where it
  /// may keep it; the other one writes `left`, and `to` is what comes out.
  void mergeBranch(size_t op, TextId name, TextId before, TextId taken, TextId left, TextId to);

  void apply();

 private:
  using NameMap = DenseMap<uint32_t, TextId>;

  struct Change {
    NameMap inputs, outputs;
    std::vector<Assign> before;
    std::vector<Assign> first;  // where the operator's block begins
    std::vector<BlockOp> behind;
  };

  BlockOp makeOp(llvm::StringRef type, std::vector<BlockSlot> inputs, std::vector<BlockSlot> outputs,
                 llvm::ArrayRef<AttrText> own);
  BlockOp assign(TextId from, TextId to);
  TextId addVariable(llvm::StringRef like, FluidType kind, std::optional<FluidType> dtype);
  bool readsOrKeeps(uint32_t inner, TextId name) const;
  void rename(BlockOp &op, Change &change);
  void renameBelow(uint32_t inner, const NameMap &names);
  void renameRecurrent(BlockOp &op, Change &change);
  void addRead(BlockOp &branch, TextId name);

  Context &context;
  BlockProgram &program;
  const uint32_t block;
  DenseMap<size_t, Change> changes;  // by operator; behind the last: of the end
  uint32_t numCopies = 0;
};

}  // namespace gradc
