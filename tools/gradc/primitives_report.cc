// Trial lowerings of single operators. Tested by tests/golden_test.cc
#include "primitives_report.h"

#include "missing_order.h"

#include "ir/error.h"
#include "passes/targets/lower_to.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

using OperatorSet = std::set<const OpDef *>;
using Needs = std::map<const OpDef *, OperatorNeeds>;

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

struct Trials {
  Needs needs;
  OperatorSet tried;
  std::map<const OpDef *, OperatorSet> gradient;  // by primitive: what its gradient is made of

  explicit Trials(Context &context) {
    std::vector<const OpDef *> operators = context.ops.all();
    // Gradient operators that no gradient has are tried by themselves.
    std::stable_partition(operators.begin(), operators.end(), [](const OpDef *op) { return !op->flags.isBackward; });
    for (const OpDef *op : operators) {
      if (op->flags.isBackward && tried.count(op)) continue;
      Expected<KindRef> kind = sampleKind(context, *op);
      Expected<Graph> graph = kind ? sampleGraph(context, *kind) : kind.takeError();
      if (!graph) {
        consumeError(graph.takeError());
        continue;
      }
      add(context, *graph);
      if (std::optional<Graph> derived = reachedOrder(context, *kind, 1).gradient) addGradient(context, *op, *derived);
    }
  }

  Needs add(Context &context, const Graph &graph) {
    Needs found = needsOfSample(context, graph);
    addAll(needs, found);
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      if (const OpDef *op = graph.op(NodeId(n))) tried.insert(op);
    return found;
  }

  void addGradient(Context &context, const OpDef &op, const Graph &graph) {
    const Needs found = add(context, graph);
    for (uint32_t n = 0; n < graph.numNodes(); ++n) {
      const bool isHead = graph.op(NodeId(n)) == context.ops.wellKnown.onesLike;
      if (graph.isVariable(NodeId(n)) || !graph.origin(NodeId(n)).isValid() || isHead) continue;
      auto row = found.find(graph.op(NodeId(n)));
      if (row != found.end()) gradient[&op].insert(row->second.operators.begin(), row->second.operators.end());
    }
  }
};

std::string namesOf(const OperatorSet &operators) {
  std::vector<std::string> names;
  for (const OpDef *op : operators) names.push_back("`" + op->name.str() + "`");
  llvm::sort(names);
  return join(names, ", ");
}

// In a cell of a table.
std::string cell(StringRef text) {
  std::string result;
  for (char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c == '\n' ? ' ' : c);
  return result;
}

std::string gradientText(const OpDef &op, const Trials &trials) {
  if (op.flags.hasNoGradient) return "none: nothing flows through it";
  auto found = trials.gradient.find(&op);
  if (found == trials.gradient.end() || found->second.empty()) return "the head gradient alone, or nothing";
  return namesOf(found->second);
}

void printList(raw_ostream &os, ArrayRef<const OpDef *> operators, const Trials &trials) {
  os << "| operator | formula | gradient made of | ONNX opset 18 | C |\n|---|---|---|---|---|\n";
  for (const OpDef *op : operators)
    if (op->primitive)
      os << "| `" << op->name << "` | " << cell(op->summary) << " | " << gradientText(*op, trials) << " | "
         << cell(op->primitive.onnx) << " | `" << cell(op->primitive.c) << "` |\n";
}

// What trials ended in.
std::string endsIn(const OpDef &op, const Trials &trials) {
  auto found = trials.needs.find(&op);
  if (found == trials.needs.end()) return trials.tried.count(&op) ? "its input, with default attributes" : "";
  OperatorSet primitives, others;
  for (const OpDef *end : found->second.operators) (end->primitive ? primitives : others).insert(end);
  std::string text = namesOf(primitives);
  if (!others.empty()) text += (text.empty() ? "" : ", ") + ("and " + namesOf(others)) + ", not reducible";
  return text;
}

}  // namespace

void printPrimitives(raw_ostream &os, Context &context) {
  const Trials trials(context);
  const std::vector<const OpDef *> all = context.ops.all();
  const auto number = llvm::count_if(all, [](const OpDef *op) { return bool(op->primitive); });
  os << "# Primitives\n\nWritten by `gradc ops --primitives`. Operators decompose until only these " << number
     << " are left, and what\nno primitives express, which is listed at the end.\n\n";
  printList(os, all, trials);
  os << "\n## What the other operators end in\n\n| operator | primitives |\n|---|---|\n";
  std::string irreducible;
  for (const OpDef *op : all) {
    if (op->primitive) continue;
    if (!op->irreducible.empty()) irreducible += "| `" + op->name.str() + "` | " + cell(op->irreducible) + " |\n";
    else os << "| `" << op->name << "` | " << endsIn(*op, trials) << " |\n";
  }
  if (!irreducible.empty()) os << "\n## Not reducible\n\n| operator | why |\n|---|---|\n" << irreducible;
}

}  // namespace gradc
