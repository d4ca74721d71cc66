// Tested by tests/formats/blocks/backward/block_backward_test.cc and tests/formats/blocks/recurrent_test.cc
#include "formats/blocks/graph/gradient_ports.h"

#include "formats/blocks/arrays/recurrent_op.h"
#include "formats/blocks/program/block_attrs.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

using Wanted = GradientPorts::Wanted;

/// The name of a variable's gradient within a gradient block; invalid if the program does not have it.
TextId gradientName(const BlockProgram &program, TextId variable) {
  return program.texts.find((program.text(variable) + "@GRAD").str());
}

Error readArriving(const BlockProgram &program, GradientPorts &ports) {
  const BlockOp &op = program.blocks[ports.block].ops[ports.op];
  ArrayRef<TextId> outside = program.variables(op.inputs, "Out@GRAD");
  std::vector<TextId> inside;
  if (ports.owner == BlockOwner::Loop) {
    for (const std::string &name : stringsAttr(op.attrs, "original_output_grad").value_or(std::vector<std::string>()))
      inside.push_back(program.texts.find(name));
  } else {
    for (TextId name : program.variables(op.inputs, "Out")) inside.push_back(gradientName(program, name));
  }
  if (inside.size() != outside.size())
    return failureAt(program, ports.block, ports.op, ErrorKind::BadEntry,
                     "slot 'Out@GRAD' has " + Twine(outside.size()) + " operands, expected " + Twine(inside.size()));
  for (auto [in, out] : zip(inside, outside))
    if (in.isValid() && out != kEmptyName) ports.arriving.push_back({in, out});
  return Error::success();
}

/// Of `while_grad` or `conditional_block_grad`.
Expected<GradientPorts> flowPorts(const BlockProgram &program, uint32_t block, size_t at) {
  const BlockOp &op = program.blocks[block].ops[at];
  const bool isLoop = program.text(op.type) == "while_grad";
  GradientPorts ports{block, at, isLoop ? BlockOwner::Loop : BlockOwner::Branch, {}, {}};
  if (Error error = readArriving(program, ports)) return error;
  const StringRef slot = isLoop ? "X" : "Input";
  ArrayRef<TextId> of = program.variables(op.inputs, slot), to = program.variables(op.outputs, (slot + "@GRAD").str());
  if (of.size() != to.size())
    return failureAt(program, block, at, ErrorKind::BadEntry,
                     "slot '" + slot + "@GRAD' has " + Twine(to.size()) + " operands, expected " + Twine(of.size()));
  DenseSet<uint32_t> handed, known;
  for (auto [in, out] : ports.arriving) handed.insert(out.value);
  for (auto [forward, outside] : zip(of, to)) {
    if (outside == kEmptyName || !known.insert(outside.value).second) continue;
    using Kind = GradientPorts::Wanted::Kind;
    const TextId inside = gradientName(program, forward);
    const bool isState = isLoop && handed.contains(outside.value);
    ports.wanted.push_back({inside, outside, forward, isState ? Kind::State : Kind::Sum, inside});
  }
  return ports;
}

Expected<GradientPorts> recurrentPorts(const BlockProgram &program, uint32_t block, size_t at) {
  Expected<RecurrentOp> forward = readRecurrentOp(program, block, at);
  if (!forward) return forward.takeError();
  const BlockOp &op = program.blocks[block].ops[at];
  GradientPorts ports{block, at, BlockOwner::Recurrent, {}, {}};
  auto checked = [&](ArrayRef<BlockSlot> slots, StringRef slot, size_t expected) -> Expected<ArrayRef<TextId>> {
    ArrayRef<TextId> names = program.variables(slots, slot);
    if (names.size() == expected) return names;
    return failureAt(program, block, at, ErrorKind::BadEntry,
                     "slot '" + slot + "' has " + Twine(names.size()) + " operands, expected " + Twine(expected));
  };
  Expected<ArrayRef<TextId>> arriving = checked(op.inputs, "outputs@GRAD", forward->outputs.size());
  if (!arriving) return arriving.takeError();
  for (TextId name : *arriving) {  // under the same name in the block
    if (name == kEmptyName)
      return failureAt(program, block, at, ErrorKind::BadEntry, "slot 'outputs@GRAD' names no variable");
    ports.arriving.push_back({name, name});
  }
  auto want = [&](Wanted::Kind kind, StringRef slot, ArrayRef<TextId> outside, ArrayRef<TextId> inside,
                  ArrayRef<TextId> carried) -> Error {
    if (program.variables(op.outputs, slot).empty() && kind != Wanted::Kind::State) return Error::success();
    const bool isLeftOut = program.variables(op.outputs, slot).empty();
    Expected<ArrayRef<TextId>> to = checked(op.outputs, slot, isLeftOut ? 0 : outside.size());
    if (!to) return to.takeError();
    for (size_t i = 0; i < outside.size(); ++i) {
      const TextId name = isLeftOut ? kEmptyName : (*to)[i];
      if (name == kEmptyName && kind != Wanted::Kind::State) continue;
      ports.wanted.push_back({gradientName(program, inside[i]), name, outside[i], kind,
                              carried.empty() ? TextId() : gradientName(program, carried[i])});
    }
    return Error::success();
  };
  if (Error error = want(Wanted::Kind::Row, "inputs@GRAD", forward->inputs, forward->inputs, {})) return error;
  if (Error error =
          want(Wanted::Kind::State, "initial_states@GRAD", forward->initialStates, forward->exStates, forward->states))
    return error;
  if (Error error = want(Wanted::Kind::Sum, "parameters@GRAD", forward->parameters, forward->parameters, {}))
    return error;
  return ports;
}

}  // namespace

Expected<GradientPorts> gradientPorts(const BlockProgram &program, uint32_t block, size_t at) {
  const bool isOfSteps = program.text(program.blocks[block].ops[at].type) == "recurrent_grad";
  Expected<GradientPorts> ports = isOfSteps ? recurrentPorts(program, block, at) : flowPorts(program, block, at);
  if (ports)
    for (const GradientPorts::Wanted &wanted : ports->wanted)
      if (wanted.forward == kEmptyName)  // its value or its shape is read
        return failureAt(program, block, at, ErrorKind::BadEntry,
                         "the operand whose gradient is '" + program.text(wanted.outside) + "' names no variable");
  return ports;
}

}  // namespace gradc
