// Recursion is as deep as bodies are nested. Tested by tests/passes/infer_test.cc
#include "passes/inference/infer_errors.h"

#include "ir/base/error.h"
#include "ir/graph/bodies.h"

#include "llvm/ADT/DenseSet.h"

using namespace llvm;

namespace gradc {
namespace {

bool isUnknown(const Graph &graph, const Inference &known, NodeId n) {
  for (uint32_t o = 0; o < graph.numOutputs(n); ++o) {
    EntryId e(graph.firstEntry(n).value + o);
    if (!known.isKnownShape(e) || known.dtype[e] == DType::Unknown) return true;
  }
  return false;
}

// Bodies that many nodes have are searched once.
Error unknownOperator(const Graph &graph, const Inference &known, uint32_t firstNode,
                      DenseSet<const Inference *> &seen) {
  for (uint32_t id = firstNode; id < graph.numNodes(); ++id) {
    const NodeId n(id);
    if (!graph.isVariable(n) && graph.op(n)->flags.isOpaque)
      return Failure(ErrorKind::UnknownOp, "inference cannot handle " + graph.describe(n) + ": the operator '" +
                                               graph.opName(n) + "' is unknown")
          .at(n);
    for (uint32_t b = 0; b < graph.bodies(n).size(); ++b) {
      const Inference *inside = known.body(n, b);
      if (!inside || !seen.insert(inside).second) continue;
      if (Error error = unknownOperator(graph.bodies(n)[b], *inside, 0, seen))
        return withinBody(std::move(error), graph, n, b);
    }
  }
  return Error::success();
}

Error missing(const Graph &graph, const Inference &known, NodeId n) {
  const EntryId e = graph.firstEntry(n);
  const bool isShape = !known.isKnownShape(e);
  Failure failure(ErrorKind::InferMissing,
                  Twine(isShape ? "shape" : "dtype") + " of " + graph.describe(n) + " is " +
                      (isShape ? Twine("known only as ") + toString(known.shapeOf(e)) : Twine("unknown")) +
                      " after inference" +
                      (graph.isVariable(n) ? Twine() : " of operator '" + Twine(graph.opName(n)) + "'"));
  return std::move(failure).at(n).remedy(Remedy::GiveShapes, "give more shapes, or allow unknown ones");
}

Error firstUnknown(const Graph &graph, const Inference &known, uint32_t firstNode) {
  NodeId n(firstNode);
  while (!isUnknown(graph, known, n)) ++n.value;
  for (uint32_t b = 0; b < graph.bodies(n).size(); ++b) {
    const Inference *inside = known.body(n, b);
    if (inside && (inside->numUnknownShapes || inside->numUnknownDTypes))
      return withinBody(firstUnknown(graph.bodies(n)[b], *inside, 0), graph, n, b);
  }
  return missing(graph, known, n);
}

}  // namespace

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

Error checkKnown(const Graph &graph, const Inference &known, uint32_t firstNode) {
  if (!known.numUnknownShapes && !known.numUnknownDTypes) return Error::success();
  DenseSet<const Inference *> seen;
  if (Error error = unknownOperator(graph, known, firstNode, seen)) return error;
  return firstUnknown(graph, known, firstNode);
}

}  // namespace gradc
