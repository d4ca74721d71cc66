// Edits of sketches, right and wrong ones. Tested by tests/networks/fuzz_corpus_test.cc
#include "tests/fuzz/edits.h"

#include "tests/fuzz/grammar.h"

#include "formats/json/reader.h"
#include "passes/inference/infer.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;

namespace gradc::fuzz {
namespace {

int64_t sizeOf(ArrayRef<int64_t> dims) {
  int64_t size = 1;
  for (int64_t dim : dims) {
    if (__builtin_mul_overflow(size, dim, &size)) return -1;
  }
  return size;
}

/// A list of the form `["kind", […]]` of `count` elements.
template <class F> std::string listAttr(StringRef kind, size_t count, F element) {
  std::string text = "[\"" + kind.str() + "\", [";
  for (size_t i = 0; i < count; ++i) text += (i ? ", " : "") + element();
  return text + "]]";
}

}  // namespace

KnownShapes inferSketch(const OpRegistry &ops, const GraphSketch &sketch) {
  KnownShapes known;
  known.of.resize(sketch.nodes.size());
  Context ctx;
  ctx.ops = ops;
  Expected<LoadedGraph> loaded = readJson(ctx, printSketch(sketch), ReadOptions());
  if (!loaded) {
    consumeError(loaded.takeError());
    return known;
  }
  const Graph &graph = loaded->graph;
  InferOptions options;
  options.allowUnknown = true;
  Expected<Inference> inference = infer(ctx, graph, InferRequest(), options);
  if (!inference) {
    consumeError(inference.takeError());
    return known;
  }
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    const SourceMap::Range &source = loaded->sources.nodes[n];
    if (source.begin < 0 || source.fileId >= known.of.size()) continue;
    for (uint32_t o = 0; o < graph.numOutputs(NodeId(n)); ++o) {
      const EntryId entry(graph.firstEntry(NodeId(n)).value + o);
      auto &slot = known.of[source.fileId].emplace_back();
      // What reads an entry in place of a variable most likely reads floating numbers.
      if (inference->isKnownShape(entry) && isFloating(inference->dtype[entry]))
        slot = std::vector<int64_t>(inference->shapeOf(entry).dims());
    }
  }
  known.isComplete = inference->numUnknownShapes == 0 && inference->numUnknownDTypes == 0;
  return known;
}

SketchEntry Editor::append(StringRef op, SketchEntry input, AttrList attrs) {
  const auto id = static_cast<int64_t>(sketch.nodes.size());
  SketchNode node{.op = op.str(), .name = "n" + std::to_string(id), .attrs = std::move(attrs)};
  node.inputs.push_back(input);
  sketch.nodes.push_back(std::move(node));
  return {id};
}

std::optional<SketchEntry> Editor::adapted(ArrayRef<int64_t> wanted, const KnownShapes &shapes) {
  const int64_t size = sizeOf(wanted);
  for (int attempt = 0; attempt < 6 && !shapes.of.empty(); ++attempt) {
    const size_t node = dice.below(shapes.of.size());
    if (shapes.of[node].empty()) continue;
    const size_t output = dice.below(shapes.of[node].size());
    if (!shapes.of[node][output]) continue;
    const std::vector<int64_t> &dims = *shapes.of[node][output];
    SketchEntry entry{static_cast<int64_t>(node), static_cast<int64_t>(output)};
    if (ArrayRef<int64_t>(dims) == wanted) return entry;
    const int64_t have = sizeOf(dims);
    if (size <= 0 || have < size || wanted.empty()) continue;
    if (have > size) {
      entry = append("Reshape", entry, {{"shape", "(-1,)"}});
      entry = append("slice_axis", entry, {{"axis", "0"}, {"begin", "0"}, {"end", std::to_string(size)}});
    }
    return append("Reshape", entry, {{"shape", shapeText(wanted)}});
  }
  return std::nullopt;
}

