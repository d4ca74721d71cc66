// Tested by tests/tools/cli_test.cc
#include "tools/gradc/common/variable_hints.h"

#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace gradc {

InferRequest variablesOf(const Graph &graph, const Inference &inference, const Graph &rewritten) {
  StringMap<EntryId> variables;  // invalid: several different ones have the name
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    if (!graph.isVariable(NodeId(n))) continue;
    const EntryId entry = graph.firstEntry(NodeId(n));
    auto [known, isNew] = variables.try_emplace(graph.name(NodeId(n)), entry);
    EntryId &other = known->second;
    if (isNew || !other.isValid()) continue;
    if (inference.shape[entry] != inference.shape[other] || inference.dtype[entry] != inference.dtype[other])
      other = EntryId();
  }
  InferRequest request;
  for (uint32_t n = 0; n < rewritten.numNodes(); ++n) {
    auto found = rewritten.isVariable(NodeId(n)) ? variables.find(rewritten.name(NodeId(n))) : variables.end();
    if (found == variables.end() || !found->second.isValid()) continue;
    const EntryId entry = found->second;
    if (inference.shapeOf(entry).hasRank())
      request.shapes.push_back({NodeId(n), DimsBuffer(inference.shapeOf(entry).dims())});
    if (inference.dtype[entry] != DType::Unknown) request.dtypes.push_back({NodeId(n), inference.dtype[entry]});
  }
  return request;
}

}  // namespace gradc
