// `recurrent` as `_scan`: its inputs are sliced, its states pass from step to step, its outputs are stacked. The
// gradient runs in the opposite direction (formats/blocks/graph/gradient_blocks.cc). Tested by
// tests/formats/blocks/recurrent_test.cc
#include "formats/blocks/arrays/recurrent_op.h"
#include "formats/blocks/graph/block_body.h"
#include "ir/graph/context.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {

using Wanted = GradientPorts::Wanted;

Error BlockReader::beginStep() {
  const BlockReaders::Owner &owner = all.owners[index];
  Expected<RecurrentOp> op = readRecurrentOp(program, owner.block, owner.op);
  if (!op) return op.takeError();
  for (ArrayRef<TextId> names : {op->inputs, ArrayRef(op->exStates)})
    for (TextId name : names) {
      const DeclaredName own{index, name};
      const Value v = read(own);
      const BlockVariable &record = variable(own);
      const bool isFloat = record.dtype && isFloating(dtypeOf(*record.dtype));
      if (isFloat && (record.stopsGradient || all.noGrad.contains(name.value)))
        write(own, {cantFail(builder.add(*context.ops.find("BlockGrad"), {v}, {""})), 0, 0});
    }
  return Error::success();
}

// The outputs' rows, then the states, then outer names that the block writes.
Expected<BlockBody> BlockReader::stepBody() {
  const BlockReaders::Owner &owner = all.owners[index];
  const RecurrentOp op = cantFail(readRecurrentOp(program, owner.block, owner.op));
  BlockBody body;
  SmallVector<Value, 16> heads;
  for (ArrayRef<TextId> names : {op.outputs, ArrayRef(op.states)})
    for (TextId name : names) {
      const DeclaredName own{index, name};
      const auto known = positions.find(own.key());
      if (known == positions.end())
        return failureAt(program, owner.block, owner.op, ErrorKind::UnknownName,
                         "block " + Twine(index) + " does not compute '" + program.text(name) + "'");
      body.results.push_back(own);
      heads.push_back(held[known->second].last);
    }
  std::vector<uint32_t> around;
  for (uint32_t position : written)
    if (used[position].block != index) around.push_back(position);
  for (uint32_t position : around) heads.push_back(held[position].last);
  const std::vector<bool> isReached = reachable(heads);
  for (auto [i, position] : enumerate(around)) {
    body.results.push_back(used[position]);
    heads[heads.size() - around.size() + i] = asState(position, isReached);
  }
  saveValues(body, heads);
  return finish(heads, std::move(body));
}

Error BlockReader::readRecurrent(size_t at) {
  Expected<RecurrentOp> op = readRecurrentOp(program, index, at);
  if (!op) return op.takeError();
  const BlockBody &body = *all.bodies[op->block];
  SmallVector<Value, 8> operands;
  DenseMap<uint32_t, uint32_t> given;  // by name in the block
  for (TextId name : op->inputs) {
    given[name.value] = static_cast<uint32_t>(operands.size());
    operands.push_back(read(name));
  }
  for (auto [name, inside] : zip(op->initialStates, op->exStates)) {
    if (name == kEmptyName)
      return failureAt(program, index, at, ErrorKind::BadEntry, "slot 'initial_states' names no variable");
    given[inside.value] = static_cast<uint32_t>(operands.size());
    operands.push_back(read(name));
  }
  const ArrayRef<DeclaredName> around = ArrayRef(body.results).drop_front(op->outputs.size() + op->states.size());
  DenseMap<std::pair<uint32_t, uint32_t>, uint32_t> carriedAt;
  for (const DeclaredName &name : around) {
    const auto input = find_if(body.inputs, [&](const BlockInput &one) { return one.name.key() == name.key(); });
    Expected<Value> first = input == body.inputs.end()
                                ? readOrZeros(name, at)
                                : readInput(body, static_cast<size_t>(input - body.inputs.begin()), at);
    if (!first) return first.takeError();
    carriedAt[name.key()] = static_cast<uint32_t>(operands.size());
    operands.push_back(*first);
  }
  std::vector<uint32_t> operandOf;
  std::vector<int64_t> locations;
  for (const BlockInput &input : body.inputs) {
    const bool isOfStep = input.name.block == op->block, isCarried = carriedAt.contains(input.name.key());
    operandOf.push_back(isOfStep    ? given.lookup(input.name.name.value)
                        : isCarried ? carriedAt.lookup(input.name.key())
                                    : static_cast<uint32_t>(operands.size()));
    locations.push_back(operandOf.back());
    if (!isOfStep && !isCarried) operands.push_back(read(input.name));
  }
  const std::string numArgs = std::to_string(operands.size()), numData = std::to_string(op->inputs.size()),
                    numStates = std::to_string(op->states.size() + around.size()),
                    numOut = std::to_string(op->outputs.size()), locs = tupleText(locations),
                    saved = tupleText({static_cast<int64_t>(body.savedAt.size())});
  SmallVector<AttrText, 8> attrs = {{"num_args", numArgs},     {"num_data", numData},
                                    {"num_states", numStates}, {"num_out_data", numOut},
                                    {"input_locs", locs},      {"reverse", op->isReverse ? "True" : "False"}};
  if (!all.gradients[op->block].empty()) attrs.push_back({"__saved__", saved});
  Expected<Value> loop = addFlow("_scan", operands, attrs, {body.graph}, at);
  if (!loop) return loop.takeError();
  flowNodes[op->block] = loop->node;
  flowOperands[op->block] = std::move(operandOf);
  for (auto [i, name] : enumerate(op->outputs))
    write(declared(name), stopped(declared(name), {loop->node, static_cast<uint16_t>(i), 0}, at));
  const size_t first = op->outputs.size() + op->states.size();
  for (auto [i, name] : enumerate(around)) writeCarried(name, {loop->node, static_cast<uint16_t>(first + i), 0});
  return Error::success();
}

DenseSet<std::pair<uint32_t, uint32_t>> statesOf(const BlockReaders &all, uint32_t block, const BlockBody &body) {
  DenseSet<std::pair<uint32_t, uint32_t>> states;
  const BlockReaders::Owner &owner = all.owners[block];
  if (owner.kind == BlockOwner::Loop)
    for (const DeclaredName &name : body.results) states.insert(name.key());
  if (owner.kind == BlockOwner::Recurrent) {
    for (TextId name : cantFail(readRecurrentOp(all.program, owner.block, owner.op)).exStates)
      states.insert({block, name.value});
    for (const DeclaredName &name : body.results)
      if (name.block != block) states.insert(name.key());
  }
  return states;
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
  auto gradientName = [&](TextId name) { return program.texts.find((program.text(name) + "@GRAD").str()); };
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
      ports.wanted.push_back(
          {gradientName(inside[i]), name, outside[i], kind, carried.empty() ? TextId() : gradientName(carried[i])});
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

}  // namespace gradc
