// Discovery of forward/backward correspondences on placeholders. Tested by tests/infer_test.cc
#include "passes/backward_link.h"

#include "ir/grad_rule.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

// A node of the kind over placeholder variables, with placeholder head gradients. Their ids are consecutive, so that an
// operand tells by its id what it is.
struct Placeholders {
  Placeholders(Context &ctx, const KindRef &kind) : builder(ctx) {
    const NodeKind &k = *kind;
    SmallVector<Value, 8> inputs;
    for (uint32_t i = 0; i < k.numInputs; ++i) inputs.push_back(builder.addVariable("", Attrs()));
    for (uint32_t i = 0; i < k.numOutputs; ++i) heads.push_back(builder.addVariable("", Attrs()));
    node = builder.addKind(kind, inputs, NodeId());
  }

  GraphBuilder builder;
  SmallVector<Value, 4> heads;
  NodeId node;
};

// Operands that are entries of the forward node or head gradients of it.
BackwardLink linkOf(const Placeholders &p, NodeId emitted) {
  BackwardLink link;
  link.kind = p.builder.kindHandle(emitted);
  ArrayRef<Value> operands = p.builder.inputs(emitted);
  const uint32_t numInputs = static_cast<uint32_t>(p.builder.inputs(p.node).size());
  for (uint32_t k = 0; k < operands.size(); ++k) {
    const NodeId n = operands[k].node;
    if (n == p.node) link.fromOutputs.push_back({k, operands[k].index});
    else if (n.value < numInputs) link.fromInputs.push_back({k, n.value});
    else if (n < p.node) link.fromOutputs.push_back({k, n.value - numInputs});
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

using Rule = void (*)(GradRule &);

void addLinks(Placeholders &p, Rule gradient, RuleSummary &summary) {
  const NodeKind &k = p.builder.kind(p.node);
  SmallVector<bool, 8> wanted(k.numInputs, true);
  // Gradients of hidden outputs are structurally zero in every real graph; rules emit their usual form for that.
  SmallVector<Value, 4> heads(p.heads);
  for (uint32_t o = k.numVisible; o < k.numOutputs; ++o) heads[o] = Value();
  HeadGradients given{heads, [](void *self, size_t o) { return static_cast<Placeholders *>(self)->heads[o]; }, &p};
  GradRule rule(p.builder, p.node, p.node, given, wanted);
  uint32_t first = p.builder.numNodes();
  gradient(rule);
  if (rule.hasFailed()) return;
  Links links(p, first, p.builder.numNodes());
  for (uint32_t i = 0; i < rule.numInputs(); ++i)
    if (rule.slot(i) == GradRule::Slot::Gradient) links.addOutput(rule.gradient(i), i);
  links.moveTo(summary);
}

RuleSummary summarize(Context &ctx, const KindRef &kind) {
  RuleSummary summary;
  const NodeKind &k = *kind;
  if (k.isVariable() || !k.op->gradient || k.numInputs == NodeKind::kAnyInputs) return summary;
  Placeholders p(ctx, kind);
  addLinks(p, k.op->gradient, summary);
  if (k.op->hostGradient) addLinks(p, k.op->hostGradient, summary);
  return summary;
}

}  // namespace

const RuleSummary &RuleSummaries::of(const KindRef &kind) {
  std::unique_ptr<Row> &row = summaries[kind.get()];
  if (!row) row = std::make_unique<Row>(Row{kind, summarize(ctx, kind)});
  return row->summary;
}

const BackwardLink *RuleSummaries::link(const KindRef &forward, const KindRef &backward) {
  const RuleSummary &summary = of(forward);
  auto [known, isNew] = links.try_emplace({forward.get(), backward.get()}, 0);
  if (!isNew) return known->second < summary.nodes.size() ? &summary.nodes[known->second] : nullptr;
  if (auto same = summary.nodeOf.find(backward.get()); same != summary.nodeOf.end()) known->second = same->second;
  else known->second = static_cast<uint32_t>(find_if(summary.nodes, [&](const BackwardLink &link) {
    return haveSameParameters(*link.kind, *backward);
  }) - summary.nodes.begin());
  return known->second < summary.nodes.size() ? &summary.nodes[known->second] : nullptr;
}

}  // namespace gradc
