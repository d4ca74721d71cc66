// A frozen graph: immutable columns in canonical order, behind a cheap handle.
//
// Nodes are numbered in iterative post-order from the heads (IR-03): inputs left to right, then control dependencies
// left to right. So every id is larger than the ids it depends on, and id order is an execution order. A node with k
// outputs owns k consecutive entries (IR-05).
#pragma once

#include "ir/base/ids.h"
#include "ir/graph/context.h"
#include "ir/graph/graph_table.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <memory>
#include <string>
#include <vector>

namespace gradc {

/// The columns of a graph. Indexed by node unless said otherwise; the CSR columns have one more element than nodes.
struct GraphColumns {
  std::vector<KindId> kinds;         // into kindList
  std::vector<KindRef> kindList;     // each once, in the order of their first nodes
  std::vector<uint32_t> inputBegin;  // into inputs
  std::vector<Value> inputs;
  std::vector<uint32_t> depBegin;  // into deps; empty when no node has a control dependency
  std::vector<NodeId> deps;
  std::vector<uint32_t> entryBegin;  // first entry of the node
  std::vector<uint32_t> nameBegin;   // into names
  std::vector<char> names;
  std::vector<NodeId> origins;  // the user's node a generated node comes from; empty when none is generated
  std::vector<Value> heads;
  bool hasBodies = false;  // whether some node has bodies
};

class Graph {
 public:
  Graph() = default;
  Graph(std::shared_ptr<const GraphColumns> columns, GraphTable table)
      : cols(std::move(columns)), tab(std::make_shared<const GraphTable>(std::move(table))) {}
  /// The graph that `whole` points to, as a handle that keeps `whole` alive.
  static Graph partOf(const std::shared_ptr<const Graph> &whole);

  uint32_t numNodes() const { return static_cast<uint32_t>(cols->kinds.size()); }
  uint32_t numEntries() const { return cols->entryBegin.back(); }

  KindId kindId(NodeId n) const { return cols->kinds[n.value]; }
  const NodeKind &kind(NodeId n) const { return *cols->kindList[kindId(n).value]; }
  const KindRef &kindHandle(NodeId n) const { return cols->kindList[kindId(n).value]; }
  /// The kinds of the nodes, by KindId.
  llvm::ArrayRef<KindRef> kinds() const { return cols->kindList; }
  /// Null for a variable.
  const OpDef *op(NodeId n) const { return kind(n).op; }
  bool isVariable(NodeId n) const { return kind(n).isVariable(); }
  /// As the file spells it; "null" for a variable.
  llvm::StringRef opName(NodeId n) const { return kind(n).spelling; }
  const Attrs &attrs(NodeId n) const { return kind(n).attrs; }
  llvm::StringRef name(NodeId n) const {
    return {cols->names.data() + cols->nameBegin[n.value], cols->nameBegin[n.value + 1] - cols->nameBegin[n.value]};
  }
  llvm::ArrayRef<Value> inputs(NodeId n) const {
    return llvm::ArrayRef(cols->inputs.data() + cols->inputBegin[n.value],
                          cols->inputs.data() + cols->inputBegin[n.value + 1]);
  }
  llvm::ArrayRef<NodeId> controlDeps(NodeId n) const {
    if (cols->depBegin.empty()) return {};
    return llvm::ArrayRef(cols->deps.data() + cols->depBegin[n.value], cols->deps.data() + cols->depBegin[n.value + 1]);
  }
  /// Graphs the node contains: the body of a loop, the branches of a condition, the subgraph that a fused node
  /// replaces.
  llvm::ArrayRef<Graph> bodies(NodeId n) const { return kind(n).bodies; }
  /// The user's node for which a generated node was made; invalid for the user's own nodes.
  NodeId origin(NodeId n) const { return cols->origins.empty() ? NodeId() : cols->origins[n.value]; }

  uint32_t numOutputs(NodeId n) const { return cols->entryBegin[n.value + 1] - cols->entryBegin[n.value]; }
  EntryId firstEntry(NodeId n) const { return EntryId(cols->entryBegin[n.value]); }
  EntryId entry(Value v) const { return EntryId(cols->entryBegin[v.node.value] + v.index); }
  llvm::ArrayRef<Value> heads() const { return cols->heads; }
  const GraphTable &table() const { return *tab; }
  const GraphColumns &columns() const { return *cols; }

  /// The same graph with another table; columns are shared.
  Graph withTable(GraphTable table) const { return Graph(cols, std::move(table)); }

  /// Name a head or entry is listed under (IR-16): `x`, `fc1_output`, `split_output2`.
  std::string listedName(Value v) const;
  /// "node 'fc1' (FullyConnected)", for messages; generated and nameless nodes included.
  std::string describe(NodeId n) const;
  /// Bytes of heap the columns hold, without the kinds, which graphs share.
  size_t heapBytes() const;

  /// Equal columns, names and bodies included, and equal tables, whatever Contexts made them. Linear.
  friend bool operator==(const Graph &a, const Graph &b);

 private:
  std::shared_ptr<const GraphColumns> cols;
  std::shared_ptr<const GraphTable> tab;
};

/// Variables in id order (IR-06): aux are those an operator mutates, args the others.
struct InputLists {
  std::vector<NodeId> args;
  std::vector<NodeId> aux;
};
InputLists listInputs(const Graph &graph);

/// By variable: the first node that reads an entry of it at a mutated position; invalid if there is none. Indexed by
/// node.
std::vector<NodeId> listMutators(const Graph &graph);

}  // namespace gradc
