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

Graph withConstantEntries(const Graph &graph, ArrayRef<Value> entries, function_ref<Value(Value)> follow) {
  std::vector<int64_t> numbers;
  DenseSet<uint32_t> seen;
  for (Value v : entries) {
    const Value now = follow(v);
    if (!now.isValid() || graph.isVariable(now.node) || !seen.insert(graph.entry(now).value).second) continue;
    numbers.insert(numbers.end(), {int64_t{now.node.value}, int64_t{now.index}});
  }
  GraphAttrs::const_iterator at = graph.graphAttrs().find(kKey);
  if (numbers.empty() && at == graph.graphAttrs().end()) return graph;
  GraphAttrs attrs = graph.graphAttrs();
  if (numbers.empty()) attrs.erase(kKey);
  else attrs[kKey] = GraphAttr::ofInts(std::move(numbers));
  return graph.withGraphAttrs(std::move(attrs));
}

}  // namespace gradc
