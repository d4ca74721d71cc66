// Tested by tests/block_backward_test.cc
#include "formats/blocks/owner_slots.h"

#include "formats/blocks/gradient_names.h"
#include "formats/blocks/visible_variables.h"

using namespace llvm;

namespace gradc {
namespace {

/// Outer names that a block and its inner blocks use.
struct OuterNames {
  NameSet read, written;
  NameSet readFirst;  // before an operator that always runs has written them
};

/// The gradient of a name that is listed twice would arrive twice.
void dropRepeated(BlockSlot &slot) {
  NameSet seen;
  erase_if(slot.variables, [&](TextId name) { return !seen.insert(name); });
}

void addMissing(BlockProgram &program, uint32_t block, std::vector<BlockSlot> &slots, StringRef slotName,
                const NameSet &names) {
  const OperandNames known{ArrayRef(slots)};
  BlockSlot missing = {program.intern(slotName), {}};
  for (TextId name : names.names())
    if (!known.contains(name) && carriesGradient(program, block, name)) missing.variables.push_back(name);
  if (missing.variables.empty()) return;
  auto slot = find_if(slots, [&](const BlockSlot &candidate) { return candidate.name == missing.name; });
  if (slot == slots.end()) slots.push_back(std::move(missing));
  else llvm::append_range(slot->variables, missing.variables);
}

/// Whether the program starts with a value under the name.
bool isGiven(const BlockProgram &program, uint32_t block, TextId name) {
  if (program.declaringBlock(block, name) != 0u) return false;
  const BlockVariable &record = *program.find(0, name);
  return record.isParameter || record.isPersistable || record.isData;
}

}  // namespace

void matchOwnerSlots(BlockProgram &program) {
  const TextId out = program.texts.find("Out");
  // Gradient blocks of an earlier call use the slots as they are.
  const bool isFirst = none_of(program.blocks, [](const Block &block) { return block.forward.has_value(); });
  std::vector<OuterNames> outer(program.blocks.size());
  for (auto block = static_cast<uint32_t>(program.blocks.size()); block-- > 0;) {  // after its inner blocks
    auto note = [&](NameSet &names, TextId name) {
      if (name != kEmptyName && !program.find(block, name)) names.insert(name);
    };
    NameSet sure;
    auto noteRead = [&](TextId name) {
      note(outer[block].read, name);
      if (!sure.contains(name)) note(outer[block].readFirst, name);
    };
    NameSet seen;  // by operators of the block so far
    for (BlockOp &op : program.blocks[block].ops) {
      const StringRef type = program.text(op.type);
      const bool isOwner = op.subBlock && (type == "while" || type == "conditional_block");
      const OuterNames none, &inside = isOwner ? outer[*op.subBlock] : none;
      // What a branch writes, and what it was before is read by nobody and not there: nothing for the other case to keep.
      auto isNew = [&](TextId name) {
        return !seen.contains(name) && !isGiven(program, block, name) && inside.written.contains(name) &&
               !inside.readFirst.contains(name);
      };
      if (isFirst && block == 0 && type == "conditional_block")
        for (BlockSlot &slot : op.inputs)
          if (program.text(slot.name) == "Input") erase_if(slot.variables, isNew);
      NameSet kept;  // what was given and may stay
      for (TextId name : inside.written.names())
        if (isGiven(program, block, name) && !seen.contains(name)) kept.insert(name);
      forEachVariable(op.inputs, noteRead);
      for (const std::vector<BlockSlot> *slots : {&op.inputs, &op.outputs})
        forEachVariable(*slots, [&](TextId name) { seen.insert(name); });
      seen.insert(inside.read.names());
      seen.insert(inside.written.names());
      if (!isOwner) {
        forEachVariable(op.outputs, [&](TextId name) {
          note(outer[block].written, name);
          note(sure, name);
        });
        continue;
      }
      const ArrayRef<TextId> conditions = program.variables(op.inputs, "Condition");
      const bool isLoop = type == "while";
      const StringRef operands = isLoop ? "X" : "Input";
      const NameSet &needed = isLoop ? inside.read : inside.readFirst;
      for (TextId name : inside.read.names()) note(outer[block].read, name);
      for (TextId name : needed.names()) noteRead(name);
      for (TextId name : inside.written.names()) note(outer[block].written, name);
      for (BlockSlot &slot : op.outputs)
        if (slot.name == out)
          erase_if(slot.variables,
                   [&](TextId name) { return !inside.written.contains(name) && !is_contained(conditions, name); });
      if (!isFirst) continue;
      for (BlockSlot &slot : op.inputs) dropRepeated(slot);
      for (BlockSlot &slot : op.outputs) dropRepeated(slot);
      addMissing(program, block, op.inputs, operands, needed);
      addMissing(program, block, op.inputs, operands, kept);
      addMissing(program, block, op.outputs, "Out", inside.written);
    }
  }
}

}  // namespace gradc
