// Tested by tests/formats/blocks/backward/copy_overwritten_test.cc
#include "formats/blocks/program/visible_variables.h"

namespace gradc {

const BlockVariable *visibleVariable(const BlockProgram &program, uint32_t block, TextId name) {
  const std::optional<uint32_t> declaring = program.declaringBlock(block, name);
  return declaring ? program.find(*declaring, name) : nullptr;
}

bool isFloatTensor(const BlockVariable *variable) {
  return variable && variable->kind == FluidType::LodTensor && variable->dtype && isFloating(dtypeOf(*variable->dtype));
}

bool carriesGradient(const BlockProgram &program, uint32_t block, TextId name) {
  const BlockVariable *variable = visibleVariable(program, block, name);
  return isFloatTensor(variable) && !variable->stopsGradient;
}

}  // namespace gradc
