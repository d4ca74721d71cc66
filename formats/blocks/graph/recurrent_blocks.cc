// Tested by tests/formats/blocks/recurrent_test.cc
#include "formats/blocks/graph/recurrent_blocks.h"

#include "formats/blocks/arrays/recurrent_op.h"
#include "formats/blocks/graph/flow_of_blocks.h"
#include "formats/blocks/graph/gradient_blocks.h"
#include "ir/graph/context.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {

Error beginStep(BlockReader &reader) {
  const BlockReaders::Owner &owner = reader.all.owners[reader.index];
  Expected<RecurrentOp> op = readRecurrentOp(reader.program, owner.block, owner.op);
  if (!op) return op.takeError();
  for (ArrayRef<TextId> names : {op->inputs, ArrayRef(op->exStates)})
    for (TextId name : names) {
      const DeclaredName own{reader.index, name};
      const Value v = reader.read(own);
      const BlockVariable &record = reader.variable(own);
      const bool isFloat = record.dtype && isFloating(dtypeOf(*record.dtype));
      if (isFloat && (record.stopsGradient || reader.all.noGrad.contains(name.value)))
        reader.write(own, reader.emit("BlockGrad", {v}));
    }
  return Error::success();
}

Expected<BlockBody> stepBody(BlockReader &reader) {
  const BlockReaders::Owner &owner = reader.all.owners[reader.index];
  const RecurrentOp op = cantFail(readRecurrentOp(reader.program, owner.block, owner.op));
  BlockBody body;
  SmallVector<Value, 16> heads;
  for (ArrayRef<TextId> names : {op.outputs, ArrayRef(op.states)})
    for (TextId name : names) {
      const DeclaredName own{reader.index, name};
      const auto known = reader.positions.find(own.key());
      if (known == reader.positions.end())
        return failureAt(reader.program, owner.block, owner.op, ErrorKind::UnknownName,
                         "block " + Twine(reader.index) + " does not compute '" + reader.program.text(name) + "'");
      body.results.push_back(own);
      heads.push_back(reader.states[known->second].last);
    }
  std::vector<uint32_t> around;
  for (uint32_t position : reader.written)
    if (reader.used[position].block != reader.index) around.push_back(position);
  for (uint32_t position : around) heads.push_back(reader.states[position].last);
  const std::vector<bool> isReached = reader.reachable(heads);
  for (auto [i, position] : enumerate(around)) {
    body.results.push_back(reader.used[position]);
    heads[heads.size() - around.size() + i] = reader.asState(position, isReached);
  }
  saveValues(reader, body, heads);
  return reader.finish(heads, std::move(body));
}

Error readRecurrent(BlockReader &reader, size_t at) {
  Expected<RecurrentOp> op = readRecurrentOp(reader.program, reader.index, at);
  if (!op) return op.takeError();
  const BlockBody &body = *reader.all.bodies[op->block];
  SmallVector<Value, 8> operands;
  DenseMap<uint32_t, uint32_t> given;  // by name in the block
  for (TextId name : op->inputs) {
    given[name.value] = static_cast<uint32_t>(operands.size());
    operands.push_back(reader.read(name));
  }
  for (auto [name, inside] : zip(op->initialStates, op->exStates)) {
    if (name == kEmptyName)
      return failureAt(reader.program, reader.index, at, ErrorKind::BadEntry,
                       "slot 'initial_states' names no variable");
    given[inside.value] = static_cast<uint32_t>(operands.size());
    operands.push_back(reader.read(name));
  }
  const ArrayRef<DeclaredName> around = ArrayRef(body.results).drop_front(op->outputs.size() + op->states.size());
  DenseMap<std::pair<uint32_t, uint32_t>, uint32_t> carriedAt;
  for (const DeclaredName &name : around) {
    const auto input = find_if(body.inputs, [&](const BlockInput &one) { return one.name.key() == name.key(); });
    Expected<Value> first = input == body.inputs.end()
                                ? reader.readOrZeros(name, at)
                                : reader.readInput(body, static_cast<size_t>(input - body.inputs.begin()), at);
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
    if (!isOfStep && !isCarried) operands.push_back(reader.read(input.name));
  }
  const std::string numArgs = std::to_string(operands.size()), numData = std::to_string(op->inputs.size()),
                    numStates = std::to_string(op->states.size() + around.size()),
                    numOut = std::to_string(op->outputs.size()), locs = tupleText(locations),
                    saved = tupleText({static_cast<int64_t>(body.savedAt.size())});
  SmallVector<AttrText, 8> attrs = {{"num_args", numArgs},     {"num_data", numData},
                                    {"num_states", numStates}, {"num_out_data", numOut},
                                    {"input_locs", locs},      {"reverse", op->isReverse ? "True" : "False"}};
  if (!reader.all.gradients[op->block].empty()) attrs.push_back({"__saved__", saved});
  Expected<Value> loop = addFlow(reader, "_scan", operands, attrs, {body.graph}, at);
  if (!loop) return loop.takeError();
  reader.flowNodes[op->block] = loop->node;
  reader.flowOperands[op->block] = std::move(operandOf);
  for (auto [i, name] : enumerate(op->outputs))
    reader.write(reader.declared(name),
                 reader.stopped(reader.declared(name), {loop->node, static_cast<uint16_t>(i), 0}, at));
  const size_t first = op->outputs.size() + op->states.size();
  for (auto [i, name] : enumerate(around))
    writeCarried(reader, name, {loop->node, static_cast<uint16_t>(first + i), 0});
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

}  // namespace gradc
