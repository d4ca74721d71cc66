// Lists permuted, ids renamed. Tested by tests/ir/graph_table_test.cc
#include "ir/graph/graph_table.h"

#include "ir/base/dense_map.h"
#include "ir/graph/graph.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

class Remapping {
 public:
  Remapping(GraphTable &table, const Renumbering &renumbering, const Graph &graph)
      : table(table), old(renumbering), graph(graph), numNodes(old.entryBegin.size() - 1),
        numEntries(old.entryBegin.back()) {}

  std::vector<std::string> run() {
    renameGradients();
    renamePairs();
    renameConstants();
    permuteLists();
    dropMalformed();
    llvm::sort(dropped);
    return std::move(dropped);
  }

 private:
  /// Positions in a list of the old graph, by position in a list of the new one.
  struct Permutation {
    std::vector<uint32_t> from;
    bool isWhole = true;  // false: some new node or entry has no element in the old list
  };

  /// Invalid if the new graph has no counterpart.
  Value valueOf(Value v) const {
    if (!v.isValid()) return v;
    if (!old.newValue.empty()) return old.newValue[old.entryBegin[v.node.value] + v.index];
    const NodeId n = old.newId[v.node.value];
    return n.isValid() && v.index < graph.numOutputs(n) ? Value{n, v.index, 0} : Value();
  }

  // If other nodes replaced the node, its output may now belong to any of them, or to none.
  void renameGradients() {
    if (!table.gradient) return;
    for (GradientTable::Head &head : table.gradient->heads) {
      if (!head.ofNode.isValid()) continue;
      const uint32_t from = head.ofNode.value;
      head.ofNode = old.newId[from];
      if (old.newValue.empty() || head.ofIndex >= old.entryBegin[from + 1] - old.entryBegin[from]) continue;
      const Value x = old.newValue[old.entryBegin[from] + head.ofIndex];
      head.ofNode = x.isValid() ? x.node : NodeId();
      head.ofIndex = x.isValid() ? x.index : 0;
    }
  }

  void renamePairs() {
    llvm::erase_if(table.headPairs, [&](HeadPair &pair) {
      const bool hadSeed = pair.seed.isValid();
      pair.y = valueOf(pair.y), pair.seed = valueOf(pair.seed);
      return !pair.y.isValid() || pair.seed.isValid() != hadSeed;
    });
  }

  void renameConstants() {
    DenseSet<uint32_t> seen;
    llvm::erase_if(table.constants, [&](Value &v) {
      v = valueOf(v);
      return !v.isValid() || graph.isVariable(v.node) || !seen.insert(graph.entry(v).value).second;
    });
  }

  Permutation nodePermutation() const {
    Permutation plan{std::vector<uint32_t>(graph.numNodes(), NodeId::kNone)};
    for (uint32_t from = 0; from < numNodes; ++from)
      if (const NodeId n = old.newId[from]; n.isValid()) plan.from[n.value] = from;
    plan.isWhole = !is_contained(plan.from, NodeId::kNone);
    return plan;
  }

  Permutation entryPermutation() const {
    Permutation plan{std::vector<uint32_t>(graph.numEntries(), NodeId::kNone)};
    for (uint32_t from = 0; from < numNodes; ++from) {
      const NodeId n = old.newId[from];
      if (!n.isValid()) continue;
      const uint32_t first = old.entryBegin[from], count = old.entryBegin[from + 1] - first;
      for (uint32_t i = 0; i < std::min(count, graph.numOutputs(n)); ++i)
        plan.from[graph.firstEntry(n).value + i] = first + i;
    }
    plan.isWhole = !is_contained(plan.from, NodeId::kNone);
    return plan;
  }

  template <class T> static void permute(std::vector<T> &list, const Permutation &plan) {
    if (list.empty()) return;
    std::vector<T> moved;
    moved.reserve(plan.from.size());
    for (uint32_t position : plan.from) moved.push_back(list[position]);
    list = std::move(moved);
  }

  template <class T> void permuteNotes(std::vector<T> &list, const char *name) {
    if (list.empty()) return;
    if (!entryPlan) entryPlan = entryPermutation();
    if (entryPlan->isWhole) return permute(list, *entryPlan);
    list.clear();
    dropped.push_back(name);
  }

  // It is unknown which nodes these attributes describe, and after renumbering they might fit by accident.
  void dropMalformed() {
    for (const auto &[key, attr] : table.malformed) dropped.push_back(key);
    table.malformed.clear();
    table.gradientFault.clear();
  }

  void permuteLists() {
    permuteNotes(table.entries.shapes, "shape");
    permuteNotes(table.entries.shapeKnown, "shape_known");
    permuteNotes(table.entries.dtypes, "dtype");
    permuteNotes(table.entries.storages, "storage_type");
    if (table.plan) {
      permuteNotes(table.plan->places, "plan");
      if (table.plan->places.empty()) table.plan.reset();
    }
    for (auto at = table.others.begin(); at != table.others.end();) {
      if (isCarried(at->second)) {
        ++at;
        continue;
      }
      dropped.push_back(at->first);
      at = table.others.erase(at);
    }
  }

  // A list with as many elements as there were entries, or nodes, is taken to describe them.
  bool isCarried(GraphAttr &attr) {
    const size_t length = std::max({attr.numbers.size(), attr.texts.size(), attr.shapes.size()});
    if (length == 0 || (length != numEntries && length != numNodes)) return true;
    std::optional<Permutation> &plan = length == numEntries ? entryPlan : nodePlan;
    if (!plan) plan = length == numEntries ? entryPermutation() : nodePermutation();
    if (!plan->isWhole) return false;
    permute(attr.numbers, *plan);
    permute(attr.texts, *plan);
    permute(attr.shapes, *plan);
    return true;
  }

  GraphTable &table;
  const Renumbering &old;
  const Graph &graph;
  const size_t numNodes, numEntries;
  std::optional<Permutation> nodePlan, entryPlan;
  std::vector<std::string> dropped;
};

}  // namespace

std::vector<std::string> remap(GraphTable &table, const Renumbering &renumbering, const Graph &graph) {
  return Remapping(table, renumbering, graph).run();
}

}  // namespace gradc
