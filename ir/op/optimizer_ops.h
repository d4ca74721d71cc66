// Operators that the steps of optimizers consist of, handed to the pass that appends them.
#pragma once

#include "ir/op/op.h"

namespace gradc {

/// What an input or attribute of a step holds. Other: a state, or a number that only some optimizers have. Weight32:
/// the float32 copy of a 16-bit weight. Steps are numbered from 1.
enum class StepRole : uint8_t {
  Other,
  Rate,
  RateFactor,
  StepNumber,
  WeightNorm,
  DirectionNorm,
  Weight32,
  Decay,
  Rescale,
  Clip,
  Momentum,
  Beta1,
  Beta2,
  Epsilon
};
inline constexpr size_t kNumStepRoles = static_cast<size_t>(StepRole::Epsilon) + 1;

/// One step. Inputs 0 and 1 are the weight and its gradient, or the direction.
struct StepOps {
  const OpDef *scheduled = nullptr;  // the rate, and the number of the step if it is read, are inputs
  const OpDef *fixed = nullptr;      // they are attributes
  const OpDef *mixed = nullptr;      // `fixed` for a 16-bit weight; null: there is none
};

struct OptimizerRecipe {
  StepOps steps[2];      // of LAMB the second goes along the direction that the first yields
  AttrText preset = {};  // what MXNet's optimizer of this name sets to a value other than the operator's default
};

struct OptimizerOps {
  OptimizerRecipe sgd, sgdMomentum, nag, signSgd, signum, rmsProp, rmsPropAlex, adaGrad, ftrl, ftml, adam, adamW, lamb;
  StepRole (*role)(llvm::StringRef name) = nullptr;  // of an input or attribute
  /// Of norms, in execution order.
  const OpDef *square = nullptr, *sum = nullptr, *sqrt = nullptr;
  /// Of 16-bit parameters: _assign(state, value), and Cast(x).
  const OpDef *assign = nullptr;
  WellKnownOps::Kind (*cast)(Context &, DType type) = nullptr;
};

}  // namespace gradc
