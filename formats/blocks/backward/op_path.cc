// Sets of names grow along two scans of a block, forwards from the sources and backwards from the targets.
// Tested by tests/formats/blocks/backward/append_backward_test.cc
#include "formats/blocks/backward/op_path.h"

#include "formats/blocks/program/block_attrs.h"
#include "formats/blocks/tables/gradient_forms.h"

#include <numeric>

using namespace llvm;

namespace gradc {
namespace {

void addAll(NameSet &set, ArrayRef<BlockSlot> slots, const NameSet &except) {
  forEachVariable(slots, [&](TextId name) {
    if (!except.contains(name)) set.insert(name);
  });
}

/// An operator that owns a block, and what that block has to compute.
struct Nested {
  uint32_t op;
  std::vector<TextId> targets;
};

class PathFinder {
 public:
  PathFinder(const BlockProgram &program, OpPaths &paths) : program(program), paths(paths) {}

  void find(uint32_t block, NameSet needed, ArrayRef<TextId> sources, NameSet &noGrad, bool isLoop) {
    const std::vector<BlockOp> &ops = program.blocks[block].ops;
    NameSet reached(sources);
    std::vector<bool> isOnPath(ops.size(), true);
    if (!sources.empty()) isOnPath = markReached(ops, reached, noGrad);
    std::vector<Nested> nested;
    for (uint32_t i = ops.size(); i-- > 0;) {
      if (ops[i].subBlock) nested.push_back({i, outputsIn(ops[i], needed)});
      if (!isOnPath[i]) continue;
      isOnPath[i] = anyIn(ops[i].outputs, needed) && hasGradient(ops[i]);
      if (isOnPath[i]) addAll(needed, ops[i].inputs, noGrad);
    }
    if (isLoop) repeat(block, needed, noGrad, isOnPath, nested);
    std::vector<uint32_t> &path = paths[block];
    path.clear();
    for (uint32_t i = 0; i < ops.size(); ++i)
      if (isOnPath[i]) path.push_back(i);
    if (!sources.empty()) stopAtUnreached(block, reached, noGrad);
    for (const Nested &op : nested) findNested(ops[op.op], op.targets);
  }

 private:
  bool hasGradient(const BlockOp &op) { return !hasEmptyMaker(program.text(op.type)); }

  std::vector<bool> markReached(const std::vector<BlockOp> &ops, NameSet &reached, const NameSet &noGrad) {
    std::vector<bool> isReached(ops.size());
    for (size_t i = 0; i < ops.size(); ++i) {
      isReached[i] = anyIn(ops[i].inputs, reached) && hasGradient(ops[i]);
      if (isReached[i]) addAll(reached, ops[i].outputs, noGrad);
    }
    return isReached;
  }

  static std::vector<TextId> outputsIn(const BlockOp &op, const NameSet &names) {
    std::vector<TextId> outputs;
    forEachVariable(op.outputs, [&](TextId name) {
      if (names.contains(name)) outputs.push_back(name);
    });
    return outputs;
  }

  /// The next step's reads come after this step's writes, so every writer of a needed name is on the path, at any
  /// position.
  void repeat(uint32_t block, NameSet &needed, const NameSet &noGrad, std::vector<bool> &isOnPath,
              std::vector<Nested> &nested) {
    const std::vector<BlockOp> &ops = program.blocks[block].ops;
    IdMap<SmallVector<uint32_t, 2>> writers;
    std::vector<TextId> pending;
    for (uint32_t i = 0; i < ops.size(); ++i)
      forEachVariable(ops[i].outputs, [&](TextId name) {
        writers[name.value].push_back(i);
        if (needed.contains(name)) pending.push_back(name);
      });
    while (!pending.empty()) {
      const TextId name = pending.back();
      pending.pop_back();
      auto found = writers.find(name.value);
      if (found == writers.end()) continue;
      for (uint32_t i : found->second) {
        if (isOnPath[i] || !hasGradient(ops[i])) continue;
        isOnPath[i] = true;
        forEachVariable(ops[i].inputs, [&](TextId input) {
          if (!noGrad.contains(input) && needed.insert(input)) pending.push_back(input);
        });
      }
    }
    for (Nested &op : nested) {
      const NameSet known(op.targets);
      for (TextId name : outputsIn(ops[op.op], needed))
        if (!known.contains(name) && carriesGradient(block, name)) op.targets.push_back(name);
    }
  }

  bool carriesGradient(uint32_t block, TextId name) {
    const BlockVariable *variable = visibleVariable(program, block, name);
    return variable && !variable->stopsGradient && variable->dtype && isFloating(dtypeOf(*variable->dtype));
  }

