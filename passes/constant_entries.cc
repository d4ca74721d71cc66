// Tested by tests/gradcheck_test.cc
#include "passes/constant_entries.h"

#include "llvm/ADT/DenseSet.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr const char *kKey = "grad_constants";

}  // namespace

std::vector<Value> readConstantEntries(const Graph &graph) {
  std::vector<Value> entries;
  GraphAttrs::const_iterator at = graph.graphAttrs().find(kKey);
  if (at == graph.graphAttrs().end() || at->second.kind != GraphAttr::Kind::ListInt) return entries;
  ArrayRef<int64_t> numbers = at->second.numbers;
  for (; numbers.size() >= 2; numbers = numbers.drop_front(2)) {
    if (numbers[0] < 0 || numbers[0] >= static_cast<int64_t>(graph.numNodes())) continue;
    const NodeId n(static_cast<uint32_t>(numbers[0]));
    if (numbers[1] < 0 || numbers[1] >= static_cast<int64_t>(graph.numOutputs(n))) continue;
    entries.push_back(Value{n, static_cast<uint16_t>(numbers[1])});
  }
  return entries;
}

Graph withConstantEntries(const Graph &graph, ArrayRef<Value> entries) {
  std::vector<Value> all = readConstantEntries(graph);
  all.insert(all.end(), entries.begin(), entries.end());
  std::vector<int64_t> numbers;
  DenseSet<uint32_t> seen;
  for (Value v : all) {
    if (!v.isValid() || graph.isVariable(v.node) || !seen.insert(graph.entry(v).value).second) continue;
    numbers.insert(numbers.end(), {int64_t{v.node.value}, int64_t{v.index}});
  }
  if (numbers.empty()) return graph;
  GraphAttrs attrs = graph.graphAttrs();
  attrs[kKey] = GraphAttr::ofInts(std::move(numbers));
  return graph.withGraphAttrs(std::move(attrs));
}

}  // namespace gradc
