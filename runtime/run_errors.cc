#include "runtime/run_errors.h"

#include "ir/count_of.h"
#include "ir/error.h"

using namespace llvm;

namespace gradc {

Error unknownTensor(const Graph &graph, const Inference &inference, NodeId n, EntryId e) {
  return Failure(ErrorKind::InferMissing, graph.describe(n) + " has shape " + toString(inference.shapeOf(e)) +
                                              " and dtype " + dtypeName(inference.dtype[e]) +
                                              "; both have to be known to run it")
      .at(n);
}

Error noKernel(const Graph &graph, NodeId n) {
  const NodeKind &kind = graph.kind(n);
  const StringRef why = kind.op->flags.isOpaque ? " is not known"
                        : kind.op->fastKernel   ? " has no reference kernel, and its fast one is not used here"
                                                : " has no kernel";
  return Failure(ErrorKind::UnknownOp, "operator '" + kind.spelling + "' of " + graph.describe(n) + why).at(n);
}

Error checkIsVariable(const Graph &graph, NodeId n) {
  if (n.value >= graph.numNodes())
    return Failure(ErrorKind::BindingSurplus, "memory is given for node " + Twine(n.value) + ", but the graph has " +
                                                  countOf(graph.numNodes(), "node"));
  if (graph.isVariable(n)) return Error::success();
  return Failure(ErrorKind::BindingSurplus, "memory is given for " + graph.describe(n) + ", which is not a variable")
      .at(n);
}

Error checkIsHead(const Graph &graph, size_t i) {
  if (i < graph.heads().size()) return Error::success();
  return Failure(ErrorKind::BindingSurplus, "memory is given for head " + Twine(i) + ", but the graph has " +
                                                countOf(graph.heads().size(), "head"));
}

}  // namespace gradc
