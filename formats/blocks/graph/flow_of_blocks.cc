// Operators that own blocks. Tested by tests/formats/blocks/block_graph_test.cc
#include "formats/blocks/graph/block_body.h"

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

}  // namespace

Expected<Value> BlockReader::addFlow(StringRef opName, ArrayRef<Value> inputs, ArrayRef<AttrText> attrs,
                                     ArrayRef<Graph> graphs, size_t at) {
  const OpDef *known = context.ops.find(opName);
  if (!known) return failureAt(program, index, at, ErrorKind::UnknownOp, "needs operator '" + opName + "'");
  Expected<NodeId> node = builder.add(*known, inputs, {"", context.attrs(attrs), NodeId(), graphs});
  if (!node) return blameOp(program, index, at, node.takeError());
  return Value{*node, 0, 0};
}

/// A graph of these variables, each a head.
Expected<Graph> BlockReader::choice(ArrayRef<std::string> names) {
  GraphBuilder variables(context);
  SmallVector<Value, 4> heads;
  for (const std::string &name : names) heads.push_back(variables.addVariable(name, Attrs()));
  Expected<Frozen> frozen = std::move(variables).freeze(heads, {});
  if (!frozen) return frozen.takeError();
  return frozen->graph;
}

void BlockReader::writeCarried(DeclaredName name, Value v) {
  write(name, v);
  if (name.block == index) carried.insert(name.name.value);
}

// The states are the outer names that the body writes; its other inputs are the same at every step.
Error BlockReader::readWhile(size_t at) {
  const BlockOp &op = this->op(at);
  Expected<TextId> decides = conditionOf(program, index, at);
  if (!decides) return decides.takeError();
  const BlockBody &body = *all.bodies[*op.subBlock];
  if (body.results.empty()) return Error::success();  // it changes nothing
  SmallVector<Value, 8> inputs;
  DenseMap<std::pair<uint32_t, uint32_t>, uint32_t> positionOf;
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    Expected<Value> value = readInput(body, i, at);
    if (!value) return value.takeError();
    positionOf.try_emplace(body.inputs[i].name.key(), static_cast<uint32_t>(inputs.size()));
    inputs.push_back(*value);
  }
  const DeclaredName condition = declared(*decides);
  auto [position, isNew] = positionOf.try_emplace(condition.key(), static_cast<uint32_t>(inputs.size()));
  if (isNew) inputs.push_back(read(condition));
  std::vector<int64_t> states;
  for (const DeclaredName &name : body.results) states.push_back(positionOf.lookup(name.key()));
  Expected<Graph> test = choice({program.text(*decides).str()});
  if (!test) return test.takeError();
  const std::string numArgs = std::to_string(inputs.size() + 2), numOutputs = std::to_string(states.size()),
                    most = std::to_string(options.maxIterations), conditionLocs = tupleText({position->second}),
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
  if (!all.gradients[*op.subBlock].empty()) attrs.push_back({"__saved__", saved});
  Expected<Value> loop = addFlow("_while_loop", inputs, attrs, {*test, body.graph}, at);
  if (!loop) return loop.takeError();
  flowNodes[*op.subBlock] = loop->node;
  std::vector<uint32_t> &operands = flowOperands[*op.subBlock];
  for (uint32_t i = 0; i < body.inputs.size(); ++i) operands.push_back(i);
  for (size_t i = 0; i < states.size(); ++i) writeCarried(body.results[i], {loop->node, static_cast<uint16_t>(i), 0});
  return Error::success();
}

// If the block is not run, the outer names that it writes keep their values.
Error BlockReader::readConditional(size_t at) {
  const BlockOp &op = this->op(at);
  Expected<TextId> decides = conditionOf(program, index, at);
  if (!decides) return decides.takeError();
  const BlockBody &body = *all.bodies[*op.subBlock];
  if (body.results.empty()) return Error::success();
  SmallVector<Value, 8> inputs = {read(*decides)};
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    Expected<Value> value = readInput(body, i, at);
    if (!value) return value.takeError();
    inputs.push_back(*value);
  }
  std::vector<std::string> names;
  for (const DeclaredName &name : body.results) {
    Expected<Value> value = readOrZeros(name, at);
    if (!value) return value.takeError();
    inputs.push_back(*value);
    names.push_back(program.text(name.name).str());
  }
  Expected<Graph> test = choice({program.text(*decides).str()}), otherwise = choice(names);
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
  if (!all.gradients[*op.subBlock].empty()) attrs.push_back({"__saved__", saved});
  Expected<Value> taken = addFlow("_cond", inputs, attrs, {*test, body.graph, *otherwise}, at);
  if (!taken) return taken.takeError();
  flowNodes[*op.subBlock] = taken->node;
  std::vector<uint32_t> &operands = flowOperands[*op.subBlock];
  for (uint32_t i = 0; i < body.inputs.size(); ++i) operands.push_back(1 + i);
  for (size_t i = 0; i < names.size(); ++i) writeCarried(body.results[i], {taken->node, static_cast<uint16_t>(i), 0});
  return Error::success();
}

