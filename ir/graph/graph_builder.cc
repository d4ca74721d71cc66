// Appending nodes, and `Freezer`, the one place that renumbers. Tested by tests/ir/graph_builder_test.cc
#include "ir/graph/graph_builder.h"

#include "ir/base/error.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/STLExtras.h"

#include <functional>

using namespace llvm;

namespace gradc {

GraphBuilder::GraphBuilder(Context &context) : ctx(&context) {}

GraphBuilder::GraphBuilder(Context &context, const Graph &base) : ctx(&context), base(base), numBase(base.numNodes()) {
  adoptKinds(base);
}

void GraphBuilder::adoptKinds(const Graph &graph) {
  assert(kindList.empty() && "numbers would change");
  kindList = graph.columns().kindList;
  for (uint32_t id = 0; id < kindList.size(); ++id) kindNumbers[kindList[id].get()] = id;
}

// A kind keeps its attribute list alive, so the list's address identifies it for the lifetime of this builder.
KindId GraphBuilder::variableKindId(const Attrs &attrs) {
  const std::pair<const OpDef *, const void *> key(nullptr, attrs.id());
  if (auto known = plainKinds.find(key); known != plainKinds.end()) return KindId(known->second);
  const KindId id = kindId(ctx->variableKind(attrs));
  if (kind(id).attrs.id() == attrs.id()) plainKinds[key] = id.value;
  return id;
}

KindId GraphBuilder::kindId(const KindRef &kind) {
  auto [at, isNew] = kindNumbers.try_emplace(kind.get(), static_cast<uint32_t>(kindList.size()));
  if (isNew) kindList.push_back(kind);
  return KindId(at->second);
}

Expected<KindId> GraphBuilder::kindId(const OpDef &op, const Attrs &attrs, ArrayRef<Graph> bodies) {
  const std::pair<const OpDef *, const void *> key(&op, attrs.id());
  if (bodies.empty())
    if (auto known = plainKinds.find(key); known != plainKinds.end()) return KindId(known->second);
  Expected<KindRef> kind = ctx->kind(op, attrs, bodies);
  if (!kind) return kind.takeError();
  const KindId id = kindId(*kind);
  if (bodies.empty() && this->kind(id).attrs.id() == attrs.id()) plainKinds[key] = id.value;
  return id;
}

void GraphBuilder::reserve(size_t nodes, size_t inputs, size_t nameBytes) {
  kinds.reserve(nodes);
  origins.reserve(nodes);
  inputBegin.reserve(nodes + 1);
  inputList.reserve(inputs);
  nameBegin.reserve(nodes);
  nameLength.reserve(nodes);
  names.reserve(nameBytes);
}

ArrayRef<Value> GraphBuilder::inputs(NodeId n) const {
  if (n.value < numBase) return base.inputs(n);
  uint32_t own = n.value - numBase;
  return ArrayRef(inputList.data() + inputBegin[own], inputList.data() + inputBegin[own + 1]);
}

StringRef GraphBuilder::name(NodeId n) const {
  if (n.value < numBase) return base.name(n);
  return {names.data() + nameBegin[n.value - numBase], nameLength[n.value - numBase]};
}

NodeId GraphBuilder::addKind(KindId kind, ArrayRef<Value> inputs, NodeId origin) {
  kinds.push_back(kind);
  origins.push_back(origin);
  hasOrigins |= origin.isValid();
  inputList.insert(inputList.end(), inputs.begin(), inputs.end());
  inputBegin.push_back(static_cast<uint32_t>(inputList.size()));
  nameBegin.push_back(0);
  nameLength.push_back(0);
  return NodeId(numNodes() - 1);
}

void GraphBuilder::setName(NodeId n, StringRef part1, StringRef part2) {
  uint32_t own = n.value - numBase;
  nameBegin[own] = static_cast<uint32_t>(names.size());
  nameLength[own] = static_cast<uint32_t>(part1.size() + part2.size());
  // The parts may point into `names`, which resizing moves.
  const size_t size = names.size();
  auto offsetOf = [&](StringRef part) {
    const bool isOwn = !std::less<>()(part.data(), names.data()) && std::less<>()(part.data(), names.data() + size);
    return isOwn ? std::optional<size_t>(part.data() - names.data()) : std::nullopt;
  };
  const std::optional<size_t> offset1 = offsetOf(part1), offset2 = offsetOf(part2);
  names.resize(size + part1.size() + part2.size());
  char *at = names.data() + size;
  std::copy_n(offset1 ? names.data() + *offset1 : part1.data(), part1.size(), at);
  std::copy_n(offset2 ? names.data() + *offset2 : part2.data(), part2.size(), at + part1.size());
}

Value GraphBuilder::addVariable(StringRef name, const Attrs &attrs) {
  NodeId n = addKind(variableKindId(attrs), {}, NodeId());
  setName(n, name, "");
  return Value{n};
}

NodeId GraphBuilder::addOverVariables(const KindRef &kind) {
  SmallVector<Value, 8> inputs;
  for (uint32_t i = 0; i < kind->numInputs; ++i) inputs.push_back(addVariable("", Attrs()));
  return addKind(kind, inputs, NodeId());
}

Expected<NodeId> GraphBuilder::add(const OpDef &op, ArrayRef<Value> inputs, const NodeSpec &spec) {
  Expected<KindId> id = kindId(op, spec.attrs, spec.bodies);
  if (!id)
    return amend(id.takeError(),
                 [&](GradcError &info) { info.message += " " + describeAttrs(op.name, spec.name, spec.attrs); });
  const NodeKind &kind = this->kind(*id);
  if (kind.numInputs != inputs.size() && kind.numInputs != NodeKind::kAnyInputs)
    return Failure(ErrorKind::Arity, "node '" + spec.name + "': operator '" + op.name + "' takes " +
                                         countOf(kind.numInputs, "input") + ", got " + Twine(inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].index >= numOutputs(inputs[i].node))
      return Failure(ErrorKind::BadEntry, "input " + Twine(i) + " of node '" + spec.name + "' is output " +
                                              Twine(inputs[i].index) + " of node '" + name(inputs[i].node) +
                                              "', which has " + Twine(numOutputs(inputs[i].node)));
  if (!versions) versions.emplace(numBase ? &base : nullptr);
  SmallVector<Value, 8> refreshed;
  if (versions->affects(kind)) {
    refreshed.assign(inputs.begin(), inputs.end());
    if (Error error = versions->refresh(*this, spec.name, kind, refreshed)) return error;
    inputs = refreshed;
  }
  NodeId n = addKind(*id, inputs, spec.origin);
  setName(n, spec.name, "");
  return n;
}

void GraphBuilder::addControlDep(NodeId n, NodeId dep) {
  assert(n.value >= numBase && "nodes of the base are frozen");
  deps.push_back({n, dep});
}

void GraphBuilder::setOrigin(NodeId n, NodeId origin) {
  assert(n.value >= numBase && "nodes of the base are frozen");
  origins[n.value - numBase] = origin;
  hasOrigins |= origin.isValid();
}

void GraphBuilder::setInput(NodeId n, size_t index, Value value) {
  assert(n.value >= numBase && "nodes of the base are frozen");
  inputList[inputBegin[n.value - numBase] + index] = value;
}

/// Turns a builder and its heads into columns. Phases: control deps as CSR, order, copy.
class Freezer {
 public:
  Freezer(GraphBuilder &&builder, ArrayRef<Value> heads) : b(std::move(builder)), heads(heads) {}

