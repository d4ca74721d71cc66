// One pass over the operators of a block. Tested by tests/formats/blocks/block_graph_test.cc
#include "formats/blocks/graph/block_body.h"

#include "formats/blocks/arrays/stacked_arrays.h"
#include "formats/blocks/graph/first_reads.h"
#include "formats/blocks/graph/flow_of_blocks.h"
#include "formats/blocks/graph/gradient_blocks.h"
#include "formats/blocks/graph/gradient_op.h"
#include "formats/blocks/graph/lost_gradients.h"
#include "formats/blocks/graph/recurrent_blocks.h"
#include "formats/blocks/ops/op_row.h"
#include "formats/blocks/program/block_program.h"
#include "formats/blocks/program/named_variables.h"
#include "ir/graph/context.h"
#include "passes/order/requests.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

/// The shape in graphs: a scalar has one axis of one element. Nothing where a dimension is not known.
std::optional<std::vector<int64_t>> shapeInGraph(const BlockVariable &variable) {
  if (!variable.dtype || is_contained(variable.shape, -1)) return std::nullopt;
  if (variable.shape.empty()) return std::vector<int64_t>{1};
  return std::vector<int64_t>(variable.shape.begin(), variable.shape.end());
}

bool isGiven(const BlockVariable &variable) {
  return variable.isData || variable.isPersistable || variable.isParameter;
}

}  // namespace

BlockReader::BlockReader(BlockReaders &all, uint32_t index)
    : all(all), context(all.context), program(all.program), index(index), options(all.options), builder(all.context) {}

void BlockReader::giveName(NodeId n, TextId name) {
  const uint32_t number = numNamed[name.value]++;
  builder.setName(n, program.text(name), number ? "@" + std::to_string(number) : "");
}

Value BlockReader::addVariable(TextId name, const Attrs &attrs, BlockInput input) {
  ++numNamed[name.value];
  const Value v = builder.addVariable(program.text(name), attrs);
  variables.push_back({v.node, input});
  return v;
}

Value BlockReader::read(TextId name) {
  if (!isGradient() || positions.contains({index, name.value}))
    return read(DeclaredName{isGradient() ? index : declared(name).block, name});
  if (std::optional<Value> v = forwardValue(name)) return forwardVariable(*v);
  return read(declared(name));
}

Value BlockReader::read(DeclaredName name) {
  if (isGradient()) {  // own names come first, then those of the forward block
    if (auto own = positions.find({index, name.name.value}); own != positions.end()) return states[own->second].last;
    if (BlockReader *forward = forwardReader())
      if (std::optional<Value> v = forward->valueAtStep(name)) return forwardVariable(*v);
  }
  auto [at, isNew] = positions.try_emplace(name.key(), static_cast<uint32_t>(used.size()));
  if (!isNew) return states[at->second].last;
  used.push_back(name);
  const BlockVariable &record = variable(name);
  SmallVector<AttrText, 2> attrs;
  std::string shape;
  if (index == 0 && record.dtype && dtypeOf(*record.dtype) != DType::Unknown) {
    attrs.push_back({"__dtype__", dtypeName(dtypeOf(*record.dtype))});
    if (std::optional<std::vector<int64_t>> dims = shapeInGraph(record))
      attrs.push_back({"__shape__", shape = tupleText(*dims)});
  }
  const Value v = addVariable(name.name, context.attrs(attrs), {BlockInput::From::Around, name, Value()});
  states.push_back({v, v});
  return v;
}

BlockReader *BlockReader::forwardReader() const { return all.readers[*program.blocks[index].forward].get(); }

