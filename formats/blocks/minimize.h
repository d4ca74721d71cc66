// What Paddle's optimizers add to a program: the gradients, clipped, and operators that take a step.
// Tested by tests/append_backward_test.cc and tests/paddle_programs.py
#pragma once

#include "formats/blocks/append_backward.h"

namespace gradc {

struct FluidOptimizer {
  enum class Type : uint8_t { Sgd, Momentum, Adam };
  enum class Clip : uint8_t { None, Value, Norm, GlobalNorm };

  Type type = Type::Sgd;
  /// A variable of the root block that holds the rate; it is declared if it is missing. Empty: `learning_rate_<k>`.
  std::string learningRate = {};
  double momentum = 0.9;
  bool useNesterov = false;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  Clip clip = Clip::None;
  /// The largest norm; for Clip::Value the largest value, and `clipMin` the smallest.
  double clipMax = 0, clipMin = 0;
};

/// `appendBackward`, then clips the gradients and appends the optimizer's operators, parameters in the order of their names.
/// State, `<parameter>_velocity_0` …, is declared persistable; the host sets it and the rate to their first values.
/// The pairs are those of `appendBackward`. UnsupportedOption for a gradient of rows if a norm is requested.
llvm::Expected<FluidResult> minimize(Context &context, BlockProgram program, const FluidRequest &request,
                                     const FluidOptimizer &optimizer);

}  // namespace gradc
