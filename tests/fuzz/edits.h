// Single edits of a sketch. Tested by tests/networks/fuzz_corpus_test.cc
#pragma once

#include "tests/fuzz/donors.h"
#include "tests/fuzz/draw_values.h"

namespace gradc::fuzz {

/// The shapes that inference finds for a sketch's values: by node, by output; no dims where a shape is not fully known.
struct KnownShapes {
  std::vector<std::vector<std::optional<std::vector<int64_t>>>> of;
  bool isComplete = false;  // the graph is valid, and every shape is known
};
KnownShapes inferSketch(const OpRegistry &ops, const GraphSketch &sketch);

class Editor {
 public:
  Editor(const Donors &donors, Dice &dice, GraphSketch &sketch) : donors(donors), dice(dice), sketch(sketch) {}

  /// Adds a graph, replacing some of its variables by existing values that have the right shape or are brought to it.
  void splice(const GraphSketch &part, const KnownShapes &shapes);
  /// Most likely keeps a valid graph valid.
  void editGently();
  /// May make a graph invalid.
  void editRoughly();

 private:
  void changeAttribute(bool isGentle);
  void changeShape(bool isGentle);
  void changeVariable(bool isGentle);
  void changeGraphAttribute(bool isGentle);
  void changeHeads(bool isGentle);
  void rewire();
  void replaceOperator();
  void removeNode();
  void addControlDep();
  void duplicateName();
  void equalNames();
  void addSubgraph();
  void changeCount();
  void wrapInput();
  bool editInside(bool isGentle);

  SketchNode &anyNode() { return sketch.nodes[dice.below(sketch.nodes.size())]; }
  SketchNode *anyOf(bool isVariable);
  int64_t anyId(bool isGentle);
  std::optional<SketchEntry> adapted(llvm::ArrayRef<int64_t> wanted, const KnownShapes &shapes);
  SketchEntry append(llvm::StringRef op, SketchEntry input, AttrList attrs);

  const Donors &donors;
  Dice &dice;
  GraphSketch &sketch;
};

}  // namespace gradc::fuzz
