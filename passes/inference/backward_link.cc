// Discovery of forward/backward correspondences on placeholders. Tested by tests/passes/infer_test.cc
#include "passes/inference/backward_link.h"

#include "ir/base/dense_map.h"
#include "ir/base/error.h"
#include "ir/graph/graph_builder.h"
#include "ir/rules/grad_rule.h"

#include "llvm/ADT/STLExtras.h"

#include <utility>

using namespace llvm;

namespace gradc {
namespace {

// A node of the kind over placeholder variables, then placeholder head gradients: an operand's id shows what it is.
struct Placeholders {
  Placeholders(Context &ctx, const KindRef &kind) : builder(ctx), node(builder.addOverVariables(kind)) {
    for (uint32_t i = 0; i < kind->numOutputs; ++i) heads.push_back(builder.addVariable("", Attrs()));
  }

  GraphBuilder builder;
  NodeId node;
  SmallVector<Value, 4> heads;
};

// Links the operands that are entries of the forward node or its head gradients.
BackwardLink linkOf(const Placeholders &p, NodeId emitted) {
  BackwardLink link;
  link.kind = p.builder.kindHandle(emitted);
  ArrayRef<Value> operands = p.builder.inputs(emitted);
  for (uint32_t k = 0; k < operands.size(); ++k) {
    const NodeId n = operands[k].node;
    if (n == p.node) link.fromOutputs.push_back({k, operands[k].index});
    else if (n < p.node) link.fromInputs.push_back({k, n.value});
    else if (n.value - p.node.value <= p.heads.size()) link.fromOutputs.push_back({k, n.value - p.node.value - 1});
  }
  return link;
}

void keepCommon(std::vector<LinkedEntry> &entries, ArrayRef<LinkedEntry> others) {
  DenseSet<std::pair<uint32_t, uint32_t>> common;
  for (LinkedEntry entry : others) common.insert({entry.position, entry.of});
  erase_if(entries, [&](LinkedEntry entry) { return !common.contains({entry.position, entry.of}); });
}

// Links of the nodes from `first` on, by node.
struct Links {
  Links(const Placeholders &p, uint32_t first, uint32_t last) : first(first) {
    for (uint32_t n = first; n < last; ++n) links.push_back(linkOf(p, NodeId(n)));
  }

  void addOutput(Value gradient, uint32_t input) {
    if (gradient.node.value >= first && gradient.node.value - first < links.size())
      links[gradient.node.value - first].outputs.push_back({gradient.index, input});
  }

  void moveTo(RuleSummary &summary) {
    for (BackwardLink &link : links) {
      auto [at, isNew] = summary.nodeOf.try_emplace(link.kind.get(), static_cast<uint32_t>(summary.nodes.size()));
      if (isNew) {
        summary.nodes.push_back(std::move(link));
        continue;
      }
      BackwardLink &same = summary.nodes[at->second];
      keepCommon(same.outputs, link.outputs);
      keepCommon(same.fromInputs, link.fromInputs);
      keepCommon(same.fromOutputs, link.fromOutputs);
    }
  }