void Editor::splice(const GraphSketch &part, const KnownShapes &shapes) {
  const size_t before = sketch.nodes.size();
  appendNodes(sketch, part);
  const size_t after = sketch.nodes.size();
  std::vector<std::optional<SketchEntry>> replacement(after - before);
  for (size_t i = before; i < after; ++i) {
    SketchNode &node = sketch.nodes[i];
    if (!dice.chance(2)) node.name += "_" + std::to_string(i);
    const std::string *text = node.isVariable() && dice.chance(60) ? node.attr("__shape__") : nullptr;
    if (!text) continue;
    if (const auto dims = parseShapeText(*text)) replacement[i - before] = adapted(*dims, shapes);
  }
  for (size_t i = before; i < after; ++i)
    for (SketchEntry &entry : sketch.nodes[i].inputs) {
      const auto index = static_cast<size_t>(entry.node) - before;
      if (entry.node >= static_cast<int64_t>(before) && index < replacement.size() && replacement[index] &&
          dice.chance(95))
        entry = *replacement[index];
    }
  // A value that now has a reader usually stops being a head.
  llvm::erase_if(sketch.heads, [&](const SketchEntry &head) {
    if (dice.chance(30)) return false;
    for (size_t i = before; i < sketch.nodes.size(); ++i)
      for (const SketchEntry &entry : sketch.nodes[i].inputs)
        if (entry.node == head.node && entry.index == head.index) return true;
    return false;
  });
  for (SketchEntry head : part.heads) {
    head.node = shiftedId(head.node, before);
    sketch.heads.push_back(head);
  }
  // The part that was added stays whole.
  const size_t kept = std::max<size_t>(4, part.heads.size());
  if (sketch.heads.size() > std::max<size_t>(6, kept) && dice.chance(70)) {
    sketch.heads.erase(sketch.heads.begin(), sketch.heads.end() - kept);
    dropUnreached(sketch);
  }
}

SketchNode *Editor::anyOf(bool isVariable) {
  for (int attempt = 0; attempt < 12; ++attempt)
    if (SketchNode &node = anyNode(); node.isVariable() == isVariable) return &node;
  return nullptr;
}

int64_t Editor::anyId(bool isGentle) {
  if (!isGentle && dice.chance(3)) return drawHostileInt(dice);
  return static_cast<int64_t>(dice.below(sketch.nodes.size()));
}

void Editor::changeAttribute(bool isGentle) {
  SketchNode *node = anyOf(false);
  const OpDef *op = node ? donors.ops().find(node->op) : nullptr;
  if (!op) return;
  const Temper temper = isGentle ? Temper::Plausible : dice.chance(60) ? Temper::Hostile : Temper::Boundary;
  if (op->attrs.empty() || (!isGentle && dice.chance(5))) {
    node->setAttr(dice.chance(50) ? "bogus" : "__bogus__", drawGarbage(dice));
    return;
  }
  if (!node->attrs.empty() && dice.chance(10)) {
    node->attrs.erase(node->attrs.begin() + dice.below(node->attrs.size()));
    return;
  }
  const AttrSpec &spec = op->attrs[dice.below(op->attrs.size())];
  node->setAttr(spec.key, drawValue(dice, spec, temper));
}

