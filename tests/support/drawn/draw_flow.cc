// Drawing loops, branches and calls: what goes in, then a body around that, then what the body asks for besides.
// Tested by tests/networks/differential_test.cc
#include "tests/support/drawn/draw_graph.h"

#include "llvm/ADT/STLExtras.h"

#include <memory>
#include <optional>

using namespace llvm;

namespace gradc::testing {

SketchNode GraphDrawer::variableLike(const JetTensor &value) {
  SketchNode node;
  node.shape = value.shape;
  node.isInteger = value.isInteger;
  for (const Jet &jet : value.jets) node.values.push_back(jet.v);
  return node;
}

void GraphDrawer::runBody(ArrayRef<SketchNode> given) {
  for (const SketchNode &node : given) {
    addNode(node);
    shapes.push_back(node.shape);
  }
  if (given.empty()) drawShapes();
  // Node 0 is one that everything may read.
  if (given.empty() || given[0].isInteger) addVariable(dice.one<std::vector<int64_t>>(shapes));
  statePercent = dice.chance(15) ? 30 : 0;
  integerPercent = dice.chance(15) ? 30 : 0;
  flowPercent = flowDepth > 1 && dice.chance(30) ? 30 : 0;
  const size_t numOps = 1 + dice.below(5);
  for (size_t tries = 0, added = 0; added < numOps && tries < 20 * numOps; ++tries) added += tryAdd(proposal());
  forgetUnwritten();
}

/// Draws one node with bodies.
class FlowDrawer {
 public:
  FlowDrawer(Dice &dice, GraphDrawer &outer, const Sketch &sketch)
      : dice(dice), outer(outer), sketch(sketch), made(std::make_shared<SketchFlow>()) {}

  /// None where no body fits.
  std::optional<SketchNode> run() {
    using Form = SketchFlow::Form;
    const Form forms[] = {Form::Scan, Form::Scan, Form::Scan, Form::While, Form::Branch, Form::Call};
    made->form = dice.one<Form>(forms);
    const bool isDrawn = made->form == Form::Scan ? drawScan() : made->form == Form::While ? drawWhile() : drawOnce();
    if (!isDrawn) return std::nullopt;
    if (dice.chance(15) && made->form != Form::Scan) addWhole(outer.anyEntry());  // which nothing reads
    made->isMutated.resize(node.inputs.size());
    for (const SketchBody &body : made->bodies)
      if (!noteMutated(body)) return std::nullopt;
    if (readsWhatItOverwrites()) return std::nullopt;
    constexpr StringRef kNames[] = {"_scan", "_while_loop", "_cond", "_call"};
    node.op = kNames[static_cast<size_t>(made->form)].str();
    node.flow = made;
    return std::move(node);
  }

 private:
  // ---- what goes in

  uint32_t addWhole(SketchEntry e) {
    node.inputs.push_back(e);
    return static_cast<uint32_t>(node.inputs.size() - 1);
  }

  SketchEntry floatingEntry() {
    for (;;)
      if (SketchEntry e = outer.anyEntry(); !outer.at(e).isInteger) return e;
  }

  SketchEntry rowsEntry() {
    for (int tries = 0; tries < 6; ++tries)
      if (SketchEntry e = floatingEntry(); outer.shapeOf(e)[0] == made->length) return e;
    const std::vector<int64_t> rows[] = {{}, {1}, {2}, {3}, {2, 2}};
    std::vector<int64_t> shape = dice.one<std::vector<int64_t>>(rows);
    shape.insert(shape.begin(), made->length);
    return outer.addVariable(shape);
  }

  /// As the first step sees it.
  SketchNode sliceOf(SketchEntry e) {
    const JetTensor &whole = outer.at(e);
    SketchNode slice;
    slice.shape.assign(whole.shape.begin() + 1, whole.shape.end());
    if (slice.shape.empty()) slice.shape = {1};
    const int64_t size = sizeOf(slice.shape), first = made->isReverse ? (made->length - 1) * size : 0;
    for (int64_t i = 0; i < size; ++i)
      slice.values.push_back(made->length ? whole.jets[first + i].v : dice.uniform(0.25, 1.75));
    return slice;
  }

  std::vector<SketchNode> drawStates(size_t count) {
    std::vector<SketchNode> given;
    for (; count > 0; --count) {
      const SketchEntry e = outer.anyEntry();
      addWhole(e);
      given.push_back(GraphDrawer::variableLike(outer.at(e)));
      ++made->numStates;
    }
    return given;
  }

  // ---- bodies

  struct Drawn {
    Sketch graph;
    std::unique_ptr<GraphDrawer> drawer;  // of the graph
  };

  std::unique_ptr<Drawn> drawBody(ArrayRef<SketchNode> given) {
    auto drawn = std::make_unique<Drawn>();
    drawn->graph.hasVersions = false;  // nothing but dependencies orders the nodes of a body
    drawn->graph.isTraining = sketch.isTraining;
    drawn->graph.integers = sketch.integers;
    drawn->drawer = std::make_unique<GraphDrawer>(dice, drawn->graph, outer.flowDepth - 1);
    drawn->drawer->runBody(given);
    return drawn;
  }

