// Drawing what is requested of a graph, and the whole problem. Tested by tests/networks/differential_test.cc
#include "tests/support/drawn/draw_graph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc::testing {
namespace {

class RequestDrawer {
 public:
  RequestDrawer(Dice &dice, Sketch &sketch, GraphDrawer &graph) : dice(dice), sketch(sketch), graph(graph) {}

  void run() {
    drawPolicies();
    drawHeads();
    drawTargets();
    drawSets();
    if (sketch.order == 2) keepSecondOrderDefined();
  }

 private:
  uint32_t numNodes() const { return static_cast<uint32_t>(sketch.nodes.size()); }
  bool hasOperator(StringRef op) const {
    return any_of(sketch.nodes, [&](const SketchNode &node) { return node.op == op; });
  }
  bool hasIntegers() const {
    for (uint32_t n = 0; n < numNodes(); ++n)
      if (graph.at({n, 0}).isInteger) return true;
    return false;
  }
  bool isInteger(SketchEntry e) const { return graph.at(e).isInteger; }

  void drawPolicies() {
    constexpr HeadPolicy kRare[] = {HeadPolicy::Scalar, HeadPolicy::Required};
    sketch.headPolicy = dice.chance(25)  ? HeadPolicy::Input
                        : dice.chance(8) ? dice.one<HeadPolicy>(kRare)
                                         : HeadPolicy::Ones;
    sketch.unused = dice.chance(8) ? UnusedPolicy::Error : dice.chance(50) ? UnusedPolicy::None : UnusedPolicy::Zeros;
    sketch.duplicates = dice.chance(6) ? DuplicatePolicy::Strict : DuplicatePolicy::Allow;
    sketch.reach = dice.chance(20) ? ReachPolicy::WholeGraph : ReachPolicy::Ignore;
    sketch.order = dice.chance(50) ? 2 : 1;
    // A reader of a version waits for its writer, a dependency that the sketch does not list.
    const bool hasOrder =
        sketch.hasVersions && any_of(sketch.nodes, [](const SketchNode &node) { return node.isState; });
    sketch.controlOnly = !hasOrder && dice.chance(30) ? ControlOnlyPolicy::Zeros : ControlOnlyPolicy::Unused;
    sketch.hasTypes =
        dice.chance(25) || ((hasIntegers() || hasIntegersInside(sketch)) && sketch.integers == IntegerPolicy::Stop);
  }

  // What a run leaves in a state is no output of one node; hidden outputs are not for users.
  SketchEntry visibleEntry() {
    for (;;) {
      uint32_t n = static_cast<uint32_t>(dice.below(numNodes()));
      if (dice.chance(50)) n = numNodes() - 1 - static_cast<uint32_t>(dice.below(std::min(numNodes(), 3u)));
      if (!sketch.nodes[n].isState) return {n, static_cast<uint32_t>(dice.below(sketch.nodes[n].numVisible))};
    }
  }

  // A y of whole numbers takes ones, and only where these stay there.
  SketchEntry someHead() {
    for (;;) {
      SketchEntry e = visibleEntry();
      const bool mayBeInteger = sketch.integers == IntegerPolicy::Stop && sketch.headPolicy != HeadPolicy::Input;
      if (!isInteger(e) || (mayBeInteger && dice.chance(30))) return e;
    }
  }

  void drawHeads() {
    for (size_t i = 1 + (dice.chance(50) ? dice.below(4) : 0); i-- > 0;) {
      SketchHead head;
      head.y = !sketch.heads.empty() && dice.chance(15) ? sketch.heads[0].y : someHead();
      head.shape = graph.shapeOf(head.y);
      const bool isNamed = dice.chance(sketch.headPolicy == HeadPolicy::Required ? 90 : 30);
      if (isNamed && !isInteger(head.y)) {
        // A name may serve several y of one shape.
        head.seedName = "seed" + join(map_range(head.shape, [](int64_t d) { return std::to_string(d); }), "_");
        if (dice.chance(70)) head.seedName += "_of_" + std::to_string(i);
      } else if (dice.chance(20) && !sketch.nodeOf(head.y).isLoss() && !isInteger(head.y) &&
                 !hasOperator("test_part") && !hasOperator("sgd_mom_update")) {
        drawSeedEntry(head);
      }
      sketch.heads.push_back(std::move(head));
    }
  }

  void drawSeedEntry(SketchHead &head) {
    for (int tries = 0; tries < 10 && !head.hasSeed; ++tries) {
      head.seed = graph.anyEntry();
      head.hasSeed =
          graph.shapeOf(head.seed) == head.shape && !sketch.nodeOf(head.seed).isState && !isInteger(head.seed);
    }
  }

