// Drawing the graph of a sketch, along with its values. Tested by tests/networks/differential_test.cc
#pragma once

#include "tests/support/drawn/dice.h"
#include "tests/support/drawn/jets.h"

#include <optional>

namespace gradc::testing {

/// Attributes of a node, for an input of this shape.
void setAttributes(Dice &dice, SketchNode &node, llvm::ArrayRef<int64_t> shape);

/// Adds bodies that nothing runs to some sketches, after everything else is drawn.
void drawBodies(Dice &dice, Sketch &sketch);

class GraphDrawer {
 public:
  /// Bodies that run may be nested `depth` levels deep.
  GraphDrawer(Dice &dice, Sketch &sketch, int depth = 0) : dice(dice), sketch(sketch), flowDepth(depth) {}

  void run();
  /// The graph of a body: the variables it is given, then others, and nodes.
  void runBody(llvm::ArrayRef<SketchNode> given);

  const JetTensor &at(SketchEntry e) const { return values.at(e); }
  const std::vector<int64_t> &shapeOf(SketchEntry e) const { return at(e).shape; }
  uint32_t numNodes() const { return values.numNodes(); }
  /// Any entry but a loss, later ones more often; hidden outputs are read, too. For a state, some version.
  SketchEntry anyEntry();
  /// A variable that has this value.
  static SketchNode variableLike(const JetTensor &value);

 private:
  friend class FlowDrawer;

  void drawShapes();
  void forgetUnwritten();
  std::optional<SketchNode> flowProposal();
  SketchEntry addNode(SketchNode node);
  SketchEntry addVariable(std::vector<int64_t> shape);
  SketchEntry addInteger(std::vector<int64_t> shape);
  SketchEntry someState(const std::vector<int64_t> &shape);
  SketchEntry readState(uint32_t n);
  SketchEntry entryOfShape(const std::vector<int64_t> &shape);
  SketchNode proposal();
  void propose(SketchNode &node);
  void proposeBroadcast(SketchNode &node);
  void proposeMany(SketchNode &node);
  void proposeRare(SketchNode &node);
  void proposeMatrix(SketchNode &node);
  void proposeOverwriting(SketchNode &node);
  void proposeInteger(SketchNode &node);
  bool tryAdd(SketchNode node);
  void waitForStates(SketchNode &node);

  Dice &dice;
  Sketch &sketch;
  SketchValues values;
  std::vector<std::vector<int64_t>> shapes;
  struct Accesses {
    std::vector<uint32_t> write, reads;  // the last node that wrote, and those that read since then
  };
  std::vector<Accesses> accesses;  // by node, for states
  int hubPercent = 0, statePercent = 0, integerPercent = 0, flowPercent = 0;
  int flowDepth = 0;  // with bodies that run, every node has a gradient
};

}  // namespace gradc::testing
