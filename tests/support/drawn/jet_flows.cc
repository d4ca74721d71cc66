// Loops, branches and calls over jets: bodies are evaluated node by node, once per step. Tested by
// tests/networks/differential_test.cc
#include "tests/support/drawn/jet_states.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc::testing {
namespace {

using Tensors = std::vector<JetTensor>;

JetTensor rowOf(const JetTensor &x, int64_t row) {
  JetTensor y{{x.shape.begin() + 1, x.shape.end()}, {}, x.isInteger};
  if (y.shape.empty()) y.shape = {1};
  const int64_t size = sizeOf(y.shape);
  y.jets.assign(x.jets.begin() + row * size, x.jets.begin() + (row + 1) * size);
  return y;
}

class FlowEvaluation {
 public:
  FlowEvaluation(const SketchFlow &flow, ArrayRef<const JetTensor *> in) : flow(flow) {
    for (const JetTensor *x : in) operands.push_back(*x);
  }

  std::optional<FlowValues> run() {
    const bool isLoop = flow.form == SketchFlow::Form::Scan || flow.form == SketchFlow::Form::While;
    if (!(isLoop ? runLoop() : runOnce())) return std::nullopt;
    FlowValues values{std::move(outputs), {}};
    for (size_t i = 0; i < operands.size(); ++i)
      if (flow.isMutated[i]) values.states.push_back(operands[i]);
    return values;
  }

 private:
  // What the body overwrites is written back to `given`.
  static bool runBody(const SketchBody &body, Tensors &given, Tensors &heads) {
    SketchValues values;
    std::vector<uint32_t> variables;
    for (uint32_t n = 0; n < body.graph.nodes.size(); ++n) {
      const SketchNode &node = body.graph.nodes[n];
      if (node.isVariable()) {
        values.addGiven(node, given[body.operandOf[variables.size()]]);
        variables.push_back(n);
        continue;
      }
      if (!values.add(node, [](SketchEntry) { return false; })) return false;
      if (!all_of(values.outputsOf(n), isBenign)) return false;
    }
    heads.clear();
    for (SketchEntry e : body.heads) heads.push_back(values.at(e));
    for (auto [k, n] : enumerate(variables))
      if (body.graph.nodes[n].isState) given[body.operandOf[k]] = values.at({n, 0, values.latestVersion(n)});
    return true;
  }

  std::optional<bool> decide(Tensors &given) {
    Tensors heads;
    if (!runBody(flow.bodies[0], given, heads)) return std::nullopt;
    return heads[0].jets[0].v != 0;
  }

  bool runOnce() {
    if (flow.form == SketchFlow::Form::Call) return runBody(flow.bodies[0], operands, outputs);
    const std::optional<bool> isFirst = decide(operands);
    return isFirst && runBody(flow.bodies[*isFirst ? 1 : 2], operands, outputs);
  }

  bool runLoop() {
    const size_t numStacked = flow.stacked.size(), firstState = flow.hasCount + flow.numData;
    std::vector<Tensors> rows(static_cast<size_t>(flow.length));
    const int64_t most = flow.hasCount ? static_cast<int64_t>(operands[0].jets[0].v) : flow.length;
    Tensors heads;
    for (int64_t step = 0; step < most; ++step) {
      const int64_t row = flow.isReverse ? most - 1 - step : step;
      Tensors given = operands;
      for (size_t i = flow.hasCount; i < firstState; ++i) given[i] = rowOf(operands[i], row);
      if (flow.form == SketchFlow::Form::While) {
        const std::optional<bool> goesOn = decide(given);
        if (!goesOn) return false;
        if (!*goesOn) break;
      }
      if (!runBody(flow.bodies.back(), given, heads)) return false;
      for (size_t i = firstState; i < operands.size(); ++i)
        if (!flow.isState(i)) operands[i] = given[i];
      rows[row].assign(heads.begin(), heads.begin() + numStacked);
      for (size_t s = 0; s < flow.numStates; ++s) operands[firstState + s] = heads[numStacked + s];
    }
    for (size_t k = 0; k < numStacked; ++k) outputs.push_back(stack(rows, k));
    for (size_t s = 0; s < flow.numStates; ++s) outputs.push_back(operands[firstState + s]);
    return true;
  }

  // Rows that were not run are zero.
  JetTensor stack(ArrayRef<Tensors> rows, size_t k) const {
    const auto &[shape, isInteger] = flow.stacked[k];
    JetTensor y{shape, {}, isInteger};
    y.shape.insert(y.shape.begin(), flow.length);
    for (const Tensors &row : rows)
      if (row.empty()) y.jets.insert(y.jets.end(), sizeOf(shape), Jet());
      else y.jets.insert(y.jets.end(), row[k].jets.begin(), row[k].jets.end());
    return y;
  }

  const SketchFlow &flow;
  Tensors operands, outputs;
};

}  // namespace

std::optional<FlowValues> evaluateFlow(const SketchFlow &flow, ArrayRef<const JetTensor *> inputs) {
  return FlowEvaluation(flow, inputs).run();
}

}  // namespace gradc::testing
