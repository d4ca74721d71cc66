// Tested by tests/append_backward_test.cc and tests/block_graph_test.cc
#include "formats/blocks/flow_condition.h"

#include "formats/blocks/visible_variables.h"

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

}  // namespace gradc