  // A loss has no gradient that all readers could agree on.
  SketchEntry askable(int percentVariable) {
    for (;;) {
      SketchEntry e = visibleEntry();
      if (dice.chance(percentVariable)) e = {static_cast<uint32_t>(dice.below(numNodes())), 0};
      const SketchNode &node = sketch.nodeOf(e);
      if (node.isState || isInteger(e)) continue;
      if (e.output > 0) return e;
      if (node.isLoss() || (dice.chance(percentVariable) && !node.isVariable())) continue;
      return e;
    }
  }

  // A variable on some path down from a y.
  SketchEntry variableBelowY() {
    SketchEntry e = dice.one<SketchHead>(sketch.heads).y;
    while (!sketch.nodeOf(e).isVariable()) e = dice.one<SketchEntry>(sketch.nodeOf(e).inputs);
    return sketch.nodeOf(e).isState || isInteger(e) ? askable(70) : e;
  }

  // Not everything requested can be had: E-06, E-09.
  SketchEntry someTarget() {
    if (!sketch.wrt.empty() && dice.chance(15)) return sketch.wrt[0].x;
    if (dice.chance(30)) return variableBelowY();
    if (dice.chance(93)) return askable(70);
    const SketchEntry e{static_cast<uint32_t>(dice.below(numNodes())), 0};
    const bool isRefused = sketch.nodeOf(e).isState || (isInteger(e) && sketch.integers == IntegerPolicy::Stop);
    return isRefused ? e : askable(70);
  }

  void drawTargets() {
    for (size_t i = 1 + dice.below(4); i-- > 0;) {
      SketchTarget target;
      target.x = someTarget();
      target.request = dice.chance(75) ? Request::Write : dice.chance(70) ? Request::Add : Request::Null;
      sketch.wrt.push_back(target);
    }
    for (size_t i = dice.chance(30) ? 1 + dice.below(2) : 0; i-- > 0;) {
      SketchEntry e = askable(0);
      if (any_of(sketch.retained, [&](const SketchTarget &t) { return t.x == e; })) continue;
      sketch.retained.push_back({e, dice.chance(80) ? Request::Write : dice.chance(50) ? Request::Add : Request::Null});
    }
    if (all_of(sketch.wrt, [](const SketchTarget &t) { return t.request == Request::Null; }))
      sketch.wrt[0].request = Request::Write;
  }

  void drawSets() {
    for (size_t i = dice.chance(25) ? 1 + dice.below(2) : 0; i-- > 0;) sketch.stop.push_back(visibleEntry());
    for (size_t i = dice.chance(25) ? 1 + dice.below(2) : 0; i-- > 0;) sketch.noGrad.push_back(visibleEntry());
  }

  // A gradient rule may read its node's output or recompute it from the inputs. So the
  // derivative of a first-order gradient by an intermediate value is defined only where no x lies below that value.
  void keepSecondOrderDefined() {
    // A zero of the graph stays one where it is a head gradient as well (ZERO-02), x or not.
    auto isUndefined = [&](const SketchTarget &t) {
      const std::string &op = sketch.nodeOf(t.x).op;
      return op == "zeros_like" || (!op.empty() && hasAskedBelow(t.x.node));
    };
    // Node 0 is a variable like others, so this ends.
    for (auto at = find_if(sketch.wrt, isUndefined); at != sketch.wrt.end(); at = find_if(sketch.wrt, isUndefined))
      at->x = {0, 0};
  }

  bool hasAskedBelow(uint32_t n) const {
    std::vector<bool> below(n + 1);
    below[n] = true;
    for (uint32_t m = n + 1; m-- > 0;) {
      if (!below[m]) continue;
      if (m != n && any_of(sketch.wrt, [&](const SketchTarget &t) { return t.x.node == m; })) return true;
      for (SketchEntry e : sketch.nodes[m].inputs) below[e.node] = true;
    }
    return false;
  }

  Dice &dice;
  Sketch &sketch;
  GraphDrawer &graph;
};

}  // namespace

Sketch drawSketch(uint64_t seed) {
  Dice dice(seed);
  Sketch sketch;
  sketch.isTraining = dice.chance(75);
  sketch.hasVersions = dice.chance(60);
  sketch.integers = dice.chance(25) ? IntegerPolicy::Permissive : IntegerPolicy::Stop;
  GraphDrawer graph(dice, sketch, dice.chance(25) ? 4 : 0);
  graph.run();
  RequestDrawer(dice, sketch, graph).run();
  drawBodies(dice, sketch);
  return sketch;
}

double seedValue(StringRef name, size_t index) {
  uint64_t hash = 1469598103934665603u;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return Dice(hash + index).uniform(-2, 2);
}

}  // namespace gradc::testing
