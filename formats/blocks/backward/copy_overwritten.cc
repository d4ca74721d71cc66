// A name's life in a block is a list of versions: each write begins one. Versions between which nothing is lost keep
// one name. Tested by tests/formats/blocks/backward/copy_overwritten_test.cc and tests/oracles/paddle_programs.py
#include "formats/blocks/backward/copy_overwritten.h"

#include "formats/blocks/backward/flag_removal.h"
#include "formats/blocks/backward/gradients/gradient_reads.h"
#include "formats/blocks/program/block_attrs.h"
#include "formats/blocks/program/block_edits.h"
#include "formats/blocks/program/block_program.h"

using namespace llvm;

namespace gradc {
namespace {

struct Version {
  int64_t writer;                    // -1: the value comes from outside
  SmallVector<uint32_t, 2> readers;  // the next version's writer is not one of them
};

class BlockCopier {
 public:
  /// `owner` runs the block; null: it is the root. `earlier`: blocks that have a gradient block of an earlier call;
  /// null: no earlier call.
  BlockCopier(Context &context, BlockProgram &program, UnusedNames &unused, uint32_t block, const BlockOp *owner,
              const std::vector<bool> *earlier, const CountedBack &counters, const NameSet &statistics,
              std::vector<std::pair<TextId, TextId>> &copies)
      : context(context), program(program), unused(unused), block(block), earlier(earlier), counters(counters),
        statistics(statistics), copies(copies), reads(program, block), edits(context, program, unused, block),
        flags(program, block) {
    isBranchBody = owner && program.text(owner->type) == "conditional_block";
    if (owner && isRecurrent(*owner)) {
      begun.insert(program.variables(owner->inputs, "inputs"));
      for (const std::string &state : stringsAttr(owner->attrs, "ex_states").value_or(std::vector<std::string>()))
        begun.insert(program.intern(state));
    } else if (owner) {
      forEachVariable(owner->outputs, [&](TextId name) { (isBranchBody ? handed : states).insert(name); });
    }
  }

  FinalNames run() {
    if (!findCandidates()) return FinalNames();
    collect();
    for (TextId name : written.names()) {
      std::vector<Version> &versions = lives[name.value];
      if (program.text(name).contains("@GRAD") || isUpdated(name) || statistics.contains(name)) continue;
      if (states.contains(name) && !program.find(block, name)) {
        if (carriesGradient(name) || isConstantLost(name, versions)) separateState(name, versions);
      } else if (carriesGradient(name) || !separateStopped(name, versions)) {
        separate(name, versions);
      }
    }
    edits.apply();
    flags.removeRepeated(context, unused, finalNames);
    return std::move(finalNames);
  }

 private:
  const std::vector<BlockOp> &ops() const { return program.blocks[block].ops; }
  bool isBranch(int64_t op) const { return program.text(ops()[op].type) == "conditional_block"; }
  bool isRecurrent(const BlockOp &op) const { return program.text(op.type) == "recurrent"; }
  bool isLoop(uint32_t op) const { return program.text(ops()[op].type) == "while"; }

  /// Whether the operator's block is a gradient block of an earlier call, or has one: the other block uses its names
  /// too.
  bool isSettled(int64_t op) const {
    if (!earlier || op < 0 || !ops()[op].subBlock) return false;
    const uint32_t inner = *ops()[op].subBlock;
    return program.blocks[inner].forward || (*earlier)[inner];
  }
  /// The next run begins with the value that an optimizer of an earlier call writes.
  bool isUpdated(TextId name) const { return earlier && visible(name) && visible(name)->isPersistable; }

  const BlockVariable *visible(TextId name) const { return visibleVariable(program, block, name); }
  bool isFloat(TextId name) const { return isFloatTensor(visible(name)); }
  bool isArray(TextId name) const {
    const BlockVariable *variable = visible(name);
    return variable && variable->kind == FluidType::LodTensorArray;
  }
  bool carriesGradient(TextId name) const { return gradc::carriesGradient(program, block, name); }

