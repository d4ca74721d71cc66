// One walk over the columns; every check looks at one node and what it reads. Tested by tests/ir/verify_test.cc
#include "ir/rules/verify.h"

#include "ir/base/dense_map.h"
#include "ir/base/error.h"
#include "ir/base/out_of_memory.h"
#include "ir/graph/bodies.h"
#include "ir/rules/inference.h"

using namespace llvm;

namespace gradc {
namespace {

class Verifier {
 public:
  Verifier(const Graph &graph, size_t limit) : graph(graph), limit(limit) {}

  Error run() {
    for (uint32_t id = 0; id < graph.numNodes() && numFound < limit; ++id) {
      const NodeId n(id);
      if (!checkOrder(n)) continue;  // the other checks follow edges
      checkOutputs(n);
      checkArity(n);
      checkVersions(n);
      report(checkWrittenTwice(graph, n));
      checkBackward(n);
      checkOrigin(n);
    }
    for (size_t i = 0; i < graph.heads().size(); ++i) checkHead(i);
    return std::move(errors);
  }
  size_t found() const { return numFound; }

 private:
  void report(Error error) {
    if (error && numFound++ >= limit) return consumeError(std::move(error));
    errors = joinErrors(std::move(errors), std::move(error));
  }

  bool checkOrder(NodeId n) {
    for (Value input : graph.inputs(n))
      if (input.node >= n) return reportOrder(n, "an input", input.node);
    for (NodeId dep : graph.controlDeps(n))
      if (dep >= n) return reportOrder(n, "a control dependency", dep);
    return true;
  }

  bool reportOrder(NodeId n, StringRef what, NodeId from) {
    report(Failure(ErrorKind::Internal, graph.describe(n) + " has id " + Twine(n.value) + " and " + what + " with id " +
                                            Twine(from.value) + ", expected a smaller one")
               .at(n));
    return false;
  }

  void checkOutputs(NodeId n) {
    if (graph.numOutputs(n) != graph.kind(n).numOutputs)
      report(Failure(ErrorKind::Internal, graph.describe(n) + " owns " + Twine(graph.numOutputs(n)) +
                                              " entries, expected one for each of its " +
                                              Twine(graph.kind(n).numOutputs) + " outputs")
                 .at(n));
    ArrayRef<Value> inputs = graph.inputs(n);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].index >= graph.numOutputs(inputs[i].node))
        report(badEntry("input " + std::to_string(i) + " of " + graph.describe(n), inputs[i]).at(n));
  }

  Failure badEntry(const Twine &reader, Value v) const {
    return Failure(ErrorKind::BadEntry, reader + " is output " + Twine(v.index) + " of " + graph.describe(v.node) +
                                            ", which has " + Twine(graph.numOutputs(v.node)));
  }

  void checkArity(NodeId n) {
    const uint32_t expected = graph.kind(n).numInputs;
    if (expected != NodeKind::kAnyInputs && expected != graph.inputs(n).size())
      report(Failure(ErrorKind::Arity, graph.describe(n) + " takes " + countOf(expected, "input") + ", got " +
                                           Twine(graph.inputs(n).size()))
                 .at(n));
    if (graph.inputs(n).empty() && !graph.isVariable(n) && graph.op(n)->flags.isSum)
      report(Failure(ErrorKind::EmptySum, "the sum " + graph.describe(n) + " has no operands, expected at least one")
                 .at(n));
  }

