// What Paddle's optimizers add to a program: the gradients, clipped and with decay, and operators that take a step,
// parameters in the order of their names. Their states (`<parameter>_velocity_0` …) are declared persistable; the host
// sets them and the rate to their initial values. Tested by tests/formats/blocks/backward/append_backward_test.cc and
// tests/oracles/paddle_programs.py
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

/// Appends the gradients as `appendBackward`, whose pairs it returns, and the optimizer's operators. UnsupportedOption
/// for an unknown optimizer or argument, and for a gradient of rows if a norm or decay is requested.
llvm::Expected<FluidResult> minimize(Context &context, BlockProgram program, const FluidRequest &request,
                                     const FluidOptimizer &optimizer);

}  // namespace gradc
