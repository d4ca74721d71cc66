// Tested by tests/infer_test.cc
#include "passes/infer_errors.h"

#include "ir/error.h"

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

Error checkDense(const Graph &graph, const Inference &inference, uint32_t firstNode) {
  for (uint32_t n = firstNode; n < graph.numNodes(); ++n) {
    ArrayRef<Value> inputs = graph.inputs(NodeId(n));
    for (size_t i = 0; i < inputs.size(); ++i)
      if (StorageKind storage = inference.storage[graph.entry(inputs[i])]; storage != StorageKind::Dense)
        return Failure(ErrorKind::Storage, "operator '" + graph.opName(NodeId(n)) + "', " + graph.describe(NodeId(n)) +
                                               ": input " + Twine(i) + ", '" + graph.listedName(inputs[i]) +
                                               "', has storage " + storageName(storage) + ", expected dense")
            .at(NodeId(n));
  }
  for (Value head : graph.heads())
    if (StorageKind storage = inference.storage[graph.entry(head)]; storage != StorageKind::Dense)
      return Failure(ErrorKind::Storage,
                     "head '" + graph.listedName(head) + "' has storage " + storageName(storage) + ", expected dense")
          .at(head.node);
  return Error::success();
}

static bool isUnknown(const Graph &graph, const Inference &inference, NodeId n) {
  for (uint32_t o = 0; o < graph.numOutputs(n); ++o) {
    EntryId e(graph.firstEntry(n).value + o);
    if (!inference.isKnownShape(e) || inference.dtype[e] == DType::Unknown) return true;
  }
  return false;
}

Error checkKnown(const Graph &graph, const Inference &inference, uint32_t firstNode) {
  if (!inference.numUnknownShapes && !inference.numUnknownDTypes) return Error::success();
  NodeId culprit, unknownOp;
  for (uint32_t n = firstNode; n < graph.numNodes() && !unknownOp.isValid(); ++n) {
    NodeId id(n);
    if (!graph.isVariable(id) && graph.op(id)->flags.isOpaque) unknownOp = id;
    if (!culprit.isValid() && isUnknown(graph, inference, id)) culprit = id;
  }
  if (unknownOp.isValid())
    return Failure(ErrorKind::UnknownOp, "inference cannot handle " + graph.describe(unknownOp) + ": the operator '" +
                                             graph.opName(unknownOp) + "' is unknown")
        .at(unknownOp);
  const EntryId first = graph.firstEntry(culprit);
  const bool isShape = !inference.isKnownShape(first);
  Failure failure(ErrorKind::InferMissing,
                  Twine(isShape ? "shape" : "dtype") + " of " + graph.describe(culprit) + " is " +
                      (isShape ? Twine("known only as ") + toString(inference.shapeOf(first)) : Twine("unknown")) +
                      " after inference" +
                      (graph.isVariable(culprit) ? Twine() : " of operator '" + Twine(graph.opName(culprit)) + "'"));
  return std::move(failure).at(culprit).remedy(Remedy::GiveShapes, "give more shapes, or allow unknown ones");
}

}  // namespace gradc
