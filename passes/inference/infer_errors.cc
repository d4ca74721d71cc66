// Tested by tests/passes/infer_test.cc
#include "passes/inference/infer_errors.h"

#include "ir/base/error.h"

using namespace llvm;

namespace gradc {

Error badHint(const Graph &graph, NodeId n, StringRef key, StringRef text, StringRef expected) {
  return Failure(ErrorKind::BadHint,
                 graph.describe(n) + ": attribute '" + key + "' is \"" + text + "\", expected " + expected)
      .at(n);
}

Error tooManyBytes(const Graph &graph, const Inference &inference, NodeId n, uint32_t output) {
  const EntryId e(graph.firstEntry(n).value + output);
  return Failure(ErrorKind::InferConflict, (graph.isVariable(n) ? Twine() : "operator '" + graph.opName(n) + "', ") +
                                               graph.describe(n) + ": output " + Twine(output) + " has shape " +
                                               toString(inference.shapeOf(e)) + " of " + dtypeName(inference.dtype[e]) +
                                               ", expected at most 2^48 bytes")
      .at(n);
}

Error checkBytes(const Graph &graph, const Inference &inference, uint32_t firstNode) {
  for (uint32_t n = firstNode; n < graph.numNodes(); ++n)
    for (uint32_t o = 0; o < graph.numOutputs(NodeId(n)); ++o) {
      EntryId e(graph.firstEntry(NodeId(n)).value + o);
      if (inference.elements(e) * int64_t{dtypeBytes(inference.dtype[e])} <= kMaxTensorBytes) continue;
      return tooManyBytes(graph, inference, NodeId(n), o);
    }
  return Error::success();
}

}  // namespace gradc
