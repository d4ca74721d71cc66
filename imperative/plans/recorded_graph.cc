// Tested by tests/imperative/imperative_order_test.cc
#include "imperative/plans/recorded_graph.h"

#include "imperative/tape/function_op.h"

#include "ir/graph/graph_builder.h"
#include "passes/inference/infer_bodies.h"

#include "ir/base/dense_map.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace gradc {
namespace {

class Recorder {
 public:
  Recorder(Context &context, const TapeShapes &shapes, const Collected &collected, RecordedNames names)
      : ctx(context), shapes(shapes), collected(collected), isFile(names == RecordedNames::Files), builder(context) {}

  Expected<RecordedGraph> run(ArrayRef<uint32_t> headWords) {
    result.computed.resize(collected.numEntries());
    result.leaves.resize(collected.leaves().size());
    if (isFile) listHiddenReads();
    if (isFile) reserveNames();
    for (TapeNode *node : collected.nodes())
      if (Error error = addCall(*node)) return error;
    // Leaves and other values that no call reads are heads or requested, so they need variables.
    for (auto [i, mark] : enumerate(collected.leaves()))
      if (!result.leaves[i].isValid()) result.leaves[i] = addVariable(mark->name, {mark->shape, mark->dtype});
    for (const TapeValue &value : collected.outside())
      result.outside.push_back(addVariable(value.mark ? StringRef(value.mark->name) : "", value.type));
    if (!failure.empty()) return Failure(ErrorKind::AmbiguousName, failure);
    return freeze(headWords);
  }

 private:
  Value addVariable(StringRef name, OperandType type) {
    SmallString<16> number;
    if (name.empty()) {
      if (isFile) do {
          number = ("arg" + Twine(numUnnamed++)).str();
        } while (taken.count(number) || reserved.count(number));
      else number = ("arg" + Twine(numUnnamed++)).str();
      name = number;
    }
    if (isFile && !taken.insert({name, 0}).second && failure.empty())
      failure = ("two tensors of the graph have the name '" + name + "'").str();
    const Value value = builder.addVariable(name, isFile ? notesOf(type) : Attrs());
    variables.push_back({value.node, type});
    return value;
  }

  Attrs notesOf(OperandType type) {
    const std::string shape = toString(shapes[type.shape]), dtype = std::to_string(static_cast<int>(type.dtype));
    return ctx.attrs({{"__shape__", shape}, {"__dtype__", dtype}});
  }

  Value input(const TapeNode &node, const Edge &edge, uint32_t position) {
    const OperandType type = node.signature->inputs[position];
    switch (edge.kind()) {
      case Edge::Kind::Node:
        if (edge.node()) return result.computed[edge.node()->index + edge.output];
        break;  // an earlier backward cut it off
      case Edge::Kind::Leaf: {
        Value &leaf = result.leaves[edge.mark()->index];
        if (!leaf.isValid()) leaf = addVariable(edge.mark()->name, type);
        return leaf;
      }
      case Edge::Kind::Derived:
        if (isFile) return result.computed[edge.node()->index + edge.output];
        break;
      case Edge::Kind::Shape:
        if (isFile) return zeros(type);
        break;
      case Edge::Kind::Untracked:
        if (isFile) return untrackedInput(node, *edge.mark(), position);
        return addVariable(edge.mark()->name, type);
    }
    return addVariable("", type);
  }

  /// A tensor is one variable, also where calls have read it before it was tracked, or where its mark did not count:
  /// there no gradient flows to it.
  Value untrackedInput(const TapeNode &node, Mark &mark, uint32_t position) {
    const bool isLeaf = collected.isLeaf(mark);
    Value &variable = isLeaf ? result.leaves[mark.index] : untracked.try_emplace(&mark).first->second;
    if (!variable.isValid()) variable = addVariable(mark.name, node.signature->inputs[position]);
    if (!isLeaf || node.signature->called->isMutated(position)) return variable;
    const Value blocked = addNode("BlockGrad", variable, Attrs());
    return blocked.isValid() ? blocked : variable;
  }

  /// Something of a shape and type whose contents nothing reads.
  Value zeros(OperandType type) {
    const uint64_t key = uint64_t{type.shape.value} << 8 | static_cast<uint8_t>(type.dtype);
    Value &value = zerosOf.try_emplace(key).first->second;
    if (!value.isValid())
      value =
          addNode("_zeros", {}, ctx.attrs({{"shape", toString(shapes[type.shape])}, {"dtype", dtypeName(type.dtype)}}));
    if (!value.isValid()) value = addVariable("", type);
    return value;
  }

