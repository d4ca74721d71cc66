// Tested by tests/formats/blocks/block_graph_test.cc
#include "formats/blocks/graph/flow_of_blocks.h"

#include "formats/blocks/graph/first_reads.h"
#include "formats/blocks/ops/op_translation.h"
#include "ir/graph/context.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

std::string range(size_t begin, size_t end) {
  std::vector<int64_t> numbers;
  for (size_t i = begin; i < end; ++i) numbers.push_back(static_cast<int64_t>(i));
  return tupleText(numbers);
}

/// An error if @EMPTY@ is among the operands in one of these slots.
Error checkNamed(BlockReader &reader, size_t at, std::initializer_list<StringRef> slots) {
  for (StringRef slot : slots)
    if (is_contained(reader.program.variables(reader.op(at).inputs, slot), kEmptyName))
      return failureAt(reader.program, reader.index, at, ErrorKind::BadEntry, "slot '" + slot + "' names no variable");
  return Error::success();
}

}  // namespace

Expected<Value> addFlow(BlockReader &reader, StringRef opName, ArrayRef<Value> inputs, ArrayRef<AttrText> attrs,
                        ArrayRef<Graph> graphs, size_t at) {
  const OpDef *known = reader.context.ops.find(opName);
  if (!known)
    return failureAt(reader.program, reader.index, at, ErrorKind::UnknownOp, "needs operator '" + opName + "'");
  Expected<NodeId> node = reader.builder.add(*known, inputs, {"", reader.context.attrs(attrs), NodeId(), graphs});
  if (!node) return blameOp(reader.program, reader.index, at, node.takeError());
  return Value{*node, 0, 0};
}

Expected<Graph> choice(Context &context, ArrayRef<std::string> names) {
  GraphBuilder variables(context);
  SmallVector<Value, 4> heads;
  for (const std::string &name : names) heads.push_back(variables.addVariable(name, Attrs()));
  Expected<Frozen> frozen = std::move(variables).freeze(heads, {});
  if (!frozen) return frozen.takeError();
  return frozen->graph;
}

void writeCarried(BlockReader &reader, DeclaredName name, Value v) {
  reader.write(name, v);
  if (name.block == reader.index) reader.carried.insert(name.name.value);
}

// The states are the outer names that the body writes; its other inputs are the same at every step.
Error readWhile(BlockReader &reader, size_t at) {
  const BlockOp &op = reader.op(at);
  Expected<TextId> decides = conditionOf(reader.program, reader.index, at);
  if (!decides) return decides.takeError();
  const BlockBody &body = *reader.all.bodies[*op.subBlock];
  if (body.results.empty()) return Error::success();  // it changes nothing
  SmallVector<Value, 8> inputs;
  DenseMap<std::pair<uint32_t, uint32_t>, uint32_t> positionOf;
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    Expected<Value> value = reader.readInput(body, i, at);
    if (!value) return value.takeError();
    positionOf.try_emplace(body.inputs[i].name.key(), static_cast<uint32_t>(inputs.size()));
    inputs.push_back(*value);
  }
  const DeclaredName condition = reader.declared(*decides);
  auto [position, isNew] = positionOf.try_emplace(condition.key(), static_cast<uint32_t>(inputs.size()));
  if (isNew) inputs.push_back(reader.read(condition));
  std::vector<int64_t> states;
  for (const DeclaredName &name : body.results) states.push_back(positionOf.lookup(name.key()));
  Expected<Graph> test = choice(reader.context, {reader.program.text(*decides).str()});
  if (!test) return test.takeError();
  const std::string numArgs = std::to_string(inputs.size() + 2), numOutputs = std::to_string(states.size()),
                    most = std::to_string(reader.options.maxIterations), conditionLocs = tupleText({position->second}),
                    bodyLocs = range(0, body.inputs.size()), stateLocs = tupleText(states);
  SmallVector<AttrText, 9> attrs = {{"num_args", numArgs},
                                    {"num_outputs", numOutputs},
                                    {"num_out_data", "0"},
                                    {"max_iterations", most},
                                    {"cond_input_locs", conditionLocs},
                                    {"func_input_locs", bodyLocs},
                                    {"func_var_locs", stateLocs},
                                    {"__must_end__", "True"}};
  const std::string saved = tupleText({static_cast<int64_t>(body.savedAt.size())});
  if (!reader.all.gradients[*op.subBlock].empty()) attrs.push_back({"__saved__", saved});
  Expected<Value> loop = addFlow(reader, "_while_loop", inputs, attrs, {*test, body.graph}, at);
  if (!loop) return loop.takeError();
  reader.flowNodes[*op.subBlock] = loop->node;
  std::vector<uint32_t> &operands = reader.flowOperands[*op.subBlock];
  for (uint32_t i = 0; i < body.inputs.size(); ++i) operands.push_back(i);
  for (size_t i = 0; i < states.size(); ++i)
    writeCarried(reader, body.results[i], {loop->node, static_cast<uint16_t>(i), 0});
  return Error::success();
}