  void findNested(const BlockOp &op, ArrayRef<TextId> targets) {
    const uint32_t inner = *op.subBlock;
    const std::vector<BlockOp> &ops = program.blocks[inner].ops;
    const bool isLoop = program.text(op.type) == "while";
    if (program.text(op.type) == "recurrent") return findSteps(op);
    if (!isLoop && program.text(op.type) != "conditional_block") {
      paths[inner].resize(ops.size());
      std::iota(paths[inner].begin(), paths[inner].end(), 0);
      return;
    }
    const NameSet outputs(targets);
    NameSet needed(targets), none;
    for (const BlockOp &innerOp : ops)
      if (anyIn(innerOp.outputs, outputs)) addAll(needed, innerOp.inputs, none);
    find(inner, std::move(needed), {}, none, isLoop);
  }

  /// All operators of a step, as in Paddle, except those that have no gradient and are not needed.
  void findSteps(const BlockOp &op) {
    const uint32_t inner = *op.subBlock;
    NameSet needed(program.variables(op.outputs, "outputs")), none;
    for (const std::string &state : stringsAttr(op.attrs, "states").value_or(std::vector<std::string>()))
      if (const TextId name = program.texts.find(state); name.isValid()) needed.insert(name);
    find(inner, std::move(needed), {}, none, false);
    std::vector<uint32_t> path;
    auto next = paths[inner].begin();
    for (uint32_t i = 0; i < program.blocks[inner].ops.size(); ++i) {
      const bool isNeeded = next != paths[inner].end() && *next == i;
      next += isNeeded;
      const std::optional<StringRef> form = gradientForm(program.text(program.blocks[inner].ops[i].type));
      if (isNeeded || (form && *form != "none")) path.push_back(i);
    }
    paths[inner] = std::move(path);
  }

  void stopAtUnreached(uint32_t block, const NameSet &reached, NameSet &noGrad) {
    for (uint32_t i : paths[block])
      forEachVariable(program.blocks[block].ops[i].inputs, [&](TextId name) {
        const BlockVariable *variable = reached.contains(name) ? nullptr : program.find(block, name);
        if (variable && variable->stopsGradient) noGrad.insert(name);
      });
  }

  const BlockProgram &program;
  OpPaths &paths;
};

}  // namespace

void findOpPath(const BlockProgram &program, uint32_t block, const NameSet &targets, ArrayRef<TextId> sources,
                NameSet &noGrad, OpPaths &paths) {
  PathFinder(program, paths).find(block, targets, sources, noGrad, false);
}

CountedBack countersOn(const BlockProgram &program, const OpPaths &paths) {
  CountedBack counters;
  for (uint32_t block = 0; block < paths.size(); ++block)
    for (uint32_t i : paths[block]) {
      const BlockOp &op = program.blocks[block].ops[i];
      if (program.text(op.type) == "increment")
        forEachVariable(op.outputs, [&](TextId name) { ++counters[{block, name.value}]; });
    }
  return counters;
}

bool keepCounted(const BlockProgram &program, const CountedBack &found, CountedBack &counters) {
  CountedBack left;
  for (const auto &[key, count] : found) {
    const TextId original = program.texts.find(program.text(TextId(key.second)).split("@COPY@").first);
    left[{key.first, original.value}] += count;
  }
  bool isLess = false;
  CountedBack kept;
  for (const auto &[key, count] : counters) {
    const uint32_t now = std::min(count, left.lookup(key));
    isLess |= now < count;
    if (now) kept[key] = now;
  }
  counters = std::move(kept);
  return !isLess;
}

std::vector<TextId> findUnreadOutputs(const BlockProgram &program, uint32_t block, ArrayRef<uint32_t> path,
                                      const NameSet &targets, const NameSet &noGrad) {
  NameSet read = targets;
  std::vector<TextId> unread;
  for (uint32_t i : reverse(path)) {
    const BlockOp &op = program.blocks[block].ops[i];
    // Which of its outputs a block needs is not known here.
    if (!op.subBlock)
      forEachVariable(op.outputs, [&](TextId name) {
        const BlockVariable *variable = read.contains(name) ? nullptr : program.find(block, name);
        if (variable && !variable->stopsGradient &&
            !anyVariable(op.inputs, [&](TextId input) { return input == name; }))
          unread.push_back(name);
      });
    addAll(read, op.inputs, noGrad);
  }
  return unread;
}

NameSet targetsSeenFrom(const BlockProgram &program, uint32_t block, uint32_t targetBlock, ArrayRef<TextId> targets) {
  NameSet seen(targets);
  std::vector<uint32_t> way;  // from the targets' block outwards to `block`, exclusive
  for (std::optional<uint32_t> at = targetBlock; at != block; at = program.blocks[*at].parent) {
    if (!at) return seen;  // they belong to an enclosing block
    way.push_back(*at);
  }
  for (uint32_t inner : way) {
    const uint32_t outer = *program.blocks[inner].parent;
    NameSet outside;
    for (const BlockOp &op : reverse(program.blocks[inner].ops)) {
      if (!anyIn(op.outputs, seen)) continue;
      forEachVariable(op.inputs, [&](TextId name) {
        seen.insert(name);
        if (!program.find(inner, name) && program.find(outer, name)) outside.insert(name);
      });
    }
    seen = std::move(outside);
  }
  return seen;
}

}  // namespace gradc
