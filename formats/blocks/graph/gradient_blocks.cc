// Gradient blocks and the operators that run them: loops that go backwards over what the forward loop stacked, and
// branches on the decision that the forward branch recorded. Tested by
// tests/formats/blocks/backward/block_backward_test.cc
#include "formats/blocks/arrays/recurrent_op.h"
#include "formats/blocks/graph/block_body.h"
#include "formats/blocks/program/block_attrs.h"
#include "ir/graph/context.h"
#include "ir/graph/effects.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

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

std::string number(size_t n) { return std::to_string(n); }

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

// The gradients that the operator hands in are available from the start.
void BlockReader::beginGradient() {
  for (auto [inside, outside] : ports->arriving) {
    const DeclaredName name{index, inside};
    write(name, addVariable(inside, Attrs(), {BlockInput::From::Arriving, name, Value()}));
  }
  if (ports->owner != BlockOwner::Recurrent) return;
  for (const GradientPorts::Wanted &wanted : ports->wanted) {
    if (wanted.kind != GradientPorts::Wanted::Kind::State || !wanted.carried.isValid()) continue;
    const DeclaredName name{index, wanted.carried};
    Value carried = addVariable(wanted.carried, Attrs(), {BlockInput::From::Carried, name, Value()});
    if (auto known = positions.find(name.key()); known != positions.end())  // an output too
      carried = {cantFail(builder.add(*context.ops.find("_grad_add"), {held[known->second].last, carried}, {""})), 0,
                 0};
    write(name, carried);
  }
}

BlockReader *BlockReader::forwardReader() const { return all.readers[*program.blocks[index].forward].get(); }

// A loop's state has its value from the beginning of the step, a counter that from the end.
std::optional<Value> BlockReader::valueAtStep(DeclaredName name) {
  auto at = positions.find(name.key());
  if (at == positions.end()) return std::nullopt;
  const bool isState = (isLoopBody() || isStepBlock()) && name.block != index && held[at->second].isWritten;
  if (!isState || counters.contains(name.name.value)) return held[at->second].last;
  Value first = held[at->second].first;
  if (!builder.kind(first.node).isVariable())
    first = addVariable(name.name, Attrs(), {BlockInput::From::Around, name, Value()});
  return held[at->second].first = first;
}

std::optional<Value> BlockReader::forwardValue(TextId name) {
  const uint32_t forward = *program.blocks[index].forward;
  const std::optional<uint32_t> block = program.declaringBlock(forward, name);
  return block ? forwardReader()->valueAtStep({*block, name}) : std::nullopt;
}

Value BlockReader::forwardVariable(Value v) {
  auto [at, isNew] = atStep.try_emplace({v.node.value, v.index});
  if (isNew) {
    const Value made = builder.addVariable(forwardReader()->builder.name(v.node), Attrs());
    variables.push_back({made.node, {BlockInput::From::Forward, {}, {v.node, v.index, 0}}});
    atStep[{v.node.value, v.index}] = made;
    return made;
  }
  return at->second;
}

// Copies everything the node depends on, down to variables, in id order: the inputs of a node precede it.
NodeId BlockReader::skeleton(NodeId n) {
  const GraphBuilder &forward = forwardReader()->builder;
  std::vector<uint32_t> pending = {n.value}, needed;
  DenseSet<uint32_t> seen;
  while (!pending.empty()) {
    const uint32_t at = pending.back();
    pending.pop_back();
    if (skeletons.contains(at) || !seen.insert(at).second) continue;
    needed.push_back(at);
    for (Value v : forward.inputs(NodeId(at))) pending.push_back(v.node.value);
  }
  llvm::sort(needed);
  for (uint32_t at : needed) {
    const KindRef &kind = forward.kindHandle(NodeId(at));
    if (kind->isVariable()) {
      skeletons[at] = forwardVariable({NodeId(at), 0, 0}).node;
      continue;
    }
    SmallVector<Value, 8> operands;
    for (Value v : forward.inputs(NodeId(at))) operands.push_back({skeletons.lookup(v.node.value), v.index, v.version});
    skeletons[at] = builder.addKind(withoutEffects(context, kind), operands, NodeId());
  }
  return skeletons.lookup(n.value);
}

void BlockReader::saveValues(BlockBody &body, SmallVectorImpl<Value> &heads) {
  const DenseSet<std::pair<uint32_t, uint32_t>> states = statesOf(all, index, body);
  DenseMap<uint32_t, DeclaredName> nameOf;
  for (const auto &[n, input] : variables) nameOf.try_emplace(n.value, input.name);
  auto save = [&](Value v) {
    if (body.savedAt.try_emplace({v.node.value, v.index}, static_cast<uint32_t>(body.savedAt.size())).second)
      heads.push_back(v);
  };
  std::vector<Value> given;
  for (uint32_t gradient : all.gradients[index])
    for (auto [input, isRead] : zip(all.bodies[gradient]->inputs, all.bodies[gradient]->isRead)) {
      if (input.from != BlockInput::From::Forward) continue;
      const auto name = nameOf.find(input.value.node.value);
      const bool isState = name != nameOf.end() && states.contains(name->second.key());
      if (name == nameOf.end() || (isState && isRead)) save(input.value);
      else given.push_back(input.value);
    }
  const std::vector<bool> isReached = reachable(heads);
  for (Value v : given)
    if (!isReached[v.node.value]) save(v);  // so that it is an input
}

