// Tested by tests/formats/blocks/backward/block_backward_test.cc and tests/formats/blocks/block_array_test.cc
#include "formats/blocks/graph/gradient_blocks.h"

#include "formats/blocks/arrays/recurrent_op.h"
#include "formats/blocks/graph/flow_of_blocks.h"
#include "formats/blocks/graph/recurrent_blocks.h"
#include "formats/blocks/program/gradient_names.h"
#include "ir/graph/context.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

/// The node that runs the forward block of a gradient block.
struct ForwardFlow {
  uint32_t block;
  BlockReader *owner;
  NodeId node;  // in the owner's builder
  const BlockBody *body;
  ArrayRef<uint32_t> operands;  // by input of the body
  uint32_t numOutputs;          // that are results
  uint32_t firstSaved;          // after them and the outputs that describe the run
  bool isReverse;
  DenseSet<std::pair<uint32_t, uint32_t>> states;  // statesOf

  /// Whether a step gets a row of the node's operand for an input of the body.
  bool isSliced(uint32_t input) const {
    const DeclaredName &name = body->inputs[input].name;
    return name.block == block && !states.contains(name.key());
  }
};

/// An operator that runs a gradient block.
struct GradientFlow {
  ForwardFlow forward;
  const BlockBody *body;  // of the gradient block
  GradientPorts ports;
  DenseMap<uint32_t, TextId> outsideOf;  // what arrives, by its name inside
};

std::string number(size_t n) { return std::to_string(n); }

Expected<ForwardFlow> forwardFlow(BlockReader &reader, size_t at) {
  if (!reader.op(at).subBlock)
    return failureAt(reader.program, reader.index, at, ErrorKind::BadEntry, "expected a gradient block");
  const uint32_t gradient = *reader.op(at).subBlock;
  if (!reader.all.owners[gradient].isRun || !reader.all.bodies[gradient])
    return failureAt(reader.program, reader.index, at, ErrorKind::UnsupportedOption,
                     "block " + Twine(gradient) + " is not the gradient of a block that a loop or a branch runs");
  const uint32_t block = *reader.program.blocks[gradient].forward;
  const BlockReaders::Owner &owner = reader.all.owners[block];
  BlockReader *outer = owner.block == reader.index ? &reader : reader.all.readers[owner.block].get();
  const bool isHere = outer == &reader || (reader.isGradient() && outer == reader.forwardReader());
  auto node = outer ? outer->flowNodes.find(block) : reader.flowNodes.end();
  if (!isHere || node == outer->flowNodes.end())
    return failureAt(reader.program, reader.index, at, ErrorKind::UnsupportedOption,
                     "block " + Twine(block) +
                         ", whose gradient this is, does not run before it in the same block or in its forward block");
  const BlockBody &body = *reader.all.bodies[block];
  const auto numOutputs = static_cast<uint32_t>(body.results.size());
  ForwardFlow flow{block, outer, node->second, &body, outer->flowOperands[block], numOutputs, numOutputs, false, {}};
  flow.states = statesOf(reader.all, block, body);
  if (owner.kind == BlockOwner::Recurrent)
    flow.isReverse = cantFail(readRecurrentOp(reader.program, owner.block, owner.op)).isReverse;
  else ++flow.firstSaved;  // after the number of steps, or the decision
  return flow;
}

Expected<GradientFlow> gradientFlow(BlockReader &reader, size_t at) {
  Expected<ForwardFlow> forward = forwardFlow(reader, at);
  if (!forward) return forward.takeError();
  GradientFlow flow{std::move(*forward), &*reader.all.bodies[*reader.op(at).subBlock],
                    cantFail(gradientPorts(reader.program, reader.index, at)), DenseMap<uint32_t, TextId>()};
  for (auto [inside, outside] : flow.ports.arriving) flow.outsideOf[inside.value] = outside;
  return flow;
}

Value here(BlockReader &reader, const ForwardFlow &flow, Value v) {
  return flow.owner == &reader ? v : reader.forwardVariable(v);
}

Value operandHere(BlockReader &reader, const ForwardFlow &flow, uint32_t input) {
  return here(reader, flow, flow.owner->builder.inputs(flow.node)[flow.operands[input]]);
}

