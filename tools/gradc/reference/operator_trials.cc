// Trial lowerings of single operators. Tested by tests/tools/golden_test.cc
#include "tools/gradc/reference/operator_trials.h"

#include "tools/gradc/reference/missing_order.h"

#include "ir/base/error.h"
#include "ir/graph/graph_builder.h"

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

// What the nodes of the graph end in: without known shapes, and for some ranks, with four elements on every axis, of
// each of the first three inputs in turn and then of all of them.
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

/// An operator that runs a body which computes nothing: as a loop over rows with a state, or as a call.
Expected<KindRef> flowKind(Context &context, const OpDef &op) {
  const Attrs loop = context.attrs({{"num_args", "3"},
                                    {"num_outputs", "2"},
                                    {"num_out_data", "1"},
                                    {"in_data_locs", "(0,)"},
                                    {"in_state_locs", "(1,)"},
                                    {"remain_locs", "()"}}),
              call = context.attrs({{"num_args", "2"}, {"num_outputs", "2"}});
  GraphBuilder body(context);
  const Value row = body.addVariable("row", Attrs()), state = body.addVariable("state", Attrs());
  const Graph passesOn = cantFail(std::move(body).freeze({row, state}, {})).graph;
  if (Expected<KindRef> kind = context.kind(op, loop, passesOn)) return kind;
  else consumeError(kind.takeError());
  return context.kind(op, call, passesOn);
}

}  // namespace

OperatorTrials::OperatorTrials(Context &context) {
  std::vector<const OpDef *> operators = context.ops.all();
  std::stable_partition(operators.begin(), operators.end(), [](const OpDef *op) { return !op->flags.isBackward; });
  for (const OpDef *op : operators)
    if (!op->flags.isBackward || !tried.count(op)) tryOperator(context, *op);
}

void OperatorTrials::tryOperator(Context &context, const OpDef &op) {
  Expected<KindRef> kind = op.flow ? flowKind(context, op) : sampleKind(context, op);
  Expected<Graph> graph = kind ? sampleGraph(context, *kind) : kind.takeError();
  if (!graph) return consumeError(graph.takeError());
  add(context, *graph);
  if (op.flow) return;  // the gradient is that of its bodies
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
  const StringRef inside = op.flow ? "what its body ends in" : "";
  if (found == needs.end())
    return !inside.empty() ? inside.str() : tried.count(&op) ? "its input, with default attributes" : "";
  OperatorSet primitives, others;
  for (const OpDef *end : found->second.operators) (end->primitive ? primitives : others).insert(end);
  std::string text = namesOf(primitives, quote);
  if (!others.empty()) text += (text.empty() ? "" : ", ") + ("and " + namesOf(others, quote)) + ", not reducible";
  return inside.empty() ? text : text + ", and " + inside.str();
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
