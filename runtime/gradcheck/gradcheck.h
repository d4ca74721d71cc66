// Proof by central differences that an emitted gradient is the derivative of its graph (RUN-03).
//
// The scalar tested is a fixed random projection of the heads plus the implied loss of every loss operator that
// receives a head gradient. BlockGrad-like outputs and loss outputs are held constant at their base value, random
// operators repeat their draws, aux states are restored, piecewise operators stay on the piece active at the base
// point. docs/gradcheck.md.
#pragma once

#include "runtime/session/session.h"

namespace gradc {

struct GradcheckOptions {
  SessionOptions session;    // infer.floatAs should be Float64
  GradientRequest gradient;  // of the forward model; wrt empty: all
  GradientOptions gradientOptions;
  uint32_t order = 1;  // K: checks order-K gradients against differences of the order K-1 graph
  /// Checks in all, two forward evaluations each. None: 40, or as many as it takes to check each variable by itself.
  std::optional<uint32_t> samples;
  uint64_t seed = 1;
  double eps = 1e-5;  // step eps · max(1, |x|)
  double rtol = 1e-6, atol = 1e-8;
};

struct GradcheckRow {
  std::string variable;
  uint32_t checks = 0, failures = 0;
  uint32_t extrapolated = 0;   // checks that pass only with what the differences of smaller steps tend to
  double worstError = 0;       // |analytic − numeric| / (atol + rtol · max(|analytic|, |numeric|)), at most 1 to pass
  double largestGradient = 0;  // of the sampled |analytic| values
  bool isVacuous = false;      // every sampled |gradient| below 1e-12 without being structurally zero
  bool isStructuralZero = false;
};

/// What is held constant at the base point, bodies included.
struct HeldCounts {
  uint32_t pieces = 0, outputs = 0;  // nodes on their piece, nodes at their value
  uint32_t inputs = 0;               // labels, lengths and positions that operators read
  uint32_t decisions = 0;            // loops and branches
};

struct GradcheckReport {
  std::vector<GradcheckRow> rows;  // "all variables" first, then one per variable
  HeldCounts held;
  std::optional<double> factor;  // where checks fail: every gradient sampled is this multiple of its difference
  /// Of a check that failed because something is not finite: "node 'y' (sqrt) is nan at the base point", the first one.
  std::string notFinite;
  /// A loss in a body that is not part of the scalar, because its label is not saved: "node 'y' (SoftmaxOutput)".
  std::string lossWithoutLabel;
  /// Of a check that failed, what the differences tend to changes with the step: the function is not smooth at its
  /// scale.
  bool isUnsettled = false;
  /// Variables that no check moved alone.
  size_t numUnsampled() const;
  /// No failure, and if a variable is vacuous, another is not.
  bool passed() const;
};

/// `graph` is the forward model, or an emitted training graph (its heads are then checked against its forward part).
llvm::Expected<GradcheckReport> gradcheck(Context &context, const Graph &graph, std::vector<NamedArray> bindings,
                                          const GradcheckOptions &options);

}  // namespace gradc
