// Lists permuted, ids renamed. Tested by tests/graph_attrs_test.cc
#include "ir/graph_attrs.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

// Lists over heads, variables or states; their length says nothing about nodes.
constexpr StringRef kOtherLists[] = {"head_kind", "grad_of",     "grad_of_index", "grad_order", "grad_req",  "x_slot",
                                     "slot_status", "grad_none", "head_grad_of",  "update_of",  "optimizer_states"};
constexpr StringRef kEntryAttrs[] = {"shape", "shape_known", "dtype", "storage_type", "plan", "planned_bytes", "bound_bytes"};

/// Positions in a list of the old graph, by position in a list of the new one.
struct Carriage {
  std::vector<uint32_t> nodeFrom, entryFrom;
  bool carriesNodes = true, carriesEntries = true;
};

class Renumberer {
 public:
  Renumberer(GraphAttrs &attrs, const Renumbering &renumbering, const Graph &graph)
      : attrs(attrs), old(renumbering), graph(graph), numNodes(old.entryBegin.size() - 1), numEntries(old.entryBegin.back()) {}

  std::vector<std::string> run() {
    renameNodes();
    renamePairs();
    renameConstants();
    return permuteLists();
  }

 private:
  std::vector<int64_t> *numbers(const char *key) {
    auto at = attrs.find(key);
    return at == attrs.end() || at->second.kind != GraphAttr::Kind::ListInt ? nullptr : &at->second.numbers;
  }
  bool isNode(int64_t id) const { return id >= 0 && static_cast<size_t>(id) < numNodes; }

  /// Invalid where the old graph has no such entry, or the new one has none in its place.
  Value valueOf(int64_t node, int64_t index) const {
    if (!isNode(node)) return Value();
    const uint32_t begin = old.entryBegin[static_cast<size_t>(node)], end = old.entryBegin[static_cast<size_t>(node) + 1];
    if (index < 0 || index >= end - begin) return Value();
    if (!old.newValue.empty()) return old.newValue[begin + static_cast<size_t>(index)];
    const NodeId n = old.newId[static_cast<size_t>(node)];
    return n.isValid() && index < graph.numOutputs(n) ? Value{n, static_cast<uint16_t>(index)} : Value();
  }

  void renameNodes() {
    std::vector<int64_t> *ids = numbers("grad_of_node");
    if (!ids) return;
    for (int64_t &id : *ids) {
      if (!isNode(id)) continue;
      const NodeId n = old.newId[static_cast<size_t>(id)];
      id = n.isValid() ? int64_t{n.value} : -1;
    }
  }

  // Fives: position, node and index of y, node and index of its head gradient, -1 without one.
  void renamePairs() {
    std::vector<int64_t> *list = numbers("head_pairs");
    if (!list) return;
    std::vector<int64_t> kept;
    for (ArrayRef<int64_t> row = *list; row.size() >= 5; row = row.drop_front(5)) {
      const Value y = valueOf(row[1], row[2]), seed = valueOf(row[3], row[4]);
      if (!y.isValid() || (row[3] >= 0 && !seed.isValid())) continue;
      const int64_t seedNode = seed.isValid() ? int64_t{seed.node.value} : -1;
      kept.insert(kept.end(), {row[0], int64_t{y.node.value}, int64_t{y.index}, seedNode, seed.isValid() ? int64_t{seed.index} : 0});
    }
    *list = std::move(kept);
  }

  // Twos: node and index.
  void renameConstants() {
    std::vector<int64_t> *list = numbers("grad_constants");
    if (!list) return;
    std::vector<int64_t> kept;
    DenseSet<uint32_t> seen;
    for (ArrayRef<int64_t> row = *list; row.size() >= 2; row = row.drop_front(2)) {
      const Value v = valueOf(row[0], row[1]);
      if (!v.isValid() || graph.isVariable(v.node) || !seen.insert(graph.entry(v).value).second) continue;
      kept.insert(kept.end(), {int64_t{v.node.value}, int64_t{v.index}});
    }
    if (kept.empty()) attrs.erase("grad_constants");
    else *list = std::move(kept);
  }

  Carriage planCarriage() const {
    constexpr uint32_t kNowhere = NodeId::kNone;
    Carriage plan;
    plan.nodeFrom.assign(graph.numNodes(), kNowhere);
    plan.entryFrom.assign(graph.numEntries(), kNowhere);
    for (uint32_t from = 0; from < numNodes; ++from) {
      const NodeId n = old.newId[from];
      if (!n.isValid()) continue;
      plan.nodeFrom[n.value] = from;
      const uint32_t first = old.entryBegin[from], count = old.entryBegin[from + 1] - first;
      for (uint32_t i = 0; i < std::min(count, graph.numOutputs(n)); ++i)
        plan.entryFrom[graph.firstEntry(n).value + i] = first + i;
    }
    plan.carriesNodes = !is_contained(plan.nodeFrom, kNowhere);
    plan.carriesEntries = !is_contained(plan.entryFrom, kNowhere);
    return plan;
  }

  template <class T> static void permute(std::vector<T> &list, ArrayRef<uint32_t> from) {
    if (list.empty()) return;
    std::vector<T> moved;
    moved.reserve(from.size());
    for (uint32_t position : from) moved.push_back(list[position]);
    list = std::move(moved);
  }

  static bool isOther(StringRef key) {
    return is_contained(kOtherLists, key) || key == "grad_of_node" || key == "head_pairs" || key == "grad_constants";
  }

  std::vector<std::string> permuteLists() {
    std::vector<std::string> dropped;
    std::optional<Carriage> plan;
    for (auto &[key, attr] : attrs) {
      const size_t length = std::max({attr.numbers.size(), attr.texts.size(), attr.shapes.size()});
      if (!length || isOther(key)) continue;
      const bool isPerEntry = length == numEntries, isPerNode = !isPerEntry && length == numNodes;
      if (!isPerEntry && !isPerNode) continue;
      if (!plan) plan = planCarriage();
      if (isPerEntry ? !plan->carriesEntries : !plan->carriesNodes) {
        dropped.push_back(key);
        continue;
      }
      ArrayRef<uint32_t> from = isPerEntry ? plan->entryFrom : plan->nodeFrom;
      permute(attr.numbers, from);
      permute(attr.texts, from);
      permute(attr.shapes, from);
    }
    for (const std::string &key : dropped) attrs.erase(key);
    // The sums of a plan are none without it.
    if (is_contained(dropped, "plan"))
      for (const char *key : {"planned_bytes", "bound_bytes"}) attrs.erase(key);
    return dropped;
  }

  GraphAttrs &attrs;
  const Renumbering &old;
  const Graph &graph;
  const size_t numNodes, numEntries;
};

}  // namespace

std::vector<std::string> renumberGraphAttrs(GraphAttrs &attrs, const Renumbering &renumbering, const Graph &graph) {
  return Renumberer(attrs, renumbering, graph).run();
}

void eraseEntryAttrs(GraphAttrs &attrs) {
  for (StringRef key : kEntryAttrs) attrs.erase(key.str());
}

}  // namespace gradc