Expected<BlockBody> BlockReader::gradientBody() {
  SmallVector<Value, 8> heads;
  for (const GradientPorts::Wanted &wanted : ports->wanted) {
    const bool isComputed = wanted.inside.isValid() && positions.contains({index, wanted.inside.value});
    const bool isLoop = ports->owner != BlockOwner::Branch;
    if (!isComputed && isLoop)
      return failureAt(program, ports->block, ports->op, ErrorKind::MissingGradVar,
                       "block " + Twine(index) + " does not compute the gradient of '" + program.text(wanted.forward) +
                           "'");
    const Value gradient = isComputed ? read(wanted.inside) : Value();
    auto emit = [&](StringRef name, ArrayRef<Value> operands) {
      return Value{cantFail(builder.add(*context.ops.find(name), operands, {""})), 0, 0};
    };
    if (!isLoop) heads.push_back(isComputed ? gradient : emit("zeros_like", {read(wanted.forward)}));
    else if (wanted.kind != GradientPorts::Wanted::Kind::Sum) heads.push_back(gradient);
    else {
      const DeclaredName name{index, wanted.inside};
      const Value sum = addVariable(wanted.inside, Attrs(), {BlockInput::From::Sum, name, Value()});
      heads.push_back(emit("_grad_add", {sum, gradient}));
    }
  }
  return finish(heads, BlockBody());
}

Expected<ForwardFlow> BlockReader::forwardFlow(size_t at) {
  if (!op(at).subBlock) return failureAt(program, index, at, ErrorKind::BadEntry, "expected a gradient block");
  const uint32_t gradient = *op(at).subBlock;
  if (!all.owners[gradient].isRun || !all.bodies[gradient])
    return failureAt(program, index, at, ErrorKind::UnsupportedOption,
                     "block " + Twine(gradient) + " is not the gradient of a block that a loop or a branch runs");
  const uint32_t block = *program.blocks[gradient].forward;
  const BlockReaders::Owner &owner = all.owners[block];
  BlockReader *reader = owner.block == index ? this : all.readers[owner.block].get();
  const bool isHere = reader == this || (isGradient() && reader == forwardReader());
  auto node = reader ? reader->flowNodes.find(block) : flowNodes.end();
  if (!isHere || node == reader->flowNodes.end())
    return failureAt(program, index, at, ErrorKind::UnsupportedOption,
                     "block " + Twine(block) +
                         ", whose gradient this is, does not run before it in the same block or in its forward block");
  const BlockBody &body = *all.bodies[block];
  const auto numOutputs = static_cast<uint32_t>(body.results.size());
  ForwardFlow flow{block, reader, node->second, &body, reader->flowOperands[block], numOutputs, numOutputs, false, {}};
  flow.states = statesOf(all, block, body);
  if (owner.kind == BlockOwner::Recurrent)
    flow.isReverse = cantFail(readRecurrentOp(program, owner.block, owner.op)).isReverse;
  else ++flow.firstSaved;  // after the number of steps, or the decision
  return flow;
}

Value BlockReader::here(const ForwardFlow &flow, Value v) { return flow.owner == this ? v : forwardVariable(v); }

Value BlockReader::operandHere(const ForwardFlow &flow, uint32_t input) {
  return here(flow, flow.owner->builder.inputs(flow.node)[flow.operands[input]]);
}

Expected<GradientFlow> BlockReader::gradientFlow(size_t at) {
  Expected<ForwardFlow> forward = forwardFlow(at);
  if (!forward) return forward.takeError();
  GradientFlow flow{std::move(*forward), &*all.bodies[*op(at).subBlock], cantFail(gradientPorts(program, index, at)),
                    DenseMap<uint32_t, TextId>()};
  for (auto [inside, outside] : flow.ports.arriving) flow.outsideOf[inside.value] = outside;
  return flow;
}

