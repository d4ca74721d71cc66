// An independent way to the same gradients, only for tests: forward evaluation in truncated power series.
//
// A jet is v + d1·ε1 + d2·ε2 + d12·ε1ε2 with ε1² = ε2² = 0. Setting ε2 at one element of an x reads off one element of
// the gradient; setting ε1 at every x at once as well gives that element of the second order, which differentiates the
// sum of all first-order gradients. It uses no graph transformation, rule, accumulation or kernel of gradc: what a
// stopped, cut, repeated or intermediate entry means is defined once, where a value is read.
//
// Each coefficient carries a bound: the sum of the magnitudes of its terms. Rounding is judged against that.
// Tested by tests/networks/differential_test.cc
#pragma once

#include "ir/base/error.h"
#include "tests/support/drawn/random_graph.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>

namespace gradc::testing {

struct Jet {
  double v = 0, d1 = 0, d2 = 0, d12 = 0;
  double bv = 0, b1 = 0, b2 = 0, b12 = 0;  // bounds of the four

  Jet() = default;
  Jet(double value) : v(value), bv(value < 0 ? -value : value) {}
  /// Without its derivatives, as a reader of a constant sees it.
  Jet held() const {
    Jet j(v);
    j.bv = bv;
    return j;
  }
};

struct JetTensor {
  std::vector<int64_t> shape;
  std::vector<Jet> jets;
  bool isInteger = false;

  void hold() {
    for (Jet &jet : jets) jet = jet.held();
  }
};

/// The number of elements.
int64_t sizeOf(llvm::ArrayRef<int64_t> shape);

/// Whether values are small enough to be drawn.
bool isBenign(const JetTensor &tensor);

/// The outputs of a node; empty where its operands do not fit, or are too near a kink or a pole for the draw to be
/// used.
std::vector<JetTensor> evaluateNode(const SketchNode &node, llvm::ArrayRef<const JetTensor *> inputs);
/// The new values of the states that a node overwrites, in the order of its inputs; `inputs` have the old values.
std::vector<JetTensor> overwrittenStates(const SketchNode &node, llvm::ArrayRef<const JetTensor *> inputs);
JetTensor variableTensor(const SketchNode &node);

/// The values of a sketch, node by node, and every version of its states. No derivative goes through a state.
class SketchValues {
 public:
  /// False, and nothing is added, if the node cannot be evaluated. Entries that `isHeld` names are read as constants.
  bool add(const SketchNode &node, llvm::function_ref<bool(SketchEntry)> isHeld);

  /// A variable with this value instead of the drawn one.
  void addGiven(const SketchNode &variable, const JetTensor &value);

  uint32_t numNodes() const { return static_cast<uint32_t>(outputs.size()); }
  std::vector<JetTensor> &outputsOf(uint32_t n) { return outputs[n]; }
  /// The value that a reader sees: for a state, that of the version it names.
  const JetTensor &at(SketchEntry e) const {
    return states[e.node].empty() ? outputs[e.node][e.output] : states[e.node][e.version];
  }
  uint32_t latestVersion(uint32_t state) const { return static_cast<uint32_t>(states[state].size()) - 1; }
  /// Takes back the last node, which is the one given.
  void removeLast(const SketchNode &node);

 private:
  std::vector<std::vector<JetTensor>> outputs, states;  // by node; states by version, empty for other nodes
};

struct Judged {
  std::vector<double> values, bounds;
};

/// The expected gradients.
struct Expectation {
  std::optional<ErrorKind> error;       // then nothing else is set
  std::vector<Judged> states;           // after the run, by state in the order of the nodes
  std::vector<Judged> first, retained;  // parallel to wrt and retained without the null requests
  std::vector<Judged> second;           // parallel to first, for order 2
  std::vector<SlotStatus> status;       // of the first order
};
Expectation expectedGradients(const Sketch &sketch);

/// The error that a request has to end in, and which x are used: determined only by paths.
std::optional<ErrorKind> expectedError(const Sketch &sketch);
std::vector<SlotStatus> expectedStatus(const Sketch &sketch);
/// Whether a node that a gradient passes reads a version that is overwritten by then (MUT-03).
bool mayNeedOldVersion(const Sketch &sketch);
std::vector<SketchTarget> withoutNull(llvm::ArrayRef<SketchTarget> targets);

}  // namespace gradc::testing