  static bool isYieldable(const Drawn &body, SketchEntry e) {
    const SketchNode &from = body.graph.nodeOf(e);
    return !from.isState && !from.isLoss() && !from.isCount && e.output < from.numVisible;
  }

  SketchEntry someHead(Drawn &body) {
    for (;;)
      if (SketchEntry e = body.drawer->anyEntry(); isYieldable(body, e)) return e;
  }

  // The variable that is given, at least, is like it.
  SketchEntry headLike(Drawn &body, const std::vector<int64_t> &shape, bool isInteger) {
    std::vector<SketchEntry> fitting;
    for (uint32_t n = 0; n < body.graph.nodes.size(); ++n)
      for (uint32_t o = 0; o < body.graph.nodes[n].numVisible; ++o)
        if (const SketchEntry e{n, o};
            isYieldable(body, e) && body.drawer->shapeOf(e) == shape && body.drawer->at(e).isInteger == isInteger)
          fitting.push_back(e);
    return dice.chance(60) ? fitting.back() : dice.one<SketchEntry>(fitting);
  }

  /// The graph is taken; variables from `numGiven` on are given something of the graph around.
  void addBody(Drawn &body, std::vector<SketchEntry> heads, std::vector<uint32_t> operandOf) {
    uint32_t k = 0;
    const size_t numGiven = operandOf.size();
    for (const SketchNode &variable : body.graph.nodes)
      if (variable.isVariable() && k++ >= numGiven) operandOf.push_back(capture(variable));
    made->bodies.push_back({std::move(body.graph), std::move(heads), std::move(operandOf)});
  }

  uint32_t capture(const SketchNode &variable) {
    if (variable.isState) return addWhole(outer.someState(variable.shape));
    for (int tries = dice.chance(50) && !variable.isCount ? 8 : 0; tries > 0; --tries) {
      const SketchEntry e = outer.anyEntry();
      if (outer.shapeOf(e) != variable.shape || outer.at(e).isInteger != variable.isInteger) continue;
      const size_t firstWhole = made->hasCount + made->numData + made->numStates;
      for (size_t i = firstWhole; i < node.inputs.size(); ++i)
        if (node.inputs[i] == e && dice.chance(50)) return static_cast<uint32_t>(i);
      return addWhole(e);
    }
    return addWhole(outer.addNode(variable));
  }

  // What decides: whether one number of an input is below or above another one.
  void addDecision(uint32_t input, double limit) {
    SketchBody body;
    const JetTensor &value = outer.at(node.inputs[input]);
    body.graph.nodes.push_back(GraphDrawer::variableLike(value));
    body.operandOf = {input};
    if (value.shape != std::vector<int64_t>{1}) {
      SketchNode flat, one;
      flat.op = "Reshape", flat.inputs = {{0, 0}}, flat.attrs = {{"shape", "(-1,)"}};
      one.op = "slice_axis", one.inputs = {{1, 0}}, one.a = 1;
      one.attrs = {{"axis", "0"}, {"begin", "0"}, {"end", "1"}};
      body.graph.nodes.push_back(flat), body.graph.nodes.push_back(one);
    }
    SketchNode decision;
    decision.op = dice.chance(70) ? "_lesser_scalar" : "_greater_scalar";
    decision.a = limit;
    decision.attrs = {{"scalar", numberText(limit)}};
    const auto last = static_cast<uint32_t>(body.graph.nodes.size() - 1);
    decision.inputs = {{last, 0}};
    body.graph.nodes.push_back(decision);
    body.heads = {{last + 1, 0}};
    made->bodies.push_back(std::move(body));
  }

  // ---- the four forms

  // Stacked ones first.
  std::vector<SketchEntry> loopHeads(Drawn &body, ArrayRef<SketchNode> states) {
    std::vector<SketchEntry> heads;
    for (size_t i = dice.below(3) + states.empty(); i-- > 0;) {
      const SketchEntry e = someHead(body);
      const JetTensor &value = body.drawer->at(e);
      if (value.shape.size() > 2 || static_cast<int64_t>(value.jets.size()) * made->length > 24) continue;
      heads.push_back(e);
      made->stacked.push_back({value.shape, value.isInteger});
    }
    for (const SketchNode &state : states) heads.push_back(headLike(body, state.shape, state.isInteger));
    return heads;
  }

  bool drawScan() {
    made->length = static_cast<int64_t>(dice.below(6));
    made->isReverse = dice.chance(30);
    made->hasCount = dice.chance(20);
    made->numData = static_cast<uint32_t>(dice.below(3));
    made->hasLength = made->numData == 0 || dice.chance(15);
    std::vector<SketchNode> given;
    int64_t most = made->length;
    if (made->hasCount) {
      SketchNode count;
      count.shape = {1}, count.isInteger = count.isCount = true;
      count.values = {static_cast<double>(most = static_cast<int64_t>(dice.below(most + 1)))};
      addWhole(outer.addNode(count));
    }
    for (uint32_t i = 0; i < made->numData; ++i) {
      const SketchEntry e = rowsEntry();
      addWhole(e);
      given.push_back(sliceOf(e));
    }
    const std::vector<SketchNode> states = drawStates(dice.below(3));
    given.insert(given.end(), states.begin(), states.end());
    std::unique_ptr<Drawn> body = drawBody(given);
    const std::vector<SketchEntry> heads = loopHeads(*body, states);
    if (heads.empty()) return false;
    std::vector<uint32_t> operandOf;
    for (uint32_t i = 0; i < given.size(); ++i) operandOf.push_back(made->hasCount + i);
    addBody(*body, heads, operandOf);
    return true;
  }

