// A name's life in a block is a list of versions: each write begins one. Versions between which nothing is lost keep one
// name. Tested by tests/copy_overwritten_test.cc and tests/paddle_programs.py
#include "formats/blocks/copy_overwritten.h"

#include "formats/blocks/block_attrs.h"
#include "formats/blocks/gradient_forms.h"

using namespace llvm;

namespace gradc {
namespace {

using NameMap = DenseMap<uint32_t, TextId>;

struct Version {
  int64_t writer;                    // -1: the value comes from outside
  SmallVector<uint32_t, 2> readers;  // the next version's writer is not one of them
};

class BlockCopier {
 public:
  /// `owner` runs the block; null: it is the root.
  BlockCopier(Context &context, BlockProgram &program, uint32_t block, const BlockOp *owner,
              std::vector<std::pair<TextId, TextId>> &copies)
      : context(context), program(program), block(block), copies(copies) {
    isBranchBody = owner && program.text(owner->type) == "conditional_block";
    if (owner) forEachVariable(owner->outputs, [&](TextId name) { (isBranchBody ? handed : states).insert(name); });
  }

  FinalNames run() {
    if (!findCandidates()) return FinalNames();
    collect();
    for (TextId name : written.names()) {
      std::vector<Version> &versions = lives[name.value];
      if (program.text(name).contains("@GRAD")) continue;
      if (states.contains(name) && !program.find(block, name)) {
        if (carriesGradient(name)) separateState(name, versions);
      } else if (carriesGradient(name)) {
        separate(name, versions);
      } else {
        separateStopped(name, versions);
      }
    }
    apply();
    unflag();
    return std::move(finalNames);
  }

 private:
  struct Change {
    NameMap inputs, outputs;
    std::vector<std::pair<TextId, TextId>> before;  // assigns: from, to
    std::vector<std::pair<TextId, TextId>> first;   // the same, where the operator's block begins
    std::vector<BlockOp> behind;
  };

  const std::vector<BlockOp> &ops() const { return program.blocks[block].ops; }
  StringRef formOf(uint32_t op) const { return gradientForm(program.text(ops()[op].type)).value_or(StringRef()); }
  bool isBranch(int64_t op) const { return program.text(ops()[op].type) == "conditional_block"; }
  bool isLoop(uint32_t op) const { return program.text(ops()[op].type) == "while"; }

  const BlockVariable *visible(TextId name) const {
    const std::optional<uint32_t> declaring = program.declaringBlock(block, name);
    return declaring ? program.find(*declaring, name) : nullptr;
  }
  bool isFloat(TextId name) const {
    const BlockVariable *variable = visible(name);
    return variable && variable->kind == FluidType::LodTensor && variable->dtype &&
           isFloating(dtypeOf(*variable->dtype));
  }
  bool carriesGradient(TextId name) const { return isFloat(name) && !visible(name)->stopsGradient; }

