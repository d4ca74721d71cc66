// Every write of a name counts as one of the same value: call it when each value has a separate name. Tested by
// tests/formats/blocks/block_rules_test.cc
#include "formats/blocks/graph/lost_gradients.h"

#include "formats/blocks/graph/op_function.h"
#include "formats/blocks/program/block_attrs.h"
#include "formats/blocks/program/block_program.h"
#include "formats/blocks/tables/gradient_forms.h"
#include "formats/blocks/tables/op_slots.h"

using namespace llvm;

namespace gradc {
namespace {

/// The slots of a type that its gradient operator leaves out.
struct Omissions {
  StringRef gradientType;
  SmallVector<StringRef, 2> inputs, outputs;

  bool contains(StringRef slot) const { return is_contained(inputs, slot) || is_contained(outputs, slot); }
};

bool ownsBlock(StringRef type) { return type == "while" || type == "conditional_block" || type == "recurrent"; }

/// Whether only its shape or its size is read.
bool isShape(StringRef type, StringRef slot) {
  return (type == "expand_as_v2" && slot == "Y") || (type.ends_with("_interp_v2") && slot != "X");
}

/// The slots of operators of a type; of a gradient operator, those that it reads.
OpSlots slotsWithin(StringRef type) {
  if (std::optional<OpSlots> known = slotsOfType(type)) return std::move(*known);
  OpSlots slots;
  if (const std::optional<GradientForm> form = formOfGradient(type))
    for (const GradientForm::Slot &slot : form->inputs) slots.inputs.push_back({slot.name});
  return slots;
}

/// None if the gradient operator leaves nothing out. Blocks are handled elsewhere, and counters have no gradient.
std::optional<Omissions> omissionsOf(StringRef type) {
  const StringRef text = gradientForm(type).value_or(StringRef());
  if (text.empty() || text == "none" || type == "increment" || ownsBlock(type)) return std::nullopt;
  const OpSlots known = slotsWithin(type);
  const GradientForm form = parseGradientForm(type, text);
  const FormSlots slots = slotsOf(form);
  auto isNamed = [](ArrayRef<FormSlots::Slot> named, StringRef slot) {
    return any_of(named, [&](const FormSlots::Slot &one) { return one.isGradient && one.source == slot; });
  };
  Omissions left;
  left.gradientType = form.type;
  for (const OpSlot &slot : known.inputs)
    if (!isNamed(slots.outputs, slot.name) && !isShape(type, slot.name)) left.inputs.push_back(slot.name);
  for (const OpSlot &slot : known.outputs)
    if (!isNamed(slots.inputs, slot.name)) left.outputs.push_back(slot.name);
  if (left.inputs.empty() && left.outputs.empty()) return std::nullopt;
  return left;
}

class Search {
 public:
  Search(const BlockProgram &program, const NameSet &noGrad) : program(program), noGrad(noGrad) {}

  std::vector<LostGradient> run(uint32_t block, ArrayRef<TextId> targets, ArrayRef<TextId> sources) {
    findCandidates();
    dropUnread(targets);
    if (candidates.empty()) return {};
    findUses();
    for (TextId name : sources) add(reached, 0, name);
    while (!reached.pending.empty()) spread(reached.next());
    for (TextId name : targets) add(arrived, block, name);
    while (!arrived.pending.empty()) goBack(arrived.next());
    std::vector<LostGradient> lost;
    for (const Candidate &candidate : candidates)
      if (isLost(candidate)) lost.push_back(inWords(candidate));
    return lost;
  }

 private:
  using Key = std::pair<uint32_t, uint32_t>;  // a variable: its block and its name
  struct OpAt {
    uint32_t block, op;
  };
  struct Candidate {
    OpAt at;
    const Omissions *omissions;
    TextId slot, name;
    bool isOutput;
  };
  struct Front {
    DenseSet<Key> known;
    std::vector<Key> pending;

    void add(Key key) {
      if (known.insert(key).second) pending.push_back(key);
    }
    Key next() {
      const Key key = pending.back();
      pending.pop_back();
      return key;
    }
  };

  const BlockOp &op(OpAt at) const { return program.blocks[at.block].ops[at.op]; }
  bool isCarrier(uint32_t block, TextId name) const {
    return name != kEmptyName && !noGrad.contains(name) && carriesGradient(program, block, name);
  }
  Key keyOf(uint32_t block, TextId name) const { return {*program.declaringBlock(block, name), name.value}; }

  /// Null: nothing is left out.
  const Omissions *omissionsOf(TextId type) {
    std::unique_ptr<std::optional<Omissions>> &known = omissionsByType[type.value];
    if (!known) known = std::make_unique<std::optional<Omissions>>(gradc::omissionsOf(program.text(type)));
    return known->has_value() ? &**known : nullptr;
  }

  void findCandidates() {
    for (uint32_t block = 0; block < program.blocks.size(); ++block)
      for (uint32_t i = 0; i < program.blocks[block].ops.size(); ++i) {
        const TextId type = program.blocks[block].ops[i].type;
        if (program.text(type).ends_with("_grad")) continue;
        if (const Omissions *found = omissionsOf(type)) findCandidates({block, i}, *found);
      }
  }

  void findCandidates(OpAt at, const Omissions &omissions) {
    for (bool isOutput : {false, true})
      for (const BlockSlot &slot : isOutput ? op(at).outputs : op(at).inputs) {
        if (!is_contained(isOutput ? omissions.outputs : omissions.inputs, program.text(slot.name))) continue;
        for (TextId name : slot.variables)
          if (isCarrier(at.block, name) && !isUpdated(op(at), name))
            candidates.push_back({at, &omissions, slot.name, name, isOutput});
      }
  }

