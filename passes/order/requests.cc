// One sweep over the edges. Tested by tests/passes/requests_test.cc
#include "passes/order/requests.h"

#include "ir/graph/effects.h"

using namespace llvm;

namespace gradc {

bool isDead(const Graph &graph, const RequestTable &requests, NodeId n) {
  if (graph.isVariable(n) || hasEffects(graph.kind(n))) return false;
  const uint32_t first = graph.firstEntry(n).value;
  for (uint32_t e = first; e < first + graph.numOutputs(n); ++e)
    if (requests.request[EntryId(e)] != Request::Null) return false;
  return true;
}

bool hasNothingToDo(const Graph &graph, const RequestTable &requests, const Inference &inference, NodeId n) {
  if (hasEffects(graph.kind(n))) return false;
  const uint32_t first = graph.firstEntry(n).value;
  for (uint32_t e = first; e < first + graph.numOutputs(n); ++e)
    if (requests.request[EntryId(e)] != Request::Null && inference.elements(EntryId(e)) != 0) return false;
  return true;
}

RequestTable countRequests(const Graph &graph, ArrayRef<Request> headRequests) {
  RequestTable table{EntryMap<Request>(graph, Request::Null), EntryMap<uint32_t>(graph, 0)};
  for (size_t i = 0; i < graph.heads().size(); ++i) {
    Request request = headRequests.empty() ? Request::Write : headRequests[i];
    if (request == Request::Null) continue;
    EntryId e = graph.entry(graph.heads()[i]);
    ++table.reads[e];
    // If an entry is a head twice, one buffer is written and the others are copied, so even `add` on one needs a write.
    table.request[e] = table.request[e] == Request::Null ? request : Request::Write;
  }
  // In descending id order: all readers of a node's outputs have been counted before the node.
  for (uint32_t n = graph.numNodes(); n-- > 0;) {
    NodeId id(n);
    const NodeKind &kind = graph.kind(id);
    if (kind.isVariable()) continue;
    bool runs = hasEffects(kind);
    const uint32_t first = graph.firstEntry(id).value;
    for (uint32_t e = first; e < first + graph.numOutputs(id); ++e) runs |= table.reads[EntryId(e)] != 0;
    if (!runs) continue;
    ArrayRef<Value> inputs = graph.inputs(id);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!kind.isIgnored(i)) ++table.reads[graph.entry(inputs[i])];
  }
  for (uint32_t e = 0; e < graph.numEntries(); ++e)
    if (table.reads[EntryId(e)] && table.request[EntryId(e)] == Request::Null)
      table.request[EntryId(e)] = Request::Write;
  return table;
}

}  // namespace gradc
