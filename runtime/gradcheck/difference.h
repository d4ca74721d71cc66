// The scalar of a gradient check near its base point, and its differences.
//
// The scalar is the sum of projected heads and of the implied losses of loss operators that a head gradient reaches.
// Near the base point, entries that the gradient treats as constants have their base values, and piecewise operators
// stay on their piece.
#pragma once

#include "runtime/gradcheck/check_problem.h"

namespace gradc {

class ScalarFunction {
 public:
  /// Runs the base point once and records the values to hold constant. `session` is over `problem.function`, with its
  /// variables at the base point; it must outlive this object, as `evaluate` reads its memory. `projections` has one
  /// array per output of the problem (float64), empty for ones.
  static llvm::Expected<ScalarFunction> create(const CheckProblem &problem, Session &session,
                                               std::vector<std::vector<double>> projections,
                                               const ExecOptions &options);
  ScalarFunction(ScalarFunction &&);
  ~ScalarFunction();

  /// Evaluates at the current values of the session's variables and records the result; aux states are those of the
  /// base point.
  llvm::Error evaluate();
  /// The scalar of the last evaluation minus that of the one before, summed difference by difference, which loses less
  /// precision than the difference of two sums.
  double differenceFromPrevious() const;
  HeldCounts held() const;
  /// As in GradcheckReport.
  llvm::StringRef firstNotFinite() const;
  llvm::StringRef lossWithoutLabel() const;

 private:
  struct State;
  explicit ScalarFunction(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

}  // namespace gradc
