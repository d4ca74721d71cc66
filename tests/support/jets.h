// Another way to the same gradients, for tests alone: forward evaluation in truncated power series.
//
// A jet is v + d1·ε1 + d2·ε2 + d12·ε1ε2 with ε1² = ε2² = 0. Setting ε2 at one element of an x reads off one element of
// the gradient; setting ε1 at every x at once as well gives that element of the second order, which differentiates the
// sum of all first-order gradients. There is no graph transformation in it, no rule, no accumulation and no kernel of
// gradc: what a stopped, cut, repeated or intermediate entry means is said once, where a value is read.
//
// Each coefficient carries a bound: the sum of the magnitudes of its terms. Rounding is judged against that.
// Tested by tests/differential_test.cc
#pragma once

#include "ir/error.h"
#include "tests/support/random_graph.h"

#include <optional>

namespace gradc::testing {

struct Jet {
  double v = 0, d1 = 0, d2 = 0, d12 = 0;
  double bv = 0, b1 = 0, b2 = 0, b12 = 0;  // bounds of the four

  Jet() = default;
  Jet(double value) : v(value), bv(value < 0 ? -value : value) {}
  /// Without its derivatives: what a reader of a constant sees.
  Jet held() const { Jet j(v); j.bv = bv; return j; }
};

struct JetTensor {
  std::vector<int64_t> shape;
  std::vector<Jet> jets;
};

/// The outputs of a node; empty where its operands do not fit, or lie too near a kink or a pole for the draw to be used.
std::vector<JetTensor> evaluateNode(const SketchNode &node, llvm::ArrayRef<const JetTensor *> inputs);
JetTensor variableTensor(const SketchNode &node);

struct Judged {
  std::vector<double> values, bounds;
};

/// What the gradients have to be.
struct Expectation {
  std::optional<ErrorKind> error;       // then nothing else is set
  std::vector<Judged> first, retained;  // parallel to wrt and retained without the null requests
  std::vector<Judged> second;           // parallel to first, for order 2
  std::vector<SlotStatus> status;       // of the first order
};
Expectation expectedGradients(const Sketch &sketch);

}  // namespace gradc::testing
