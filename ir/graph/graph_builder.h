// The only way to make graphs: append nodes, optionally over a frozen base that is not copied, then freeze.
//
// Ids below `base.numNodes()` denote nodes of the base. `freeze` establishes canonical form, once for every reader and
// pass: iterative depth-first search from the heads, unreachable nodes dropped, cycles found, ids renumbered.
// When the heads begin with the base's own, base ids are unchanged: a stable prefix of the result.
#pragma once

#include "ir/base/dense_map.h"
#include "ir/graph/graph.h"
#include "ir/graph/latest_versions.h"

#include "llvm/Support/Error.h"

namespace gradc {

struct NodeSpec {
  llvm::StringRef name;
  Attrs attrs = {};
  NodeId origin = {};  // the user's node this one is generated for
  llvm::ArrayRef<Graph> bodies = {};
};

struct Frozen {
  Graph graph;
  std::vector<NodeId> newId;  // by builder id; invalid for nodes no head reaches

  Value operator()(Value v) const { return Value{newId[v.node.value], v.index, v.version}; }
};

class GraphBuilder {
 public:
  explicit GraphBuilder(Context &context);
  GraphBuilder(Context &context, const Graph &base);

  Context &context() const { return *ctx; }
  void reserve(size_t nodes, size_t inputs, size_t nameBytes);

  Value addVariable(llvm::StringRef name, const Attrs &attrs);
  /// Parses attributes, checks arity (E-42) and output indices (E-48). Variables among the inputs are read at their
  /// latest version, and those the operator overwrites at the next one (IR-08; E-30 where such an input is not a
  /// variable).
  llvm::Expected<NodeId> add(const OpDef &op, llvm::ArrayRef<Value> inputs, const NodeSpec &spec);
  /// The builder's id of an existing kind, or of Context::kind(op, attrs, bodies).
  KindId kindId(const KindRef &kind);
  llvm::Expected<KindId> kindId(const OpDef &op, const Attrs &attrs, llvm::ArrayRef<Graph> bodies = {});
  KindId variableKindId(const Attrs &attrs);
  /// Adopts the kinds of `graph` with their ids; this builder must not have any yet.
  void adoptKinds(const Graph &graph);
  /// Unchecked: the kind and inputs are known to fit. The node starts nameless.
  NodeId addKind(KindId kind, llvm::ArrayRef<Value> inputs, NodeId origin);
  NodeId addKind(const KindRef &kind, llvm::ArrayRef<Value> inputs, NodeId origin) {
    return addKind(kindId(kind), inputs, origin);
  }
  /// A node of an operator that takes no attributes.
  NodeId addKind(const OpDef &op, llvm::ArrayRef<Value> inputs, NodeId origin) {
    return addKind(llvm::cantFail(kindId(op, Attrs())), inputs, origin);
  }
  /// Adds a node of the kind, after a nameless variable for each of its inputs: for trying a rule.
  NodeId addOverVariables(const KindRef &kind);
  /// Sets the name to the concatenation of the parts, at most once per node; nodes in any order.
  void setName(NodeId n, llvm::StringRef part1, llvm::StringRef part2);
  void addControlDep(NodeId n, NodeId dep);
  void setOrigin(NodeId n, NodeId origin);
  /// Replaces input `index` of a node of this builder (not of the base). File readers use it for forward references;
  /// freeze finds a cycle made this way.
  void setInput(NodeId n, size_t index, Value value);
  /// Gives a node of this builder another kind with as many inputs and outputs.
  void setKind(NodeId n, KindId kind) { kinds[n.value - numBase] = kind; }

  uint32_t numNodes() const { return numBase + static_cast<uint32_t>(kinds.size()); }
  const NodeKind &kind(NodeId n) const { return *kindHandle(n); }
  const NodeKind &kind(KindId id) const { return *kindList[id.value]; }
  const KindRef &kindHandle(NodeId n) const { return kindList[kindId(n).value]; }
  KindId kindId(NodeId n) const { return n.value < numBase ? base.kindId(n) : kinds[n.value - numBase]; }
  llvm::ArrayRef<Value> inputs(NodeId n) const;
  llvm::StringRef name(NodeId n) const;
  NodeId origin(NodeId n) const { return n.value < numBase ? base.origin(n) : origins[n.value - numBase]; }
  uint32_t numOutputs(NodeId n) const { return kind(n).numOutputs; }

  /// Makes the graph. Fails on a cycle (E-43), on an output index a node does not have (E-48), and when outputs,
  /// inputs, control dependencies or bytes of names exceed 32 bits (TooLarge).
  llvm::Expected<Frozen> freeze(llvm::ArrayRef<Value> heads, GraphTable table) &&;

 private:
  friend class Freezer;

  Context *ctx;
  Graph base;
  uint32_t numBase = 0;
  std::vector<KindRef> kindList;
  DenseMap<const NodeKind *, uint32_t> kindNumbers;
  DenseMap<std::pair<const OpDef *, const void *>, uint32_t> plainKinds;  // by operator, or null, and Attrs::id
  std::vector<KindId> kinds;
  std::vector<NodeId> origins;
  std::vector<uint32_t> inputBegin = std::vector<uint32_t>(1, 0);
  std::vector<Value> inputList;
  std::vector<uint32_t> nameBegin, nameLength;  // into names
  std::vector<char> names;
  struct Dep {
    NodeId node, dep;
  };
  std::vector<Dep> deps;                   // in the order they were added
  std::optional<LatestVersions> versions;  // from the first `add` on
  bool hasOrigins = false;
};

}  // namespace gradc
