// The scalar of a gradient check near its base point, and its differences.
//
// The scalar: projections of the heads plus the implied losses of loss operators a head gradient reaches. Near the base
// point means: what the gradient treats as constant is held at its base value, piecewise operators stay on their piece.
#pragma once

#include "runtime/gradcheck/check_problem.h"

namespace gradc {

class ScalarFunction {
 public:
  /// Runs the base point once and records what has to be held. `session` is over `problem.function`, with its variables
  /// at the base point; it stays the owner of the memory that `evaluate` reads. `projections` has one array per output of
  /// the problem (float64), empty for ones.
  static llvm::Expected<ScalarFunction> create(const CheckProblem &problem, Session &session,
                                               std::vector<std::vector<double>> projections,
                                               const ExecOptions &options);
  ScalarFunction(ScalarFunction &&);
  ~ScalarFunction();

  /// Evaluates at what the session's variables hold now and keeps the result; aux states are those of the base point.
  llvm::Error evaluate();
  /// The scalar now minus the scalar that the call before the last one saw, summed difference by difference, which
  /// loses less than the difference of two sums.
  double differenceFromPrevious() const;
  uint32_t numHeldPieces() const;
  uint32_t numHeldOutputs() const;

 private:
  struct State;
  explicit ScalarFunction(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

}  // namespace gradc