  /// Names that a write may take something from: states, and what was said before it is written.
  bool findCandidates() {
    NameSet said;
    for (const BlockOp &op : ops()) {
      forEachVariable(op.inputs, [&](TextId name) { said.insert(name); });
      forEachVariable(op.outputs, [&](TextId name) {
        if (!said.insert(name) || states.contains(name) || handed.contains(name)) candidates.insert(name);
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
      if (versions.empty()) versions.push_back({-1, {}});
      if (!outputs.contains(name)) versions.back().readers.push_back(i);
    }
    for (TextId name : outputs.names()) {
      written.insert(name);
      std::vector<Version> &versions = lives[name.value];
      const bool hasValue = states.contains(name) || (!isBranchBody && !program.find(block, name));
      if (versions.empty() && hasValue) versions.push_back({-1, {}});
      versions.push_back({i, {}});
      if (inputs.contains(name)) both.insert({i, name.value});
    }
  }

  bool isBoth(uint32_t op, TextId name) const { return both.contains({op, name.value}); }

  /// Whether the gradient of an operator reads what the operator has in its slots under this name.
  bool isSaved(uint32_t op, ArrayRef<BlockSlot> slots, TextId name) const {
    if (ops()[op].subBlock) return true;
    SmallVector<StringRef, 8> read;
    formOf(op).split(": ").second.split(" -> ").first.split(read, ", ");
    for (StringRef &slot : read)
      if (slot.contains(" = ")) slot = slot.split(" = ").second;
    return any_of(slots, [&](const BlockSlot &slot) {
      return is_contained(slot.variables, name) && is_contained(read, program.text(slot.name));
    });
  }
  bool hasGradient(int64_t op) const { return op >= 0 && !formOf(static_cast<uint32_t>(op)).empty(); }

  bool isReadForGradient(const Version &version) const {
    return any_of(version.readers, [&](uint32_t op) { return hasGradient(op); });
  }

  bool isSavedByWriter(TextId name, const Version &version) const {
    return hasGradient(version.writer) &&
           isSaved(static_cast<uint32_t>(version.writer), ops()[version.writer].outputs, name);
  }

  /// Whether the gradient needs the version's value, or its own name, after the next one is written.
  bool isLost(TextId name, const Version &version, uint32_t next) const {
    if (isSavedByWriter(name, version)) return true;
    for (uint32_t reader : version.readers)
      if (hasGradient(reader) && isSaved(reader, ops()[reader].inputs, name)) return true;
    if (isBoth(next, name))
      return isBranch(next) || (!isLoop(next) && hasGradient(next) && isSaved(next, ops()[next].inputs, name));
    return hasGradient(version.writer) || isReadForGradient(version);
  }

  TextId copyOf(TextId name) {
    for (;; ++numCopies) {
      const std::string text = (program.text(name) + "@COPY@" + Twine(numCopies)).str();
      if (program.texts.find(text).isValid()) continue;
      const TextId copy = program.intern(text);
      BlockVariable record = *visible(name);
      record.name = copy;
      record.isParameter = record.isPersistable = record.isData = record.stopsGradient = false;
      program.addVariable(block, std::move(record));
      copies.push_back({copy, name});
      return copy;
    }
  }

  /// Operators of the version say `to`. Where its writer has the version before under that name too, it is copied.
  void rename(TextId name, const std::vector<Version> &versions, size_t k, TextId before, TextId to) {
    const Version &version = versions[k];
    if (version.writer >= 0 && before.isValid() && isBranch(version.writer)) {
      mergeBranch(name, static_cast<uint32_t>(version.writer), before, to);
    } else if (version.writer >= 0) {
      Change &change = changes[version.writer];
      if (to != name) change.outputs[name.value] = to;
      const auto writer = static_cast<uint32_t>(version.writer);
      if (isBoth(writer, name)) {
        const bool isCarried = ops()[writer].subBlock.has_value();
        if (isCarried && before != to) change.before.push_back({before, to});
        const TextId input = isCarried ? to : before;
        if (input != name) change.inputs[name.value] = input;
      }
    }
    if (to == name) return;
    for (uint32_t reader : version.readers) changes[reader].inputs[name.value] = to;
  }

  TextId addVariable(StringRef like, FluidType kind, std::optional<FluidType> dtype) {
    for (uint32_t k = 0;; ++k) {
      const std::string text = (like + "@COPY@" + Twine(k)).str();
      if (program.texts.find(text).isValid()) continue;
      const TextId id = program.intern(text);
      BlockVariable record = {id, kind, dtype};
      record.stopsGradient = true;
      if (dtype) record.shape = {1}, record.lodLevel = 0;
      program.addVariable(block, std::move(record));
      return id;
    }
  }

  BlockOp makeOp(StringRef type, std::vector<BlockSlot> inputs, std::vector<BlockSlot> outputs,
                 ArrayRef<AttrText> own) {
    const std::string role = intAttrText(AttrTag::Int, 0), none = stringsAttrText(AttrTag::Strings, {});
    SmallVector<AttrText, 4> attrs(own);
    attrs.push_back({"op_role", role});
    attrs.push_back({"op_role_var", none});
    return {program.intern(type), std::move(inputs), std::move(outputs), context.attrs(attrs)};
  }

  /// A branch that writes a name or leaves it, with nothing for the other case: that case gets a branch that hands on the
  /// value before, and the two are selected from, as Paddle's `cond` does.
  void mergeBranch(TextId name, uint32_t index, TextId before, TextId to) {
    const TextId taken = copyOf(name), left = copyOf(name);
    const TextId condition = program.variables(ops()[index].inputs, "Cond")[0];
    const TextId otherwise = addVariable("otherwise", FluidType::LodTensor, FluidType::Bool),
                 mask = addVariable("mask", FluidType::LodTensor, FluidType::Int32),
                 scope = addVariable("scope", FluidType::StepScopes, std::nullopt);
    const TextId x = program.intern("X"), out = program.intern("Out");
    auto slot = [&](StringRef slotName, TextId variable) { return BlockSlot{program.intern(slotName), {variable}}; };
    Change &change = changes[index];
    change.outputs[name.value] = taken;
    if (isBoth(index, name)) change.inputs[name.value] = before;
    if (readsOrKeeps(*ops()[index].subBlock, name)) change.first.push_back({before, taken});
    change.behind.push_back(makeOp("logical_not", {slot("X", condition)}, {slot("Out", otherwise)}, {}));
    const std::string yes = boolAttrText(true), none = stringsAttrText(AttrTag::Strings, {}),
                      boolean = intAttrText(AttrTag::Int, static_cast<int64_t>(FluidType::Bool)),
                      integer = intAttrText(AttrTag::Int, static_cast<int64_t>(FluidType::Int32));
    change.behind.push_back(makeOp("conditional_block", {slot("Cond", otherwise), slot("Input", before)},
                                   {slot("Out", left), slot("Scope", scope)},
                                   {{"is_scalar_condition", yes}, {"skip_eager_deletion_vars", none}}));
    change.behind.back().subBlock = static_cast<uint32_t>(program.blocks.size());
    change.behind.push_back(
        makeOp("cast", {slot("X", condition)}, {slot("Out", mask)}, {{"in_dtype", boolean}, {"out_dtype", integer}}));
    change.behind.push_back(
        makeOp("select_input", {slot("Mask", mask), BlockSlot{x, {left, taken}}}, {BlockSlot{out, {to}}}, {}));
    BlockOp hand = assign(before, left);
    program.blocks.emplace_back().parent = block;
    program.blocks.back().ops.push_back(std::move(hand));
  }

  /// Whether a block reads a name, or hands it to a block within, before an operator of its own has written it.
  bool readsOrKeeps(uint32_t inner, TextId name) const {
    auto names = [&](ArrayRef<BlockSlot> slots) {
      return anyVariable(slots, [&](TextId other) { return other == name; });
    };
    for (const BlockOp &op : program.blocks[inner].ops)
      if (names(op.inputs) || names(op.outputs)) return names(op.inputs) || op.subBlock;
    return false;
  }

  void separate(TextId name, const std::vector<Version> &versions) {
    std::vector<uint32_t> group = {0};
    for (size_t k = 1; k < versions.size(); ++k)
      group.push_back(group.back() + isLost(name, versions[k - 1], static_cast<uint32_t>(versions[k].writer)));
    // The gradient of what a branch hands out arrives under its name, that of what reads it there under another.
    const bool isCopiedOut = handed.contains(name) && isReadForGradient(versions.back());
    if (group.back() == 0 && !isCopiedOut) return;
    // The value from outside keeps the name, else the last one does: it is what a host reads afterwards.
    const uint32_t kept = versions[0].writer < 0 ? 0 : isCopiedOut ? group.back() + 1 : group.back();
    TextId before, to;
    for (size_t k = 0; k < versions.size(); ++k) {
      if (k == 0 || group[k] != group[k - 1]) {
        before = to;
        to = group[k] == kept ? name : copyOf(name);
        rename(name, versions, k, before, to);
      } else {
        rename(name, versions, k, to, to);
      }
    }
    if (handed.contains(name) && to != name) changes[ops().size()].before.push_back({to, name});
    finalNames[name.value] = to;
  }

  /// A state keeps its name at the beginning of the step and at its end. What it is between has other names, and a block
  /// within reads a copy.
  void separateState(TextId name, const std::vector<Version> &versions) {
    for (uint32_t reader : versions[0].readers)
      if (ops()[reader].subBlock) {
        const TextId copy = copyOf(name);
        changes[reader].before.push_back({name, copy});
        changes[reader].inputs[name.value] = copy;
      }
    const Version &last = versions.back();
    const bool isLastAlone = !ops()[last.writer].subBlock && !isReadForGradient(last) && !isSavedByWriter(name, last);
    if (isLastAlone && versions.size() == 2 && !isBoth(static_cast<uint32_t>(last.writer), name)) return;
    TextId before = name;
    for (size_t k = 1; k < versions.size(); ++k) {
      const TextId to = isLastAlone && k + 1 == versions.size() ? name : copyOf(name);
      rename(name, versions, k, before, to);
      before = to;
    }
    if (before != name) changes[ops().size()].before.push_back({before, name});
  }

  /// A flagged name that is a loop's state: from the loop on it is a copy that is not flagged. Unless an operator before
  /// needs the old value, the name gets the new one too.
  void separateStopped(TextId name, const std::vector<Version> &versions) {
    if (!isFloat(name)) return;
    for (size_t k = 1; k < versions.size(); ++k) {
      const auto writer = static_cast<uint32_t>(versions[k].writer);
      if (!isLoop(writer) || !isBoth(writer, name) || !dependsOnUnflagged(*ops()[writer].subBlock, name)) continue;
      const bool isFree = !isLost(name, versions[k - 1], writer);
      TextId before = name;
      for (; k < versions.size(); ++k) {
        const TextId to = copyOf(name);
        rename(name, versions, k, before, to);
        unflagged.insert(to);
        before = to;
      }
      if (isFree) changes[versions.back().writer + 1].before.push_back({before, name});
      finalNames[name.value] = before;
      return;
    }
  }

  bool dependsOnUnflagged(uint32_t body, TextId state) {
    NameSet live;
    for (bool isGrowing = true; isGrowing;) {
      isGrowing = false;
      for (const BlockOp &op : program.blocks[body].ops) {
        if (hasEmptyMaker(program.text(op.type))) continue;
        const bool readsLive = anyVariable(op.inputs, [&](TextId name) {
          return live.contains(name) || (!program.find(body, name) && carriesGradient(name));
        });
        if (readsLive)
          forEachVariable(op.outputs, [&](TextId name) {
            const BlockVariable *own = program.find(body, name);
            if (!own || !own->stopsGradient) isGrowing |= live.insert(name);
          });
      }
    }
    return live.contains(state);
  }

  void apply() {
    std::vector<BlockOp> result;
    std::vector<BlockOp> &old = program.blocks[block].ops;
    if (changes.empty()) return;
    for (size_t i = 0; i <= old.size(); ++i) {
      auto found = changes.find(i);
      if (found != changes.end()) {
        for (auto [from, to] : found->second.before) result.push_back(assign(from, to));
        if (i < old.size()) rename(old[i], found->second);
      }
      if (i < old.size()) result.push_back(std::move(old[i]));
      if (found != changes.end())
        result.insert(result.end(), std::make_move_iterator(found->second.behind.begin()),
                      std::make_move_iterator(found->second.behind.end()));
    }
    old = std::move(result);
  }

  BlockOp assign(TextId from, TextId to) {
    return makeOp("assign", {{program.intern("X"), {from}}}, {{program.intern("Out"), {to}}}, {});
  }

  void rename(BlockOp &op, Change &change) {
    renameIn(op.inputs, change.inputs);
    renameIn(op.outputs, change.outputs);
    if (!op.subBlock) return;
    for (auto [from, to] : change.inputs) change.outputs.try_emplace(from, to);
    renameBelow(*op.subBlock, change.outputs);
    std::vector<BlockOp> first;
    for (auto [from, to] : change.first) {
      first.push_back(assign(from, to));
      addRead(op, from);
    }
    std::vector<BlockOp> &inner = program.blocks[*op.subBlock].ops;
    inner.insert(inner.begin(), std::make_move_iterator(first.begin()), std::make_move_iterator(first.end()));
  }

  /// A flag on what is made of flagged values alone only repeats theirs, so it goes where one of them is not flagged now.
  void unflag() {
    if (unflagged.names().empty()) return;
    for (const BlockOp &op : ops()) {
      if (!anyIn(op.inputs, unflagged) || hasEmptyMaker(program.text(op.type))) continue;
      const bool hasOthers =
          anyVariable(op.inputs, [&](TextId name) { return !unflagged.contains(name) && carriesGradient(name); });
      if (hasOthers || anyVariable(op.outputs, [&](TextId name) { return finalNames.contains(name.value); })) continue;
      forEachVariable(op.outputs, [&](TextId name) {
        if (BlockVariable *own = program.find(block, name); own && unflagged.insert(name)) own->stopsGradient = false;
      });
    }
  }

  /// A branch gives gradients to what its slot names alone.
  void addRead(BlockOp &branch, TextId name) {
    const TextId input = program.intern("Input");
    auto slot = find_if(branch.inputs, [&](const BlockSlot &slot) { return slot.name == input; });
    if (slot == branch.inputs.end()) branch.inputs.push_back({input, {name}});
    else if (!is_contained(slot->variables, name)) slot->variables.push_back(name);
  }

  static void renameIn(std::vector<BlockSlot> &slots, const NameMap &names) {
    if (names.empty()) return;
    for (BlockSlot &slot : slots)
      for (TextId &name : slot.variables)
        if (auto found = names.find(name.value); found != names.end()) name = found->second;
  }

  void renameBelow(uint32_t inner, const NameMap &names) {
    NameMap free;
    for (auto [from, to] : names)
      if (!program.find(inner, TextId(from))) free[from] = to;
    if (free.empty()) return;
    for (BlockOp &op : program.blocks[inner].ops) {
      renameIn(op.inputs, free);
      renameIn(op.outputs, free);
      if (op.subBlock) renameBelow(*op.subBlock, free);
    }
  }

  Context &context;
  BlockProgram &program;
  const uint32_t block;
  bool isBranchBody = false;
  std::vector<std::pair<TextId, TextId>> &copies;
  NameSet states, handed;  // what the loop or the branch whose body this is writes
  NameSet candidates, written, unflagged;
  DenseSet<std::pair<uint32_t, uint32_t>> both;  // operator and name: it reads and writes it
  DenseMap<uint32_t, std::vector<Version>> lives;
  DenseMap<size_t, Change> changes;  // by operator; behind the last: of the end
  FinalNames finalNames;
  uint32_t numCopies = 0;
};

}  // namespace

FinalNames copyOverwritten(Context &context, BlockProgram &program, std::vector<std::pair<TextId, TextId>> &copies) {
  FinalNames finalNames;
  const size_t numBlocks = program.blocks.size();
  std::vector<const BlockOp *> ownerOf(numBlocks);
  // Parents come before their blocks, so names from outside are settled when a block's turn comes.
  for (uint32_t block = 0; block < numBlocks; ++block) {
    if (program.blocks[block].forward) continue;
    FinalNames names = BlockCopier(context, program, block, ownerOf[block], copies).run();
    if (block == 0) finalNames = std::move(names);
    for (const BlockOp &op : program.blocks[block].ops)
      if (op.subBlock && *op.subBlock < numBlocks) ownerOf[*op.subBlock] = &op;
  }
  return finalNames;
}

}  // namespace gradc