  Expected<Frozen> run(GraphTable table) {
    keepsBase =
        b.numBase && heads.size() >= b.base.heads().size() && heads.take_front(b.base.heads().size()) == b.base.heads();
    indexDeps();
    if (Error error = computeOrder()) return error;
    if (Error error = copyColumns()) return error;
    if (Error error = checkOutputIndices()) return error;
    Frozen frozen;
    frozen.graph = Graph(std::move(columns), std::move(table));
    frozen.newId = std::move(newId);
    return frozen;
  }

 private:
  static constexpr uint32_t kOnStack = NodeId::kNone - 1;
  struct Frame {
    uint32_t node;
    uint32_t nextChild;
  };

  // A counting sort by node keeps the order in which dependencies were added.
  void indexDeps() {
    if (b.deps.empty()) return;
    depBegin.assign(b.kinds.size() + 1, 0);
    for (const GraphBuilder::Dep &dep : b.deps) ++depBegin[dep.node.value - b.numBase + 1];
    for (size_t i = 1; i < depBegin.size(); ++i) depBegin[i] += depBegin[i - 1];
    depList.resize(b.deps.size());
    std::vector<uint32_t> next(depBegin.begin(), depBegin.end() - 1);
    for (const GraphBuilder::Dep &dep : b.deps) depList[next[dep.node.value - b.numBase]++] = dep.dep;
  }

  ArrayRef<NodeId> depsOf(uint32_t n) const {
    if (n < b.numBase) return b.base.controlDeps(NodeId(n));
    if (depBegin.empty()) return {};
    uint32_t own = n - b.numBase;
    return ArrayRef(depList.data() + depBegin[own], depList.data() + depBegin[own + 1]);
  }