void Editor::changeShape(bool isGentle) {
  SketchNode *node = anyOf(true);
  if (!node) return;
  const std::string *text = node->attr("__shape__");
  std::optional<std::vector<int64_t>> dims = text ? parseShapeText(*text) : std::nullopt;
  if (!dims || dice.chance(isGentle ? 5 : 20)) {
    node->setAttr("__shape__", !isGentle && dice.chance(20) ? drawGarbage(dice) : shapeText(drawShape(dice)));
    return;
  }
  if (isGentle && !dims->empty()) {
    // One length, wherever it appears: most relations between shapes survive that.
    const int64_t from = dice.one<int64_t>(*dims), to = drawDim(dice);
    for (SketchNode &other : sketch.nodes) {
      const std::string *shape = other.isVariable() ? other.attr("__shape__") : nullptr;
      std::optional<std::vector<int64_t>> list = shape ? parseShapeText(*shape) : std::nullopt;
      if (!list) continue;
      std::replace(list->begin(), list->end(), from, to);
      other.setAttr("__shape__", shapeText(*list));
    }
    return;
  }
  const size_t kind = dice.below(10);
  if (kind == 0) dims->push_back(drawDim(dice));
  else if (kind == 1 && !dims->empty()) dims->erase(dims->begin() + dice.below(dims->size()));
  else if (kind == 2) llvm::erase_if(node->attrs, [](const auto &pair) { return pair.first == "__shape__"; });
  else if (!dims->empty()) (*dims)[dice.below(dims->size())] = kind < 6 ? drawHostileInt(dice) : drawDim(dice);
  if (kind != 2) node->setAttr("__shape__", shapeText(*dims));
}

void Editor::changeVariable(bool isGentle) {
  constexpr StringRef kInits[] = {"[\"zero\", {}]",
                                  "[\"one\", {}]",
                                  "[\"Constant\", {\"value\": 0.25}]",
                                  "zeros",
                                  "ones",
                                  "[\"Constant\", {\"value\": 1e300}]",
                                  "[\"Constant\", {\"value\": -3}]",
                                  "[\"uniform\", {\"scale\": 0.1}]"};
  constexpr StringRef kOthers[] = {"__lr_mult__",   "__wd_mult__",         "__stop_gradient__",
                                   "__ctx_group__", "__force_mirroring__", "__origin__"};
  SketchNode *node = anyOf(true);
  if (!node) return;
  switch (dice.below(4)) {
    case 0: node->setAttr("__dtype__", isGentle || !dice.chance(20) ? drawDType(dice) : drawGarbage(dice)); break;
    case 1:
      node->setAttr("__init__", isGentle || !dice.chance(20) ? dice.one<StringRef>(kInits).str() : drawGarbage(dice));
      break;
    case 2:
      node->setAttr("__storage_type__", isGentle          ? "0"
                                        : dice.chance(80) ? std::to_string(dice.below(5))
                                                          : drawGarbage(dice));
      break;
    case 3: node->setAttr(dice.one<StringRef>(kOthers), dice.chance(50) ? "True" : drawGarbage(dice)); break;
  }
}

void Editor::changeGraphAttribute(bool isGentle) {
  constexpr int64_t kVersions[] = {20000, 20000, 10901, 10700, 10000, 905, 800, 0, -1};
  constexpr StringRef kKeys[] = {"shape",         "dtype",        "storage_type", "shape_known",       "shape_inputs",
                                 "grad_order",    "head_kind",    "grad_of",      "grad_req",          "slot_status",
                                 "grad_none",     "head_grad_of", "grad_mode",    "num_forward_heads", "plan",
                                 "mxnet_version", "other"};
  const size_t kind = dice.below(6);
  if (kind <= 1) return sketch.setAttr(kChoiceKey, "[\"int\", " + std::to_string(dice.below(1u << 30)) + "]");
  if (kind == 2 || isGentle)
    return sketch.setAttr("mxnet_version",
                          "[\"int\", " + std::to_string(isGentle ? 20000 : dice.one<int64_t>(kVersions)) + "]");
  if (kind == 3 && !sketch.attrs.empty()) {
    sketch.attrs.erase(sketch.attrs.begin() + dice.below(sketch.attrs.size()));
    return;
  }
  const StringRef key = dice.one<StringRef>(kKeys);
  const size_t count = dice.chance(60) ? sketch.nodes.size() : dice.chance(50) ? sketch.heads.size() : dice.below(9);
  auto number = [&] { return std::to_string(dice.chance(30) ? drawHostileInt(dice) : drawDim(dice)); };
  if (key == "shape" || key == "plan" || dice.chance(10))
    return sketch.setAttr(key, listAttr("list_shape", count, [&] {
                            std::string dims = "[";
                            for (size_t i = dice.below(4); i-- > 0;) dims += number() + (i ? ", " : "");
                            return dims + "]";
                          }));
  switch (dice.below(5)) {
    case 0: return sketch.setAttr(key, "[\"int\", " + number() + "]");
    case 1: return sketch.setAttr(key, listAttr("list_int", count, number));
    case 2: return sketch.setAttr(key, listAttr("list_str", count, [&] { return "\"" + anyNode().op + "\""; }));
    case 3: return sketch.setAttr(key, "[\"str\", \"forward\"]");
    case 4: return sketch.setAttr(key, "{\"deep\": [1, 2.5, null]}");
  }
}

