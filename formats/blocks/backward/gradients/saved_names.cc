// Tested by tests/formats/blocks/backward/copy_overwritten_test.cc
#include "formats/blocks/backward/gradients/saved_names.h"

#include "formats/blocks/tables/gradient_forms.h"

using namespace llvm;

namespace gradc {

SmallVector<StringRef, 8> slotsSaved(const BlockProgram &program, const BlockOp &op) {
  SmallVector<StringRef, 8> read;
  const StringRef form = gradientForm(program.text(op.type)).value_or(StringRef());
  form.split(": ").second.split(" -> ").first.split(read, ", ");
  for (StringRef &slot : read)
    if (slot.contains(" = ")) slot = slot.split(" = ").second;
  // What it keeps for generators of other devices is the same in every step.
  if (program.text(op.type) == "rnn") llvm::erase(read, "DropoutState");
  return read;
}

void addSaved(const BlockProgram &program, const BlockOp &op, ArrayRef<BlockSlot> slots, NameSet &saved) {
  const SmallVector<StringRef, 8> read = slotsSaved(program, op);
  for (const BlockSlot &slot : slots)
    if (is_contained(read, program.text(slot.name)) && !(op.subBlock && program.text(slot.name) != "Cond"))
      saved.insert(slot.variables);
}

NameSet movingStatistics(const BlockProgram &program) {
  NameSet names;
  for (const Block &block : program.blocks)
    for (const BlockOp &op : block.ops) {
      if (program.text(op.type) != "batch_norm") continue;
      for (const auto &[from, to] : {std::pair("Mean", "MeanOut"), {"Variance", "VarianceOut"}}) {
        const ArrayRef<TextId> updated = program.variables(op.outputs, to);
        if (program.variables(op.inputs, from) == updated) names.insert(updated);
      }
    }
  return names;
}

void addSavedBelow(const BlockProgram &program, uint32_t block, NameSet &saved) {
  std::vector<uint32_t> pending = {block};
  while (!pending.empty()) {
    const uint32_t inner = pending.back();
    pending.pop_back();
    for (const BlockOp &op : program.blocks[inner].ops) {
      if (op.subBlock) pending.push_back(*op.subBlock);
      addSaved(program, op, op.inputs, saved);
      addSaved(program, op, op.outputs, saved);
    }
  }
}

}  // namespace gradc
