#include "passes/optimizer/optimizer_operators.h"

#include "ir/base/error.h"
#include "ir/op/hidden_keys.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

// In the order of OptimizerKind.
constexpr OptimizerInfo kOptimizers[] = {
    {"sgd", 0.05, "sgd_update"},
    {.name = "adam", .rate = 0.001, .op = "adam_update", .hasBiasCorrection = true},
    {"nag", 0.05, "nag_mom_update"},
    {"signsgd", 0.01, "signsgd_update"},
    {"signum", 0.01, "signum_update"},
    {.name = "rmsprop", .rate = 0.001, .op = "rmsprop_update", .own = {"gamma1", "0.9"}},
    {.name = "rmspropalex", .rate = 0.001, .op = "rmspropalex_update", .own = {"gamma1", "0.9"}},
    {"adagrad", 0.01, "_adagrad_update"},
    {"ftrl", 0.1, "ftrl_update"},
    {.name = "ftml", .rate = 0.0025, .op = "ftml_update", .hasBiasCorrection = true},
    {.name = "adamw", .rate = 0.001, .op = "_adamw_update", .hasBiasCorrection = true},
    {"lamb", 0.001, "lamb_update_phase1", "lamb_update_phase2", true},
};
static_assert(std::size(kOptimizers) == kNumOptimizers);

// Attributes that the pass sets itself, and those that `_scheduled_…` operators take as inputs.
constexpr StringRef kReserved[] = {"lr", "rate_factor", "eta", "t", "wd", "rescale_grad", "clip_gradient", "clip_grad"};

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

Error missingOperator(StringRef name) {
  return Failure(ErrorKind::UnknownOp, "the registry has no operator '" + name + "'");
}

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
  const bool hasMomentum = options->kind == OptimizerKind::Sgd && options->momentum != 0;
  for (StringRef name : {hasMomentum ? StringRef("sgd_mom_update") : info->op, info->phase2}) {
    if (name.empty()) continue;
    const std::string full = options->fixedRate ? name.str() : ("_scheduled_" + name.ltrim('_')).str();
    const OpDef *op = context->ops.find(full);
    if (!op) return missingOperator(full);
    phases.push_back(op);
  }
  return Error::success();
}

Error OptimizerOperators::checkAttrs() const {
  for (const auto &[key, value] : options->attrs)
    if (!isOwn(key))
      return Failure(ErrorKind::UnsupportedOption,
                     "optimizer '" + info->name + "' has no attribute '" + key + "'" + ownAttrs());
  return Error::success();
}

bool OptimizerOperators::read(StringRef input) const {
  return llvm::any_of(
      phases, [&](const OpDef *op) { return llvm::is_contained(ArrayRef<StringRef>(op->inputs.names), input); });
}

bool OptimizerOperators::isOwn(StringRef key) const {
  return !llvm::is_contained(kReserved, key) &&
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
  const std::pair<StringRef, std::optional<double>> numbers[] = {{"wd", options->weightDecay * *decay},
                                                                 {"rescale_grad", options->rescale},
                                                                 {"clip_gradient", options->clip},
                                                                 {"clip_grad", options->clip},
                                                                 {"lr", options->fixedRate.value_or(0) * *factor},
                                                                 {"rate_factor", *factor},
                                                                 {"momentum", options->momentum},
                                                                 {"beta1", options->beta1},
                                                                 {"beta2", options->beta2},
                                                                 {"epsilon", options->epsilon}};
  std::vector<std::pair<StringRef, std::string>> texts;
  auto set = [&](StringRef key, StringRef text) {
    if (!op.declares(key)) return;
    auto at = llvm::find_if(texts, [&](const auto &pair) { return pair.first == key; });
    if (at == texts.end()) texts.push_back({key, text.str()});
    else at->second = text.str();
  };
  set(info->own.first, info->own.second);
  for (auto [key, value] : numbers) {
    std::string text;
    raw_string_ostream os(text);
    if (value) printAttr(os, *value);
    if (value) set(key, os.str());
  }
  for (const auto &[key, text] : options->attrs) set(key, text);
  SmallVector<AttrText, 8> pairs;
  for (const auto &[key, text] : texts) pairs.push_back({key, text});
  return context->attrs(pairs);
}

Expected<const OpDef *> OptimizerOperators::forHalf(const OpDef &op) const {
  if (const OpDef *mixed = context->ops.find(("mp_" + op.name).str())) return mixed;
  return Failure(ErrorKind::UnsupportedOption,
                 "MXNet has no step of '" + info->name + "' for 16-bit parameters, so its rate cannot be fixed");
}

const OptimizerInfo &optimizerInfo(OptimizerKind kind) { return kOptimizers[static_cast<size_t>(kind)]; }

double rateCorrection(const OptimizerOptions &options, uint64_t t) {
  if (options.kind != OptimizerKind::Adam) return 1;
  const double steps = static_cast<double>(t);
  return std::sqrt(1 - std::pow(options.beta2.value_or(0.999), steps)) /
         (1 - std::pow(options.beta1.value_or(0.9), steps));
}

}  // namespace gradc
