// Tested by tests/formats/blocks/backward/recurrent_gradient_test.cc
#include "formats/blocks/backward/prepare_recurrent.h"

#include "formats/blocks/arrays/recurrent_op.h"
#include "formats/blocks/arrays/step_arrays.h"
#include "formats/blocks/arrays/step_writes.h"
#include "formats/blocks/program/block_attrs.h"
#include "formats/blocks/program/block_edits.h"
#include "formats/blocks/program/block_program.h"

using namespace llvm;

namespace gradc {
namespace {

/// How often the operators of a block and of its inner blocks read and write names.
struct Uses {
  struct Use {
    uint32_t numReads = 0, numWrites = 0, numHelpers = 0;
  };
  IdMap<Use> of;

  Uses(const BlockProgram &program, uint32_t block) {
    const TextId helper = program.texts.find("rnn_memory_helper");
    for (const BlockOp &op : program.blocks[block].ops) {
      forEachVariable(op.inputs, [&](TextId name) { ++of[name.value].numReads; });
      forEachVariable(op.outputs, [&](TextId name) {
        ++of[name.value].numWrites;
        of[name.value].numHelpers += op.type == helper;
      });
      if (!op.subBlock) continue;
      const NamesAround around = findNamesAround(program, *op.subBlock);
      for (TextId name : around.read.names()) ++of[name.value].numReads;
      for (TextId name : around.written.names()) ++of[name.value].numWrites;
    }
  }
};

class Preparation {
 public:
  Preparation(Context &context, BlockProgram &program, UnusedNames &unused, uint32_t block, size_t at,
              const RecurrentOp &op)
      : context(context), program(program), block(block), at(at), body(op.block),
        outputs(op.outputs.begin(), op.outputs.end()), exStates(op.exStates), states(op.states),
        edits(context, program, unused, op.block) {
    for (ArrayRef<TextId> names : {op.inputs, ArrayRef(exStates)}) begun.insert(names);
    for (ArrayRef<TextId> names : {op.outputs, ArrayRef(states)})
      for (TextId name : names) ++numListed[name.value];
  }

  Error run() {
    const NamesAround around = findNamesAround(program, body);
    for (TextId name : around.written.names())
      if (visibleVariable(program, body, name)->kind != FluidType::StepScopes)
        return failureAt(program, block, at, ErrorKind::NotDifferentiable,
                         "the gradient of '" + program.text(name) + "', which block " + Twine(body) +
                             " writes and which is of a block around it, cannot be written as operators; as a graph it "
                             "is supported");
    addParameters(around.read.names());
    const Uses uses(program, body);
    std::vector<bool> isPlainState;
    for (TextId name : states) isPlainState.push_back(isPlain(uses, name));
    for (TextId name : outputs)
      if (!isPlain(uses, name)) renameInside(name);
    edits.apply();
    for (size_t i = 0; i < states.size(); ++i) {
      if (isPlainState[i]) continue;
      const TextId from = renamed.lookup(states[i].value).value_or(states[i]);
      states[i] = copyOf(from);
      hand(from, states[i]);
    }
    for (const auto &[from, to] : copies) hand(to, from);
    if (copies.empty() && all_of(isPlainState, [](bool isPlain) { return isPlain; })) return Error::success();
    for (TextId &name : exStates) name = renamed.lookup(name.value).value_or(name);
    BlockOp &op = program.blocks[block].ops[at];
    op.attrs = context.withAttrs(op.attrs, {{"ex_states", spelled(exStates)}, {"states", spelled(states)}});
    return Error::success();
  }

 private:
  bool isPlain(const Uses &uses, TextId name) const {
    const Uses::Use use = uses.of.lookup(name.value);
    return numListed.lookup(name.value) == 1 && use.numWrites == 1 && use.numHelpers == 1 && use.numReads == 0 &&
           !begun.contains(name);
  }

  void addParameters(ArrayRef<TextId> read) {
    const TextId slotName = program.intern("parameters");
    std::vector<BlockSlot> &slots = program.blocks[block].ops[at].inputs;
    auto slot = find_if(slots, [&](const BlockSlot &known) { return known.name == slotName; });
    if (slot == slots.end()) slot = slots.insert(slots.end(), BlockSlot{slotName, {}});
    NameSet known(slot->variables);
    for (TextId name : read)
      if (carriesGradient(program, block, name) && known.insert(name)) slot->variables.push_back(name);
  }

  TextId copyOf(TextId name) { return edits.declareCopy(name, *visibleVariable(program, body, name)); }