  /// Invalid for an operator that the Context does not have.
  Value addNode(StringRef name, ArrayRef<Value> inputs, const Attrs &attrs) {
    const OpDef *const op = ctx.ops.find(name);
    Expected<NodeId> n = op ? builder.add(*op, inputs, {"", attrs, NodeId()}) : NodeId();
    if (!n) return consumeError(n.takeError()), Value();
    if (n->isValid()) builder.setName(*n, nameOf(name), "");
    return Value{*n};
  }

  std::string nameOf(const TapeNode &node) {
    const NodeKind &kind = *node.signature->handle;
    const StringRef op = isHostCode(*kind.op) ? kind.spelling : kind.op->name;
    return isFile ? nameOf(op) : (op + "#" + Twine(node.call)).str();
  }

  /// The next free one in a file.
  std::string nameOf(StringRef op) {
    std::string name;
    do {
      name = (op.ltrim('_').lower() + Twine(numOf[op]++)).str();
    } while (reserved.count(name) || !taken.insert({name, 0}).second);
    return name;
  }

  /// Those that the host gave to tensors.
  void reserveNames() {
    for (const Mark *mark : collected.leaves()) reserved.insert(mark->name);
    for (TapeNode *node : collected.nodes())
      for (const Edge &edge : node->edges())
        if (edge.kind() == Edge::Kind::Untracked) reserved.insert(edge.mark()->name);
  }

  /// The version that the first reader of a value has to read.
  static uint32_t firstVersion(const Edge &edge) {
    if (!edge.isOfNode() || edge.node()->isInto) return edge.version;
    const int32_t shared = edge.node()->signature->outputs[edge.output].sharedInput;
    return shared < 0 ? 0 : edge.node()->edges()[static_cast<size_t>(shared)].version;
  }

  /// E-31 if a tensor was overwritten after a call had computed or read it, for a graph has one value for both. What
  /// the calls overwrite themselves has versions in the graph.
  Error checkVersions(TapeNode &node) {
    for (auto [i, edge] : enumerate(node.edges())) {
      if (edge.kind() == Edge::Kind::Shape) continue;
      const uint64_t key =
          edge.isOfNode() ? uint64_t{edge.node()->index + edge.output} : reinterpret_cast<uint64_t>(edge.mark());
      const auto [at, isNew] = versionOf.try_emplace(key, firstVersion(edge));
      if (node.signature->called->isMutated(static_cast<uint32_t>(i))) at->second = edge.version + 1;
      else if (at->second != edge.version)
        return Failure(ErrorKind::StaleVersion,
                       "input '" + inputName(*node.signature->called, static_cast<uint32_t>(i)) + "' of call " +
                           Twine(node.call) + " of operator '" + node.signature->called->spelling +
                           "' was overwritten after an earlier call had " + (isNew ? "computed" : "read") +
                           " it: no graph has both values");
    }
    return Error::success();
  }

  /// Values that bodies yield for gradients are in a file only if a recorded gradient reads them.
  void listHiddenReads() {
    for (TapeNode *node : collected.nodes())
      for (const Edge &edge : node->edges())
        if (edge.kind() == Edge::Kind::Node && edge.node() && edge.output >= edge.node()->signature->called->numOutputs)
          readInside.insert(edge.node());
  }

  Error addCall(TapeNode &node) {
    const Signature &signature = *node.signature;
    const KindRef &kind = isFile && !readInside.contains(&node) ? signature.called : signature.handle;
    if (isFile && signature.isHostCode)
      return Failure(ErrorKind::UnknownOp, "call " + Twine(node.call) + ", function '" + signature.handle->spelling +
                                               "', is code of the host, which no graph holds");
    if (isFile)
      if (Error error = checkVersions(node)) return error;
    SmallVector<Value, 8> inputs;
    for (auto [i, edge] : enumerate(node.edges())) inputs.push_back(input(node, edge, static_cast<uint32_t>(i)));
    NodeId n;
    if (isFile && !signature.mutated.empty()) {
      Expected<NodeId> added = builder.add(*kind->op, inputs, {"", kind->attrs, NodeId(), kind->bodies});
      if (!added) return added.takeError();
      n = *added;
    } else {
      n = builder.addKind(kind, inputs, NodeId());
    }
    builder.setName(n, nameOf(node), "");
    if (node.forward) builder.addControlDep(n, result.computed[node.forward->index].node);
    result.calls.push_back(n);
    for (uint32_t o = 0; o < kind->numOutputs; ++o) result.computed[node.index + o] = {n, static_cast<uint16_t>(o), 0};
    return Error::success();
  }