void Editor::changeHeads(bool isGentle) {
  if (sketch.heads.size() > 1 && dice.chance(30)) {
    sketch.heads.erase(sketch.heads.begin() + dice.below(sketch.heads.size()));
    return dropUnreached(sketch);
  }
  SketchEntry head{anyId(isGentle)};
  if (dice.chance(isGentle ? 10 : 40))
    head.index = dice.chance(90) ? static_cast<int64_t>(dice.below(4)) : drawHostileInt(dice);
  if (!isGentle && dice.chance(10)) head.version = static_cast<int64_t>(dice.below(3));
  if (!isGentle && dice.chance(10)) sketch.heads.clear();
  sketch.heads.push_back(dice.chance(80) || sketch.heads.empty() ? head : dice.one<SketchEntry>(sketch.heads));
}

void Editor::rewire() {
  SketchNode *node = anyOf(false);
  if (!node || node->inputs.empty()) return;
  SketchEntry &entry = node->inputs[dice.below(node->inputs.size())];
  switch (dice.below(4)) {
    case 0: entry.index = dice.chance(80) ? static_cast<int64_t>(dice.below(3)) : drawHostileInt(dice); break;
    case 1: entry.version = dice.chance(90) ? static_cast<int64_t>(dice.below(4)) : drawHostileInt(dice); break;
    default: entry = {anyId(false)}; break;
  }
}

void Editor::replaceOperator() {
  SketchNode *node = anyOf(false);
  if (!node) return;
  const OpDef *old = donors.ops().find(node->op);
  for (int attempt = 0; attempt < 20; ++attempt) {
    const StringRef name = dice.one<StringRef>(donors.names());
    const OpDef *op = donors.ops().find(name);
    const bool isAlike =
        old && op->inputs.names.count == old->inputs.names.count && op->flags.isBackward == old->flags.isBackward;
    if (!isAlike && !dice.chance(5)) continue;
    node->op = dice.chance(1) ? "some_operator" : name.str();
    return;
  }
}

void Editor::removeNode() {
  SketchNode *node = anyOf(false);
  if (!node) return;
  *node = variable(node->name, drawShape(dice));
  if (dice.chance(30)) node->attrs.clear();
  dropUnreached(sketch);
}

void Editor::addControlDep() {
  SketchNode &node = anyNode();
  if (!node.deps.empty() && dice.chance(30)) node.deps[dice.below(node.deps.size())] = anyId(false);
  else node.deps.insert(node.deps.begin() + dice.below(node.deps.size() + 1), anyId(false));
}

void Editor::duplicateName() {
  anyNode().name = dice.chance(80) ? anyNode().name : dice.chance(50) ? "" : drawGarbage(dice);
}

/// Many nodes of one name, or without a name.
void Editor::equalNames() {
  const std::string name = dice.chance(50) ? "" : anyNode().name;
  const bool takesAll = dice.chance(40), takesVariables = dice.chance(50);
  for (SketchNode &node : sketch.nodes)
    if ((takesAll || node.isVariable() == takesVariables) && dice.chance(80)) node.name = name;
}