  /// Names whose value a write may destroy: states, and names that are used before they are written. A flagged name
  /// that a branch writes is one too: the flag is not about what the branch computes.
  bool findCandidates() {
    NameSet seen = begun;
    for (const BlockOp &op : ops()) {
      forEachVariable(op.inputs, [&](TextId name) { seen.insert(name); });
      forEachVariable(op.outputs, [&](TextId name) {
        if (name == kEmptyName || isArray(name)) return;  // a write to an array leaves its other elements
        const BlockVariable *variable = op.subBlock ? visible(name) : nullptr;
        const bool isFlagged = variable && variable->stopsGradient && isFloatTensor(variable);
        if (!seen.insert(name) || states.contains(name) || handed.contains(name) || isFlagged) candidates.insert(name);
      });
    }
    return !candidates.names().empty();
  }

  void collect() {
    for (uint32_t i = 0; i < ops().size(); ++i)
      if (anyIn(ops()[i].outputs, candidates) || anyIn(ops()[i].inputs, candidates)) collect(i);
  }

  void collect(uint32_t i) {
    NameSet outputs, inputs;
    forEachVariable(ops()[i].outputs, [&](TextId name) {
      if (candidates.contains(name)) outputs.insert(name);
    });
    forEachVariable(ops()[i].inputs, [&](TextId name) {
      if (candidates.contains(name)) inputs.insert(name);
    });
    for (TextId name : inputs.names()) {
      std::vector<Version> &versions = lives[name.value];
      if (versions.empty() && !(outputs.contains(name) && isUnset(i, name))) versions.push_back({-1, {}});
      if (versions.empty()) continue;
      if (!outputs.contains(name)) versions.back().readers.push_back(i);
    }
    for (TextId name : outputs.names()) {
      written.insert(name);
      if (reads.isCounter(i) && numCounts[name.value]++ < numCounted(block, name)) countedBack.insert(i);
      std::vector<Version> &versions = lives[name.value];
      const bool hasValue =
          states.contains(name) || begun.contains(name) || (!isBranchBody && !program.find(block, name));
      if (versions.empty() && hasValue) versions.push_back({-1, {}});
      versions.push_back({i, {}});
      if (inputs.contains(name)) both.insert({i, name.value});
    }
  }

  /// For the first operator that uses the name: whether it is a loop or a branch that writes a name of this inner
  /// block, which begins without a value.
  bool isUnset(uint32_t op, TextId name) const {
    return block != 0 && ops()[op].subBlock && !isRecurrent(ops()[op]) && program.find(block, name) &&
           !begun.contains(name);
  }

  bool isBoth(uint32_t op, TextId name) const { return both.contains({op, name.value}); }

  bool isReadForGradient(const Version &version) const {
    return any_of(version.readers, [&](uint32_t op) { return reads.hasGradient(op); });
  }

  bool isSavedByWriter(TextId name, const Version &version) const {
    return reads.hasGradient(version.writer) &&
           reads.isRead(static_cast<uint32_t>(version.writer), ops()[version.writer].outputs, name);
  }

  bool isConstantSaved(TextId name, const Version &version) {
    if (version.writer >= 0 && reads.isConstantRead(version.writer, false, name)) return true;
    return any_of(version.readers, [&](uint32_t op) { return reads.isConstantRead(op, true, name); });
  }

  /// Whether the operator that overwrites the value works in place, and its gradient reads what it was.
  bool isConstantSavedByNext(TextId name, const std::vector<Version> &versions, size_t k) {
    if (k + 1 == versions.size()) return false;
    const auto next = static_cast<uint32_t>(versions[k + 1].writer);
    return isBoth(next, name) && !ops()[next].subBlock && reads.isConstantRead(next, true, name);
  }

