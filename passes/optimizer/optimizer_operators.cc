#include "passes/optimizer/optimizer_operators.h"

#include "ir/base/error.h"
#include "ir/op/hidden_keys.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

// Roles of attributes that the options give by name; the pass sets the others.
constexpr StepRole kGivenByName[] = {StepRole::Other, StepRole::Momentum, StepRole::Beta1, StepRole::Beta2,
                                     StepRole::Epsilon};

/// A multiplier in a variable's attributes; `fallback` if it has none.
Expected<double> multiplier(const Graph &graph, NodeId variable, StringRef key, double fallback) {
  std::optional<StringRef> text = graph.attrs(variable).get(key);
  double value = fallback;
  if (text && !to_float(*text, value))
    return Failure(ErrorKind::BadAttribute,
                   "attribute '" + key + "' of " + graph.describe(variable) + " is '" + *text + "', expected a number")
        .at(variable);
  return value;
}

double defaultDecay(DecayRule rule, StringRef name) {
  return rule == DecayRule::All || name.ends_with("_weight") || name.ends_with("_gamma") ? 1 : 0;
}

}  // namespace

Expected<OptimizerOperators> OptimizerOperators::find(Context &context, const OptimizerOptions &options) {
  OptimizerOperators operators(context, options);
  if (Error error = operators.lookUp()) return error;
  if (Error error = operators.checkAttrs()) return error;
  return operators;
}

Error OptimizerOperators::lookUp() {
  if (options->fixedRate && info->hasBiasCorrection && options->kind != OptimizerKind::Adam)
    return Failure(ErrorKind::UnsupportedOption,
                   "the rate of '" + info->name +
                       "' cannot be fixed: a step depends on the number of steps taken before");
  const OptimizerOps *all = context->ops.wellKnown.optimizers.get();
  const bool hasMomentum = options->kind == OptimizerKind::Sgd && options->momentum != 0;
  if (all) {
    recipe = &(all->*(hasMomentum ? &OptimizerOps::sgdMomentum : info->recipe));
    for (const StepOps &step : recipe->steps)
      if (const OpDef *op = options->fixedRate ? step.fixed : step.scheduled) phases.push_back(op);
  }
  if (!phases.empty()) return Error::success();
  return Failure(ErrorKind::UnknownOp, "the registry has no step of optimizer '" + info->name + "'");
}

Error OptimizerOperators::checkAttrs() const {
  for (const auto &[key, value] : options->attrs)
    if (!isOwn(key))
      return Failure(ErrorKind::UnsupportedOption,
                     "optimizer '" + info->name + "' has no attribute '" + key + "'" + ownAttrs());
  return Error::success();
}

bool OptimizerOperators::read(StepRole role) const {
  return llvm::any_of(phases, [&](const OpDef *op) {
    return llvm::any_of(ArrayRef<StringRef>(op->inputs.names),
                        [&](StringRef name) { return known().role(name) == role; });
  });
}

bool OptimizerOperators::isOwn(StringRef key) const {
  return llvm::is_contained(kGivenByName, known().role(key)) &&
         llvm::any_of(phases, [&](const OpDef *op) { return op->declares(key); });
}

/// ", expected beta1, beta2 or epsilon"; another text if there are none.
std::string OptimizerOperators::ownAttrs() const {
  SmallVector<StringRef, 8> keys;
  for (const OpDef *op : phases)
    for (const AttrSpec &spec : op->attrs)
      if (isOwn(spec.key)) keys.push_back(spec.key);
  if (keys.empty()) return "; it has none of its own";
  std::string text = ", expected ";
  for (size_t i = 0; i < keys.size(); ++i)
    text += ((i == 0 ? "" : i + 1 == keys.size() ? " or " : ", ") + keys[i]).str();
  return text;
}

Expected<Attrs> OptimizerOperators::attrs(const OpDef &op, const Graph &graph, NodeId parameter) const {
  const double fallback = defaultDecay(options->decayRule, graph.name(parameter));
  Expected<double> decay = multiplier(graph, parameter, kDecayFactorKey, fallback);
  if (!decay) return decay.takeError();
  Expected<double> factor = multiplier(graph, parameter, kRateFactorKey, 1);
  if (!factor) return factor.takeError();
  std::string texts[kNumStepRoles];
  auto textOf = [&](StepRole role) -> std::string & { return texts[static_cast<size_t>(role)]; };
  auto set = [&](StepRole role, std::optional<double> value) {
    raw_string_ostream os(textOf(role));
    if (value) printAttr(os, *value);
  };
  set(StepRole::Decay, options->weightDecay * *decay);
  set(StepRole::Rescale, options->rescale);
  set(StepRole::Clip, options->clip);
  set(StepRole::Rate, options->fixedRate.value_or(0) * *factor);
  set(StepRole::RateFactor, *factor);
  set(StepRole::Momentum, options->momentum);
  set(StepRole::Beta1, options->beta1);
  set(StepRole::Beta2, options->beta2);
  set(StepRole::Epsilon, options->epsilon);
  SmallVector<AttrText, 12> pairs;  // of a repeated key the last one counts
  if (op.declares(recipe->preset.key)) pairs.push_back(recipe->preset);
  for (const AttrSpec &spec : op.attrs)
    if (StringRef text = textOf(known().role(spec.key)); !text.empty()) pairs.push_back({spec.key, text});
  for (const auto &[key, text] : options->attrs)
    if (op.declares(key)) pairs.push_back({key, text});
  return context->attrs(pairs);
}

Expected<const OpDef *> OptimizerOperators::forHalf(size_t phase) const {
  if (const OpDef *mixed = recipe->steps[phase].mixed) return mixed;
  return Failure(ErrorKind::UnsupportedOption,
                 "MXNet has no step of '" + info->name + "' for 16-bit parameters, so its rate cannot be fixed");
}

}  // namespace gradc