  // By a counter, or by a value of the graph around.
  bool drawWhile() {
    made->length = static_cast<int64_t>(dice.below(6));
    const bool hasCounter = dice.chance(60);
    std::vector<SketchNode> states;
    if (hasCounter) {
      SketchNode counter;
      counter.shape = {1}, counter.values = {0.5};
      addWhole(outer.addNode(counter));
      states.push_back(counter);
      ++made->numStates;
    }
    for (SketchNode &state : drawStates(dice.below(2) + !hasCounter)) states.push_back(std::move(state));
    addDecision(0, hasCounter ? static_cast<double>(dice.below(6)) : dice.uniform(-1.5, 1.5));
    std::unique_ptr<Drawn> body = drawBody(states);
    std::vector<SketchEntry> heads = loopHeads(*body, states);
    if (hasCounter) {
      SketchNode next;
      next.op = "_plus_scalar", next.a = 1, next.attrs = {{"scalar", "1"}}, next.inputs = {{0, 0}};
      heads[made->stacked.size()] = {static_cast<uint32_t>(body->graph.nodes.size()), 0};
      body->graph.nodes.push_back(next);
    }
    std::vector<uint32_t> operandOf;
    for (uint32_t i = 0; i < states.size(); ++i) operandOf.push_back(i);
    addBody(*body, heads, operandOf);
    // A file cannot say which loop variable it is that the body does not read.
    return all_of(operandOf, [&](uint32_t i) { return isReached(made->bodies.back(), i); });
  }

  bool drawOnce() {
    if (made->form == SketchFlow::Form::Branch) {
      addWhole(floatingEntry());
      addDecision(0, dice.uniform(-1, 1));
    }
    std::vector<SketchNode> given;
    for (size_t i = 1 + dice.below(2); i-- > 0;) given.push_back(GraphDrawer::variableLike(outer.at(outer.anyEntry())));
    std::unique_ptr<Drawn> body = drawBody(given);
    std::vector<SketchEntry> heads;
    std::vector<SketchNode> like;
    for (size_t i = 1 + dice.below(3); i-- > 0;) {
      heads.push_back(someHead(*body));
      like.push_back(GraphDrawer::variableLike(body->drawer->at(heads.back())));
    }
    addBody(*body, heads, {});
    if (made->form == SketchFlow::Form::Call) return true;
    body = drawBody(like);
    heads.clear();
    for (const SketchNode &value : like) heads.push_back(headLike(*body, value.shape, value.isInteger));
    addBody(*body, heads, {});
    return true;
  }

  // ---- what has to hold

  static std::vector<bool> reachedNodes(const SketchBody &body) {
    std::vector<bool> reached(body.graph.nodes.size());
    for (SketchEntry e : body.heads) reached[e.node] = true;
    for (uint32_t n = static_cast<uint32_t>(reached.size()); n-- > 0;) {
      if (!reached[n]) continue;
      for (SketchEntry e : body.graph.nodes[n].inputs) reached[e.node] = true;
      for (uint32_t dep : body.graph.nodes[n].deps) reached[dep] = true;
    }
    return reached;
  }

  static bool isReached(const SketchBody &body, uint32_t variable) {
    const std::vector<bool> reached = reachedNodes(body);
    for (uint32_t n = 0; n < reached.size(); ++n)
      if (body.graph.nodes[n].isVariable() && variable-- == 0) return reached[n];
    return false;
  }

  /// False where a node overwrites that no head needs, and that is therefore not in the graph.
  bool noteMutated(const SketchBody &body) {
    const std::vector<bool> reached = reachedNodes(body);
    uint32_t k = 0;
    for (uint32_t n = 0; n < reached.size(); ++n) {
      const SketchNode &each = body.graph.nodes[n];
      for (size_t i = 0; i < each.inputs.size(); ++i)
        if (each.overwrites(i) && !reached[n]) return false;
      if (!each.isVariable()) continue;
      if (each.isState) made->isMutated[body.operandOf[k]] = true;
      ++k;
    }
    return true;
  }

  bool readsWhatItOverwrites() const {
    for (size_t i = 0; i < node.inputs.size(); ++i)
      for (size_t k = 0; k < node.inputs.size(); ++k)
        if (i != k && made->isMutated[i] && node.inputs[i].node == node.inputs[k].node) return true;
    return false;
  }

  Dice &dice;
  GraphDrawer &outer;
  const Sketch &sketch;
  SketchNode node;
  std::shared_ptr<SketchFlow> made;
};

std::optional<SketchNode> GraphDrawer::flowProposal() { return FlowDrawer(dice, *this, sketch).run(); }

}  // namespace gradc::testing