  /// Whether an operator only increments the name, and its gradient undoes that.
  bool counts(uint32_t op, TextId name) const {
    if (reads.isCounter(op)) return countedBack.contains(op) && isBoth(op, name);
    return isBoth(op, name) && isLoop(op) && numCounted(*ops()[op].subBlock, name) &&
           none_of(program.blocks[*ops()[op].subBlock].ops, [&](const BlockOp &inner) {
             const bool writes = anyVariable(inner.outputs, [&](TextId out) { return out == name; });
             return writes && program.text(inner.type) != "increment";
           });
  }
  /// An inner block may already use the name of a copy.
  uint32_t numCounted(uint32_t inner, TextId name) const {
    const TextId original = program.texts.find(program.text(name).split("@COPY@").first);
    return counters.lookup({inner, original.value});
  }

  bool isConstantLost(TextId name, const std::vector<Version> &versions, size_t k) {
    if (!isConstantSaved(name, versions[k]) && !isConstantSavedByNext(name, versions, k)) return false;
    for (size_t next = k + 1; next < versions.size(); ++next) {
      if (!counts(static_cast<uint32_t>(versions[next].writer), name)) return true;
      if (isConstantSaved(name, versions[next])) return false;
    }
    return true;
  }

  /// For a state.
  bool isConstantLost(TextId name, const std::vector<Version> &versions) {
    const bool isCounted = all_of(ArrayRef(versions).drop_front(), [&](const Version &version) {
      return counts(static_cast<uint32_t>(version.writer), name);
    });
    if (isCounted) return false;
    return any_of(versions[0].readers, [&](uint32_t op) { return reads.isReadBelow(op, name); }) ||
           any_of(ArrayRef(versions).drop_front(), [&](const Version &each) { return isConstantSaved(name, each); });
  }

  /// Whether the gradient needs the value of version k, or a separate name for it, after the next version is written.
  bool isLost(TextId name, const std::vector<Version> &versions, size_t k) {
    if (!carriesGradient(name)) return isConstantLost(name, versions, k);
    const Version &version = versions[k];
    const auto next = static_cast<uint32_t>(versions[k + 1].writer);
    if (isSavedByWriter(name, version)) return true;
    for (uint32_t reader : version.readers)
      if (reads.hasGradient(reader) && reads.isRead(reader, ops()[reader].inputs, name)) return true;
    if (isBoth(next, name) && isLoop(next)) return visible(name)->isParameter && reads.isReadBelow(next, name);
    if (isBoth(next, name) && reads.hasGradient(next))  // else the path of gradients ends between the two values
      return isBranch(next) || (reads.hasGradient(next) && reads.isRead(next, ops()[next].inputs, name));
    // Of what a step is given, the gradient leaves the step under its name.
    const bool isGiven = version.writer < 0 && begun.contains(name);
    return isGiven || reads.hasGradient(version.writer) || isReadForGradient(version);
  }

  TextId copyOf(TextId name) {
    const TextId copy = edits.declareCopy(name, *visible(name));
    copies.push_back({copy, name});
    return copy;
  }

  /// Renames the version to `to` in its writer and readers. If the writer also has the previous version under the name,
  /// that one is copied.
  void rename(TextId name, const std::vector<Version> &versions, size_t k, TextId before, TextId to) {
    const Version &version = versions[k];
    if (version.writer >= 0 && before.isValid() && isBranch(version.writer)) {
      const TextId taken = copyOf(name), left = copyOf(name);
      if (!carriesGradient(name) && isFloat(name) && isUnflagging(version.writer, name)) flags.remove(taken);
      edits.mergeBranch(static_cast<size_t>(version.writer), name, before, taken, left, to);
    } else if (version.writer >= 0) {
      const auto writer = static_cast<uint32_t>(version.writer);
      if (to != name) edits.renameOutput(writer, name, to);
      if (isBoth(writer, name)) {
        const bool isCarried = ops()[writer].subBlock && !isRecurrent(ops()[writer]);
        if (isCarried && before.isValid() && before != to) edits.assignBefore(writer, before, to);
        const TextId input = isCarried ? to : before;
        if (input != name) edits.renameInput(writer, name, input);
      }
    }
    if (to == name) return;
    for (uint32_t reader : version.readers) edits.renameInput(reader, name, to);
  }

