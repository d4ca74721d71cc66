// One sweep over the edges. Tested by tests/requests_test.cc
#include "passes/requests.h"

using namespace llvm;

namespace gradc {

RequestTable countRequests(const Graph &graph, ArrayRef<Request> headRequests) {
  RequestTable table{EntryMap<Request>(graph, Request::Null), EntryMap<uint32_t>(graph, 0)};
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    NodeId id(n);
    const NodeKind &kind = graph.kind(id);
    if (kind.isVariable()) continue;
    ArrayRef<Value> inputs = graph.inputs(id);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!kind.isIgnored(i)) ++table.reads[graph.entry(inputs[i])];
  }
  for (size_t i = 0; i < graph.heads().size(); ++i) {
    Request request = headRequests.empty() ? Request::Write : headRequests[i];
    if (request == Request::Null) continue;
    EntryId e = graph.entry(graph.heads()[i]);
    ++table.reads[e];
    // The same entry as a head twice: one buffer is written, the others copied, so `add` on either asks for a write.
    table.request[e] = table.request[e] == Request::Null ? request : Request::Write;
  }
  for (uint32_t e = 0; e < graph.numEntries(); ++e)
    if (table.reads[EntryId(e)] && table.request[EntryId(e)] == Request::Null)
      table.request[EntryId(e)] = Request::Write;
  return table;
}

}  // namespace gradc