  uint32_t first;
  std::vector<BackwardLink> links;
};

/// The conditions of one run of a rule: the requested gradients and the available head gradients.
struct Occasion {
  SmallVector<bool, 8> wanted;
  SmallVector<Value, 4> heads;  // invalid: structurally zero
};

// Gradients of hidden outputs are structurally zero in every real graph; for that case rules emit their usual form.
Occasion usualOccasion(const Placeholders &p) {
  const NodeKind &k = p.builder.kind(p.node);
  Occasion usual{SmallVector<bool, 8>(k.numInputs, true), p.heads};
  for (uint32_t o = k.numVisible; o < k.numOutputs; ++o) usual.heads[o] = Value();
  return usual;
}

// Occasions that differ from the usual one in a single request or head gradient, and those that have only one of them.
std::vector<Occasion> rareOccasions(const Placeholders &p) {
  const Occasion usual = usualOccasion(p);
  const size_t numWanted = usual.wanted.size(), numHeads = usual.heads.size();
  std::vector<Occasion> rare{{usual.wanted, p.heads}};
  for (size_t i = 0; i < numWanted; ++i) {
    rare.push_back(usual);
    rare.back().wanted[i] = false;
    rare.push_back({SmallVector<bool, 8>(numWanted, false), usual.heads});
    rare.back().wanted[i] = true;
  }
  for (size_t o = 0; o < numHeads; ++o) {
    rare.push_back(usual);
    rare.back().heads[o] = Value();
    rare.push_back({usual.wanted, SmallVector<Value, 4>(numHeads, Value())});
    rare.back().heads[o] = p.heads[o];
  }
  return rare;
}

void runRule(void (*gradient)(GradRule &), Placeholders &p, const Occasion &occasion, RuleSummary &summary) {
  HeadGradients given{occasion.heads, [](void *self, size_t o) { return static_cast<Placeholders *>(self)->heads[o]; },
                      &p};
  GradRule rule(p.builder, p.node, p.node, given, occasion.wanted);
  uint32_t first = p.builder.numNodes();
  gradient(rule);
  if (rule.hasFailed()) {
    summary.failure = toString(rule.takeFailure());
    return;
  }
  Links links(p, first, p.builder.numNodes());
  for (uint32_t i = 0; i < rule.numInputs(); ++i)
    if (rule.slot(i) == GradRule::Slot::Gradient) links.addOutput(rule.gradient(i), i);
  links.moveTo(summary);
}

void runRules(Placeholders &p, const Occasion &occasion, RuleSummary &summary) {
  const OpDef &op = *p.builder.kind(p.node).op;
  runRule(op.gradient, p, occasion, summary);
  if (op.hostGradient) runRule(op.hostGradient, p, occasion, summary);
}

bool hasRule(const NodeKind &k) { return !k.isVariable() && k.op->gradient && k.numInputs != NodeKind::kAnyInputs; }

RuleSummary summarize(Context &ctx, const KindRef &kind) {
  RuleSummary summary;
  if (!hasRule(*kind)) return summary;
  Placeholders p(ctx, kind);
  runRules(p, usualOccasion(p), summary);
  return summary;
}

// Leaves the links of usual nodes unchanged: they hold on every occasion.
void addRareNodes(Context &ctx, const KindRef &kind, RuleSummary &summary) {
  constexpr uint32_t kMaxEntries = 64;  // n runs that emit n nodes each would take quadratic time
  if (!hasRule(*kind) || size_t{kind->numInputs} + kind->numOutputs > kMaxEntries) return;
  Placeholders p(ctx, kind);
  RuleSummary rare;
  for (const Occasion &occasion : rareOccasions(p)) runRules(p, occasion, rare);
  for (BackwardLink &link : rare.nodes)
    if (summary.nodeOf.try_emplace(link.kind.get(), static_cast<uint32_t>(summary.nodes.size())).second)
      summary.nodes.push_back(std::move(link));
}

// Position of the emitted node that a node of kind `backward` must match.
std::optional<uint32_t> findNode(const RuleSummary &summary, const KindRef &backward) {
  if (auto same = summary.nodeOf.find(backward.get()); same != summary.nodeOf.end()) return same->second;
  for (uint32_t i = 0; i < summary.nodes.size(); ++i)
    if (haveSameParameters(*summary.nodes[i].kind, *backward)) return i;
  return std::nullopt;
}

}  // namespace

RuleSummaries::Row &RuleSummaries::rowOf(const KindRef &kind) {
  std::unique_ptr<Row> &row = summaries[kind.get()];
  if (!row) row = std::make_unique<Row>(Row{kind, summarize(ctx, kind)});
  return *row;
}

const RuleSummary &RuleSummaries::of(const KindRef &kind) { return rowOf(kind).summary; }

const BackwardLink *RuleSummaries::link(const KindRef &forward, const KindRef &backward) {
  Row &row = rowOf(forward);
  auto [known, isNew] = links.try_emplace({forward.get(), backward.get()}, kNone);
  if (isNew) {
    std::optional<uint32_t> found = findNode(row.summary, backward);
    if (!found && !std::exchange(row.hasRareNodes, true)) {
      addRareNodes(ctx, forward, row.summary);
      found = findNode(row.summary, backward);
    }
    known->second = found.value_or(kNone);
  }
  return known->second != kNone ? &row.summary.nodes[known->second] : nullptr;
}

}  // namespace gradc
