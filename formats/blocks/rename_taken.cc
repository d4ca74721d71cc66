// Tested by tests/append_backward_test.cc
#include "formats/blocks/rename_taken.h"

using namespace llvm;

namespace gradc {

static TextId unusedName(BlockProgram &program, StringRef like) {
  for (uint32_t k = 0;; ++k) {
    const std::string name = (like + "_" + Twine(k)).str();
    if (!program.texts.find(name).isValid()) return program.intern(name);
  }
}

void renameTakenGradients(BlockProgram &program, uint32_t block, size_t firstOp, IdMap<TextId> to, const NameSet &kept,
                          GradientNames &names, GradientMaker &maker) {
  for (BlockOp &op : MutableArrayRef(program.blocks[block].ops).drop_front(firstOp)) {
    forEachVariable(op.inputs, [&](TextId &name) {
      auto found = to.find(name.value);
      if (found != to.end()) name = found->second;
    });
    forEachVariable(op.outputs, [&](TextId &name) {
      if (!names.isGradient(name) || !program.find(block, name) || kept.contains(name)) return;
      const TextId taken = name;
      name = unusedName(program, program.text(taken));
      to[taken.value] = name;
    });
  }
  for (auto [from, name] : to) maker.rename(TextId(from), name);
}

}  // namespace gradc
