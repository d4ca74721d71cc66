// Building and describing sketches. Tested by tests/differential_test.cc
#include "tests/support/random_graph.h"

#include "llvm/Support/FormatVariadic.h"

#include <cstdio>

using namespace llvm;

namespace gradc::testing {
namespace {

std::string numberText(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::string textOf(const Sketch &sketch, SketchEntry e) {
  return sketch.nameOf(e.node) + (e.output ? ":" + std::to_string(e.output) : "");
}

std::string textOf(const Sketch &sketch, ArrayRef<SketchTarget> targets) {
  std::string text;
  for (const SketchTarget &t : targets) text += " " + textOf(sketch, t.x) + "=" + requestName(t.request).str();
  return text;
}

std::vector<Value> graphHeads(const Sketch &sketch, const std::vector<Value> &at) {
  std::vector<std::vector<bool>> isRead(sketch.nodes.size());
  std::vector<bool> isNeeded(sketch.nodes.size());
  for (uint32_t n = 0; n < sketch.nodes.size(); ++n) {
    isRead[n].resize(sketch.nodes[n].numOutputs);
    for (SketchEntry e : sketch.nodes[n].inputs) isRead[e.node][e.output] = isNeeded[e.node] = true;
    for (uint32_t dep : sketch.nodes[n].deps) isNeeded[dep] = true;
  }
  // Every node is reached; some outputs are neither read nor heads, some heads are read as well.
  std::vector<Value> heads;
  for (uint32_t n = 0; n < sketch.nodes.size(); ++n)
    for (uint32_t o = 0; o < sketch.nodes[n].numVisible; ++o)
      if ((!isNeeded[n] && o == n % sketch.nodes[n].numVisible) || (!isRead[n][o] && (n + o) % 3 == 0) || (n + o) % 7 == 0)
        heads.push_back(Value{at[n].node, static_cast<uint16_t>(o), 0});
  return heads;
}

}  // namespace

std::string seedVariable(const Sketch &sketch, size_t i) {
  const SketchHead &head = sketch.heads[i];
  if (head.hasSeed || !head.seedName.empty() || sketch.headPolicy != HeadPolicy::Input) return head.seedName;
  return "_head_grad_" + std::to_string(i);
}

std::string describe(const Sketch &sketch) {
  constexpr StringRef kHeads[] = {"ones", "scalar", "input", "required"}, kUnused[] = {"error", "none", "zeros"};
  std::string text = formatv("--order {0} --heads {1} --unused {2}", sketch.order, kHeads[static_cast<size_t>(sketch.headPolicy)],
                             kUnused[static_cast<size_t>(sketch.unused)]).str();
  if (sketch.duplicates == DuplicatePolicy::Strict) text += " --strict";
  if (sketch.controlOnly == ControlOnlyPolicy::Zeros) text += " --control-only zeros";
  if (sketch.reach == ReachPolicy::WholeGraph) text += " --reach whole-graph";
  if (sketch.integers == IntegerPolicy::Permissive) text += " --integers permissive";
  if (!sketch.isTraining) text += " --mode infer";
  if (sketch.hasTypes) text += ", types known";
  text += "\n";
  text += "y:";
  for (const SketchHead &head : sketch.heads) {
    text += " " + textOf(sketch, head.y);
    if (head.hasSeed) text += "<-" + textOf(sketch, head.seed);
    else if (!head.seedName.empty()) text += "<-" + head.seedName;
  }
  text += "\nx:" + textOf(sketch, sketch.wrt) + "\nretained:" + textOf(sketch, sketch.retained) + "\nstop:";
  for (SketchEntry e : sketch.stop) text += " " + textOf(sketch, e);
  text += "\nno gradient:";
  for (SketchEntry e : sketch.noGrad) text += " " + textOf(sketch, e);
  text += "\n";
  for (uint32_t n = 0; n < sketch.nodes.size(); ++n) {
    if (!sketch.nodes[n].isVariable()) continue;
    text += "v" + std::to_string(n) + " =";
    for (double value : sketch.nodes[n].values) text += " " + numberText(value);
    text += "\n";
  }
  return text;
}

Expected<SketchGraph> buildSketch(Context &context, const Sketch &sketch) {
  GraphBuilder builder(context);
  std::vector<Value> at;
  for (uint32_t n = 0; n < sketch.nodes.size(); ++n) {
    const SketchNode &node = sketch.nodes[n];
    const std::string name = sketch.nameOf(n);
    if (node.isVariable()) {
      const AttrText type{"__dtype__", "int32"};
      at.push_back(builder.addVariable(name, node.isInteger ? context.attrs(type) : Attrs()));
      continue;
    }
    SmallVector<Value, 4> inputs;
    for (SketchEntry e : node.inputs) inputs.push_back(Value{at[e.node].node, static_cast<uint16_t>(e.output), 0});
    SmallVector<AttrText, 4> attrs;
    for (const auto &[key, text] : node.attrs) attrs.push_back({key, text});
    Expected<NodeId> id = builder.add(*context.ops.find(node.op), inputs, NodeSpec{name, context.attrs(attrs), NodeId()});
    if (!id) return id.takeError();
    for (size_t i = 0; i < inputs.size(); ++i)
      if (sketch.nodeOf(node.inputs[i]).isState)
        builder.setInput(*id, i, Value{inputs[i].node, 0, static_cast<uint16_t>(sketch.hasVersions ? node.inputs[i].version : 0)});
    for (uint32_t dep : node.deps) builder.addControlDep(*id, at[dep].node);
    at.push_back(Value{*id});
  }
  Expected<Frozen> frozen = std::move(builder).freeze(graphHeads(sketch, at), {});
  if (!frozen) return frozen.takeError();
  SketchGraph built{frozen->graph, {}, {}};
  for (Value v : at) built.ids.push_back((*frozen)(v).node);
  for (const SketchHead &head : sketch.heads) {
    GradientHead y{built.at(head.y), std::nullopt, head.seedName};
    if (head.hasSeed) y.seed = built.at(head.seed);
    built.request.heads.push_back(std::move(y));
  }
  for (const SketchTarget &t : sketch.wrt) built.request.wrt.push_back({built.at(t.x), t.request});
  for (const SketchTarget &t : sketch.retained) built.request.retained.push_back({built.at(t.x), t.request});
  for (SketchEntry e : sketch.stop) built.request.stop.push_back(built.at(e));
  for (SketchEntry e : sketch.noGrad) built.request.noGrad.push_back(built.at(e));
  return built;
}

}  // namespace gradc::testing