void Editor::addSubgraph() {
  SketchNode *node = anyOf(false);
  if (!node) return;
  if (!node->subgraphs.empty() && dice.chance(40)) {
    node->subgraphs.pop_back();
    return;
  }
  const GraphSketch &inner = donors.all()[dice.below(donors.all().size())];
  node->subgraphs.push_back(printSketch(dice.chance(30) && sketch.nodes.size() < 8 ? sketch : inner));
}

void Editor::changeCount() {
  SketchNode *node = anyOf(false);
  if (!node) return;
  const bool isShorter = !node->inputs.empty() && dice.chance(50);
  if (isShorter) node->inputs.pop_back();
  else
    for (size_t i = dice.chance(5) ? 40 : 1; i-- > 0;)
      node->inputs.push_back(node->inputs.empty() || dice.chance(30) ? SketchEntry{anyId(true)}
                                                                     : dice.one<SketchEntry>(node->inputs));
  // Operators of any number of inputs say how many.
  if (node->attr("num_args") && dice.chance(90)) node->setAttr("num_args", std::to_string(node->inputs.size()));
}

/// A node of one input in front of some input of another, most likely of the same shape and type.
void Editor::wrapInput() {
  constexpr StringRef kOps[] = {"exp", "tanh", "square", "relu", "negative", "_copy", "BlockGrad", "sum", "Dropout"};
  SketchNode *node = anyOf(false);
  if (!node || node->inputs.empty()) return;
  const auto id = node - sketch.nodes.data();
  const size_t input = dice.below(node->inputs.size());
  const SketchEntry wrapped = append(dice.one<StringRef>(kOps), node->inputs[input], {});
  sketch.nodes[static_cast<size_t>(id)].inputs[input] = wrapped;
}

/// One edit in a body; false where there is none that is a graph.
bool Editor::editInside(bool isGentle) {
  std::vector<std::string *> bodies;
  for (SketchNode &node : sketch.nodes)
    for (std::string &text : node.subgraphs) bodies.push_back(&text);
  if (bodies.empty()) return false;
  std::string &text = *bodies[dice.below(bodies.size())];
  std::optional<GraphSketch> body = parseSketch(text);
  if (!body || body->nodes.empty()) return false;
  Editor inside(donors, dice, *body);
  if (isGentle && dice.chance(60)) inside.wrapInput();
  else if (isGentle) inside.editGently();
  else inside.editRoughly();
  text = printSketch(*body);
  return true;
}

void Editor::editGently() {
  if (sketch.nodes.empty()) return;
  const bool hasBodies = llvm::any_of(sketch.nodes, [](const SketchNode &node) { return !node.subgraphs.empty(); });
  if (hasBodies && dice.chance(30) && editInside(true)) return;
  switch (dice.below(11)) {
    case 0:
    case 1:
    case 2: return changeAttribute(true);
    case 3:
    case 4: return changeShape(true);
    case 5: return changeVariable(true);
    case 6: return changeHeads(true);
    case 7: return changeGraphAttribute(true);
    case 8: return replaceOperator();
    case 9: return dice.chance(50) ? changeCount() : addControlDep();
    case 10: return equalNames();
  }
}

void Editor::editRoughly() {
  if (sketch.nodes.empty()) return;
  const bool hasBodies = llvm::any_of(sketch.nodes, [](const SketchNode &node) { return !node.subgraphs.empty(); });
  if (hasBodies && dice.chance(30) && editInside(false)) return;
  switch (dice.below(16)) {
    case 0:
    case 1:
    case 2: return changeAttribute(false);
    case 3:
    case 4:
    case 5: return changeShape(false);
    case 6: return changeVariable(false);
    case 7: return changeGraphAttribute(false);
    case 8: return changeHeads(false);
    case 9: return rewire();
    case 10: return replaceOperator();
    case 11: return removeNode();
    case 12: return addControlDep();
    case 13: return dice.chance(60) ? duplicateName() : equalNames();
    case 14: return addSubgraph();
    case 15: return changeCount();
  }
}

}  // namespace gradc::fuzz
