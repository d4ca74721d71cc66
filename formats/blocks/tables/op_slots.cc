// Tested by tests/formats/blocks/op_slots_test.cc
#include "formats/blocks/tables/op_slots.h"

#include "formats/blocks/program/block_program.h"
#include "formats/blocks/tables/gradient_forms.h"
#include "ir/base/sorted_table.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr OpSlotRow kRows[] = {
#include "formats/blocks/tables/op_slots.def"
};

constexpr StringLiteral kSuffix = "@GRAD";

struct TypeRow {
  std::string_view type;
  const OpSlotRow *row = nullptr;
};

constexpr size_t numTypes() {
  size_t count = 0;
  for (const OpSlotRow &row : kRows) {
    const std::string_view types = row.types;
    count += 1 + static_cast<size_t>(std::count(types.begin(), types.end(), ' '));
  }
  return count;
}

/// A row for each type.
struct TypeRows {
  TypeRow rows[numTypes()];

  consteval TypeRows() {
    TypeRow *to = rows;
    for (const OpSlotRow &row : kRows)
      for (std::string_view types = row.types; !types.empty();) {
        const size_t end = std::min(types.find(' '), types.size());
        *to++ = {types.substr(0, end), &row};
        types.remove_prefix(std::min(end + 1, types.size()));
      }
  }
};
constexpr TypeRows kTypes;
constexpr SortedTable kByType(kTypes.rows, [](const TypeRow &row) { return row.type; });

void parseSlots(StringRef text, SmallVectorImpl<OpSlot> &to) {
  for (StringRef name : split(text, ", ")) {
    if (name.empty()) continue;
    OpSlot &slot = to.emplace_back();
    slot.isOptional = name.consume_back("?");
    slot.isAuxiliary = name.consume_back("~");
    slot.isList = name.consume_back("*");
    slot.name = name;
  }
}

const OpSlot *slotNamed(ArrayRef<OpSlot> slots, StringRef name) {
  const auto *at = find_if(slots, [&](const OpSlot &slot) { return slot.name == name; });
  return at == slots.end() ? nullptr : at;
}

/// Of a type of gradient operators, from the slots of its forward type: a gradient is as many variables as what it is
/// the gradient of, and may be missing; what is not requested is. `batch_norm_grad` has operands that its form lacks.
std::optional<OpSlots> slotsOfGradient(const GradientForm &form) {
  StringRef forward = form.forward;
  while (const std::optional<GradientForm> first = formOfGradient(forward)) forward = first->forward;
  const std::optional<OpSlots> known = slotsOfType(forward);
  if (!known) return std::nullopt;
  OpSlots slots;
  auto add = [&](const GradientForm::Slot &from, SmallVectorImpl<OpSlot> &to) {
    StringRef source = from.source;
    bool isOptional = false;
    while (source.consume_back(kSuffix)) isOptional = true;
    const OpSlot *of = slotNamed(known->inputs, source);
    if (!of) of = slotNamed(known->outputs, source);
    to.push_back({from.name, !of || of->isList, isOptional || !of || of->isOptional || of->isAuxiliary, false});
  };
  for (const GradientForm::Slot &slot : form.inputs) add(slot, slots.inputs);
  for (const GradientForm::Slot &slot : form.outputs) add(slot, slots.outputs);
  for (const OpSlot &slot : known->inputs)
    if (!slotNamed(slots.inputs, slot.name)) slots.inputs.push_back({slot.name, slot.isList, true, false});
  return slots;
}

/// Operators, and their gradients, whose operands may be arrays of tensors or the scopes of blocks.
constexpr StringLiteral kTakingArrays[] = {"assign",
                                           "conditional_block",
                                           "conditional_block_grad",
                                           "fill_any_like",
                                           "fill_zeros_like",
                                           "lod_array_length",
                                           "read_from_array",
                                           "recurrent",
                                           "recurrent_grad",
                                           "select_input",
                                           "select_output",
                                           "sum",
                                           "tensor_array_to_tensor",
                                           "tensor_array_to_tensor_grad",
                                           "while",
                                           "while_grad",
                                           "write_to_array"};

/// Those whose results are tensors even so.
constexpr StringLiteral kMakingTensors[] = {"lod_array_length", "read_from_array", "tensor_array_to_tensor"};

class SlotVerifier {
 public:
  explicit SlotVerifier(const BlockProgram &program) : program(program) {}

  Error verify(uint32_t atBlock, size_t atOp) {
    block = atBlock;
    index = atOp;
    const BlockOp &op = program.blocks[block].ops[index];
    const Type &type = typeOf(op.type);
    if (!type.isKnown) return Error::success();
    if (Error error = verifySide(op.inputs, type.inputs, true)) return error;
    if (Error error = verifySide(op.outputs, type.outputs, false)) return error;
    if (!op.subBlock)  // a branch may list a result twice
      if (Error error = verifyDistinct(op.outputs)) return error;
    if (type.takesArrays && !type.makesTensors) return Error::success();
    if (!type.takesArrays)
      if (Error error = verifyTensors(op.inputs)) return error;
    return verifyTensors(op.outputs);
  }

 private:
  struct Slot {
    TextId name;  // invalid: in no operator of the program
    OpSlot rule;
  };
  struct Type {
    bool isRead = false, isKnown = false, takesArrays = false, makesTensors = false;
    SmallVector<Slot, 4> inputs, outputs;
  };

