// Tested by tests/formats/blocks/backward/append_backward_test.cc
#include "formats/blocks/backward/rename_taken.h"

#include "formats/blocks/program/unused_names.h"

using namespace llvm;

namespace gradc {

void renameTakenGradients(BlockProgram &program, uint32_t block, size_t firstOp, IdMap<TextId> to, const NameSet &kept,
                          GradientNames &names, GradientMaker &maker) {
  UnusedNames unused(program.texts);
  for (BlockOp &op : MutableArrayRef(program.blocks[block].ops).drop_front(firstOp)) {
    NameSet replaced;
    forEachVariable(op.inputs, [&](TextId &name) {
      auto found = to.find(name.value);
      if (found == to.end()) return;
      if (op.subBlock) replaced.insert(name);
      name = found->second;
    });
    forEachVariable(op.outputs, [&](TextId &name) {
      if (!names.isGradient(name) || !program.find(block, name) || kept.contains(name)) return;
      const TextId taken = name;
      if (replaced.contains(taken)) {  // a state of a loop has one name before and behind it
        name = to.find(taken.value)->second;
        return;
      }
      name = unused.make((program.text(taken) + "_").str());
      to[taken.value] = name;
    });
  }
  for (auto [from, name] : to) maker.rename(TextId(from), name);
}

}  // namespace gradc