/// After a loop's gradient, counters have their values from before the loop.
void restoreCounters(BlockReader &reader, const ForwardFlow &flow, uint32_t gradientBlock) {
  auto numCounts = [&](uint32_t block, TextId name) {
    return llvm::count_if(reader.program.blocks[block].ops, [&](const BlockOp &op) {
      return reader.program.text(op.type) == "increment" &&
             reader.program.variables(op.outputs, "Out") == ArrayRef(name);
    });
  };
  for (auto [i, input] : enumerate(flow.body->inputs)) {
    const TextId name = input.name.name;
    const bool isResult = is_contained(flow.body->results, input.name);
    if (input.from != BlockInput::From::Around || !isResult || !numCounts(gradientBlock, name)) continue;
    if (numCounts(gradientBlock, name) != numCounts(flow.block, name)) continue;
    reader.write(reader.declared(name), operandHere(reader, flow, static_cast<uint32_t>(i)));
  }
}

}  // namespace

void findCounters(BlockReader &reader) {
  DenseSet<uint32_t> others;
  for (const BlockOp &op : reader.program.blocks[reader.index].ops) {
    const bool isCount = reader.program.text(op.type) == "increment";
    const ArrayRef<TextId> counted = reader.program.variables(op.inputs, "X");
    forEachVariable(op.outputs, [&](TextId name) {
      const bool isInPlace = isCount && counted.size() == 1 && counted[0] == name;
      (isInPlace ? reader.counters : others).insert(name.value);
    });
  }
  for (uint32_t name : others) reader.counters.erase(name);
}

// The gradients that the operator hands in are available from the start.
void beginGradient(BlockReader &reader) {
  for (auto [inside, outside] : reader.ports->arriving) {
    const DeclaredName name{reader.index, inside};
    reader.write(name, reader.addVariable(inside, Attrs(), {BlockInput::From::Arriving, name, Value()}));
  }
  if (reader.ports->owner != BlockOwner::Recurrent) return;
  for (const GradientPorts::Wanted &wanted : reader.ports->wanted) {
    if (wanted.kind != GradientPorts::Wanted::Kind::State || !wanted.carried.isValid()) continue;
    const DeclaredName name{reader.index, wanted.carried};
    Value value = reader.addVariable(wanted.carried, Attrs(), {BlockInput::From::Carried, name, Value()});
    if (auto known = reader.positions.find(name.key()); known != reader.positions.end())  // an output too
      value = reader.emit("_grad_add", {reader.states[known->second].last, value});
    reader.write(name, value);
  }
}

void saveValues(BlockReader &reader, BlockBody &body, SmallVectorImpl<Value> &heads) {
  const DenseSet<std::pair<uint32_t, uint32_t>> states = statesOf(reader.all, reader.index, body);
  DenseMap<uint32_t, DeclaredName> nameOf;
  for (const auto &[n, input] : reader.variables) nameOf.try_emplace(n.value, input.name);
  auto save = [&](Value v) {
    if (body.savedAt.try_emplace({v.node.value, v.index}, static_cast<uint32_t>(body.savedAt.size())).second)
      heads.push_back(v);
  };
  std::vector<Value> given;
  for (uint32_t gradient : reader.all.gradients[reader.index])
    for (auto [input, isRead] : zip(reader.all.bodies[gradient]->inputs, reader.all.bodies[gradient]->isRead)) {
      if (input.from != BlockInput::From::Forward) continue;
      const auto name = nameOf.find(input.value.node.value);
      const bool isState = name != nameOf.end() && states.contains(name->second.key());
      if (name == nameOf.end() || (isState && isRead)) save(input.value);
      else given.push_back(input.value);
    }
  const std::vector<bool> isReached = reader.reachable(heads);
  for (Value v : given)
    if (!isReached[v.node.value]) save(v);  // so that it is an input
}