  /// The group that keeps the name: that of the value from outside or of operators settled by an earlier call, else
  /// `last`, which a host reads afterwards. None if several groups would have to keep it.
  std::optional<uint32_t> keptGroup(const std::vector<Version> &versions, ArrayRef<uint32_t> group, uint32_t last) {
    std::optional<uint32_t> kept;
    if (versions[0].writer < 0) kept = 0;
    for (size_t k = 0; k < versions.size(); ++k) {
      const Version &version = versions[k];
      if (!isSettled(version.writer) && none_of(version.readers, [&](uint32_t op) { return isSettled(op); })) continue;
      const bool isMerged = k > 0 && group[k] != group[k - 1] && isSettled(version.writer) && isBranch(version.writer);
      if (isMerged || kept.value_or(group[k]) != group[k]) return std::nullopt;
      kept = group[k];
    }
    return kept.value_or(last);
  }

  /// Whether other gradients would arrive under the name of a branch's result: those of its readers in the branch, or
  /// those of values that a loop replaces, whose gradient has to leave the loop under the name that it has on arrival.
  bool sharesHandedName(const std::vector<Version> &versions, ArrayRef<uint32_t> group) {
    if (isReadForGradient(versions.back())) return true;
    for (size_t k = versions.size() - 1; k > 0 && group[k] == group[k - 1]; --k)
      if (isLoop(static_cast<uint32_t>(versions[k].writer)) && isReadForGradient(versions[k - 1])) return true;
    return false;
  }

  /// A variable stored between runs keeps its name for the value that the next run starts with; computed values get
  /// others.
  void separate(TextId name, const std::vector<Version> &versions) {
    std::vector<uint32_t> group = {0};
    for (size_t k = 1; k < versions.size(); ++k) group.push_back(group.back() + isLost(name, versions, k - 1));
    // The gradient of a branch's result arrives under its name, so contributions of readers within the branch need
    // another.
    const bool isCopiedOut = handed.contains(name) && carriesGradient(name) && sharesHandedName(versions, group);
    if (group.back() == 0 && !isCopiedOut) return;
    const bool isStored = versions[0].writer < 0 && block == 0 && visible(name)->isPersistable;
    const std::optional<uint32_t> kept = keptGroup(versions, group, group.back() + isCopiedOut);
    if (!kept) return;
    TextId first, before, to;
    for (size_t k = 0; k < versions.size(); ++k) {
      if (k == 0 || group[k] != group[k - 1]) {
        before = to;
        to = group[k] == kept && !isStored ? name : copyOf(name);
        rename(name, versions, k, before, to);
      } else {
        rename(name, versions, k, to, to);
      }
      if (k == 0) first = to;
    }
    if (isStored) edits.assignBefore(0, name, first);
    if ((handed.contains(name) && to != name) || isStored) edits.assignBefore(ops().size(), to, name);
    finalNames[name.value] = to;
  }

  /// A state keeps its name at the beginning and at the end of the step. Values in between get other names, and inner
  /// blocks read a copy.
  void separateState(TextId name, const std::vector<Version> &versions) {
    for (uint32_t reader : versions[0].readers)
      if (ops()[reader].subBlock) {
        const TextId copy = copyOf(name);
        edits.assignBefore(reader, name, copy);
        edits.renameInput(reader, name, copy);
      }
    const Version &last = versions.back();
    // With an operator that works in place, the gradients of the values before and after it would share one name.
    const bool isInPlace = versions.size() == 2 && isBoth(static_cast<uint32_t>(last.writer), name);
    const bool isLastAlone = !ops()[last.writer].subBlock && !isReadForGradient(last) && !isSavedByWriter(name, last) &&
                             !(isInPlace && reads.hasGradient(last.writer));
    if (isLastAlone && versions.size() == 2) return;
    TextId before = name;
    if (isBranch(versions[1].writer)) {  // reads the state in its block
      before = copyOf(name);
      edits.assignBefore(static_cast<size_t>(versions[1].writer), name, before);
    }
    for (size_t k = 1; k < versions.size(); ++k) {
      const TextId to = isLastAlone && k + 1 == versions.size() ? name : copyOf(name);
      rename(name, versions, k, before, to);
      before = to;
    }
    if (before != name) edits.assignBefore(ops().size(), before, name);
  }

