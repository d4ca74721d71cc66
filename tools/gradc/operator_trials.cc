// Trial lowerings of single operators. Tested by tests/golden_test.cc
#include "operator_trials.h"

#include "missing_order.h"

#include "ir/error.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

void addAll(Needs &needs, const Needs &more) {
  for (const auto &[op, row] : more) {
    needs[op].operators.insert(row.operators.begin(), row.operators.end());
    needs[op].refusals.insert(row.refusals.begin(), row.refusals.end());
  }
}

// What the nodes of the graph end in, with each of the first three inputs in turn, and then all of them, of some ranks, four
// elements on every axis; and with nothing known of shapes.
Needs needsOfSample(Context &context, const Graph &graph) {
  Needs needs = needsOf(context, graph, kNoTarget, nullptr);
  InferOptions partial;
  partial.allowUnknown = true;
  for (size_t rank : {4, 3, 2, 1, 5}) {
    auto add = [&](std::vector<ShapeHint> hints) {
      Expected<Inference> known = infer(context, graph, {std::move(hints), {}}, partial);
      if (known) addAll(needs, needsOf(context, graph, kNoTarget, &*known));
      else consumeError(known.takeError());
    };
    std::vector<ShapeHint> all;
    for (uint32_t n = 0; n < std::min(3u, graph.numNodes()) && graph.isVariable(NodeId(n)); ++n) {
      all.push_back({NodeId(n), DimsBuffer(rank, 4)});
      add({all.back()});
    }
    add(all);
  }
  return needs;
}

}  // namespace

OperatorTrials::OperatorTrials(Context &context) {
  std::vector<const OpDef *> operators = context.ops.all();
  std::stable_partition(operators.begin(), operators.end(), [](const OpDef *op) { return !op->flags.isBackward; });
  for (const OpDef *op : operators)
    if (!op->flags.isBackward || !tried.count(op)) tryOperator(context, *op);
}

void OperatorTrials::tryOperator(Context &context, const OpDef &op) {
  Expected<KindRef> kind = sampleKind(context, op);
  Expected<Graph> graph = kind ? sampleGraph(context, *kind) : kind.takeError();
  if (!graph) return consumeError(graph.takeError());
  add(context, *graph);
  if (std::optional<Graph> derived = reachedOrder(context, *kind, 1).gradient) addGradient(context, op, *derived);
}

Needs OperatorTrials::add(Context &context, const Graph &graph) {
  Needs found = needsOfSample(context, graph);
  addAll(needs, found);
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (const OpDef *op = graph.op(NodeId(n))) tried.insert(op);
  return found;
}

void OperatorTrials::addGradient(Context &context, const OpDef &op, const Graph &graph) {
  const Needs found = add(context, graph);
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    const OpDef *emitted = graph.op(NodeId(n));
    if (!emitted || !graph.origin(NodeId(n)).isValid() || emitted == context.ops.wellKnown.onesLike) continue;
    gradientNodes[&op].insert(emitted);
    auto row = found.find(emitted);
    if (row != found.end()) gradient[&op].insert(row->second.operators.begin(), row->second.operators.end());
  }
}

std::string OperatorTrials::endsIn(const OpDef &op, StringRef quote) const {
  auto found = needs.find(&op);
  if (found == needs.end()) return tried.count(&op) ? "its input, with default attributes" : "";
  OperatorSet primitives, others;
  for (const OpDef *end : found->second.operators) (end->primitive ? primitives : others).insert(end);
  std::string text = namesOf(primitives, quote);
  if (!others.empty()) text += (text.empty() ? "" : ", ") + ("and " + namesOf(others, quote)) + ", not reducible";
  return text;
}

std::string namesOf(const OperatorSet &operators, StringRef quote) {
  std::vector<std::string> names;
  for (const OpDef *op : operators) names.push_back((quote + op->name + quote).str());
  llvm::sort(names);
  return join(names, ", ");
}

std::string markdownCell(StringRef text) {
  std::string result;
  for (char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c == '\n' ? ' ' : c);
  return result;
}

}  // namespace gradc