  /// Most results besides the first are there only for the gradient operator.
  void dropUnread(ArrayRef<TextId> targets) {
    NameSet results, read(targets);
    for (const Candidate &candidate : candidates)
      if (candidate.isOutput) results.insert(candidate.name);
    if (results.names().empty()) return;
    for (const Block &block : program.blocks)
      for (const BlockOp &op : block.ops)
        forEachVariable(op.inputs, [&](TextId name) {
          if (results.contains(name)) read.insert(name);
        });
    erase_if(candidates, [&](const Candidate &one) { return one.isOutput && !read.contains(one.name); });
  }

  /// Operators that a gradient can pass, by the variables they read and write.
  void findUses() {
    for (uint32_t block = 0; block < program.blocks.size(); ++block)
      for (uint32_t i = 0; i < program.blocks[block].ops.size(); ++i) {
        const BlockOp &op = program.blocks[block].ops[i];
        const StringRef type = program.text(op.type);
        if (op.subBlock && type == "recurrent") linkStates(block, op);
        if (ownsBlock(type) || hasEmptyMaker(type)) continue;
        forEachVariable(op.inputs, [&](TextId name) {
          if (isCarrier(block, name)) readers[keyOf(block, name)].push_back({block, i});
        });
        forEachVariable(op.outputs, [&](TextId name) {
          if (isCarrier(block, name)) writers[keyOf(block, name)].push_back({block, i});
        });
      }
  }

  /// What a step of `recurrent` starts from, under its name in the block.
  void linkStates(uint32_t block, const BlockOp &op) {
    auto inside = [&](StringRef key) {
      std::vector<TextId> names;
      for (const std::string &text : stringsAttr(op.attrs, key).value_or(std::vector<std::string>()))
        names.push_back(program.texts.find(text));
      return names;
    };
    const std::vector<TextId> before = inside("ex_states"), after = inside("states");
    auto link = [&](uint32_t fromBlock, ArrayRef<TextId> from) {
      for (size_t i = 0; i < std::min(from.size(), before.size()); ++i) {
        if (!from[i].isValid() || !before[i].isValid() || !isCarrier(fromBlock, from[i])) continue;
        if (!isCarrier(*op.subBlock, before[i])) continue;
        links[keyOf(fromBlock, from[i])].push_back(keyOf(*op.subBlock, before[i]));
        linksBack[keyOf(*op.subBlock, before[i])].push_back(keyOf(fromBlock, from[i]));
      }
    };
    link(block, program.variables(op.inputs, "initial_states"));
    link(*op.subBlock, after);
  }

  void add(Front &front, uint32_t block, TextId name) const {
    if (isCarrier(block, name)) front.add(keyOf(block, name));
  }

  void spread(Key key) {
    for (const Key &next : links[key]) reached.add(next);
    for (OpAt at : readers[key])
      if (isReached.insert({at.block, at.op}).second)
        forEachVariable(op(at).outputs, [&](TextId name) { add(reached, at.block, name); });
  }

  void goBack(Key key) {
    for (const Key &next : linksBack[key]) arrived.add(next);
    for (OpAt at : writers[key]) {
      if (isDifferentiated.contains({at.block, at.op})) continue;
      const Omissions *omissions = omissionsOf(op(at).type);
      const bool isTaken = any_of(op(at).outputs, [&](const BlockSlot &slot) {
        if (omissions && is_contained(omissions->outputs, program.text(slot.name))) return false;
        return any_of(slot.variables, [&](TextId name) { return name != kEmptyName && keyOf(at.block, name) == key; });
      });
      if (!isTaken) continue;
      isDifferentiated.insert({at.block, at.op});
      for (const BlockSlot &slot : op(at).inputs)
        if (!omissions || !is_contained(omissions->inputs, program.text(slot.name)))
          for (TextId name : slot.variables) add(arrived, at.block, name);
    }
  }

  bool isLost(const Candidate &candidate) const {
    const Key at = {candidate.at.block, candidate.at.op}, key = keyOf(candidate.at.block, candidate.name);
    return candidate.isOutput ? arrived.known.contains(key) && isReached.contains(at)
                              : isDifferentiated.contains(at) && reached.known.contains(key);
  }

  LostGradient inWords(const Candidate &candidate) const {
    return {describe(program, candidate.at.block, candidate.at.op), candidate.omissions->gradientType.str(),
            program.text(candidate.slot).str(), program.text(candidate.name).split("@COPY@").first.str(),
            candidate.isOutput};
  }

  const BlockProgram &program;
  const NameSet &noGrad;
  IdMap<std::unique_ptr<std::optional<Omissions>>> omissionsByType;  // by type
  std::vector<Candidate> candidates;
  DenseMap<Key, SmallVector<OpAt, 2>> readers, writers;
  DenseMap<Key, SmallVector<Key, 1>> links, linksBack;
  Front reached, arrived;                     // from the sources, from the targets
  DenseSet<Key> isReached, isDifferentiated;  // operators, by block and position
};

}  // namespace

bool isUpdated(const BlockOp &op, TextId name) {
  auto isName = [&](TextId other) { return other == name; };
  return anyVariable(op.inputs, isName) && anyVariable(op.outputs, isName);
}

bool passesGradient(StringRef type, StringRef slot) {
  const std::optional<Omissions> omissions = omissionsOf(type);
  return !omissions || !omissions->contains(slot);
}

std::vector<LostGradient> findLostGradients(const BlockProgram &program, uint32_t block, ArrayRef<TextId> targets,
                                            ArrayRef<TextId> sources, const NameSet &noGrad) {
  return Search(program, noGrad).run(block, targets, sources);
}

}  // namespace gradc