  // Only variables have versions, and at most one node makes each. A version that no node makes comes from outside; a 0
  // at a mutated position is how old files spell it and implies no order.
  void checkVersions(NodeId n) {
    const NodeKind &kind = graph.kind(n);
    ArrayRef<Value> inputs = graph.inputs(n);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Value input = inputs[i];
      if (graph.isVariable(input.node)) {
        if (kind.isMutated(i) && input.version) checkMade(n, i);
      } else if (kind.isMutated(i)) {
        report(Failure(ErrorKind::BadMutation, graph.describe(n) + " overwrites input " + Twine(i) +
                                                   ", expected a variable there, found " + graph.describe(input.node))
                   .at(n));
      } else if (input.version) {
        report(versionOfNoVariable("input " + std::to_string(i) + " of " + graph.describe(n), input).at(n));
      }
    }
  }

  void checkMade(NodeId n, size_t position) {
    const NodeKind &kind = graph.kind(n);
    ArrayRef<Value> inputs = graph.inputs(n);
    const Value made = inputs[position];
    const std::string what = "version " + std::to_string(made.version) + " of " + graph.describe(made.node);
    if (!versions.insert(uint64_t{made.node.value} << 16 | made.version).second)
      report(
          Failure(ErrorKind::BadMutation, graph.describe(n) + " makes " + what + ", which another node already makes")
              .at(n));
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!kind.isMutated(i) && !kind.isIgnored(i) && inputs[i].node == made.node && inputs[i].version >= made.version)
        report(Failure(ErrorKind::BadMutation, graph.describe(n) + " makes " + what + " and reads version " +
                                                   Twine(inputs[i].version) + " of it, expected an earlier one")
                   .at(n));
  }

  Failure versionOfNoVariable(const Twine &reader, Value v) const {
    return Failure(ErrorKind::BadMutation, reader + " reads version " + Twine(v.version) + " of " +
                                               graph.describe(v.node) + ", but only variables have versions");
  }

  // A forward node is there for shapes. MXNet's `_backward_gather_nd` does without if its attribute `shape` is given.
  static bool knowsShapes(const NodeKind &kind) {
    if (!kind.op->shape || kind.flow || kind.numInputs == NodeKind::kAnyInputs) return false;
    ShapeTable shapes;
    SmallVector<ShapeId, 4> in(kind.numInputs, kUnknownShape), out(kind.numOutputs, kUnknownShape);
    ShapeInference inference(shapes, kind, in, out, false);
    kind.op->shape(inference);
    return !inference.hasFailed() &&
           llvm::all_of(out, [&](ShapeId shape) { return shapes[shape].hasRank() && shapes[shape].numUnknown() == 0; });
  }

  void checkBackward(NodeId n) {
    if (graph.isVariable(n) || !graph.op(n)->flags.isBackward) return;
    ArrayRef<NodeId> deps = graph.controlDeps(n);
    if (deps.empty() && !knowsShapes(graph.kind(n)))
      report(Failure(ErrorKind::BackwardMatch, graph.describe(n) +
                                                   " is a backward operator without control dependency, "
                                                   "expected its forward node as the first one")
                 .at(n));
    else if (!deps.empty() && graph.isVariable(deps.front()))
      report(Failure(ErrorKind::BackwardMatch, "the first control dependency of " + graph.describe(n) +
                                                   " should be its forward node, found " + graph.describe(deps.front()))
                 .at(n));
  }

  void checkOrigin(NodeId n) {
    const NodeId origin = graph.origin(n);
    if (origin.isValid() && origin.value >= graph.numNodes())
      report(Failure(ErrorKind::Internal, graph.describe(n) + " names node " + Twine(origin.value) +
                                              " as its origin, but the graph has " + Twine(graph.numNodes()) + " nodes")
                 .at(n));
  }

  void checkHead(size_t i) {
    const Value head = graph.heads()[i];
    if (head.node.value >= graph.numNodes())
      report(Failure(ErrorKind::BadEntry, "head " + Twine(i) + " refers to node " + Twine(head.node.value) +
                                              ", but the graph has " + Twine(graph.numNodes())));
    else if (head.index >= graph.numOutputs(head.node)) report(badEntry("head " + Twine(i), head).at(head.node));
    else if (head.version && !graph.isVariable(head.node))
      report(versionOfNoVariable("head " + Twine(i), head).at(head.node));
  }

  const Graph &graph;
  const size_t limit;
  size_t numFound = 0;
  Error errors = Error::success();
  DenseSet<uint64_t> versions;  // variable << 16 | version that some node makes
};

}  // namespace

Error checkWrittenTwice(const Graph &graph, NodeId n) {
  const NodeKind &kind = graph.kind(n);
  if (!kind.flow || kind.mutated.isEmpty()) return Error::success();
  ArrayRef<Value> inputs = graph.inputs(n);
  DenseMap<uint32_t, size_t> first;  // by variable
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!kind.isMutated(i)) continue;
    const auto [earlier, isNew] = first.try_emplace(inputs[i].node.value, i);
    if (!isNew)
      return Failure(ErrorKind::BadMutation, graph.describe(n) + " overwrites inputs " + Twine(earlier->second) +
                                                 " and " + Twine(i) + " in a body, and both are " +
                                                 graph.describe(inputs[i].node) + ", expected different variables")
          .at(n);
  }
  return Error::success();
}

Error verifyGraph(const Graph &graph, size_t limit) {
  return catchingBadAlloc("to verify the graph", [&]() -> Error {
    if (!graph.columns().hasBodies) return Verifier(graph, limit).run();
    const std::vector<NestedGraph> graphs = nestedGraphs(graph);
    Error errors = Error::success();
    size_t numFound = 0;
    for (size_t i = 0; i < graphs.size() && numFound < limit; ++i) {
      Verifier verifier(graphs[i].graph, limit - numFound);
      errors = joinErrors(std::move(errors), withinBody(verifier.run(), graphs, i));
      numFound += verifier.found();
    }
    return errors;
  });
}

}  // namespace gradc