Expected<BlockBody> gradientBody(BlockReader &reader) {
  SmallVector<Value, 8> heads;
  for (const GradientPorts::Wanted &wanted : reader.ports->wanted) {
    const bool isComputed = wanted.inside.isValid() && reader.positions.contains({reader.index, wanted.inside.value});
    const bool isLoop = reader.ports->owner != BlockOwner::Branch;
    if (!isComputed && isLoop)
      return failureAt(reader.program, reader.ports->block, reader.ports->op, ErrorKind::MissingGradVar,
                       "block " + Twine(reader.index) + " does not compute the gradient of '" +
                           reader.program.text(wanted.forward) + "'");
    const Value gradient = isComputed ? reader.read(wanted.inside) : Value();
    if (!isLoop) heads.push_back(isComputed ? gradient : reader.emit("zeros_like", {reader.read(wanted.forward)}));
    else if (wanted.kind != GradientPorts::Wanted::Kind::Sum) heads.push_back(gradient);
    else {
      const DeclaredName name{reader.index, wanted.inside};
      const Value sum = reader.addVariable(wanted.inside, Attrs(), {BlockInput::From::Sum, name, Value()});
      heads.push_back(reader.emit("_grad_add", {sum, gradient}));
    }
  }
  return reader.finish(heads, BlockBody());
}

Error readLoopGradient(BlockReader &reader, size_t at) {
  Expected<GradientFlow> gradient = gradientFlow(reader, at);
  if (!gradient) return gradient.takeError();
  using Kind = GradientPorts::Wanted::Kind;
  const ForwardFlow *flow = &gradient->forward;
  const BlockBody &body = *gradient->body;
  const GradientPorts &ports = gradient->ports;
  const bool isWhile = ports.owner == BlockOwner::Loop;
  if (ports.wanted.empty()) return Error::success();
  auto output = [&](uint32_t i) { return here(reader, *flow, {flow->node, static_cast<uint16_t>(i), 0}); };
  SmallVector<Value, 16> data, starts, whole;
  SmallVector<std::pair<int, size_t>, 16> places;
  auto place = [&](int list, SmallVectorImpl<Value> &values, Value v) {
    places.push_back({list, values.size()});
    values.push_back(v);
  };
  DenseMap<uint32_t, size_t> stateAt, sumAt;  // among the starts, by name inside
  size_t numRows = 0;
  for (const GradientPorts::Wanted &wanted : ports.wanted) {
    if (wanted.kind == Kind::Row) {
      ++numRows;
      continue;
    }
    if (wanted.kind == Kind::Sum) sumAt[wanted.inside.value] = starts.size();
    else if (wanted.carried.isValid()) stateAt[wanted.carried.value] = starts.size();
    starts.push_back(isWhile && wanted.kind == Kind::State ? reader.read(wanted.outside)
                                                           : reader.emit("zeros_like", {reader.read(wanted.forward)}));
  }
  for (auto [input, isRead] : zip(body.inputs, body.isRead)) {
    const uint32_t name = input.name.name.value;
    switch (input.from) {
      case BlockInput::From::Around: place(2, whole, reader.read(input.name)); break;
      case BlockInput::From::Sum: places.push_back({1, sumAt.lookup(name)}); break;
      case BlockInput::From::Carried: places.push_back({1, stateAt.lookup(name)}); break;
      case BlockInput::From::Arriving:
        if (!isWhile) place(0, data, reader.read(gradient->outsideOf.lookup(name)));
        else if (stateAt.contains(name)) places.push_back({1, stateAt.lookup(name)});
        else place(2, whole, reader.read(gradient->outsideOf.lookup(name)));
        break;
      case BlockInput::From::Forward:
        const auto saved = flow->body->savedAt.find({input.value.node.value, input.value.index});
        const auto given = flow->body->inputAt.find(input.value.node.value);
        const bool isGiven = given != flow->body->inputAt.end();
        const bool isState = isGiven && flow->states.contains(flow->body->inputs[given->second].name.key());
        if (!isGiven || (isState && isRead)) place(0, data, output(flow->firstSaved + saved->second));
        else if (flow->isSliced(given->second)) place(0, data, operandHere(reader, *flow, given->second));
        else place(2, whole, operandHere(reader, *flow, given->second));
        break;
    }
  }
  std::vector<int64_t> locations;
  const size_t firstOf[] = {0, data.size(), data.size() + starts.size()};
  for (auto [list, i] : places) locations.push_back(static_cast<int64_t>(firstOf[list] + i));
  SmallVector<Value, 16> operands;
  if (isWhile) operands.push_back(output(flow->numOutputs));  // the number of steps
  for (const auto *list : {&data, &starts, &whole}) append_range(operands, *list);
  const std::string numArgs = number(operands.size()), numData = number(data.size()), numStates = number(starts.size()),
                    numOut = number(numRows), locs = tupleText(locations),
                    length = std::to_string(reader.options.maxIterations);
  SmallVector<AttrText, 8> attrs = {{"num_args", numArgs},
                                    {"num_data", numData},
                                    {"num_states", numStates},
                                    {"num_out_data", numOut},
                                    {"input_locs", locs}};
  if (isWhile) append_range(attrs, ArrayRef<AttrText>({{"has_steps", "True"}, {"length", length}}));
  if (isWhile || !flow->isReverse) attrs.push_back({"reverse", "True"});
  Expected<Value> loop = addFlow(reader, "_scan", operands, attrs, {body.graph}, at);
  if (!loop) return loop.takeError();
  for (auto [i, wanted] : enumerate(ports.wanted))
    if (wanted.outside != kEmptyName)
      reader.write(reader.declared(wanted.outside), {loop->node, static_cast<uint16_t>(i), 0});
  if (isWhile) restoreCounters(reader, *flow, *reader.op(at).subBlock);
  return Error::success();
}

