#include "ops/optimizer/optimizer_ops.h"

#include "ops/kit/primitives.h"

#include "ir/graph/context.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;

namespace gradc {
namespace {

StepRole roleOf(StringRef name) {
  return StringSwitch<StepRole>(name)
      .Case("lr", StepRole::Rate)
      .Case("rate_factor", StepRole::RateFactor)
      .Case("t", StepRole::StepNumber)
      .Case("r1", StepRole::WeightNorm)
      .Case("r2", StepRole::DirectionNorm)
      .Case("weight32", StepRole::Weight32)
      .Case("wd", StepRole::Decay)
      .Case("rescale_grad", StepRole::Rescale)
      .Cases("clip_gradient", "clip_grad", StepRole::Clip)
      .Case("momentum", StepRole::Momentum)
      .Case("beta1", StepRole::Beta1)
      .Case("beta2", StepRole::Beta2)
      .Case("epsilon", StepRole::Epsilon)
      .Default(StepRole::Other);
}

}  // namespace

OptimizerOps builtinOptimizerOps(const OpRegistry &registry) {
  // A step, by the name of its operator with a fixed rate.
  auto step = [&](StringRef name) -> StepOps {
    auto find = [&](const Twine &text) { return registry.find(text.str()); };
    return {find("_scheduled_" + name.ltrim('_')), find(name), find("mp_" + name)};
  };
  return {
      .sgd = {{step("sgd_update")}},
      .sgdMomentum = {{step("sgd_mom_update")}},
      .nag = {{step("nag_mom_update")}},
      .signSgd = {{step("signsgd_update")}},
      .signum = {{step("signum_update")}},
      .rmsProp = {.steps = {step("rmsprop_update")}, .preset = {"gamma1", "0.9"}},
      .rmsPropAlex = {.steps = {step("rmspropalex_update")}, .preset = {"gamma1", "0.9"}},
      .adaGrad = {{step("_adagrad_update")}},
      .ftrl = {{step("ftrl_update")}},
      .ftml = {{step("ftml_update")}},
      .adam = {{step("adam_update")}},
      .adamW = {{step("_adamw_update")}},
      .lamb = {{step("lamb_update_phase1"), step("lamb_update_phase2")}},
      .role = roleOf,
      .square = &kSquare,
      .sum = &kSum,
      .sqrt = &kSqrt,
      .assign = &kAssign,
      .cast = [](Context &context,
                 DType type) { return context.kind(kCast, context.attrs({{"dtype", dtypeName(type)}})); },
  };
}

}  // namespace gradc
