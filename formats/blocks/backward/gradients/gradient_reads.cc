// Tested by tests/formats/blocks/backward/copy_overwritten_test.cc
#include "formats/blocks/backward/gradients/gradient_reads.h"

#include "formats/blocks/program/block_program.h"
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

bool GradientReads::hasGradient(int64_t op) const {
  return op >= 0 && !gradientForm(program.text(at(op).type)).value_or(StringRef()).empty();
}

bool GradientReads::isCounter(int64_t op) const { return program.text(at(op).type) == "increment"; }

bool GradientReads::isRead(uint32_t op, ArrayRef<BlockSlot> slots, TextId name) const {
  if (at(op).subBlock) return true;
  const SmallVector<StringRef, 8> read = slotsSaved(program, at(op));
  return any_of(slots, [&](const BlockSlot &slot) {
    return is_contained(slot.variables, name) && is_contained(read, program.text(slot.name));
  });
}

bool GradientReads::isReadBelow(uint32_t op, TextId name) {
  if (!at(op).subBlock) return false;
  auto [entry, isNew] = below.try_emplace(op);
  if (isNew) addSavedBelow(program, *at(op).subBlock, entry->second);
  return entry->second.contains(name);
}

const GradientReads::Operands &GradientReads::operandsOf(uint32_t op) {
  auto [entry, isNew] = operands.try_emplace(op);
  Operands &known = entry->second;
  if (!isNew) return known;
  addSaved(program, at(op), at(op).inputs, known.inputs);
  addSaved(program, at(op), at(op).outputs, known.outputs);
  auto carries = [&](TextId name) {
    const BlockVariable *variable = visibleVariable(program, block, name);
    const bool isArray = variable && variable->kind == FluidType::LodTensorArray;
    return carriesGradient(program, block, name) || (isArray && !variable->stopsGradient);
  };
  forEachVariable(at(op).outputs, [&](TextId name) {
    if (carries(name)) known.carrying.insert(name);
  });
  return known;
}

bool GradientReads::isConstantRead(int64_t op, bool isInput, TextId name) {
  if (!hasGradient(op) || isCounter(op)) return false;
  const Operands &known = operandsOf(static_cast<uint32_t>(op));
  if (known.carrying.names().size() == known.carrying.contains(name)) return false;
  return (isInput ? known.inputs : known.outputs).contains(name) || isReadBelow(static_cast<uint32_t>(op), name);
}

}  // namespace gradc
