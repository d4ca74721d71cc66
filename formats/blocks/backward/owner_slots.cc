// Tested by tests/formats/blocks/backward/block_backward_test.cc
#include "formats/blocks/backward/owner_slots.h"

#include "formats/blocks/program/block_attrs.h"
#include "formats/blocks/program/block_program.h"
#include "formats/blocks/program/gradient_names.h"

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

/// With `areWritten`, also flagged ones: a flag is not about what the block computes.
SmallVector<TextId, 1> missingNames(const BlockProgram &program, uint32_t block, ArrayRef<BlockSlot> slots,
                                    const NameSet &names, bool areWritten) {
  const OperandNames known{slots};
  SmallVector<TextId, 1> missing;
  for (TextId name : names.names())
    if (!known.contains(name) &&
        (carriesGradient(program, block, name) || (areWritten && isFloatTensor(visibleVariable(program, block, name)))))
      missing.push_back(name);
  return missing;
}

void addMissing(BlockProgram &program, uint32_t block, std::vector<BlockSlot> &slots, StringRef slotName,
                const NameSet &names, bool areWritten) {
  BlockSlot missing = {program.intern(slotName), missingNames(program, block, slots, names, areWritten)};
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

/// By block: what a step of `recurrent` begins with under separate names.
std::vector<NameSet> begunNames(const BlockProgram &program) {
  std::vector<NameSet> begun(program.blocks.size());
  for (const Block &block : program.blocks)
    for (const BlockOp &op : block.ops) {
      if (!op.subBlock || program.text(op.type) != "recurrent") continue;
      begun[*op.subBlock].insert(program.variables(op.inputs, "inputs"));
      for (const std::string &state : stringsAttr(op.attrs, "ex_states").value_or(std::vector<std::string>()))
        if (const TextId name = program.texts.find(state); name.isValid()) begun[*op.subBlock].insert(name);
    }
  return begun;
}

/// What the operators of one block have to do with the names that it declares.
class SlotMatcher {
 public:
  SlotMatcher(BlockProgram &program, std::vector<OuterNames> &outer, uint32_t block, NameSet begun, bool isFirst)
      : program(program), outer(outer), block(block), isFirst(isFirst), seen(std::move(begun)) {}

  Error run() {
    for (size_t at = 0; at < program.blocks[block].ops.size(); ++at) {
      BlockOp &op = program.blocks[block].ops[at];
      const StringRef type = program.text(op.type);
      if (!op.subBlock || (type != "while" && type != "conditional_block")) {
        noteOp(op);
        continue;
      }
      if (Error error = checkOwner(at, type == "while")) return error;
      matchOwner(op, type == "while");
    }
    return Error::success();
  }

 private:
  void note(NameSet &names, TextId name) {
    if (name != kEmptyName && !program.find(block, name)) names.insert(name);
  }
  void noteRead(TextId name) {
    note(outer[block].read, name);
    if (!sure.contains(name)) note(outer[block].readFirst, name);
    seen.insert(name);
  }
  void noteOp(const BlockOp &op) {
    forEachVariable(op.inputs, [&](TextId name) { noteRead(name); });
    forEachVariable(op.outputs, [&](TextId name) {
      note(outer[block].written, name);
      note(sure, name);
      seen.insert(name);
    });
  }

  static StringRef operandSlot(bool isLoop) { return isLoop ? "X" : "Input"; }

  /// The gradient of an operand that the slot lacks would get lost; that of one under whose name the block has another
  /// variable would be taken for the gradient of that.
  Error checkOwner(size_t at, bool isLoop) const {
    const BlockOp &op = program.blocks[block].ops[at];
    const StringRef slot = operandSlot(isLoop);
    for (TextId name : program.variables(op.inputs, slot))
      if (name != kEmptyName && program.find(*op.subBlock, name))
        return failureAt(program, block, at, ErrorKind::BadEntry,
                         "slot '" + slot + "' lists '" + program.text(name) + "', but block " + Twine(*op.subBlock) +
                             " declares another variable of that name");
    if (isFirst) return Error::success();
    const OuterNames &inside = outer[*op.subBlock];
    const SmallVector<TextId, 1> missing =
        missingNames(program, block, op.inputs, isLoop ? inside.read : inside.readFirst, false);
    if (missing.empty()) return Error::success();
    return failureAt(program, block, at, ErrorKind::BadEntry,
                     "block " + Twine(*op.subBlock) + " reads '" + program.text(missing[0]) + "', which slot '" + slot +
                         "' does not list and which cannot be added after an earlier call has made gradients");
  }

  void matchOwner(BlockOp &op, bool isLoop) {
    const OuterNames &inside = outer[*op.subBlock];
    const StringRef operands = operandSlot(isLoop);
    // The gradient of what a loop writes is a state of its gradient: it arrives once, behind the last step. What a
    // branch writes may keep the value that it was given; one that an operator has written copyOverwritten tells apart.
    NameSet kept;
    for (TextId name : inside.written.names())
      if (isLoop || (isGiven(program, block, name) && !seen.contains(name))) kept.insert(name);
    // What a branch writes before it reads it, and has no value before: there is nothing that could stay.
    auto isNew = [&](TextId name) {
      return !hasValue(name) && inside.written.contains(name) && !inside.readFirst.contains(name);
    };
    if (isFirst && !isLoop)
      for (BlockSlot &slot : op.inputs)
        if (program.text(slot.name) == operands) erase_if(slot.variables, isNew);
    const NameSet &needed = isLoop ? inside.read : inside.readFirst;
    forEachVariable(op.inputs, [&](TextId name) { noteRead(name); });
    for (TextId name : inside.read.names()) note(outer[block].read, name);
    for (TextId name : needed.names()) noteRead(name);
    for (TextId name : inside.written.names()) note(outer[block].written, name);
    seen.insert(inside.read.names());
    seen.insert(inside.written.names());
    const TextId out = program.texts.find("Out");
    const ArrayRef<TextId> conditions = program.variables(op.inputs, "Condition");
    for (BlockSlot &slot : op.outputs)
      if (slot.name == out)
        erase_if(slot.variables,
                 [&](TextId name) { return !inside.written.contains(name) && !is_contained(conditions, name); });
    if (!isFirst) return;
    for (BlockSlot &slot : op.inputs) dropRepeated(slot);
    for (BlockSlot &slot : op.outputs) dropRepeated(slot);
    addMissing(program, block, op.inputs, operands, needed, false);
    addMissing(program, block, op.inputs, operands, kept, isLoop);
    addMissing(program, block, op.outputs, "Out", inside.written, true);
  }

  /// Before the operator at hand. Unknown for an outer name, which counts as having one.
  bool hasValue(TextId name) const {
    return seen.contains(name) || !program.find(block, name) || isGiven(program, block, name);
  }

  BlockProgram &program;
  std::vector<OuterNames> &outer;
  const uint32_t block;
  const bool isFirst;
  NameSet sure;  // outer names that operators which always run have written
  NameSet seen;  // what operators have used so far
};

}  // namespace

Error matchOwnerSlots(BlockProgram &program) {
  // Gradient blocks of an earlier call use the slots unchanged.
  const bool isFirst = none_of(program.blocks, [](const Block &block) { return block.forward.has_value(); });
  std::vector<OuterNames> outer(program.blocks.size());
  std::vector<NameSet> begun = begunNames(program);
  for (auto block = static_cast<uint32_t>(program.blocks.size()); block-- > 0;)  // after its inner blocks
    if (Error error = SlotMatcher(program, outer, block, std::move(begun[block]), isFirst).run()) return error;
  return Error::success();
}

}  // namespace gradc
