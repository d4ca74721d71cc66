// Draws what has no effect on any value: bodies that nothing runs, and unknown operators beside the graph.
// Tested by tests/networks/differential_test.cc
#include "tests/support/drawn/draw_graph.h"

using namespace llvm;

namespace gradc::testing {
namespace {

class BodyDrawer {
 public:
  BodyDrawer(Dice &dice, Sketch &sketch) : dice(dice), sketch(sketch) {}

  void run() {
    for (size_t i = 1 + dice.below(3); i-- > 0;) drawBody();
    for (SketchNode &node : sketch.nodes)
      if (!node.isVariable() && !node.flow && dice.chance(30)) node.bodies = someBodies();
    for (size_t i = dice.below(4); i-- > 0;) drawBeside();
  }

 private:
  void drawBody() {
    Sketch body;
    body.hasVersions = sketch.hasVersions;
    body.isTraining = sketch.isTraining;
    GraphDrawer(dice, body).run();
    for (SketchNode &node : body.nodes)
      if (!node.isVariable() && !node.flow && !sketch.bodies.empty() && dice.chance(20)) node.bodies = someBodies();
    sketch.bodies.push_back(std::move(body));
  }

  std::vector<uint32_t> someBodies() {
    std::vector<uint32_t> list;
    for (size_t i = dice.chance(25) ? 2 : 1; i-- > 0;)
      list.push_back(static_cast<uint32_t>(dice.below(sketch.bodies.size())));
    return list;
  }

  // Of states it reads none: what reads one takes part in the order of their versions.
  SketchEntry someEntry() {
    const size_t numNodes = sketch.nodes.size(), numBeside = sketch.beside.size();
    for (;;) {
      const auto n = static_cast<uint32_t>(dice.below(numNodes + numBeside));
      const SketchNode &node = n < numNodes ? sketch.nodes[n] : sketch.beside[n - numNodes];
      if (!node.isState) return {n, static_cast<uint32_t>(dice.below(node.numVisible))};
    }
  }

  void drawBeside() {
    SketchNode node;
    node.op = dice.chance(50) ? "vendor_loop" : "vendor_cond";
    for (size_t i = dice.below(4); i-- > 0;) node.inputs.push_back(someEntry());
    if (dice.chance(80)) node.bodies = someBodies();
    if (dice.chance(30)) node.deps.push_back(static_cast<uint32_t>(dice.below(sketch.nodes.size())));
    node.numOutputs = node.numVisible = 1 + static_cast<uint32_t>(dice.below(2));
    sketch.beside.push_back(std::move(node));
  }

  Dice &dice;
  Sketch &sketch;
};

}  // namespace

void drawBodies(Dice &dice, Sketch &sketch) {
  if (dice.chance(20)) BodyDrawer(dice, sketch).run();
}

}  // namespace gradc::testing