  const Type &typeOf(TextId id) {
    if (id.value >= types.size()) types.resize(program.texts.size());
    Type &type = types[id.value];
    if (type.isRead) return type;
    type.isRead = true;
    const StringRef name = program.text(id);
    std::optional<OpSlots> slots;
    if (const std::optional<GradientForm> form = formOfGradient(name)) slots = slotsOfGradient(*form);
    if (!slots) slots = slotsOfType(name);
    type.isKnown = slots.has_value();
    type.takesArrays = is_contained(kTakingArrays, name);
    type.makesTensors = is_contained(kMakingTensors, name);
    if (!slots) return type;
    for (const OpSlot &slot : slots->inputs) type.inputs.push_back({program.texts.find(slot.name), slot});
    for (const OpSlot &slot : slots->outputs) type.outputs.push_back({program.texts.find(slot.name), slot});
    return type;
  }

  Error verifySide(ArrayRef<BlockSlot> slots, ArrayRef<Slot> known, bool isInput) {
    uint64_t given = 0, filled = 0;
    for (const BlockSlot &slot : slots) {
      const auto *at = find_if(known, [&](const Slot &other) { return other.name == slot.name; });
      if (at == known.end()) {
        if (const TextId first = firstVariable(slot); first.isValid()) return unknown(slot, first, known, isInput);
        continue;
      }
      const uint64_t bit = uint64_t{1} << (at - known.begin());
      if (given & bit) return failure("has slot '" + at->rule.name + "' twice");
      given |= bit;
      const size_t count = slot.variables.size();
      if (count > 1 && !at->rule.isList)
        return failure("slot '" + at->rule.name + "' holds " + Twine(count) + " variables, from '" +
                       program.text(slot.variables[0]) + "' to '" + program.text(slot.variables.back()) +
                       "', expected one");
      if (count) filled |= bit;
      if (isInput && !at->rule.isOptional && is_contained(slot.variables, kEmptyName))
        return failure("slot '" + at->rule.name + "' names no variable");
    }
    for (const auto &[i, slot] : enumerate(known))
      if (!slot.rule.isOptional && !slot.rule.isAuxiliary && !(filled >> i & 1))
        return failure("slot '" + slot.rule.name + "' has no " + (isInput ? "operand" : "result") + " 0");
    return Error::success();
  }

  // Of two results under one name, the name would have the second, and the gradient would reach both.
  Error verifyDistinct(ArrayRef<BlockSlot> slots) const {
    SmallDenseSet<uint32_t, 8> known;
    for (const BlockSlot &slot : slots)
      for (TextId name : slot.variables)
        if (name != kEmptyName && !known.insert(name.value).second)
          return failure("slot '" + program.text(slot.name) + "' holds '" + program.text(name) +
                         "', which is another result already");
    return Error::success();
  }

  // What is not a tensor would count as one in the graph, and not in the gradient.
  Error verifyTensors(ArrayRef<BlockSlot> slots) const {
    for (const BlockSlot &slot : slots)
      for (TextId name : slot.variables) {
        const BlockVariable *record = name == kEmptyName ? nullptr : visibleVariable(program, block, name);
        if (!record || (record->kind != FluidType::LodTensorArray && record->kind != FluidType::StepScopes)) continue;
        return failure("variable '" + program.text(name) + "' in slot '" + program.text(slot.name) + "' is a " +
                       fluidTypeName(record->kind) + ", expected a tensor");
      }
    return Error::success();
  }

  static TextId firstVariable(const BlockSlot &slot) {
    for (TextId name : slot.variables)
      if (name != kEmptyName) return name;
    return TextId();
  }

  Error unknown(const BlockSlot &slot, TextId variable, ArrayRef<Slot> known, bool isInput) const {
    SmallVector<StringRef, 8> names;
    for (const Slot &other : known) names.push_back(other.rule.name);
    const StringRef side = isInput ? "operands" : "results";
    return failureAt(program, block, index, ErrorKind::BadEntry,
                     "slot '" + program.text(slot.name) + "', which holds '" + program.text(variable) +
                         "', is not one of the slots of its " + side)
        .note(names.empty() ? "its type has no " + side.str() : "they are " + join(names, ", "));
  }

  Error failure(const Twine &what) const { return failureAt(program, block, index, ErrorKind::BadEntry, what); }

  const BlockProgram &program;
  std::vector<Type> types;  // by type
  uint32_t block = 0;
  size_t index = 0;
};

}  // namespace

ArrayRef<OpSlotRow> opSlotRows() { return kRows; }

std::optional<OpSlots> slotsOfType(StringRef type) {
  const TypeRow *found = kByType.find(type);
  if (!found) return std::nullopt;
  const auto [inputs, outputs] = found->row->slots.split(" -> ");
  OpSlots slots;
  parseSlots(inputs, slots.inputs);
  parseSlots(outputs, slots.outputs);
  return slots;
}

Error verifySlots(const BlockProgram &program) {
  SlotVerifier verifier(program);
  for (uint32_t block = 0; block < program.blocks.size(); ++block)
    for (size_t op = 0; op < program.blocks[block].ops.size(); ++op)
      if (Error error = verifier.verify(block, op)) return error;
  return Error::success();
}

}  // namespace gradc
