// Tested by tests/formats/blocks/backward/append_backward_test.cc and tests/formats/blocks/block_graph_test.cc
#include "formats/blocks/graph/first_reads.h"

#include "formats/blocks/arrays/recurrent_op.h"
#include "formats/blocks/ops/op_row.h"
#include "formats/blocks/program/block_program.h"

using namespace llvm;

namespace gradc {

StringRef conditionSlot(StringRef type) {
  return type == "while" ? "Condition" : type == "conditional_block" ? "Cond" : "";
}

Expected<TextId> conditionOf(const BlockProgram &program, uint32_t block, size_t at) {
  const BlockOp &op = program.blocks[block].ops[at];
  const StringRef slot = conditionSlot(program.text(op.type));
  const ArrayRef<TextId> conditions = program.variables(op.inputs, slot);
  if (!op.subBlock || conditions.size() != 1 || conditions[0] == kEmptyName)
    return failureAt(program, block, at, ErrorKind::BadEntry,
                     "expected one variable in slot '" + slot + "' and a block");
  const BlockVariable *record = visibleVariable(program, block, conditions[0]);
  if (record && record->kind == FluidType::LodTensor && record->dtype == FluidType::Bool) return conditions[0];
  const bool isTensor = record && record->kind == FluidType::LodTensor && record->dtype;
  return failureAt(program, block, at, ErrorKind::BadEntry,
                   "the condition '" + program.text(conditions[0]) + "' is declared " +
                       (isTensor ? "as " + fluidTypeName(*record->dtype) : "without a type of elements") +
                       ", expected a tensor of BOOL");
}

bool readsValue(StringRef type, StringRef slot) {
  if (type == "select_input" || type == "select_output") return true;
  return findBlockOp(type) || (!slot.empty() && slot == conditionSlot(type));
}

Error readBeforeWrite(const BlockProgram &program, uint32_t block, size_t op, TextId slot, TextId name) {
  return failureAt(program, block, op, ErrorKind::UnknownName,
                   "slot '" + program.text(slot) + "' reads '" + program.text(name) +
                       "' before any operator of its block writes it");
}

static Error checkBlock(const BlockProgram &program, uint32_t block, NameSet used) {
  for (size_t at = 0; at < program.blocks[block].ops.size(); ++at) {
    const BlockOp &op = program.blocks[block].ops[at];
    for (const BlockSlot &slot : op.inputs)
      if (readsValue(program.text(op.type), program.text(slot.name)))
        for (TextId name : slot.variables)
          if (name != kEmptyName && !used.contains(name) && program.find(block, name))
            return readBeforeWrite(program, block, at, slot.name, name);
    forEachOperand(op, [&](TextId name) { used.insert(name); });
    if (!op.subBlock) continue;
    const NamesAround inside = findNamesAround(program, *op.subBlock);
    used.insert(inside.read.names());
    used.insert(inside.written.names());
  }
  return Error::success();
}

Error checkFirstReads(const BlockProgram &program) {
  std::vector<NameSet> given(program.blocks.size());
  const TextId recurrent = program.texts.find("recurrent");
  for (uint32_t block = 0; block < program.blocks.size(); ++block) {
    if (program.blocks[block].forward) continue;
    if (block)
      if (Error error = checkBlock(program, block, std::move(given[block]))) return error;
    for (size_t at = 0; at < program.blocks[block].ops.size(); ++at) {
      if (program.blocks[block].ops[at].type != recurrent) continue;
      Expected<RecurrentOp> op = readRecurrentOp(program, block, at);
      if (!op) return op.takeError();
      given[op->block].insert(op->inputs);
      given[op->block].insert(op->exStates);
    }
  }
  return Error::success();
}

}  // namespace gradc