  /// If a loop or a branch writes a flagged name, the result goes to an unflagged copy, like the values of the loop's
  /// steps. The name gets the new value too, unless an earlier operator needs the old one. False for a name that needs
  /// none of this.
  bool separateStopped(TextId name, const std::vector<Version> &versions) {
    if (!isFloat(name) || any_of(versions, [&](const Version &version) { return isSettled(version.writer); }))
      return false;
    for (size_t k = 0; k < versions.size(); ++k) {
      if (versions[k].writer < 0 || !isUnflagging(versions[k].writer, name)) continue;
      const bool isFree = k == 0 || !isConstantLost(name, versions, k - 1);
      TextId before = k == 0 ? TextId() : name;
      for (; k < versions.size(); ++k) {
        const TextId to = copyOf(name);
        rename(name, versions, k, before, to);
        if (isUnflagging(versions[k].writer, name)) flags.remove(to);
        before = to;
      }
      if (isFree) edits.assignBefore(versions.back().writer + 1, before, name);
      finalNames[name.value] = before;
      return true;
    }
    return false;
  }
  bool isUnflagging(int64_t op, TextId name) {
    const auto writer = static_cast<uint32_t>(op);
    return (isBranch(op) || (isLoop(writer) && isBoth(writer, name))) &&
           flags.dependsOnUnflagged(*ops()[op].subBlock, name);
  }

  Context &context;
  BlockProgram &program;
  UnusedNames &unused;
  const uint32_t block;
  const std::vector<bool> *earlier;
  const CountedBack &counters;
  const NameSet &statistics;
  bool isBranchBody = false;
  std::vector<std::pair<TextId, TextId>> &copies;
  NameSet states, handed;  // outputs of the loop or of the branch whose body this is
  NameSet begun;           // what a step of `recurrent` is given under separate names
  NameSet candidates, written;
  DenseSet<std::pair<uint32_t, uint32_t>> both;  // (operator, name): the operator reads and writes the name
  DenseMap<uint32_t, uint32_t> numCounts;        // by name: operators that count it
  DenseSet<uint32_t> countedBack;                // operators
  DenseMap<uint32_t, std::vector<Version>> lives;
  GradientReads reads;
  BlockEdits edits;
  FlagRemoval flags;
  FinalNames finalNames;
};

}  // namespace

FinalNames copyOverwritten(Context &context, BlockProgram &program, bool isAgain, const CountedBack &counters,
                           std::vector<std::pair<TextId, TextId>> &copies) {
  FinalNames finalNames;
  UnusedNames unused(program.texts);
  const NameSet statistics = movingStatistics(program);
  const size_t numBlocks = program.blocks.size();
  std::vector<bool> earlier(numBlocks);
  for (const Block &block : program.blocks)
    if (block.forward) earlier[*block.forward] = true;
  std::vector<const BlockOp *> ownerOf(numBlocks);
  // Parents come before their blocks, so names from outside are settled when a block's turn comes.
  for (uint32_t block = 0; block < numBlocks; ++block) {
    if (program.blocks[block].forward) continue;
    if (!isAgain || !earlier[block]) {
      BlockCopier copier(context, program, unused, block, ownerOf[block], isAgain ? &earlier : nullptr, counters,
                         statistics, copies);
      FinalNames names = copier.run();
      if (block == 0) finalNames = std::move(names);
    }
    for (const BlockOp &op : program.blocks[block].ops)
      if (op.subBlock && *op.subBlock < numBlocks) ownerOf[*op.subBlock] = &op;
  }
  return finalNames;
}

}  // namespace gradc
