// Tested by tests/block_backward_test.cc
#include "formats/blocks/unwritten_outputs.h"

#include "formats/blocks/gradient_names.h"

using namespace llvm;

namespace gradc {

void removeUnwrittenOutputs(BlockProgram &program) {
  const TextId out = program.texts.find("Out");
  std::vector<NameSet> written(program.blocks.size());                             // by block: outer names
  for (auto block = static_cast<uint32_t>(program.blocks.size()); block-- > 0;) {  // after its inner blocks
    auto note = [&](TextId name) {
      if (!program.find(block, name)) written[block].insert(name);
    };
    for (BlockOp &op : program.blocks[block].ops) {
      const StringRef type = program.text(op.type);
      if (!op.subBlock || (type != "while" && type != "conditional_block")) {
        forEachVariable(op.outputs, note);
        continue;
      }
      const NameSet &inside = written[*op.subBlock];
      const ArrayRef<TextId> conditions = program.variables(op.inputs, "Condition");
      for (TextId name : inside.names()) note(name);
      for (BlockSlot &slot : op.outputs)
        if (slot.name == out)
          erase_if(slot.variables,
                   [&](TextId name) { return !inside.contains(name) && !is_contained(conditions, name); });
    }
  }
}

}  // namespace gradc
