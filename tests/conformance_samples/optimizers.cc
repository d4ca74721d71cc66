// Samples of optimizer steps. Nothing flows through them, so they are not differentiated; their values are in
// tests/ops/optimizer_ops_test.cc.
#include "tests/conformance_samples/samples.h"

#include <memory>
#include <string>

namespace gradc::testing {
namespace {

/// An optimizer: how many operands of the weight's shape, what one-element inputs its two forms have besides, which
/// attributes they need, and one more.
struct Step {
  const char *fixed, *scheduled;
  size_t operands, fixedNumbers, scheduledNumbers;
  const char *fixedNeeds, *scheduledNeeds, *own;
  double low = 0, high = 0;
};

constexpr Step kSteps[] = {
    {"sgd_update", "_scheduled_sgd_update", 2, 0, 1, "lr=0.1", "rate_factor=0.5", "lazy_update=False"},
    {"sgd_mom_update", "_scheduled_sgd_mom_update", 3, 0, 1, "lr=0.1", "rate_factor=0.5", "momentum=0.9"},
    {"nag_mom_update", "_scheduled_nag_mom_update", 3, 0, 1, "lr=0.1", "rate_factor=0.5", "momentum=0.9"},
    {"signsgd_update", "_scheduled_signsgd_update", 2, 0, 1, "lr=0.1", "rate_factor=0.5", "wd=0.5"},
    {"signum_update", "_scheduled_signum_update", 3, 0, 1, "lr=0.1", "rate_factor=0.5", "momentum=0.5, wd_lh=0.25"},
    {"adam_update", "_scheduled_adam_update", 4, 0, 1, "lr=0.1", "rate_factor=0.5",
     "beta1=0.5, beta2=0.75, epsilon=0.01"},
    {"_adamw_update", "_scheduled_adamw_update", 4, 1, 2, "lr=0.1, eta=0.5", "rate_factor=0.5",
     "beta1=0.5, beta2=0.75, epsilon=0.01"},
    {"rmsprop_update", "_scheduled_rmsprop_update", 3, 0, 1, "lr=0.1", "rate_factor=0.5",
     "gamma1=0.5, epsilon=0.01, clip_weights=0.75"},
    {"rmspropalex_update", "_scheduled_rmspropalex_update", 5, 0, 1, "lr=0.1", "rate_factor=0.5",
     "gamma1=0.5, gamma2=0.25, epsilon=0.1, clip_weights=0.2", 0.1, 0.3},
    {"ftrl_update", "_scheduled_ftrl_update", 4, 0, 1, "lr=0.5", "rate_factor=0.5", "lamda1=0.75, beta=0.25"},
    {"ftml_update", "_scheduled_ftml_update", 5, 0, 2, "lr=0.1, t=3", "rate_factor=0.5",
     "beta1=0.5, beta2=0.75, epsilon=0.1"},
    {"_adagrad_update", "_scheduled_adagrad_update", 3, 0, 1, "lr=0.1", "rate_factor=0.5", "epsilon=0.1"},
    {"lamb_update_phase1", "_scheduled_lamb_update_phase1", 4, 0, 1, "wd=0.1, t=3", "wd=0.1",
     "beta1=0.5, beta2=0.75, epsilon=0.1, bias_correction=False"},
    {"lamb_update_phase2", "_scheduled_lamb_update_phase2", 2, 2, 3, "lr=0.1", "rate_factor=0.5",
     "lower_bound=0.25, upper_bound=0.5"},
};

/// Forms for weights of 16 bits, which have no scheduled sibling.
constexpr Step kMixedSteps[] = {
    {"mp_sgd_update", nullptr, 3, 0, 0, "lr=0.1", "", "lazy_update=False"},
    {"mp_sgd_mom_update", nullptr, 4, 0, 0, "lr=0.1", "", "momentum=0.9"},
    {"mp_nag_mom_update", nullptr, 4, 0, 0, "lr=0.1", "", "momentum=0.9"},
    {"_mp_adamw_update", nullptr, 5, 1, 0, "lr=0.1, eta=0.5", "", "beta1=0.5, beta2=0.75, epsilon=0.01"},
    {"mp_lamb_update_phase1", nullptr, 5, 0, 0, "wd=0.1, t=3", "", "beta1=0.5, beta2=0.75, epsilon=0.1"},
};

/// Texts last as long as the process.
const char *joined(std::string text, const char *more) {
  static std::vector<std::unique_ptr<std::string>> texts;
  if (*more) text += std::string(text.empty() ? "" : ", ") + more;
  texts.push_back(std::make_unique<std::string>(std::move(text)));
  return texts.back()->c_str();
}

void addForm(std::vector<Sample> &list, const Step &step, const char *op, size_t numbers, const char *needs) {
  auto add = [&](const std::vector<int64_t> &shape, const char *more) {
    Sample sample{op,       joined(needs, more), std::vector<std::vector<int64_t>>(step.operands, shape), 0, step.low,
                  step.high};
    sample.inputs.resize(step.operands + numbers, {1});
    list.push_back(std::move(sample));
  };
  const std::string name = op;
  const bool isPhase2 = name.ends_with("phase2"), isFtml = name.find("ftml") != name.npos;
  const bool hasRescale = name != "_adamw_update" && name != "_mp_adamw_update",
             hasDecay = name.find("phase1") == name.npos;
  const std::string clip = isFtml ? "clip_grad=0.25" : "clip_gradient=0.25";
  const std::string shared =
      isPhase2 ? "upper_bound=0.25"
               : (hasDecay ? "wd=0.05, " : "") + std::string(hasRescale ? "rescale_grad=0.5, " : "") + clip;
  add({2, 3}, "");
  add({2, 3}, joined(shared, ""));
  add({1, 4, 1}, step.own);
  add({7}, isPhase2 ? "lower_bound=2" : clip.c_str());
  add({1}, step.own);
  add({0, 2}, "");
}

}  // namespace

std::vector<Sample> optimizerSamples() {
  std::vector<Sample> list;
  for (const Step &step : kSteps) {
    addForm(list, step, step.fixed, step.fixedNumbers, step.fixedNeeds);
    addForm(list, step, step.scheduled, step.scheduledNumbers, step.scheduledNeeds);
  }
  for (const Step &step : kMixedSteps) addForm(list, step, step.fixed, step.fixedNumbers, step.fixedNeeds);
  // The norms are in front of the weight in float32.
  for (const char *attrs : {"lr=0.1", "lr=0.1, lower_bound=0.25, upper_bound=0.5", "lr=2, lower_bound=3"})
    list.push_back({"mp_lamb_update_phase2", attrs, {{2, 3}, {2, 3}, {1}, {1}, {2, 3}}, 0});
  list.push_back({"mp_lamb_update_phase2", "lr=0.1", {{4}, {4}, {1}, {1}, {4}}, 0});
  list.push_back({"mp_lamb_update_phase2", "lr=0.1", {{0, 3}, {0, 3}, {1}, {1}, {0, 3}}, 0});
  return list;
}

}  // namespace gradc::testing
