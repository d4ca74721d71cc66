// Discovery of forward/backward correspondences on placeholders. Tested by tests/infer_test.cc
#include "passes/backward_link.h"

#include "ir/grad_rule.h"

using namespace llvm;

namespace gradc {
namespace {

// A node of the kind over placeholder variables, with placeholder head gradients.
struct Placeholders {
  Placeholders(Context &ctx, KindId kind) : builder(ctx) {
    const NodeKind &k = ctx.kind(kind);
    SmallVector<Value, 8> inputs;
    for (uint32_t i = 0; i < k.numInputs; ++i) inputs.push_back(builder.addVariable("", AttrsId(0)));
    for (uint32_t i = 0; i < k.numOutputs; ++i) heads.push_back(builder.addVariable("", AttrsId(0)));
    node = builder.addKind(kind, inputs, NodeId());
  }

  GraphBuilder builder;
  SmallVector<Value, 4> heads;
  NodeId node;
};

BackwardLink headsOf(const Placeholders &p, NodeId emitted) {
  BackwardLink link;
  link.op = p.builder.kind(emitted).op;
  ArrayRef<Value> inputs = p.builder.inputs(emitted);
  for (uint32_t k = 0; k < inputs.size(); ++k)
    for (uint32_t o = 0; o < p.heads.size(); ++o)
      if (inputs[k] == p.heads[o]) link.heads.push_back({k, o});
  return link;
}

void linkNode(Placeholders &p, const GradRule &rule, NodeId emitted, RuleSummary &summary) {
  BackwardLink link = headsOf(p, emitted);
  for (uint32_t i = 0; i < rule.numInputs(); ++i)
    if (rule.slot(i) == GradRule::Slot::Gradient && rule.gradient(i).node == emitted)
      link.outputs.push_back({rule.gradient(i).index, i});
  summary.nodes.push_back(std::move(link));
}

// What `--dialect mxnet` puts in the place of an own operator stands for the same gradients.
void linkLowered(Placeholders &p, const GradRule &rule, NodeId emitted, RuleSummary &summary) {
  DecomposeRule lowering(p.builder, emitted, p.node);
  lowering.setForward(p.node);
  uint32_t first = p.builder.numNodes();
  p.builder.kind(emitted).op->lowerToMxnet(lowering);
  if (lowering.hasFailed()) return;
  for (uint32_t n = first; n < p.builder.numNodes(); ++n) {
    BackwardLink link = headsOf(p, NodeId(n));
    for (uint32_t i = 0; i < rule.numInputs(); ++i) {
      if (rule.slot(i) != GradRule::Slot::Gradient || rule.gradient(i).node != emitted) continue;
      if (Value output = lowering.output(rule.gradient(i).index); output.node == NodeId(n))
        link.outputs.push_back({output.index, i});
    }
    summary.nodes.push_back(std::move(link));
  }
}

RuleSummary summarize(Context &ctx, KindId kind) {
  RuleSummary summary;
  const NodeKind &k = ctx.kind(kind);
  if (k.isVariable() || !k.op->gradient || k.numInputs == NodeKind::kAnyInputs) return summary;
  Placeholders p(ctx, kind);
  SmallVector<bool, 8> wanted(k.numInputs, true);
  // Gradients of hidden outputs are structurally zero in every real graph; rules emit their usual form for that.
  SmallVector<Value, 4> heads(p.heads);
  for (uint32_t o = k.numVisible; o < k.numOutputs; ++o) heads[o] = Value();
  HeadGradients given{heads, [](void *self, size_t o) { return static_cast<Placeholders *>(self)->heads[o]; }, &p};
  GradRule rule(p.builder, p.node, p.node, given, wanted);
  uint32_t first = p.builder.numNodes();
  k.op->gradient(rule);
  if (rule.hasFailed()) return summary;
  const uint32_t last = p.builder.numNodes();
  for (uint32_t n = first; n < last; ++n) {
    linkNode(p, rule, NodeId(n), summary);
    if (p.builder.kind(NodeId(n)).op && p.builder.kind(NodeId(n)).op->lowerToMxnet) linkLowered(p, rule, NodeId(n), summary);
  }
  summary.inputsUsed = rule.inputsUsed();
  summary.outputsUsed = rule.outputsUsed();
  return summary;
}

}  // namespace

const RuleSummary &RuleSummaries::of(KindId kind) {
  if (auto known = summaries.find(kind.value); known != summaries.end()) return known->second;
  return summaries[kind.value] = summarize(ctx, kind);
}

}  // namespace gradc