// A loop's state has its value from the beginning of the step, a counter that from the end.
std::optional<Value> BlockReader::valueAtStep(DeclaredName name) {
  auto at = positions.find(name.key());
  if (at == positions.end()) return std::nullopt;
  const bool isState = (isLoopBody() || isStepBlock()) && name.block != index && states[at->second].isWritten;
  if (!isState || counters.contains(name.name.value)) return states[at->second].last;
  Value first = states[at->second].first;
  if (!builder.kind(first.node).isVariable())
    first = addVariable(name.name, Attrs(), {BlockInput::From::Around, name, Value()});
  return states[at->second].first = first;
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

void BlockReader::write(DeclaredName name, Value v) {
  name = isGradient() ? DeclaredName{index, name.name} : name;
  auto [at, isNew] = positions.try_emplace(name.key(), static_cast<uint32_t>(used.size()));
  if (isNew) {
    used.push_back(name);
    states.push_back({v, v});
  }
  NameState &now = states[at->second];
  if (!now.isWritten) written.push_back(at->second);
  now.isWritten = true;
  now.last = v;
  if (!builder.kind(v.node).isVariable() && builder.name(v.node).empty()) giveName(v.node, name.name);
}

bool BlockReader::repeatsFlags(size_t at) const {
  bool readsCarried = false;
  auto isOther = [&](TextId name) {
    const std::optional<uint32_t> block = name == kEmptyName ? std::nullopt : program.declaringBlock(index, name);
    const BlockVariable *read = block ? program.find(*block, name) : nullptr;
    const bool isFloat = read && read->dtype && isFloating(dtypeOf(*read->dtype));
    readsCarried |= carried.contains(name.value);
    return isFloat && (*block != index || !isFlagged({*block, name}));
  };
  for (const BlockSlot &slot : op(at).inputs)
    if (llvm::any_of(slot.variables, isOther)) return false;
  return readsCarried;
}

Value BlockReader::emit(StringRef op, ArrayRef<Value> inputs) {
  return {cantFail(builder.add(*context.ops.find(op), inputs, {""})), 0, 0};
}

bool BlockReader::isFlagged(DeclaredName name) const {
  return variable(name).stopsGradient && !(name.block == 0 && all.heads.contains(name.name.value));
}

// The value of a name whose gradient is cut is a constant for its readers. Carried state is exempt: its flag is about
// the value it starts from. A flag on a value made only from such names merely repeats theirs.
Value BlockReader::stopped(DeclaredName name, Value v, size_t at) {
  const BlockVariable &record = variable(name);
  const bool isFloat = record.dtype && isFloating(dtypeOf(*record.dtype));
  const bool isCut = (isFlagged(name) && name.block == index) || all.noGrad.contains(name.name.value);
  const bool isConstant = program.blocks[index].ops[at].inputs.empty();
  const bool isKept = builder.kind(v.node).isVariable() && isUpdated(op(at), name.name);
  if (!isFloat || !isCut || isConstant || isKept) return v;
  if (!all.noGrad.contains(name.name.value) && repeatsFlags(at)) {
    carried.insert(name.name.value);
    return v;
  }
  carried.erase(name.name.value);
  return emit("BlockGrad", {v});
}

// They come before the operator's own nodes, which its gradient operator finds by their order.
void BlockReader::replaceLostInputs(size_t at) {
  substitutes.clear();
  const StringRef type = program.text(op(at).type);
  if (!options.holdsLost || !findBlockOp(type)) return;
  for (const BlockSlot &slot : op(at).inputs) {
    if (passesGradient(type, program.text(slot.name))) continue;
    for (auto [i, name] : enumerate(slot.variables))
      if (isFloatTensor(visibleVariable(program, index, name)) && !isFlagged(declared(name)) &&
          !isUpdated(op(at), name))
        substitutes.push_back({program.text(slot.name), i, emit("BlockGrad", {read(name)})});
  }
}

Expected<Value> BlockReader::readOrZeros(DeclaredName name, size_t at) {
  const BlockVariable &record = variable(name);
  const bool isHere = name.block == index;
  if (!isHere || positions.contains(name.key()) || (index == 0 && isGiven(record))) return read(name);
  const std::optional<std::vector<int64_t>> shape = shapeInGraph(record);
  if (!shape || dtypeOf(*record.dtype) == DType::Unknown)
    return failureAt(program, index, at, ErrorKind::InferMissing,
                     "variable '" + program.text(name.name) +
                         "' has no value yet, and its declared shape or type is not fully known");
  const Attrs attrs = context.attrs({{"shape", tupleText(*shape)}, {"dtype", dtypeName(dtypeOf(*record.dtype))}});
  Expected<NodeId> zeros = builder.add(*context.ops.find("_zeros"), {}, {"", attrs});
  if (!zeros) return zeros.takeError();
  return Value{*zeros, 0, 0};
}

Expected<Value> BlockReader::readInput(const BlockBody &body, size_t input, size_t at) {
  const DeclaredName name = body.inputs[input].name;
  const bool isVariable = index == 0 && body.isRead[input] && !all.arrays.contains(name.name.value);
  return isVariable ? read(name) : readOrZeros(name, at);
}

Error BlockReader::readOps() {
  if (program.blocks[index].forward) {
    Expected<GradientPorts> found = gradientPorts(program, all.owners[index].block, all.owners[index].op);
    if (!found) return found.takeError();
    ports = std::move(*found);
    beginGradient(*this);
  } else if (isStepBlock()) {
    if (Error error = beginStep(*this)) return error;
  }
  if (isLoopBody()) findCounters(*this);
  opOf.resize(builder.numNodes(), BlockOrigins::kNone);
  for (size_t i = 0; i < program.blocks[index].ops.size(); ++i) {
    if (Error error = readOp(i)) return error;
    opOf.resize(builder.numNodes(), numberOf(op(i), i));
  }
  return Error::success();
}

std::vector<uint32_t> BlockReader::opsOf(const Frozen &frozen) const {
  std::vector<uint32_t> ops(frozen.graph.numNodes(), BlockOrigins::kNone);
  for (uint32_t n = 0; n < opOf.size(); ++n)
    if (const NodeId made = frozen.newId[n]; made.isValid() && !frozen.graph.isVariable(made))
      ops[made.value] = opOf[n];
  return ops;
}

Error BlockReader::readOp(size_t at) {
  const StringRef type = program.text(program.blocks[index].ops[at].type);
  // A block must write the names it declares before it reads them; only the root is given values. An array begins
  // without elements.
  const bool isWrite = type == "write_to_array";
  if (index != 0)
    for (const BlockSlot &slot : program.blocks[index].ops[at].inputs) {
      if ((isWrite && program.text(slot.name) == kArraySlot) || !readsValue(type, program.text(slot.name))) continue;
      for (TextId name : slot.variables)
        if (name != kEmptyName)
          if (DeclaredName known = declared(name);
              known.block == index && !positions.contains(known.key()) && !(isGradient() && forwardValue(name)))
            return readBeforeWrite(program, index, at, slot.name, name);
    }
  if (type == "while_grad" || type == "recurrent_grad") return readLoopGradient(*this, at);
  if (type == "conditional_block_grad") return readConditionalGradient(*this, at);
  if (type == "select_output") return readSelectOutput(*this, at);
  const bool isOwner = type == "while" || type == "conditional_block" || type == "recurrent";
  if (const std::optional<uint32_t> inner = op(at).subBlock; inner && isOwner && !all.bodies[*inner])
    return failureAt(program, index, at, ErrorKind::BadEntry,
                     "block " + Twine(*inner) + " is a gradient block, expected one that is not");
  if (type == "while") return readWhile(*this, at);
  if (type == "recurrent") return readRecurrent(*this, at);
  if (type == "conditional_block") return readConditional(*this, at);
  if (type == "select_input") return readSelect(*this, at);
  const bool isArrayOp = type == "write_to_array" || type == "read_from_array";  // their gradients are rows
  const bool isRecorded =
      all.hasGradientOps && !isGradient() && !isArrayOp && (findBlockOp(type) || isGradientType(type));
  std::vector<Value> inputs = isRecorded ? inputsForGradient(*this, at) : std::vector<Value>();
  replaceLostInputs(at);
  const uint32_t firstNode = builder.numNodes();
  if (findBlockOp(type)) {
    if (Error error = readRow(at)) return error;
  } else {
    Expected<bool> isRead = readGradientOp(*this, at);
    if (!isRead) return isRead.takeError();
    if (!*isRead) return readOpaque(at);
  }
  if (isRecorded) recordForGradient(*this, at, firstNode, std::move(inputs));
  return Error::success();
}

Error BlockReader::readRow(size_t at) {
  Error broken = Error::success();
  OpTranslation translation(builder, program, index, at, op(at), [&](StringRef slot, size_t i, TextId name) {
    for (const Substitute &input : substitutes)
      if (input.slot == slot && input.i == i) return input.value;
    if (slot != kArraySlot) return read(name);
    const DeclaredName known = declared(name);
    const bool isFirst = known.block == index && !positions.contains(known.key());
    if (isGradient() && !isFirst) return read(name);
    Expected<Value> array = readOrZeros(known, at);
    if (array) return *array;
    broken = joinErrors(std::move(broken), array.takeError());
    return read(name);
  });
  findBlockOp(program.text(op(at).type))->translate(translation);
  Expected<std::vector<OpTranslation::Written>> outs = translation.finish();
  if (broken) return joinErrors(std::move(broken), outs ? Error::success() : outs.takeError());
  if (!outs) return outs.takeError();
  for (const OpTranslation::Written &out : *outs) {
    const DeclaredName name = declared(out.name);
    Value v = stopped(name, out.value, at);
    if (options.holdsLost && !passesGradient(program.text(op(at).type), out.slot) && !isUpdated(op(at), out.name))
      v = emit("BlockGrad", {v});
    write(name, v);
  }
  return Error::success();
}

// An operator without a row (A-13) can be shown and written; passes that need its meaning report it.
Error BlockReader::readOpaque(size_t at) {
  const BlockOp &op = program.blocks[index].ops[at];
  SmallVector<Value, 8> inputs;
  SmallVector<TextId, 4> outputs;
  for (const BlockSlot &slot : op.inputs)
    for (TextId name : slot.variables)
      if (name != kEmptyName) inputs.push_back(read(name));
  for (const BlockSlot &slot : op.outputs)
    for (TextId name : slot.variables)
      if (name != kEmptyName) outputs.push_back(name);
  if (outputs.size() > kMaxIndex)
    return failureAt(program, index, at, ErrorKind::TooLarge, "names " + Twine(outputs.size()) + " outputs");
  Expected<KindRef> kind =
      context.opaqueKind(program.text(op.type), op.attrs, std::max<uint32_t>(1, static_cast<uint32_t>(outputs.size())));
  if (!kind) return kind.takeError();
  const NodeId n = builder.addKind(*kind, inputs, NodeId());
  for (size_t i = 0; i < outputs.size(); ++i) write(declared(outputs[i]), {n, static_cast<uint16_t>(i), 0});
  return Error::success();
}

// One sweep from the end: the inputs of a node precede it.
std::vector<bool> BlockReader::reachable(ArrayRef<Value> heads) const {
  std::vector<bool> isReached(builder.numNodes());
  for (Value head : heads) isReached[head.node.value] = true;
  for (uint32_t n = builder.numNodes(); n-- > 0;)
    if (isReached[n])
      for (Value v : builder.inputs(NodeId(n))) isReached[v.node.value] = true;
  return isReached;
}

// A state that no result depends on is an input all the same, only for its shape.
Value BlockReader::asState(uint32_t position, const std::vector<bool> &isReached) {
  NameState &now = states[position];
  if (builder.kind(now.first.node).isVariable() && isReached[now.first.node.value]) return now.last;
  valueAtStep(used[position]);
  return emit("_identity_with_attr_like_rhs", {now.last, now.first});
}

Expected<BlockBody> BlockReader::body() {
  if (isGradient()) return gradientBody(*this);
  if (isStepBlock()) return stepBody(*this);
  BlockBody body;
  SmallVector<Value, 16> heads;
  std::vector<uint32_t> results;
  for (uint32_t position : written) {
    if (used[position].block == index) continue;
    results.push_back(position);
    body.results.push_back(used[position]);
    heads.push_back(states[position].last);
  }
  const std::vector<bool> isReached = reachable(heads);
  for (size_t i = 0; isLoopBody() && i < results.size(); ++i) heads[i] = asState(results[i], isReached);
  saveValues(*this, body, heads);
  return finish(heads, std::move(body));
}

Expected<BlockBody> BlockReader::finish(ArrayRef<Value> heads, BlockBody body) {
  Expected<Frozen> frozen = std::move(builder).freeze(heads, {});
  if (!frozen) return frozen.takeError();
  const RequestTable requests = countRequests(frozen->graph, {});
  std::vector<std::tuple<NodeId, NodeId, BlockInput>> inputs;
  for (const auto &[n, input] : variables)
    if (const NodeId made = frozen->newId[n.value]; made.isValid()) inputs.push_back({made, n, input});
  llvm::sort(inputs, llvm::less_first());
  for (const auto &[made, n, input] : inputs) {
    body.inputAt[n.value] = static_cast<uint32_t>(body.inputs.size());
    body.inputs.push_back(input);
    body.isRead.push_back(requests.reads[frozen->graph.firstEntry(made)] != 0);
  }
  body.ops = opsOf(*frozen);
  body.graph = std::move(frozen->graph);
  return body;
}

Expected<BlockGraph> BlockReader::root() {
  SmallVector<Value, 16> heads;
  BlockGraph result;
  result.headNames = options.heads;
  for (const std::string &head : options.heads) {
    Expected<TextId> name = findVariable(program, 0, head, "target");
    if (!name) return name.takeError();
    heads.push_back(read(*name));
  }
  if (heads.empty())
    for (uint32_t position : written) {
      heads.push_back(states[position].last);
      result.headNames.push_back(program.text(used[position].name).str());
    }
  Expected<Frozen> frozen = std::move(builder).freeze(heads, {});
  if (!frozen) return frozen.takeError();
  auto mapped = [&](Value v) { return frozen->newId[v.node.value].isValid() ? (*frozen)(v) : Value(); };
  for (auto [name, now] : zip(used, states)) {
    const BlockVariable &record = variable(name);
    if (mapped(now.first).isValid() && isGiven(record) && is_contained(record.shape, 0))
      return Failure(ErrorKind::UnsupportedOption, "variable '" + program.text(name.name) +
                                                       "' is declared with a dimension of 0, which graphs cannot have");
    result.positions[program.text(name.name)] = static_cast<uint32_t>(result.names.size());
    result.names.push_back({program.text(name.name).str(), mapped(now.first), mapped(now.last)});
  }
  result.origins.ops.push_back(opsOf(*frozen));
  result.graph = std::move(frozen->graph);
  return result;
}

}  // namespace gradc
