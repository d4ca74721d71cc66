// Tested by tests/append_backward_test.cc and tests/block_graph_test.cc
#include "formats/blocks/first_reads.h"

#include "formats/blocks/flow_condition.h"
#include "formats/blocks/ops/op_row.h"
#include "formats/blocks/recurrent_op.h"

using namespace llvm;

namespace gradc {

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
  auto use = [&](TextId name) { used.insert(name); };
  for (size_t at = 0; at < program.blocks[block].ops.size(); ++at) {
    const BlockOp &op = program.blocks[block].ops[at];
    for (const BlockSlot &slot : op.inputs)
      if (readsValue(program.text(op.type), program.text(slot.name)))
        for (TextId name : slot.variables)
          if (name != kEmptyName && !used.contains(name) && program.find(block, name))
            return readBeforeWrite(program, block, at, slot.name, name);
    forEachVariable(op.inputs, use);
    forEachVariable(op.outputs, use);
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
