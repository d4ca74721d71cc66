// Tested by tests/copy_overwritten_test.cc
#include "formats/blocks/flag_removal.h"

#include "formats/blocks/gradient_forms.h"
#include "formats/blocks/visible_variables.h"

using namespace llvm;

namespace gradc {

bool FlagRemoval::dependsOnUnflagged(uint32_t body, TextId name) const {
  NameSet live;
  for (bool isGrowing = true; isGrowing;) {
    isGrowing = false;
    for (const BlockOp &op : program.blocks[body].ops) {
      if (hasEmptyMaker(program.text(op.type))) continue;
      const bool readsLive = anyVariable(op.inputs, [&](TextId input) {
        return live.contains(input) || (!program.find(body, input) && carriesGradient(program, block, input));
      });
      if (readsLive)
        forEachVariable(op.outputs, [&](TextId output) {
          const BlockVariable *own = program.find(body, output);
          if (!own || !own->stopsGradient) isGrowing |= live.insert(output);
        });
    }
  }
  return live.contains(name);
}

void FlagRemoval::remove(TextId copy) {
  program.find(block, copy)->stopsGradient = false;
  removed.insert(copy);
}

void FlagRemoval::removeRepeated(const IdMap<TextId> &except) {
  if (removed.names().empty()) return;
  for (const BlockOp &op : program.blocks[block].ops) {
    if (!anyIn(op.inputs, removed) || hasEmptyMaker(program.text(op.type))) continue;
    const bool hasOthers = anyVariable(
        op.inputs, [&](TextId name) { return !removed.contains(name) && carriesGradient(program, block, name); });
    if (hasOthers || anyVariable(op.outputs, [&](TextId name) { return except.contains(name.value); })) continue;
    forEachVariable(op.outputs, [&](TextId name) {
      BlockVariable *own = program.find(block, name);
      if (!own || !own->stopsGradient) return;  // one that it makes of what is not flagged has a meaning of its own
      own->stopsGradient = false;
      removed.insert(name);
    });
  }
}

}  // namespace gradc