Error readConditionalGradient(BlockReader &reader, size_t at) {
  Expected<GradientFlow> gradient = gradientFlow(reader, at);
  if (!gradient) return gradient.takeError();
  const ForwardFlow *flow = &gradient->forward;
  const BlockBody &body = *gradient->body;
  const GradientPorts &ports = gradient->ports;
  if (ports.wanted.empty()) return Error::success();
  auto output = [&](uint32_t i) { return here(reader, *flow, {flow->node, static_cast<uint16_t>(i), 0}); };
  SmallVector<Value, 16> operands = {output(flow->numOutputs)};  // the decision
  auto givenOrSaved = [&](Value v) {
    if (const auto given = flow->body->inputAt.find(v.node.value); given != flow->body->inputAt.end())
      return operandHere(reader, *flow, given->second);
    return output(flow->firstSaved + flow->body->savedAt.lookup({v.node.value, v.index}));
  };
  for (const BlockInput &input : body.inputs) {
    if (input.from == BlockInput::From::Around) operands.push_back(reader.read(input.name));
    else if (input.from == BlockInput::From::Arriving)
      operands.push_back(reader.read(gradient->outsideOf.lookup(input.name.name.value)));
    else operands.push_back(givenOrSaved(input.value));
  }
  GraphBuilder zeros(reader.context);
  SmallVector<Value, 8> heads;
  std::vector<int64_t> thenLocs, elseLocs;
  for (size_t i = 1; i < operands.size(); ++i) thenLocs.push_back(static_cast<int64_t>(i));
  for (const GradientPorts::Wanted &wanted : ports.wanted) {
    const Value like = zeros.addVariable(reader.program.text(wanted.forward), Attrs());
    heads.push_back(
        {cantFail(zeros.add(*reader.context.ops.find("zeros_like"), {like}, {reader.program.text(wanted.outside)})), 0,
         0});
    elseLocs.push_back(static_cast<int64_t>(operands.size()));
    operands.push_back(reader.read(wanted.forward));
  }
  Expected<Graph> test = choice(reader.context, {"is_run"});
  if (!test) return test.takeError();
  const Graph untaken = cantFail(std::move(zeros).freeze(heads, {})).graph;
  const std::string numArgs = number(operands.size() + 3), numOutputs = number(heads.size()),
                    then = tupleText(thenLocs), otherwise = tupleText(elseLocs);
  Expected<Value> taken = addFlow(reader, "_cond", operands,
                                  {{"num_args", numArgs},
                                   {"num_outputs", numOutputs},
                                   {"cond_input_locs", "(0,)"},
                                   {"then_input_locs", then},
                                   {"else_input_locs", otherwise}},
                                  {*test, body.graph, untaken}, at);
  if (!taken) return taken.takeError();
  for (auto [i, wanted] : enumerate(ports.wanted))
    reader.write(reader.declared(wanted.outside), {taken->node, static_cast<uint16_t>(i), 0});
  return Error::success();
}

}  // namespace gradc