  void renameInside(TextId name) {
    const TextId to = copyOf(name);
    for (size_t i = 0; i < program.blocks[body].ops.size(); ++i) {
      edits.renameInput(i, name, to);
      edits.renameOutput(i, name, to);
    }
    renamed[name.value] = to;
    copies.push_back({name, to});
  }

  void hand(TextId from, TextId to) {
    const BlockVariable &record = *visibleVariable(program, body, from);
    const std::string type = intAttrText(AttrTag::Int, static_cast<int64_t>(record.dtype.value_or(FluidType::Fp32))),
                      role = intAttrText(AttrTag::Int, 0), none = stringsAttrText(AttrTag::Strings, {});
    program.blocks[body].ops.push_back({program.intern("rnn_memory_helper"),
                                        {{program.intern("X"), {from}}},
                                        {{program.intern("Out"), {to}}},
                                        context.attrs({{"dtype", type}, {"op_role", role}, {"op_role_var", none}})});
  }

  std::string spelled(ArrayRef<TextId> names) const {
    std::vector<std::string> texts;
    for (TextId name : names) texts.push_back(program.text(name).str());
    return stringsAttrText(AttrTag::Strings, texts);
  }

  Context &context;
  BlockProgram &program;
  const uint32_t block;
  const size_t at;
  const uint32_t body;
  const std::vector<TextId> outputs;
  std::vector<TextId> exStates, states;
  NameSet begun;
  IdMap<uint32_t> numListed;
  IdMap<std::optional<TextId>> renamed;
  std::vector<std::pair<TextId, TextId>> copies;  // outputs, and their new names in the block
  BlockEdits edits;
};

}  // namespace

Error prepareRecurrent(Context &context, BlockProgram &program) {
  const TextId type = program.texts.find("recurrent");
  if (!type.isValid()) return Error::success();
  UnusedNames unused(program.texts);
  std::vector<bool> isSettled(program.blocks.size());
  for (const Block &block : program.blocks)
    if (block.forward) isSettled[*block.forward] = true;
  for (uint32_t block = 0; block < program.blocks.size(); ++block) {
    std::vector<std::pair<size_t, BlockOp>> before;
    for (size_t at = 0; at < program.blocks[block].ops.size(); ++at) {
      if (program.blocks[block].ops[at].type != type) continue;
      Expected<RecurrentOp> op = readRecurrentOp(program, block, at);
      if (!op) return op.takeError();
      if (isSettled[op->block]) continue;
      std::vector<BlockOp> writes = writeArraysAfterSteps(context, program, unused, op->block, at);
      if (!writes.empty()) op = readRecurrentOp(program, block, at);
      if (!op) return op.takeError();
      for (BlockOp &made : readArraysAsTensors(context, program, op->block)) before.push_back({at, std::move(made)});
      if (Error error = Preparation(context, program, unused, block, at, *op).run()) return error;
      for (BlockOp &made : writes) before.push_back({at + 1, std::move(made)});
    }
    insertBefore(program.blocks[block].ops, std::move(before));
  }
  return Error::success();
}

NameSet handedGradients(const BlockProgram &program, const BlockOp &owner, GradientNames &names) {
  NameSet handed;
  forEachVariable(owner.outputs, [&](TextId name) { handed.insert(names.gradient(name)); });
  if (program.text(owner.type) == "recurrent")
    for (const std::string &state : stringsAttr(owner.attrs, "states").value_or(std::vector<std::string>()))
      handed.insert(names.gradient(names.texts.intern(state)));
  return handed;
}

void renameArriving(BlockProgram &program, GradientNames &names, size_t firstBlock) {
  const TextId type = program.texts.find("recurrent_grad");
  if (!type.isValid()) return;
  for (uint32_t block = 0; block < program.blocks.size(); ++block)
    for (const BlockOp &op : program.blocks[block].ops) {
      if (op.type != type || !op.subBlock || *op.subBlock < firstBlock) continue;
      IdMap<TextId> to;
      for (auto [output, gradient] :
           zip(program.variables(op.inputs, "outputs"), program.variables(op.inputs, "outputs@GRAD")))
        if (names.gradient(output) != gradient) to[names.gradient(output).value] = gradient;
      if (to.empty()) continue;
      for (BlockOp &inner : program.blocks[*op.subBlock].ops)
        forEachVariable(inner.inputs, [&](TextId &name) {
          if (auto found = to.find(name.value); found != to.end()) name = found->second;
        });
    }
}

}  // namespace gradc