  Error computeOrder() {
    newId.assign(b.numNodes(), NodeId());
    if (keepsBase) {
      for (uint32_t n = 0; n < b.numBase; ++n) newId[n] = NodeId(n);
      numNodes = b.numBase;
    }
    order.reserve(b.numNodes() - numNodes);
    for (Value head : heads)
      if (Error error = visit(head.node.value)) return error;
    return Error::success();
  }

  Error visit(uint32_t root) {
    if (newId[root].isValid()) return Error::success();
    newId[root] = NodeId(kOnStack);
    stack.push_back({root, 0});
    while (!stack.empty()) {
      uint32_t node = stack.back().node, child = NodeId::kNone;
      ArrayRef<Value> inputs = b.inputs(NodeId(node));
      ArrayRef<NodeId> deps = depsOf(node);
      uint32_t next = stack.back().nextChild;
      for (; next < inputs.size() + deps.size(); ++next) {
        child = next < inputs.size() ? inputs[next].node.value : deps[next - inputs.size()].value;
        if (newId[child].value >= kOnStack) break;
      }
      if (next == inputs.size() + deps.size()) {
        newId[node] = NodeId(numNodes++);
        order.push_back(node);
        stack.pop_back();
        continue;
      }
      if (newId[child].value == kOnStack) return cycleAt(child);
      stack.back().nextChild = next + 1;
      newId[child] = NodeId(kOnStack);
      stack.push_back({child, 0});
    }
    return Error::success();
  }

  Error cycleAt(uint32_t start) {
    constexpr size_t kListed = 10;
    auto first = llvm::find_if(stack, [&](const Frame &frame) { return frame.node == start; });
    size_t length = static_cast<size_t>(stack.end() - first);
    std::string path;
    for (size_t i = 0; i < std::min(length, kListed); ++i) path += "'" + b.name(NodeId(first[i].node)).str() + "' -> ";
    if (length > kListed) path += "… " + std::to_string(length - kListed) + " more … -> ";
    return Failure(ErrorKind::Cycle, "the graph has a cycle: " + path + "'" + b.name(NodeId(start)) + "'")
        .at(NodeId(start));
  }

  void copyBase() {
    const GraphColumns &from = b.base.columns();
    columns->kinds = from.kinds;
    columns->kindList = from.kindList;
    columns->inputBegin = from.inputBegin;
    columns->inputs = from.inputs;
    columns->entryBegin = from.entryBegin;
    columns->nameBegin = from.nameBegin;
    columns->names = from.names;
    if (hasDeps) {
      columns->depBegin = from.depBegin;
      columns->depBegin.resize(b.numBase + 1, 0);
      columns->deps = from.deps;
    }
    if (hasOrigins) {
      columns->origins = from.origins;
      columns->origins.resize(b.numBase);
    }
    columns->hasBodies = from.hasBodies;
  }

  // Columns and the builder hold 32-bit numbers.
  Error checkCount(uint64_t count, const Twine &what) const {
    constexpr uint64_t kLimit = 0xfffffff0;
    if (count <= kLimit) return Error::success();
    return Failure(ErrorKind::TooLarge,
                   "the graph would have " + Twine(count) + " " + what + ", more than " + Twine(kLimit));
  }

  Error reserveColumns() {
    size_t numInputs = 0, nameBytes = 0;
    uint64_t numEntries = columns->entryBegin.back();
    for (uint32_t n : order) {
      numInputs += b.inputs(NodeId(n)).size();
      nameBytes += b.name(NodeId(n)).size();
      numEntries += b.numOutputs(NodeId(n));
    }
    if (Error error = checkCount(numEntries, "outputs of nodes")) return error;
    if (Error error = checkCount(std::max(columns->inputs.size() + numInputs, b.inputList.size()), "inputs of nodes"))
      return error;
    if (Error error = checkCount(std::max(columns->names.size() + nameBytes, b.names.size()), "bytes of names"))
      return error;
    if (Error error = checkCount(columns->deps.size() + b.deps.size(), "control dependencies")) return error;
    columns->kinds.reserve(numNodes);
    columns->inputBegin.reserve(numNodes + 1);
    columns->inputs.reserve(columns->inputs.size() + numInputs);
    columns->entryBegin.reserve(numNodes + 1);
    columns->nameBegin.reserve(numNodes + 1);
    columns->names.reserve(columns->names.size() + nameBytes);
    if (hasDeps) columns->depBegin.reserve(numNodes + 1);
    if (hasOrigins) columns->origins.reserve(numNodes);
    return Error::success();
  }

