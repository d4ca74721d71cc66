// Donor graphs from the conformance samples and their gradients. Tested by tests/networks/fuzz_corpus_test.cc
#include "tests/fuzz/donors.h"

#include "formats/json/reader.h"
#include "formats/json/writer.h"
#include "ops/registry.h"
#include "passes/gradient/gradient.h"
#include "passes/inference/infer.h"
#include "passes/lowering/lower_to.h"
#include "tests/conformance_samples/samples.h"
#include "tests/fuzz/draw_values.h"
#include "tests/fuzz/flow_donors.h"
#include "passes/gradient/higher_order/higher_order.h"

#include <set>

using namespace llvm;

namespace gradc::fuzz {
namespace {

constexpr size_t kDonorsOfGradient = 6;  // per operator: samples are not counted

/// The attributes of a sample, "kernel=(2,2), pad=(1,1)".
AttrList attrsOf(StringRef text) {
  AttrList attrs;
  int depth = 0;
  std::string key, value, *part = &key;
  auto finish = [&] {
    if (!key.empty()) attrs.push_back({StringRef(key).trim().str(), StringRef(value).trim().str()});
    key.clear(), value.clear(), part = &key;
  };
  for (char c : text) {
    if (depth == 0 && c == '=' && part == &key) part = &value;
    else if (depth == 0 && c == ',') finish();
    else {
      depth += (c == '(' || c == '[') - (c == ')' || c == ']');
      *part += c;
    }
  }
  finish();
  return attrs;
}

GraphSketch sketchOf(const testing::Sample &sample) {
  GraphSketch sketch;
  SketchNode node{.op = sample.op, .name = "y", .attrs = attrsOf(sample.attrs)};
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    sketch.nodes.push_back(variable("x" + std::to_string(i), sample.inputs[i]));
    node.inputs.push_back({static_cast<int64_t>(i)});
  }
  sketch.heads.push_back({static_cast<int64_t>(sketch.nodes.size())});
  sketch.nodes.push_back(std::move(node));
  sketch.setAttr("mxnet_version", "[\"int\", 20000]");
  return sketch;
}

/// With a curve behind its last head, without the tables of other heads. A gradient is linear in the gradient it starts
/// from: behind a curve, what computes it is differentiated as well, at every order.
GraphSketch curved(GraphSketch sketch) {
  sketch.attrs = {{"mxnet_version", "[\"int\", 20000]"}};
  sketch.nodes.push_back({.op = "exp", .name = "curve", .inputs = {sketch.heads.back()}});
  sketch.heads = {{static_cast<int64_t>(sketch.nodes.size()) - 1}};
  return sketch;
}

std::string jsonOf(const Graph &graph) {
  std::string text;
  raw_string_ostream os(text);
  writeJson(os, graph);
  return text;
}

/// The gradient graph of that order; nothing where the operator has none.
std::optional<Graph> gradientOf(Context &ctx, const Graph &graph, const Inference &inference, uint32_t order,
                                ZeroPolicy zeroTerms) {
  GradientRequest request;
  request.wrt = allTargets(graph, &inference).targets;
  GradientOptions options;
  options.unused = UnusedPolicy::Zeros;
  options.zeroTerms = zeroTerms;
  options.inference = &inference;
  Expected<GradientResult> result = buildGradientOfOrder(ctx, graph, request, options, order);
  if (result) return result->graph;
  consumeError(result.takeError());
  return std::nullopt;
}

/// Of those orders, with and without terms that are zero, and lowered. None where there is no gradient.
std::vector<GraphSketch> gradientsOf(const OpRegistry &ops, const GraphSketch &sketch, uint32_t orders) {
  std::vector<GraphSketch> sketches;
  Context ctx;
  ctx.ops = ops;
  Expected<LoadedGraph> loaded = readJson(ctx, printSketch(sketch), ReadOptions());
  if (!loaded) return consumeError(loaded.takeError()), sketches;
  const Graph &graph = loaded->graph;
  Expected<Inference> inference = infer(ctx, graph, InferRequest(), InferOptions());
  if (!inference) return consumeError(inference.takeError()), sketches;
  std::vector<Graph> derived;
  for (uint32_t order = 1; order <= orders; ++order)
    for (ZeroPolicy zeroTerms : {ZeroPolicy::Drop, ZeroPolicy::Keep})
      if (std::optional<Graph> gradient = gradientOf(ctx, graph, *inference, order, zeroTerms))
        derived.push_back(*gradient);
  if (!derived.empty()) {
    Expected<Graph> lowered = lowerTo(ctx, derived[0], kMxnetTarget, nullptr);
    if (lowered) derived.push_back(*lowered);
    else consumeError(lowered.takeError());
  }
  for (const Graph &emitted : derived)
    if (std::optional<GraphSketch> gradient = parseSketch(jsonOf(emitted))) sketches.push_back(std::move(*gradient));
  return sketches;
}

}  // namespace

