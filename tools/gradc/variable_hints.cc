// Tested by tests/cli_test.cc
#include "variable_hints.h"

#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace gradc {

InferRequest variablesOf(const Graph &graph, const Inference &inference, const Graph &rewritten) {
  StringMap<EntryId> variables;
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (graph.isVariable(NodeId(n))) variables[graph.name(NodeId(n))] = graph.firstEntry(NodeId(n));
  InferRequest request;
  for (uint32_t n = 0; n < rewritten.numNodes(); ++n) {
    auto found = rewritten.isVariable(NodeId(n)) ? variables.find(rewritten.name(NodeId(n))) : variables.end();
    if (found == variables.end()) continue;
    const EntryId entry = found->second;
    if (inference.shapeOf(entry).hasRank())
      request.shapes.push_back({NodeId(n), DimsBuffer(inference.shapeOf(entry).dims())});
    if (inference.dtype[entry] != DType::Unknown) request.dtypes.push_back({NodeId(n), inference.dtype[entry]});
  }
  return request;
}

}  // namespace gradc