  Error copyColumns() {
    columns = std::make_shared<GraphColumns>();
    const bool hasBase = b.numBase != 0;
    hasDeps = !b.deps.empty() || (hasBase && !b.base.columns().depBegin.empty());
    hasOrigins = b.hasOrigins || (hasBase && !b.base.columns().origins.empty());
    GraphColumns &c = *columns;
    c.inputBegin = c.entryBegin = c.nameBegin = {0};
    if (hasDeps) c.depBegin = {0};
    if (keepsBase) copyBase();
    if (Error error = reserveColumns()) return error;
    newKind.assign(b.kindList.size(), KindId());
    for (uint32_t id = 0; id < c.kindList.size(); ++id) newKind[id] = KindId(id);
    for (uint32_t n : order) copyNode(n);
    for (Value head : heads) c.heads.push_back(renumber(head));
    // A column without content is dropped, so that equal graphs compare equal however they were made.
    if (c.deps.empty()) c.depBegin = {};
    if (llvm::none_of(c.origins, [](NodeId origin) { return origin.isValid(); })) c.origins = {};
    return Error::success();
  }

  // Kinds without a node are left out.
  KindId renumber(KindId id) {
    KindId &number = newKind[id.value];
    if (!number.isValid()) {
      number = KindId(static_cast<uint32_t>(columns->kindList.size()));
      columns->kindList.push_back(b.kindList[id.value]);
    }
    return number;
  }

  Value renumber(Value v) const { return Value{newId[v.node.value], v.index, v.version}; }

  void copyNode(uint32_t n) {
    GraphColumns &c = *columns;
    NodeId id(n);
    c.kinds.push_back(renumber(b.kindId(id)));
    for (Value input : b.inputs(id)) c.inputs.push_back(renumber(input));
    c.inputBegin.push_back(static_cast<uint32_t>(c.inputs.size()));
    c.entryBegin.push_back(c.entryBegin.back() + b.numOutputs(id));
    c.hasBodies |= b.kind(id).nesting != 0;
    StringRef name = b.name(id);
    c.names.insert(c.names.end(), name.begin(), name.end());
    c.nameBegin.push_back(static_cast<uint32_t>(c.names.size()));
    if (hasDeps) {
      for (NodeId dep : depsOf(n)) c.deps.push_back(newId[dep.value]);
      c.depBegin.push_back(static_cast<uint32_t>(c.deps.size()));
    }
    if (hasOrigins) {
      // An origin that no head reaches is lost. In every emitted graph the heads reach all forward nodes.
      NodeId origin = b.origin(id);
      c.origins.push_back(origin.isValid() ? newId[origin.value] : NodeId());
    }
  }

  Error badEntry(Value v, const Twine &reader) const {
    const GraphColumns &c = *columns;
    NodeId old = order.empty() || v.node.value < (keepsBase ? b.numBase : 0)
                     ? v.node
                     : NodeId(order[v.node.value - (keepsBase ? b.numBase : 0)]);
    return Failure(ErrorKind::BadEntry, reader + " is output " + Twine(v.index) + " of node '" + b.name(old) +
                                            "', which has " +
                                            Twine(c.entryBegin[v.node.value + 1] - c.entryBegin[v.node.value]))
        .at(old);
  }

  Error checkOutputIndices() const {
    const GraphColumns &c = *columns;
    auto isBad = [&](Value v) { return v.index >= c.entryBegin[v.node.value + 1] - c.entryBegin[v.node.value]; };
    uint32_t first = keepsBase ? b.numBase : 0;
    for (uint32_t n = first; n < numNodes; ++n)
      for (uint32_t i = c.inputBegin[n]; i < c.inputBegin[n + 1]; ++i)
        if (isBad(c.inputs[i]))
          return badEntry(c.inputs[i], "input " + Twine(i - c.inputBegin[n]) + " of node '" +
                                           b.name(NodeId(order[n - first])) + "'");
    for (size_t i = 0; i < c.heads.size(); ++i)
      if (isBad(c.heads[i])) return badEntry(c.heads[i], "head " + Twine(i));
    return Error::success();
  }

  GraphBuilder b;
  ArrayRef<Value> heads;
  bool keepsBase = false, hasDeps = false, hasOrigins = false;
  std::vector<uint32_t> depBegin;  // by own node, into depList
  std::vector<NodeId> depList;
  std::vector<NodeId> newId;    // by builder id
  std::vector<KindId> newKind;  // by builder kind id
  std::vector<uint32_t> order;  // builder ids in their new order, kept base nodes left out
  uint32_t numNodes = 0;
  std::vector<Frame> stack;
  std::shared_ptr<GraphColumns> columns;
};

Expected<Frozen> GraphBuilder::freeze(ArrayRef<Value> heads, GraphTable table) && {
  return Freezer(std::move(*this), heads).run(std::move(table));
}

}  // namespace gradc
