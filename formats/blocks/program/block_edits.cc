// Tested by tests/formats/blocks/backward/copy_overwritten_test.cc
#include "formats/blocks/program/block_edits.h"

#include "formats/blocks/program/block_attrs.h"

using namespace llvm;

namespace gradc {
namespace {

void renameIn(std::vector<BlockSlot> &slots, const DenseMap<uint32_t, TextId> &names) {
  if (names.empty()) return;
  for (BlockSlot &slot : slots)
    for (TextId &name : slot.variables)
      if (auto found = names.find(name.value); found != names.end()) name = found->second;
}

}  // namespace

TextId BlockEdits::declareCopy(TextId name, const BlockVariable &like) {
  const TextId copy = unused.make((program.text(name) + "@COPY@").str(), numCopies);
  BlockVariable record = like;
  record.name = copy;
  record.isParameter = record.isPersistable = record.isData = false;
  record.stopsGradient &= program.find(block, name) != nullptr;  // a flag counts in the block that declares it
  program.addVariable(block, std::move(record));
  return copy;
}

TextId BlockEdits::addVariable(StringRef like, FluidType kind, std::optional<FluidType> dtype) {
  const TextId id = unused.make((like + "@COPY@").str());
  BlockVariable record = {id, kind, dtype};
  record.stopsGradient = true;
  if (dtype) record.shape = {1}, record.lodLevel = 0;
  program.addVariable(block, std::move(record));
  return id;
}

BlockOp makeForwardOp(Context &context, BlockProgram &program, StringRef type, std::vector<BlockSlot> inputs,
                      std::vector<BlockSlot> outputs, ArrayRef<AttrText> attrs) {
  const std::string role = intAttrText(AttrTag::Int, 0), none = stringsAttrText(AttrTag::Strings, {});
  SmallVector<AttrText, 4> all(attrs);
  all.push_back({"op_role", role});
  all.push_back({"op_role_var", none});
  return {program.intern(type), std::move(inputs), std::move(outputs), context.attrs(all)};
}

void insertBefore(std::vector<BlockOp> &ops, std::vector<std::pair<size_t, BlockOp>> made) {
  if (made.empty()) return;
  std::vector<BlockOp> all;
  all.reserve(ops.size() + made.size());
  size_t next = 0;
  for (size_t at = 0; at <= ops.size(); ++at) {
    for (; next < made.size() && made[next].first == at; ++next) all.push_back(std::move(made[next].second));
    if (at < ops.size()) all.push_back(std::move(ops[at]));
  }
  ops = std::move(all);
}

BlockOp BlockEdits::makeOp(StringRef type, std::vector<BlockSlot> inputs, std::vector<BlockSlot> outputs,
                           ArrayRef<AttrText> own) {
  return makeForwardOp(context, program, type, std::move(inputs), std::move(outputs), own);
}

BlockOp BlockEdits::assign(TextId from, TextId to) {
  return makeOp("assign", {{program.intern("X"), {from}}}, {{program.intern("Out"), {to}}}, {});
}

void BlockEdits::mergeBranch(size_t index, TextId name, TextId before, TextId taken, TextId left, TextId to) {
  const BlockOp &branch = program.blocks[block].ops[index];
  const TextId condition = program.variables(branch.inputs, "Cond")[0];
  const TextId otherwise = addVariable("otherwise", FluidType::LodTensor, FluidType::Bool),
               mask = addVariable("mask", FluidType::LodTensor, FluidType::Int32),
               scope = addVariable("scope", FluidType::StepScopes, std::nullopt);
  auto slot = [&](StringRef slotName, TextId variable) { return BlockSlot{program.intern(slotName), {variable}}; };
  Change &change = changes[index];
  change.outputs[name.value] = taken;
  const BranchUse &use = useOf(index);
  if (use.inputs.contains(name)) change.inputs[name.value] = before;
  if (use.readsOrKeeps.contains(name)) change.first.push_back({before, taken});
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
  change.behind.push_back(makeOp("select_input", {slot("Mask", mask), BlockSlot{program.intern("X"), {left, taken}}},
                                 {slot("Out", to)}, {}));
  BlockOp hand = assign(before, left);
  program.blocks.emplace_back().parent = block;
  program.blocks.back().ops.push_back(std::move(hand));
}

const BlockEdits::BranchUse &BlockEdits::useOf(size_t branch) {
  auto [known, isNew] = uses.try_emplace(branch);
  if (!isNew) return known->second;
  const BlockOp &op = program.blocks[block].ops[branch];
  forEachVariable(op.inputs, [&](TextId name) { known->second.inputs.insert(name); });
  NameSet written;
  for (const BlockOp &inner : program.blocks[*op.subBlock].ops) {
    auto add = [&](TextId name) {
      if (!written.contains(name)) known->second.readsOrKeeps.insert(name);
    };
    forEachVariable(inner.inputs, add);
    if (inner.subBlock) forEachVariable(inner.outputs, add);
    forEachVariable(inner.outputs, [&](TextId name) { written.insert(name); });
  }
  return known->second;
}

// What merges the values of a branch was made when its condition still had the name that the program gave it.
void BlockEdits::renameMerged(const BlockOp &branch, Change &change) {
  if (change.behind.empty()) return;
  const TextId condition = program.variables(branch.inputs, "Cond")[0];
  const auto renamed = change.inputs.find(condition.value);
  if (renamed == change.inputs.end()) return;
  for (BlockOp &op : change.behind)
    forEachVariable(op.inputs, [&](TextId &name) {
      if (name == condition) name = renamed->second;
    });
}

void BlockEdits::apply() {
  if (changes.empty()) return;
  std::vector<BlockOp> old = std::move(program.blocks[block].ops), result;
  for (size_t i = 0; i <= old.size(); ++i) {
    auto found = changes.find(i);
    if (found != changes.end()) {
      for (auto [from, to] : found->second.before) result.push_back(assign(from, to));
      if (i < old.size()) renameMerged(old[i], found->second), rename(old[i], found->second);
    }
    if (i < old.size()) result.push_back(std::move(old[i]));
    if (found != changes.end())
      result.insert(result.end(), std::make_move_iterator(found->second.behind.begin()),
                    std::make_move_iterator(found->second.behind.end()));
  }
  program.blocks[block].ops = std::move(result);
}

// Sliced and stacked values have one name inside and outside. All other outer names in the block come from its inputs.
void BlockEdits::renameRecurrent(BlockOp &op, Change &change) {
  NameMap linked;
  for (auto [slot, names] : {std::pair("inputs", &change.inputs), std::pair("outputs", &change.outputs)})
    for (TextId name : program.variables(slot == StringRef("inputs") ? op.inputs : op.outputs, slot))
      if (auto found = names->find(name.value); found != names->end()) linked[name.value] = found->second;
  renameIn(op.inputs, change.inputs);
  renameIn(op.outputs, change.outputs);
  const uint32_t inner = *op.subBlock;
  renameBelow(inner, change.inputs);
  for (auto [from, to] : linked) {
    BlockVariable record = *program.find(inner, TextId(from));
    record.name = to;
    program.addVariable(inner, std::move(record));
  }
  for (BlockOp &each : program.blocks[inner].ops) {
    renameIn(each.inputs, linked);
    renameIn(each.outputs, linked);
    if (each.subBlock) renameBelow(*each.subBlock, linked);
  }
}

void BlockEdits::rename(BlockOp &op, Change &change) {
  if (op.subBlock && program.text(op.type) == "recurrent") return renameRecurrent(op, change);
  renameIn(op.inputs, change.inputs);
  renameIn(op.outputs, change.outputs);
  if (!op.subBlock) return;
  for (auto [from, to] : change.inputs) change.outputs.try_emplace(from, to);
  renameBelow(*op.subBlock, change.outputs);
  std::vector<BlockOp> first;
  for (auto [from, to] : change.first) first.push_back(assign(from, to));
  if (!first.empty()) addReads(op, change.first);
  std::vector<BlockOp> &inner = program.blocks[*op.subBlock].ops;
  inner.insert(inner.begin(), std::make_move_iterator(first.begin()), std::make_move_iterator(first.end()));
}

/// A branch gives gradients only to the names in this slot.
void BlockEdits::addReads(BlockOp &branch, ArrayRef<Assign> first) {
  const TextId input = program.intern("Input");
  auto slot = find_if(branch.inputs, [&](const BlockSlot &slot) { return slot.name == input; });
  if (slot == branch.inputs.end()) slot = branch.inputs.insert(branch.inputs.end(), BlockSlot{input, {}});
  NameSet known(slot->variables);
  for (auto [name, to] : first)
    if (known.insert(name)) slot->variables.push_back(name);
}

void BlockEdits::renameBelow(uint32_t inner, const NameMap &names) {
  const std::optional<uint32_t> forward = program.blocks[inner].forward;  // its names hide those of enclosing blocks
  NameMap free;
  for (auto [from, to] : names)
    if (!program.find(inner, TextId(from)) && !(forward && program.find(*forward, TextId(from)))) free[from] = to;
  if (free.empty()) return;
  for (BlockOp &op : program.blocks[inner].ops) {
    renameIn(op.inputs, free);
    renameIn(op.outputs, free);
    if (op.subBlock) renameBelow(*op.subBlock, free);
  }
}

}  // namespace gradc
