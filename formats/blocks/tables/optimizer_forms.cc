// Tested by tests/formats/blocks/backward/minimize_test.cc
#include "formats/blocks/tables/optimizer_forms.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

using State = OptimizerForm::State;
using Attr = OptimizerForm::Attr;
using Kind = Attr::Kind;

constexpr Attr kNoMultiPrecision = {"multi_precision"};

constexpr Attr kSgdAttrs[] = {kNoMultiPrecision, {"use_mkldnn"}};

constexpr State kVelocity[] = {{"Velocity", "velocity"}};
// `regularization_coeff` and `regularization_method` follow from `weight_decay` (formats/blocks/backward/minimize.cc).
constexpr Attr kMomentumAttrs[] = {{"mu", Kind::Float, 0.9, "momentum"},
                                   kNoMultiPrecision,
                                   {"rescale_grad", Kind::Float, 1, "rescale_grad"},
                                   {"use_nesterov", Kind::Flag, 0, "use_nesterov"}};
constexpr Attr kLarsAttrs[] = {{"epsilon", Kind::Float, 0, "epsilon"},
                               {"lars_coeff", Kind::Float, 0.001, "lars_coeff"},
                               {"lars_weight_decay", Kind::Floats, 0.0005, "lars_weight_decay"},
                               {"mu", Kind::Float, 0.9, "momentum"},
                               kNoMultiPrecision,
                               {"rescale_grad", Kind::Float, 1, "rescale_grad"}};

constexpr State kMoments[] = {{"Beta1Pow", "beta1_pow_acc", true},
                              {"Beta2Pow", "beta2_pow_acc", true},
                              {"Moment1", "moment1"},
                              {"Moment2", "moment2"}};
constexpr StringLiteral kAdamEmpty[] = {"Beta1Tensor", "Beta2Tensor", "EpsilonTensor", "SkipUpdate"};
constexpr Attr kBeta1 = {"beta1", Kind::Float, 0.9, "beta1"}, kBeta2 = {"beta2", Kind::Float, 0.999, "beta2"},
               kSmallEpsilon = {"epsilon", Kind::Float, 1e-8, "epsilon"},
               kEpsilon = {"epsilon", Kind::Float, 1e-6, "epsilon"}, kLazy = {"lazy_mode", Kind::Flag, 0, "lazy_mode"},
               kRows = {"min_row_size_to_use_multithread", Kind::Rows, 1000}, kOwnPowers = {"use_global_beta_pow"};
constexpr Attr kAdamAttrs[] = {kBeta1, kBeta2, kSmallEpsilon, kLazy, kRows, kNoMultiPrecision, kOwnPowers};
constexpr Attr kAdamWAttrs[] = {kBeta1,
                                kBeta2,
                                {"coeff", Kind::Float, 0.01, "weight_decay"},
                                kSmallEpsilon,
                                kLazy,
                                {"lr_ratio", Kind::Float, 1},
                                kRows,
                                kNoMultiPrecision,
                                kOwnPowers,
                                {"with_decay", Kind::Flag, 1}};
constexpr StringLiteral kLambEmpty[] = {"SkipUpdate"};
constexpr Attr kLambAttrs[] = {
    {"always_adapt", Kind::Flag, 0, "always_adapt"},         kBeta1, kBeta2, kEpsilon, kNoMultiPrecision,
    {"weight_decay", Kind::Float, 0.01, "lamb_weight_decay"}};

constexpr State kAdamaxStates[] = {
    {"Beta1Pow", "beta1_pow_acc", true, true}, {"InfNorm", "inf_norm"}, {"Moment", "moment"}};
constexpr Attr kAdamaxAttrs[] = {kBeta1, kBeta2, kSmallEpsilon, kNoMultiPrecision};

constexpr State kAdagradStates[] = {{"Moment", "moment"}};
constexpr Attr kAdagradAttrs[] = {kEpsilon, kNoMultiPrecision};

constexpr State kAdadeltaStates[] = {{"AvgSquaredGrad", "_avg_squared_grad"},
                                     {"AvgSquaredUpdate", "_avg_squared_update"}};
constexpr Attr kRho = {"rho", Kind::Float, 0.95, "rho"};
constexpr Attr kAdadeltaAttrs[] = {kEpsilon, kNoMultiPrecision, kRho};

constexpr State kRmsPropStates[] = {{"MeanGrad", "mean_grad"}, {"MeanSquare", "mean_square"}, {"Moment", "momentum"}};
constexpr Attr kRmsPropAttrs[] = {{"centered", Kind::Flag, 0, "centered"},
                                  {"decay", Kind::Float, 0.95, "rho"},
                                  kEpsilon,
                                  {"momentum", Kind::Float, 0, "momentum"},
                                  kNoMultiPrecision};

constexpr OptimizerForm kForms[] = {
    {.name = "SGD", .type = "sgd", .attrs = kSgdAttrs},
    {.name = "Momentum", .type = "momentum", .states = kVelocity, .attrs = kMomentumAttrs},
    {.name = "Adam", .type = "adam", .states = kMoments, .emptySlots = kAdamEmpty, .attrs = kAdamAttrs},
    {.name = "AdamW",
     .type = "adamw",
     .states = kMoments,
     .emptySlots = kAdamEmpty,
     .attrs = kAdamWAttrs,
     .isRegularized = false},
    {.name = "Adamax", .type = "adamax", .states = kAdamaxStates, .attrs = kAdamaxAttrs},
    {.name = "Adagrad", .type = "adagrad", .states = kAdagradStates, .attrs = kAdagradAttrs},
    {.name = "Adadelta", .type = "adadelta", .states = kAdadeltaStates, .attrs = kAdadeltaAttrs},
    {.name = "RMSProp", .type = "rmsprop", .states = kRmsPropStates, .attrs = kRmsPropAttrs},
    {.name = "Lamb",
     .type = "lamb",
     .states = kMoments,
     .emptySlots = kLambEmpty,
     .attrs = kLambAttrs,
     .isRegularized = false},
    {.name = "LarsMomentum", .type = "lars_momentum", .states = kVelocity, .attrs = kLarsAttrs},
};

}  // namespace

const OptimizerForm *findOptimizer(StringRef name) {
  const auto *at = find_if(kForms, [&](const OptimizerForm &form) { return name.equals_insensitive(form.name); });
  return at == std::end(kForms) ? nullptr : at;
}

std::string optimizerNames() {
  std::string names;
  for (const OptimizerForm &form : kForms)
    names += (names.empty() ? "" : &form == std::end(kForms) - 1 ? " or " : ", ") + form.name.str();
  return names;
}

}  // namespace gradc
