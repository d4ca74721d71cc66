// Values of a sketch, node by node, with every version of its states. Tested by tests/networks/differential_test.cc
#include "tests/support/drawn/jets.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;

namespace gradc::testing {

JetTensor variableTensor(const SketchNode &node) {
  JetTensor tensor{node.shape, {}, node.isInteger};
  for (double value : node.values) tensor.jets.push_back(Jet(value));
  return tensor;
}

bool isBenign(const JetTensor &tensor) {
  return tensor.jets.size() <= 24 && tensor.shape.size() <= 3 &&
         all_of(tensor.jets, [](const Jet &jet) { return std::abs(jet.v) <= 20 && jet.bv <= 1e4; });
}

void SketchValues::addGiven(const SketchNode &variable, const JetTensor &value) {
  outputs.push_back({value});
  states.emplace_back();
  if (!variable.isState) return;
  states.back() = {value};
  states.back()[0].hold();
}

bool SketchValues::add(const SketchNode &node, function_ref<bool(SketchEntry)> isHeld) {
  if (node.isVariable()) {
    addGiven(node, variableTensor(node));
    return true;
  }
  std::vector<JetTensor> seen;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    SketchEntry e = node.inputs[i];
    e.version -= node.overwrites(i);
    seen.push_back(at(e));
    if (isHeld(e)) seen.back().hold();
  }
  SmallVector<const JetTensor *, 4> inputs;
  for (const JetTensor &tensor : seen) inputs.push_back(&tensor);
  std::vector<JetTensor> values = evaluateNode(node, inputs);
  if (values.empty()) return false;
  std::vector<JetTensor> written = overwrittenStates(node, inputs);
  for (size_t i = node.inputs.size(); i-- > 0 && !written.empty();) {
    if (!node.overwrites(i)) continue;
    assert(latestVersion(node.inputs[i].node) + 1 == node.inputs[i].version &&
           "a version is made twice, or not in turn");
    states[node.inputs[i].node].push_back(std::move(written.back()));
    written.pop_back();
  }
  outputs.push_back(std::move(values));
  states.emplace_back();
  return true;
}

void SketchValues::removeLast(const SketchNode &node) {
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (node.overwrites(i)) states[node.inputs[i].node].pop_back();
  outputs.pop_back();
  states.pop_back();
}

}  // namespace gradc::testing