Error BlockReader::checkNamed(size_t at, std::initializer_list<StringRef> slots) const {
  for (StringRef slot : slots)
    if (is_contained(program.variables(op(at).inputs, slot), kEmptyName))
      return failureAt(program, index, at, ErrorKind::BadEntry, "slot '" + slot + "' names no variable");
  return Error::success();
}

// X[Mask], of two.
Error BlockReader::readSelect(size_t at) {
  const BlockOp &op = this->op(at);
  ArrayRef<TextId> masks = program.variables(op.inputs, "Mask"), choices = program.variables(op.inputs, "X"),
                   outs = program.variables(op.outputs, "Out");
  if (masks.size() != 1 || choices.size() != 2 || outs.size() != 1)
    return failureAt(program, index, at, ErrorKind::BadEntry,
                     "expected one variable in slots 'Mask' and 'Out' and two in 'X', found " + Twine(masks.size()) +
                         ", " + Twine(outs.size()) + " and " + Twine(choices.size()));
  if (Error error = checkNamed(at, {"Mask", "X"})) return error;
  Expected<Graph> one = choice({"value"});
  if (!one) return one.takeError();
  Expected<Value> taken = addFlow("_cond", {read(masks[0]), read(choices[1]), read(choices[0])},
                                  {{"num_args", "6"},
                                   {"num_outputs", "1"},
                                   {"cond_input_locs", "(0,)"},
                                   {"then_input_locs", "(1,)"},
                                   {"else_input_locs", "(2,)"}},
                                  {*one, *one, *one}, at);
  if (!taken) return taken.takeError();
  if (outs[0] != kEmptyName) write(declared(outs[0]), stopped(declared(outs[0]), *taken, at));
  return Error::success();
}

// X where the mask is the output's number, else zeros.
Error BlockReader::readSelectOutput(size_t at) {
  ArrayRef<TextId> masks = program.variables(op(at).inputs, "Mask"), given = program.variables(op(at).inputs, "X"),
                   outs = program.variables(op(at).outputs, "Out");
  if (masks.size() != 1 || given.size() != 1 || outs.size() != 2)
    return failureAt(program, index, at, ErrorKind::BadEntry,
                     "expected one variable in slots 'Mask' and 'X' and two in 'Out', found " + Twine(masks.size()) +
                         ", " + Twine(given.size()) + " and " + Twine(outs.size()));
  if (Error error = checkNamed(at, {"Mask", "X"})) return error;
  Expected<Graph> test = choice({"value"});
  if (!test) return test.takeError();
  Graph cases[2];  // where the mask is 1, and where it is 0
  for (size_t mask : {1, 0}) {
    GraphBuilder one(context);
    const Value x = one.addVariable("value", Attrs());
    const Value zeros = {cantFail(one.add(*context.ops.find("zeros_like"), {x}, {"zeros"})), 0, 0};
    SmallVector<Value, 2> heads = {zeros, zeros};
    heads[mask] = x;
    cases[1 - mask] = cantFail(std::move(one).freeze(heads, {})).graph;
  }
  Expected<Value> taken = addFlow("_cond", {read(masks[0]), read(given[0])},
                                  {{"num_args", "5"},
                                   {"num_outputs", "2"},
                                   {"cond_input_locs", "(0,)"},
                                   {"then_input_locs", "(1,)"},
                                   {"else_input_locs", "(1,)"}},
                                  {*test, cases[0], cases[1]}, at);
  if (!taken) return taken.takeError();
  for (uint16_t i = 0; i < 2; ++i)
    if (outs[i] != kEmptyName) write(declared(outs[i]), stopped(declared(outs[i]), {taken->node, i, 0}, at));
  return Error::success();
}

}  // namespace gradc
