// Graphs and what they are lowered to: MXNet's operators, and primitives. Tested by tests/ops/conformance_test.cc
#include "tests/support/ops/conformance.h"

#include "ir/base/error.h"
#include "passes/lowering/lower_to.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

using namespace llvm;

namespace gradc::testing {
namespace {

// What a graph was lowered to, with the types that its variables had before.
Expected<NaiveRun> runLowered(const Graph &lowered, const Graph &graph, const NaiveRun &before,
                              const Bindings &bindings, NaiveOptions options) {
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (graph.isVariable(NodeId(n)))
      options.types[graph.name(NodeId(n)).str()] = before.inference().dtype[graph.firstEntry(NodeId(n))];
  return NaiveRun::run(lowered, bindings, options);
}

// What is wrong with the types that operators are replaced by, which in float64 may all be the same. Empty where the
// graph itself does not run in float32.
std::string errorInSinglePrecision(Context &context, const Graph &graph, const Target &target, const Bindings &bindings,
                                   NaiveOptions options) {
  options.floatAs = DType::Float32;
  Expected<NaiveRun> before = NaiveRun::run(graph, bindings, options);
  if (!before) return consumeError(before.takeError()), "";
  Expected<Graph> lowered = lowerTo(context, graph, target, &before->inference());
  if (!lowered) return "in float32: " + describeError(lowered.takeError());
  Expected<NaiveRun> after = runLowered(*lowered, graph, *before, bindings, options);
  return after ? "" : "in float32: " + describeError(after.takeError()) + "\n" + dump(*lowered);
}

void noteProblem(Findings &found, std::string problem) {
  if (!problem.empty()) found.problems.push_back(std::move(problem));
}

// Heads of a graph and of what it was lowered to, and what both leave in their variables.
Findings compareHeads(const Graph &graph, const Graph &lowered, const Bindings &bindings, const NaiveOptions &options) {
  Expected<NaiveRun> before = NaiveRun::run(graph, bindings, options);
  if (!before) return {{describeError(before.takeError())}};
  Expected<NaiveRun> after = runLowered(lowered, graph, *before, bindings, options);
  if (!after) return {{describeError(after.takeError()) + "\n" + dump(lowered)}};
  Findings found;
  for (size_t i = 0; i < graph.heads().size(); ++i) {
    const Value to = lowered.heads()[i];
    Array said = before->value(graph.heads()[i]), instead = after->value(to);
    ++found.numChecked;
    if (said.shape != instead.shape || !agree(said, instead, kRounding(*after, to)))
      found.problems.push_back("head " + std::to_string(i) + ": " + print(said) + ", lowered " + print(instead) + "\n" +
                               dump(lowered));
  }
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    if (!graph.isVariable(NodeId(n))) continue;
    auto isIt = [&](uint32_t m) {
      return lowered.isVariable(NodeId(m)) && lowered.name(NodeId(m)) == graph.name(NodeId(n));
    };
    const auto all = llvm::seq(0u, lowered.numNodes());
    const auto same = llvm::find_if(all, isIt);
    if (same == all.end()) continue;
    const NodeId there(*same);
    const Array kept = before->value(Value{NodeId(n)}), instead = after->value(Value{there});
    if (!agree(kept, instead, kRounding(*after, Value{there})))
      found.problems.push_back("variable " + graph.name(NodeId(n)).str() + " holds " + print(kept) + ", lowered " +
                               print(instead) + "\n" + dump(lowered));
  }
  return found;
}

}  // namespace

Findings checkLowering(Context &context, const Graph &graph, const Bindings &bindings, const NaiveOptions &options,
                       StringRef &refusal) {
  auto isReplaced = [&](uint32_t n) { return graph.op(NodeId(n)) && !isMxnets(*graph.op(NodeId(n))); };
  if (llvm::none_of(llvm::seq(0u, graph.numNodes()), isReplaced)) return {};
  InferOptions inferOptions;
  inferOptions.defaultFloat = options.floatAs;
  Expected<Inference> known = infer(context, graph, hintsOf(graph, bindings), inferOptions);
  if (!known) return {{describeError(known.takeError())}};
  Expected<Graph> lowered = lowerTo(context, graph, kMxnetTarget, &*known);
  if (!lowered) {
    Findings found;
    handleAllErrors(lowered.takeError(), [&](const GradcError &error) {
      if (error.kind == ErrorKind::UnknownOp) refusal = graph.opName(error.place.node);
      else found.problems.push_back(error.message);
    });
    return found;
  }
  Findings found = compareHeads(graph, *lowered, bindings, options);
  noteProblem(found, errorInSinglePrecision(context, graph, kMxnetTarget, bindings, options));
  llvm::append_range(found.problems, checkDecompositions(context, *lowered, bindings, options).problems);
  return found;
}

Findings checkPrimitives(Context &context, const Graph &graph, const Bindings &bindings, const NaiveOptions &options,
                         bool knowsFirstAxis, std::map<const OpDef *, std::string> &missing) {
  InferRequest hints = hintsOf(graph, bindings);
  InferOptions inferOptions;
  inferOptions.defaultFloat = options.floatAs;
  inferOptions.allowUnknown = !knowsFirstAxis;
  for (ShapeHint &hint : hints.shapes)
    if (!knowsFirstAxis && !hint.dims.empty()) hint.dims[0] = kUnknownDim;
  Expected<Inference> known = infer(context, graph, hints, inferOptions);
  if (!known) return {{describeError(known.takeError())}};
  Findings found;
  for (const auto &[op, needs] : needsOf(context, graph, kPrimitivesTarget, &*known)) {
    for (const OpDef *needed : needs.operators) missing[needed] = "is neither primitive nor decomposed";
    for (const std::string &refusal : needs.refusals) missing[op] = "is refused: " + refusal;
  }
  if (!missing.empty()) return found;
  Expected<Graph> lowered = lowerTo(context, graph, kPrimitivesTarget, &*known);
  if (!lowered) return {{describeError(lowered.takeError())}};
  found = compareHeads(graph, *lowered, bindings, options);
  noteProblem(found, errorInSinglePrecision(context, graph, kPrimitivesTarget, bindings, options));
  for (uint32_t n = 0; n < lowered->numNodes(); ++n)
    if (const OpDef *op = lowered->op(NodeId(n)); op && !op->primitive)
      found.problems.push_back(lowered->describe(NodeId(n)) + " is not primitive");
  return found;
}

}  // namespace gradc::testing