Donors::Donors() {
  registerBuiltinOps(registry);
  std::set<StringRef> sorted;
  for (const OpDef *op : registry.all()) {
    sorted.insert(op->name);
    for (StringRef alias : ArrayRef<StringRef>(op->aliases)) sorted.insert(alias);
  }
  spellings.assign(sorted.begin(), sorted.end());
  addSamples();
  addFlows();
}

void Donors::add(const GraphSketch &sketch) {
  std::set<StringRef> seen;
  for (const SketchNode &node : sketch.nodes)
    if (const OpDef *op = registry.find(node.op); op && seen.insert(op->name).second)
      graphsOf[op->name].push_back(static_cast<uint32_t>(graphs.size()));
  graphs.push_back(sketch);
}

void Donors::addSamples() {
  for (const testing::Sample &sample : testing::allSamples()) {
    const GraphSketch sketch = sketchOf(sample);
    add(sketch);
    for (const GraphSketch &gradient : gradientsOf(registry, sketch, std::min<uint32_t>(sample.orders, 2)))
      addIfRare(gradient);
    GraphSketch base = sketch;
    for (uint32_t order = 1; order <= std::min<uint32_t>(sample.orders, 3); ++order) {
      const std::vector<GraphSketch> gradients = gradientsOf(registry, curved(base), 1);
      if (gradients.empty()) break;
      for (const GraphSketch &gradient : gradients) addIfRare(gradient);
      base = gradients[0];
    }
  }
}

void Donors::addFlows() {
  for (const GraphSketch &sketch : flowDonors()) {
    add(sketch);
    for (const GraphSketch &gradient : gradientsOf(registry, sketch, 2)) add(gradient);
  }
}

/// Unless all its operators have donors enough.
void Donors::addIfRare(const GraphSketch &gradient) {
  bool isRare = false;
  for (const SketchNode &node : gradient.nodes)
    if (const OpDef *op = registry.find(node.op)) isRare |= numDerived[op->name]++ < kDonorsOfGradient;
  if (isRare) add(gradient);
}

GraphSketch Donors::drawFromRegistry(Dice &dice, const OpDef &op) const {
  Context ctx;
  ctx.ops = registry;
  SketchNode node{.op = op.name.str(), .name = "y"};
  std::vector<AttrText> pairs;
  // Attributes the operator takes, when a few tries find them.
  for (int attempt = 0; attempt < 4; ++attempt) {
    node.attrs.clear(), pairs.clear();
    for (const AttrSpec &spec : op.attrs)
      if (spec.isRequired || dice.chance(40))
        node.attrs.push_back({spec.key.str(), drawValue(dice, spec, Temper::Plausible)});
    for (const auto &[key, value] : node.attrs) pairs.push_back({key, value});
    Expected<KindRef> kind = ctx.kind(op, ctx.attrs(pairs));
    if (!kind) {
      consumeError(kind.takeError());
      continue;
    }
    GraphSketch sketch;
    const std::vector<int64_t> shape = drawShape(dice);
    const uint32_t numInputs = std::min<uint32_t>((*kind)->numInputs, 40);
    for (uint32_t i = 0; i < numInputs; ++i) {
      sketch.nodes.push_back(variable("x" + std::to_string(i), shape));
      node.inputs.push_back({static_cast<int64_t>(i)});
    }
    sketch.heads.push_back({static_cast<int64_t>(numInputs)});
    sketch.nodes.push_back(std::move(node));
    return sketch;
  }
  GraphSketch sketch;
  sketch.heads.push_back({0});
  sketch.nodes.push_back(std::move(node));
  return sketch;
}

GraphSketch Donors::draw(Dice &dice, StringRef name) const {
  const OpDef *op = registry.find(name);
  const auto found = op ? graphsOf.find(op->name) : graphsOf.end();
  GraphSketch sketch =
      !op || (found != graphsOf.end() && dice.chance(85))
          ? graphs[found == graphsOf.end() ? dice.below(graphs.size()) : dice.one<uint32_t>(found->second)]
          : drawFromRegistry(dice, *op);
  for (SketchNode &node : sketch.nodes)
    if (op && node.op == op->name) node.op = name.str();
  return sketch;
}

}  // namespace gradc::fuzz
