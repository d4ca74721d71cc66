// Sweeps over the nodes and counting sorts. Tested by tests/passes/order_mutation_test.cc
#include "passes/order/variable_accesses.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"

#include <tuple>

using namespace llvm;

namespace gradc {
namespace {

/// Stable; keys are below `numKeys`.
template <class Row, class Key> void sortByKey(std::vector<Row> &rows, size_t numKeys, Key key) {
  std::vector<uint32_t> begin(numKeys + 1, 0);
  for (const Row &row : rows) ++begin[key(row) + 1];
  for (size_t k = 1; k <= numKeys; ++k) begin[k] += begin[k - 1];
  std::vector<Row> sorted(rows.size());
  for (const Row &row : rows) sorted[begin[key(row)]++] = row;
  rows = std::move(sorted);
}

/// `Nodes` is a Graph or a GraphBuilder.
template <class Nodes> class AccessLister {
 public:
  explicit AccessLister(const Nodes &nodes) : nodes(nodes), numNodes(nodes.numNodes()) {}

  std::vector<VariableAccess> run() {
    if (!findWrites()) return {};
    for (uint32_t n = 0; n < numNodes; ++n) list(NodeId(n));
    uint32_t latest = 0;
    for (const VariableAccess &row : rows) latest = std::max(latest, row.version);
    sortByKey(rows, 2 * size_t{latest} + 2, [](const VariableAccess &row) { return 2 * row.version + !row.isWrite; });
    sortByKey(rows, numNodes, [](const VariableAccess &row) { return row.variable.value; });
    rows.erase(std::unique(rows.begin(), rows.end(), isRepeated), rows.end());
    return std::move(rows);
  }

 private:
  struct Write {
    NodeId variable, node;
  };

  static bool isRepeated(const VariableAccess &a, const VariableAccess &b) {
    return std::tie(a.variable, a.version, a.isWrite, a.spelled, a.node) ==
           std::tie(b.variable, b.version, b.isWrite, b.spelled, b.node);
  }

  bool isOverwritten(Value v) const { return overwritten[v.node.value]; }

  // Writes by variable, then by node; false when there are none.
  bool findWrites() {
    for (uint32_t n = 0; n < numNodes; ++n) {
      const NodeKind &kind = nodes.kind(NodeId(n));
      if (kind.mutated.isEmpty()) continue;
      ArrayRef<Value> inputs = nodes.inputs(NodeId(n));
      for (size_t i = 0; i < inputs.size(); ++i)
        if (kind.isMutated(i)) writes.push_back({inputs[i].node, NodeId(n)});
    }
    if (writes.empty()) return false;
    sortByKey(writes, numNodes, [](const Write &write) { return write.variable.value; });
    overwritten.resize(numNodes);
    numbered.resize(numNodes);
    for (const Write &write : writes) overwritten.set(write.variable.value);
    for (uint32_t n = 0; n < numNodes; ++n)
      for (Value v : nodes.inputs(NodeId(n)))
        if (v.version && isOverwritten(v)) numbered.set(v.node.value);
    return true;
  }

  // The number of writes to the variable by nodes with smaller ids.
  uint32_t writesBefore(NodeId variable, NodeId node) const {
    auto isLess = [](const Write &a, const Write &b) {
      return std::tie(a.variable, a.node) < std::tie(b.variable, b.node);
    };
    auto first = llvm::lower_bound(writes, Write{variable, NodeId(0)}, isLess);
    return static_cast<uint32_t>(llvm::lower_bound(writes, Write{variable, node}, isLess) - first);
  }

  uint32_t versionWritten(NodeId n, Value v) const {
    return numbered[v.node.value] ? std::max<uint32_t>(v.version, 1) : writesBefore(v.node, n) + 1;
  }

  uint32_t versionRead(NodeId n, Value v) const {
    NodeId origin = nodes.origin(n);
    if (!numbered[v.node.value]) return writesBefore(v.node, origin.isValid() ? origin : n);
    if (!origin.isValid() || nodes.kind(origin).mutated.isEmpty()) return v.version;
    ArrayRef<Value> inputs = nodes.inputs(origin);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (nodes.kind(origin).isMutated(i) && inputs[i] == v) return versionWritten(origin, v) - 1;
    return v.version;
  }

  void list(NodeId n) {
    const NodeKind &kind = nodes.kind(n);
    ArrayRef<Value> inputs = nodes.inputs(n);
    for (size_t i = 0; i < inputs.size(); ++i) {
      Value v = inputs[i];
      if (!isOverwritten(v) || (kind.isIgnored(i) && !kind.isMutated(i))) continue;
      uint32_t version = kind.isMutated(i) ? versionWritten(n, v) : versionRead(n, v);
      rows.push_back({v.node, version, kind.isMutated(i), v.version, n});
    }
  }

  const Nodes &nodes;
  const uint32_t numNodes;
  std::vector<Write> writes;
  BitVector overwritten;  // variables that some node overwrites
  BitVector numbered;     // those of them that some input has at a version other than 0
  std::vector<VariableAccess> rows;
};

}  // namespace

std::vector<VariableAccess> listAccesses(const Graph &graph) { return AccessLister<Graph>(graph).run(); }
std::vector<VariableAccess> listAccesses(const GraphBuilder &builder) {
  return AccessLister<GraphBuilder>(builder).run();
}

}  // namespace gradc