  Expected<RecordedGraph> freeze(ArrayRef<uint32_t> headWords) {
    SmallVector<Value, 8> heads;
    DenseSet<std::pair<uint32_t, uint32_t>> listed;
    for (uint32_t word : headWords) {
      const Value value = result(word);
      if (listed.insert({value.node.value, value.index}).second || isFile) heads.push_back(value);
    }
    for (Value value : result.outside) heads.push_back(value);
    Expected<Frozen> frozen = std::move(builder).freeze(heads, {});
    if (!frozen) return frozen.takeError();
    result.graph = frozen->graph;
    for (std::vector<Value> *list : {&result.computed, &result.leaves, &result.outside})
      for (Value &value : *list)
        if (value.isValid()) value = (*frozen)(value);
    for (NodeId &n : result.calls) n = frozen->newId[n.value];
    if (isFile) return std::move(result);
    if (Error error = note(*frozen)) return error;
    return std::move(result);
  }

  /// Notes the shapes and types that the calls determined.
  Error note(const Frozen &frozen) {
    auto table = std::make_shared<ShapeTable>();
    Inference &inference = result.inference;
    inference.shape = EntryMap<ShapeId>(result.graph, kUnknownShape);
    inference.dtype = EntryMap<DType>(result.graph, DType::Unknown);
    inference.storage = EntryMap<StorageKind>(result.graph, StorageKind::Dense);
    DenseMap<uint32_t, ShapeId> known;
    auto set = [&](EntryId e, OperandType type) {
      auto [at, isNew] = known.try_emplace(type.shape.value, ShapeId());
      if (isNew) at->second = *table->intern(shapes[type.shape].dims());
      inference.shape[e] = at->second;
      inference.dtype[e] = type.dtype;
    };
    for (auto [n, type] : variables)
      if (const NodeId now = frozen.newId[n.value]; now.isValid()) set(result.graph.firstEntry(now), type);
    for (auto [i, node] : enumerate(collected.nodes())) {
      if (!result.calls[i].isValid()) continue;
      const uint32_t first = result.graph.firstEntry(result.calls[i]).value;
      for (auto [o, output] : enumerate(node->signature->outputs))
        set(EntryId(first + static_cast<uint32_t>(o)), output.type);
    }
    inference.shapes = table;
    return inferBodies(ctx, result.graph, table, inference);
  }

  Context &ctx;
  const TapeShapes &shapes;
  const Collected &collected;
  const bool isFile;
  GraphBuilder builder;
  RecordedGraph result;
  std::vector<std::pair<NodeId, OperandType>> variables;
  DenseMap<const Mark *, Value> untracked;  // in files
  DenseMap<uint64_t, Value> zerosOf;        // by shape and type, in files
  DenseSet<const TapeNode *> readInside;
  StringMap<uint32_t> numOf;               // calls of an operator so far
  DenseMap<uint64_t, uint32_t> versionOf;  // of what was read, by number or mark, in files
  StringMap<char> taken;                   // names, in files
  StringSet<> reserved;                    // names of tensors, in files
  uint32_t numUnnamed = 0;
  std::string failure;
};

}  // namespace

Expected<RecordedGraph> recordedGraph(Context &context, const TapeShapes &shapes, const Collected &collected,
                                      ArrayRef<uint32_t> heads, RecordedNames names) {
  return Recorder(context, shapes, collected, names).run(heads);
}

Error checkForms(const Collected &collected) {
  const TapeNode *first[2] = {};  // by form, of the calls that depend on it
  for (const TapeNode *node : collected.nodes()) {
    const TapeNode *&of = first[node->signature->isTraining];
    if (!of && node->signature->handle->readsForm) of = node;
  }
  if (!first[0] || !first[1]) return Error::success();
  return Failure(ErrorKind::UnsupportedOption, describe(*first[1]) + " ran in training form and " +
                                                   describe(*first[0]) +
                                                   " in predict form: a graph is run in one of them")
      .note("make a graph of each part, or record all of it in one form");
}

}  // namespace gradc
