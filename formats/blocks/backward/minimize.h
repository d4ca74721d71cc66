// What Paddle's optimizers add to a program: the gradients, clipped, and operators that take a step.
// Tested by tests/formats/blocks/backward/append_backward_test.cc and tests/oracles/paddle_programs.py
#pragma once

#include "formats/blocks/backward/append_backward.h"

#include <map>

namespace gradc {

struct FluidOptimizer {
  enum class Clip : uint8_t { None, Value, Norm, GlobalNorm };

  /// Paddle's class (formats/blocks/tables/optimizer_forms.h).
  std::string name = "SGD";
  /// A variable of the root block that holds the rate; it is declared if it is missing. Empty: `learning_rate_<k>`.
  std::string learningRate = {};
  /// Arguments by Paddle's names, 0 and 1 for flags; defaults are Paddle's. `weight_decay` is the coefficient of L2
  /// decay, and `l1_decay` that of L1 decay, which Paddle is given as a regularizer.
  std::map<std::string, double> arguments = {};
  Clip clip = Clip::None;
  /// The largest norm; for Clip::Value the largest value, and `clipMin` the smallest.
  double clipMax = 0, clipMin = 0;
};

/// `appendBackward`, then clips the gradients, adds decay, and appends the optimizer's operators, parameters in the
/// order of their names. State, `<parameter>_velocity_0` …, is declared persistable; the host sets it and the rate to
/// their first values. The pairs are those of `appendBackward`. UnsupportedOption for an unknown optimizer or argument,
/// and for a gradient of rows if a norm or decay is requested.
llvm::Expected<FluidResult> minimize(Context &context, BlockProgram program, const FluidRequest &request,
                                     const FluidOptimizer &optimizer);

}  // namespace gradc
