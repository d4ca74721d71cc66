// Valid graphs for the grammar to take apart: for every operator, some in which it appears.
//
// Operators with a sample (tests/conformance_samples/) have the sample; fused backward operators, the gradient graphs
// of samples; loops, branches and calls, those of flow_donors.h and their gradients; all others, a node drawn from
// their registry entry.
#pragma once

#include "ir/graph/context.h"
#include "tests/fuzz/sketch.h"
#include "tests/support/drawn/dice.h"

#include "llvm/ADT/StringMap.h"

namespace gradc::fuzz {

class Donors {
 public:
  Donors();

  const OpRegistry &ops() const { return registry; }
  /// Every name an operator may have in a file, aliases included.
  llvm::ArrayRef<llvm::StringRef> names() const { return spellings; }
  /// A graph with a node of that operator.
  GraphSketch draw(testing::Dice &dice, llvm::StringRef name) const;
  llvm::ArrayRef<GraphSketch> all() const { return graphs; }

 private:
  void addSamples();
  void addFlows();
  void addIfRare(const GraphSketch &gradient);
  void add(const GraphSketch &sketch);
  GraphSketch drawFromRegistry(testing::Dice &dice, const OpDef &op) const;

  OpRegistry registry;
  std::vector<llvm::StringRef> spellings;
  std::vector<GraphSketch> graphs;
  llvm::StringMap<std::vector<uint32_t>> graphsOf;  // by operator name: positions in `graphs`
  llvm::StringMap<size_t> numDerived;               // by operator name: nodes in gradient graphs so far
};

}  // namespace gradc::fuzz
