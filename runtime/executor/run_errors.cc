#include "runtime/executor/run_errors.h"

#include "ir/base/error.h"
#include "runtime/executor/executor.h"

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

Error checkIsVariable(const Graph &graph, NodeId n, StringRef what) {
  if (!n.isValid()) return Failure(ErrorKind::BindingSurplus, what + " an invalid node");
  if (n.value >= graph.numNodes())
    return Failure(ErrorKind::BindingSurplus,
                   what + " node " + Twine(n.value) + ", but the graph has " + countOf(graph.numNodes(), "node"));
  if (graph.isVariable(n)) return Error::success();
  return Failure(ErrorKind::BindingSurplus, what + " " + graph.describe(n) + ", which is not a variable").at(n);
}

Error checkIsHead(const Graph &graph, size_t i, StringRef what) {
  if (i < graph.heads().size()) return Error::success();
  return Failure(ErrorKind::BindingSurplus,
                 what + " head " + Twine(i) + ", but the graph has " + countOf(graph.heads().size(), "head"));
}

namespace {

Error checkOverride(const Graph &graph, NodeId n, const NodeOverride &given) {
  using Kind = NodeOverride::Kind;
  const size_t numInputs = graph.inputs(n).size();
  auto failure = [&](const Twine &what, size_t found, size_t expected, StringRef noun) {
    return Failure(ErrorKind::BindingMismatch, "the override of " + graph.describe(n) + " has " + Twine(found) + " " +
                                                   what + ", expected " + countOf(expected, noun))
        .at(n);
  };
  if (given.kind == Kind::Hold && given.base.size() != graph.numOutputs(n))
    return failure("base values", given.base.size(), graph.numOutputs(n), "output");
  if (given.kind == Kind::Piece && given.base.size() != numInputs)
    return failure("base values", given.base.size(), numInputs, "input");
  if (!given.inputs.empty() && given.inputs.size() != numInputs)
    return failure("inputs", given.inputs.size(), numInputs, "input");
  return Error::success();
}

}  // namespace

Error checkColumns(const Graph &graph, const ExecOptions &options) {
  const size_t numHeads = graph.heads().size(), numNodes = graph.numNodes();
  const std::vector<NodeOverride> none, &overrides = options.overrides ? options.overrides->nodes : none;
  struct Column {
    StringRef name;
    size_t found, expected;
    StringRef ofWhat;
  };
  for (const Column &column : {Column{"ExecOptions::headRequests", options.headRequests.size(), numHeads, "head"},
                               Column{"ExecOptions::headMemory", options.headMemory.size(), numHeads, "head"},
                               Column{"ExecOptions::forms", options.forms.size(), numNodes, "node"},
                               Column{"Overrides::nodes", overrides.size(), numNodes, "node"}})
    if (column.found != 0 && column.found != column.expected)
      return Failure(ErrorKind::BindingMismatch, column.name + " has " + countOf(column.found, "row") +
                                                     ", but the graph has " + countOf(column.expected, column.ofWhat));
  for (uint32_t id = 0; id < overrides.size(); ++id)
    if (!graph.isVariable(NodeId(id)))
      if (Error error = checkOverride(graph, NodeId(id), overrides[id])) return error;
  return Error::success();
}

}  // namespace gradc
