// Tested by tests/formats/blocks/backward/copy_overwritten_test.cc
#include "formats/blocks/backward/flag_removal.h"

#include "formats/blocks/graph/lost_gradients.h"
#include "formats/blocks/program/block_program.h"
#include "formats/blocks/tables/gradient_forms.h"

using namespace llvm;

namespace gradc {

bool FlagRemoval::dependsOnUnflagged(uint32_t body, TextId name) {
  auto [known, isNew] = live.try_emplace(body);
  if (isNew) known->second = findLive(body);
  return known->second.contains(name);
}

NameSet FlagRemoval::findLive(uint32_t body) const {
  const std::vector<BlockOp> &ops = program.blocks[body].ops;
  IdMap<SmallVector<uint32_t, 2>> readers;
  std::vector<uint32_t> pending;
  std::vector<bool> isReached(ops.size());
  auto reach = [&](uint32_t i) {
    if (!isReached[i]) pending.push_back(i);
    isReached[i] = true;
  };
  for (uint32_t i = 0; i < ops.size(); ++i) {
    if (hasEmptyMaker(program.text(ops[i].type))) continue;
    forEachVariable(ops[i].inputs, [&](TextId input) {
      readers[input.value].push_back(i);
      if (!program.find(body, input) && carriesGradient(program, block, input)) reach(i);
    });
  }
  NameSet found;
  while (!pending.empty()) {
    const uint32_t at = pending.back();
    pending.pop_back();
    forEachVariable(ops[at].outputs, [&](TextId output) {
      const BlockVariable *own = program.find(body, output);
      if ((own && own->stopsGradient) || !found.insert(output)) return;
      for (uint32_t reader : readers[output.value]) reach(reader);
    });
  }
  return found;
}

void FlagRemoval::remove(TextId copy) {
  program.find(block, copy)->stopsGradient = false;
  removed.insert(copy);
}

static bool isState(const BlockOp &op, TextId name) { return op.subBlock && isUpdated(op, name); }

/// The name that an operator uses for `copy`: a loop works on a separate copy.
TextId FlagRemoval::stateOf(const BlockOp &op, uint32_t index, TextId name, TextId copy, BlockEdits &edits) {
  if (!isState(op, name)) return copy;
  const TextId state = edits.declareCopy(name, BlockVariable(*program.find(block, name)));
  remove(state);
  edits.assignBefore(index, copy, state);
  edits.renameOutput(index, name, state);
  return state;
}

void FlagRemoval::removeRepeated(Context &context, UnusedNames &unused, IdMap<TextId> &finalNames) {
  if (removed.names().empty()) return;
  const std::vector<BlockOp> &ops = program.blocks[block].ops;
  BlockEdits edits(context, program, unused, block);
  IdMap<uint32_t> numWriters;
  for (const BlockOp &op : ops) forEachVariable(op.outputs, [&](TextId name) { ++numWriters[name.value]; });
  auto handsOut = [&](const BlockOp &op) {  // the last value, under the program's own name
    const TextId name = op.outputs.empty() || op.outputs[0].variables.empty() ? TextId() : op.outputs[0].variables[0];
    const auto found = name.isValid() ? finalNames.find(name.value) : finalNames.end();
    return found != finalNames.end() && anyVariable(op.inputs, [&](TextId from) { return from == found->second; });
  };
  IdMap<TextId> latest;  // by name: the unflagged copy of its latest value
  for (uint32_t i = 0; i < ops.size(); ++i) {
    const BlockOp &op = ops[i];
    bool readsRemoved = false, readsOthers = false;
    forEachVariable(op.inputs, [&](TextId name) {
      const auto copy = latest.find(name.value);
      if (copy != latest.end()) edits.renameInput(i, name, copy->second = stateOf(op, i, name, copy->second, edits));
      const bool isRemoved = copy != latest.end() || removed.contains(name);
      readsRemoved |= isRemoved;
      readsOthers |= !isRemoved && carriesGradient(program, block, name);
    });
    const bool isRepeat = readsRemoved && !readsOthers && !hasEmptyMaker(program.text(op.type)) && !handsOut(op);
    forEachVariable(op.outputs, [&](TextId name) {
      if (latest.contains(name.value) && isState(op, name)) return;
      latest.erase(name.value);
      const BlockVariable *own = program.find(block, name);
      if (!isRepeat || !own || !own->stopsGradient) return;  // any other flag is independent of them
      const bool isAlone = op.subBlock || numWriters.lookup(name.value) == 1;
      const TextId copy = isAlone ? name : edits.declareCopy(name, BlockVariable(*own));
      remove(copy);
      if (isAlone) return;
      edits.renameOutput(i, name, copy);
      latest[name.value] = copy;
    });
  }
  for (const BlockOp &op : ops)
    forEachVariable(op.outputs, [&](TextId name) {
      const auto copy = latest.find(name.value);
      if (copy == latest.end() || !finalNames.try_emplace(name.value, copy->second).second) return;
      edits.assignBefore(ops.size(), copy->second, name);
    });
  edits.apply();
}

}  // namespace gradc
