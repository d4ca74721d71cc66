// Building and describing sketches. Tested by tests/networks/differential_test.cc
#include "tests/support/drawn/random_graph.h"

#include "passes/order/order_mutation.h"
#include "tests/support/drawn/flow_spec.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

#include <cstdio>

using namespace llvm;

namespace gradc::testing {

std::string numberText(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

namespace {

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
      if ((!isNeeded[n] && o == n % sketch.nodes[n].numVisible) || (!isRead[n][o] && (n + o) % 3 == 0) ||
          (n + o) % 7 == 0)
        heads.push_back(Value{at[n].node, static_cast<uint16_t>(o), 0});
  return heads;
}

std::vector<Graph> bodiesOf(const SketchNode &node, ArrayRef<Graph> bodies) {
  std::vector<Graph> list;
  for (uint32_t body : node.bodies) list.push_back(bodies[body]);
  return list;
}

/// No request yet. Heads as given, or the entries that no node reads.
Expected<SketchGraph> buildNodes(Context &context, const Sketch &sketch, ArrayRef<Graph> bodies,
                                 ArrayRef<SketchEntry> wantedHeads = {}) {
  GraphBuilder builder(context);
  std::vector<Value> at;
  for (uint32_t n = 0; n < sketch.nodes.size(); ++n) {
    const SketchNode &node = sketch.nodes[n];
    const std::string name = sketch.nameOf(n);
    if (node.isVariable()) {
      const AttrText type{"__dtype__", node.isCount ? "int64" : "int32"};
      at.push_back(builder.addVariable(name, node.isInteger ? context.attrs(type) : Attrs()));
      continue;
    }
    SmallVector<Value, 4> inputs;
    for (SketchEntry e : node.inputs) inputs.push_back(Value{at[e.node].node, static_cast<uint16_t>(e.output), 0});
    SmallVector<AttrText, 4> attrs;
    for (const auto &[key, text] : node.attrs) attrs.push_back({key, text});
    FlowSpec spec{node.op, bodiesOf(node, bodies), {}};
    if (node.flow) {
      Expected<FlowSpec> flow =
          describeFlow(node, [&](const SketchBody &body) { return buildNodes(context, body.graph, {}, body.heads); });
      if (!flow) return flow.takeError();
      spec = std::move(*flow);
    }
    for (const auto &[key, text] : spec.attrs) attrs.push_back({key, text});
    Expected<NodeId> id =
        builder.add(*context.ops.find(spec.op), inputs, NodeSpec{name, context.attrs(attrs), NodeId(), spec.bodies});
    if (!id) return id.takeError();
    for (size_t i = 0; i < inputs.size(); ++i)
      if (sketch.nodeOf(node.inputs[i]).isState)
        builder.setInput(
            *id, i, Value{inputs[i].node, 0, static_cast<uint16_t>(sketch.hasVersions ? node.inputs[i].version : 0)});
    for (uint32_t dep : node.deps) builder.addControlDep(*id, at[dep].node);
    at.push_back(Value{*id});
  }
  // A file of the current version is read without an upgrade.
  GraphTable table;
  table.mxnetVersion = 10901;
  std::vector<Value> heads;
  for (SketchEntry e : wantedHeads) heads.push_back(Value{at[e.node].node, static_cast<uint16_t>(e.output), 0});
  if (heads.empty()) heads = graphHeads(sketch, at);
  else table = {};
  Expected<Frozen> frozen = std::move(builder).freeze(heads, std::move(table));
  if (!frozen) return frozen.takeError();
  SketchGraph built{frozen->graph, {}, {}, {}};
  for (Value v : at) built.ids.push_back(frozen->newId[v.node.value]);
  return built;
}

}  // namespace

std::string seedVariable(const Sketch &sketch, size_t i) {
  const SketchHead &head = sketch.heads[i];
  if (head.hasSeed || !head.seedName.empty() || sketch.headPolicy != HeadPolicy::Input) return head.seedName;
  return "_head_grad_" + std::to_string(i);
}

std::string describe(const Sketch &sketch) {
  constexpr StringRef kHeads[] = {"ones", "scalar", "input", "required"}, kUnused[] = {"error", "none", "zeros"};
  std::string text =
      formatv("--order {0} --heads {1} --unused {2}", sketch.order, kHeads[static_cast<size_t>(sketch.headPolicy)],
              kUnused[static_cast<size_t>(sketch.unused)])
          .str();
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
  std::vector<Graph> bodies;
  for (const Sketch &body : sketch.bodies) {
    Expected<SketchGraph> built = buildNodes(context, body, bodies);
    if (!built) return built.takeError();
    bodies.push_back(built->graph);
  }
  Expected<SketchGraph> nodes = buildNodes(context, sketch, bodies);
  if (!nodes) return nodes.takeError();
  SketchGraph built = std::move(*nodes);
  built.bodies = std::move(bodies);
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

std::string besideName(size_t i) { return "beside" + std::to_string(i); }

Error addBeside(Context &context, const Sketch &sketch, SketchGraph &built) {
  GraphBuilder builder(context, built.graph);
  const size_t numNodes = sketch.nodes.size();
  std::vector<NodeId> ids = built.ids;
  std::vector<bool> isRead(sketch.beside.size());
  for (size_t i = 0; i < sketch.beside.size(); ++i) {
    const SketchNode &node = sketch.beside[i];
    Expected<KindRef> kind = context.opaqueKind(node.op, Attrs(), node.numOutputs, bodiesOf(node, built.bodies));
    if (!kind) return kind.takeError();
    SmallVector<Value, 4> inputs;
    for (SketchEntry e : node.inputs) {
      if (e.node >= numNodes) isRead[e.node - numNodes] = true;
      inputs.push_back(Value{ids[e.node], static_cast<uint16_t>(e.output), 0});
    }
    ids.push_back(builder.addKind(*kind, inputs, NodeId()));
    builder.setName(ids.back(), besideName(i), "");
    for (uint32_t dep : node.deps) builder.addControlDep(ids.back(), ids[dep]);
  }
  std::vector<Value> heads(built.graph.heads().begin(), built.graph.heads().end());
  for (size_t i = 0; i < sketch.beside.size(); ++i)
    if (!isRead[i])
      heads.push_back(Value{ids[numNodes + i], static_cast<uint16_t>(sketch.beside[i].numOutputs - 1), 0});
  Expected<Frozen> frozen = std::move(builder).freeze(heads, built.graph.table());
  if (!frozen) return frozen.takeError();
  built.graph = frozen->graph;
  return Error::success();
}

void forEachValue(GradientRequest &request, function_ref<void(Value &)> visit) {
  for (GradientHead &head : request.heads) {
    visit(head.y);
    if (head.seed) visit(*head.seed);
  }
  for (std::vector<GradientTarget> *targets : {&request.wrt, &request.retained})
    for (GradientTarget &target : *targets) visit(target.x);
  for (std::vector<Value> *values : {&request.noGrad, &request.stop})
    for (Value &v : *values) visit(v);
}

Error orderSketch(Context &context, SketchGraph &built) {
  Expected<OrderedGraph> ordered = orderMutations(context, built.graph, OverwrittenPolicy::Save);
  if (!ordered) return ordered.takeError();
  forEachValue(built.request, [&](Value &v) { v.node = ordered->newId[v.node.value]; });
  for (NodeId &id : built.ids) id = ordered->newId[id.value];
  built.graph = ordered->graph;
  return Error::success();
}

GradientOptions optionsOf(const Sketch &sketch) {
  GradientOptions options;
  options.headPolicy = sketch.headPolicy;
  options.unused = sketch.unused;
  options.duplicates = sketch.duplicates;
  options.controlOnly = sketch.controlOnly;
  options.reach = sketch.reach;
  options.integers = sketch.integers;
  options.isTraining = sketch.isTraining;
  return options;
}

std::string findLostBody(const Graph &before, const Graph &after, bool mayLack) {
  StringMap<NodeId> byName;
  for (uint32_t n = 0; n < after.numNodes(); ++n) byName.try_emplace(after.name(NodeId(n)), NodeId(n));
  for (uint32_t id = 0; id < before.numNodes(); ++id) {
    const NodeId n(id);
    ArrayRef<Graph> bodies = before.bodies(n);
    if (bodies.empty() || before.kind(n).flow) continue;  // gradients add heads to what runs
    auto found = byName.find(before.name(n));
    const bool isThere = found != byName.end() && after.op(found->second) == before.op(n);
    if (!isThere && mayLack) continue;
    auto isOne = [](const Graph &a, const Graph &b) { return &a.columns() == &b.columns(); };
    if (!isThere || !llvm::equal(after.bodies(found->second), bodies, isOne)) return before.describe(n);
  }
  return "";
}

}  // namespace gradc::testing