Error BlockReader::readLoopGradient(size_t at) {
  Expected<GradientFlow> gradient = gradientFlow(at);
  if (!gradient) return gradient.takeError();
  using Kind = GradientPorts::Wanted::Kind;
  const ForwardFlow *flow = &gradient->forward;
  const BlockBody &body = *gradient->body;
  const GradientPorts &ports = gradient->ports;
  const bool isWhile = ports.owner == BlockOwner::Loop;
  if (ports.wanted.empty()) return Error::success();
  auto output = [&](uint32_t i) { return here(*flow, {flow->node, static_cast<uint16_t>(i), 0}); };
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
    starts.push_back(
        isWhile && wanted.kind == Kind::State
            ? read(wanted.outside)
            : Value{cantFail(builder.add(*context.ops.find("zeros_like"), {read(wanted.forward)}, {""})), 0, 0});
  }
  for (auto [input, isRead] : zip(body.inputs, body.isRead)) {
    const uint32_t name = input.name.name.value;
    switch (input.from) {
      case BlockInput::From::Around: place(2, whole, read(input.name)); break;
      case BlockInput::From::Sum: places.push_back({1, sumAt.lookup(name)}); break;
      case BlockInput::From::Carried: places.push_back({1, stateAt.lookup(name)}); break;
      case BlockInput::From::Arriving:
        if (!isWhile) place(0, data, read(gradient->outsideOf.lookup(name)));
        else if (stateAt.contains(name)) places.push_back({1, stateAt.lookup(name)});
        else place(2, whole, read(gradient->outsideOf.lookup(name)));
        break;
      case BlockInput::From::Forward:
        const auto saved = flow->body->savedAt.find({input.value.node.value, input.value.index});
        const auto given = flow->body->inputAt.find(input.value.node.value);
        const bool isGiven = given != flow->body->inputAt.end();
        const bool isState = isGiven && flow->states.contains(flow->body->inputs[given->second].name.key());
        if (!isGiven || (isState && isRead)) place(0, data, output(flow->firstSaved + saved->second));
        else if (flow->isSliced(given->second)) place(0, data, operandHere(*flow, given->second));
        else place(2, whole, operandHere(*flow, given->second));
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
                    length = std::to_string(options.maxIterations);
  SmallVector<AttrText, 8> attrs = {{"num_args", numArgs},
                                    {"num_data", numData},
                                    {"num_states", numStates},
                                    {"num_out_data", numOut},
                                    {"input_locs", locs}};
  if (isWhile) append_range(attrs, ArrayRef<AttrText>({{"has_steps", "True"}, {"length", length}}));
  if (isWhile || !flow->isReverse) attrs.push_back({"reverse", "True"});
  Expected<Value> loop = addFlow("_scan", operands, attrs, {body.graph}, at);
  if (!loop) return loop.takeError();
  for (auto [i, wanted] : enumerate(ports.wanted))
    if (wanted.outside != kEmptyName) write(declared(wanted.outside), {loop->node, static_cast<uint16_t>(i), 0});
  if (isWhile) restoreCounters(*flow, *op(at).subBlock);
  return Error::success();
}

Error BlockReader::readConditionalGradient(size_t at) {
  Expected<GradientFlow> gradient = gradientFlow(at);
  if (!gradient) return gradient.takeError();
  const ForwardFlow *flow = &gradient->forward;
  const BlockBody &body = *gradient->body;
  const GradientPorts &ports = gradient->ports;
  if (ports.wanted.empty()) return Error::success();
  auto output = [&](uint32_t i) { return here(*flow, {flow->node, static_cast<uint16_t>(i), 0}); };
  SmallVector<Value, 16> operands = {output(flow->numOutputs)};  // the decision
  auto givenOrSaved = [&](Value v) {
    if (const auto given = flow->body->inputAt.find(v.node.value); given != flow->body->inputAt.end())
      return operandHere(*flow, given->second);
    return output(flow->firstSaved + flow->body->savedAt.lookup({v.node.value, v.index}));
  };
  for (const BlockInput &input : body.inputs) {
    if (input.from == BlockInput::From::Around) operands.push_back(read(input.name));
    else if (input.from == BlockInput::From::Arriving)
      operands.push_back(read(gradient->outsideOf.lookup(input.name.name.value)));
    else operands.push_back(givenOrSaved(input.value));
  }
  GraphBuilder zeros(context);
  SmallVector<Value, 8> heads;
  std::vector<int64_t> thenLocs, elseLocs;
  for (size_t i = 1; i < operands.size(); ++i) thenLocs.push_back(static_cast<int64_t>(i));
  for (const GradientPorts::Wanted &wanted : ports.wanted) {
    const Value like = zeros.addVariable(program.text(wanted.forward), Attrs());
    heads.push_back(
        {cantFail(zeros.add(*context.ops.find("zeros_like"), {like}, {program.text(wanted.outside)})), 0, 0});
    elseLocs.push_back(static_cast<int64_t>(operands.size()));
    operands.push_back(read(wanted.forward));
  }
  Expected<Graph> test = choice({"is_run"});
  if (!test) return test.takeError();
  const Graph untaken = cantFail(std::move(zeros).freeze(heads, {})).graph;
  const std::string numArgs = number(operands.size() + 3), numOutputs = number(heads.size()),
                    then = tupleText(thenLocs), otherwise = tupleText(elseLocs);
  Expected<Value> taken = addFlow("_cond", operands,
                                  {{"num_args", numArgs},
                                   {"num_outputs", numOutputs},
                                   {"cond_input_locs", "(0,)"},
                                   {"then_input_locs", then},
                                   {"else_input_locs", otherwise}},
                                  {*test, body.graph, untaken}, at);
  if (!taken) return taken.takeError();
  for (auto [i, wanted] : enumerate(ports.wanted))
    write(declared(wanted.outside), {taken->node, static_cast<uint16_t>(i), 0});
  return Error::success();
}

}  // namespace gradc