// If the block is not run, the outer names that it writes keep their values.
Error readConditional(BlockReader &reader, size_t at) {
  const BlockOp &op = reader.op(at);
  Expected<TextId> decides = conditionOf(reader.program, reader.index, at);
  if (!decides) return decides.takeError();
  const BlockBody &body = *reader.all.bodies[*op.subBlock];
  if (body.results.empty()) return Error::success();
  SmallVector<Value, 8> inputs = {reader.read(*decides)};
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    Expected<Value> value = reader.readInput(body, i, at);
    if (!value) return value.takeError();
    inputs.push_back(*value);
  }
  std::vector<std::string> names;
  for (const DeclaredName &name : body.results) {
    Expected<Value> value = reader.readOrZeros(name, at);
    if (!value) return value.takeError();
    inputs.push_back(*value);
    names.push_back(reader.program.text(name.name).str());
  }
  Expected<Graph> test = choice(reader.context, {reader.program.text(*decides).str()}),
                  otherwise = choice(reader.context, names);
  if (!test) return joinErrors(test.takeError(), otherwise ? Error::success() : otherwise.takeError());
  if (!otherwise) return otherwise.takeError();
  const size_t numThen = body.inputs.size();
  const std::string numArgs = std::to_string(inputs.size() + 3), numOutputs = std::to_string(names.size()),
                    thenLocs = range(1, 1 + numThen), elseLocs = range(1 + numThen, inputs.size());
  SmallVector<AttrText, 6> attrs = {{"num_args", numArgs},
                                    {"num_outputs", numOutputs},
                                    {"cond_input_locs", "(0,)"},
                                    {"then_input_locs", thenLocs},
                                    {"else_input_locs", elseLocs}};
  const std::string saved = tupleText({static_cast<int64_t>(body.savedAt.size()), 0});
  if (!reader.all.gradients[*op.subBlock].empty()) attrs.push_back({"__saved__", saved});
  Expected<Value> taken = addFlow(reader, "_cond", inputs, attrs, {*test, body.graph, *otherwise}, at);
  if (!taken) return taken.takeError();
  reader.flowNodes[*op.subBlock] = taken->node;
  std::vector<uint32_t> &operands = reader.flowOperands[*op.subBlock];
  for (uint32_t i = 0; i < body.inputs.size(); ++i) operands.push_back(1 + i);
  for (size_t i = 0; i < names.size(); ++i)
    writeCarried(reader, body.results[i], {taken->node, static_cast<uint16_t>(i), 0});
  return Error::success();
}

// X[Mask], of two.
Error readSelect(BlockReader &reader, size_t at) {
  const BlockOp &op = reader.op(at);
  ArrayRef<TextId> masks = reader.program.variables(op.inputs, "Mask"),
                   choices = reader.program.variables(op.inputs, "X"),
                   outs = reader.program.variables(op.outputs, "Out");
  if (masks.size() != 1 || choices.size() != 2 || outs.size() != 1)
    return failureAt(reader.program, reader.index, at, ErrorKind::BadEntry,
                     "expected one variable in slots 'Mask' and 'Out' and two in 'X', found " + Twine(masks.size()) +
                         ", " + Twine(outs.size()) + " and " + Twine(choices.size()));
  if (Error error = checkNamed(reader, at, {"Mask", "X"})) return error;
  Expected<Graph> one = choice(reader.context, {"value"});
  if (!one) return one.takeError();
  Expected<Value> taken =
      addFlow(reader, "_cond", {reader.read(masks[0]), reader.read(choices[1]), reader.read(choices[0])},
              {{"num_args", "6"},
               {"num_outputs", "1"},
               {"cond_input_locs", "(0,)"},
               {"then_input_locs", "(1,)"},
               {"else_input_locs", "(2,)"}},
              {*one, *one, *one}, at);
  if (!taken) return taken.takeError();
  if (outs[0] != kEmptyName)
    reader.write(reader.declared(outs[0]), reader.stopped(reader.declared(outs[0]), *taken, at));
  return Error::success();
}

// X where the mask is the output's number, else zeros.
Error readSelectOutput(BlockReader &reader, size_t at) {
  ArrayRef<TextId> masks = reader.program.variables(reader.op(at).inputs, "Mask"),
                   given = reader.program.variables(reader.op(at).inputs, "X"),
                   outs = reader.program.variables(reader.op(at).outputs, "Out");
  if (masks.size() != 1 || given.size() != 1 || outs.size() != 2)
    return failureAt(reader.program, reader.index, at, ErrorKind::BadEntry,
                     "expected one variable in slots 'Mask' and 'X' and two in 'Out', found " + Twine(masks.size()) +
                         ", " + Twine(given.size()) + " and " + Twine(outs.size()));
  if (Error error = checkNamed(reader, at, {"Mask", "X"})) return error;
  Expected<Graph> test = choice(reader.context, {"value"});
  if (!test) return test.takeError();
  Graph cases[2];  // where the mask is 1, and where it is 0
  for (size_t mask : {1, 0}) {
    GraphBuilder one(reader.context);
    const Value x = one.addVariable("value", Attrs());
    const Value zeros = {cantFail(one.add(*reader.context.ops.find("zeros_like"), {x}, {"zeros"})), 0, 0};
    SmallVector<Value, 2> heads = {zeros, zeros};
    heads[mask] = x;
    cases[1 - mask] = cantFail(std::move(one).freeze(heads, {})).graph;
  }
  Expected<Value> taken = addFlow(reader, "_cond", {reader.read(masks[0]), reader.read(given[0])},
                                  {{"num_args", "5"},
                                   {"num_outputs", "2"},
                                   {"cond_input_locs", "(0,)"},
                                   {"then_input_locs", "(1,)"},
                                   {"else_input_locs", "(1,)"}},
                                  {*test, cases[0], cases[1]}, at);
  if (!taken) return taken.takeError();
  for (uint16_t i = 0; i < 2; ++i)
    if (outs[i] != kEmptyName)
      reader.write(reader.declared(outs[i]), reader.stopped(reader.declared(outs[i]), {taken->node, i, 0}, at));
  return Error::success();
}

}  // namespace gradc
