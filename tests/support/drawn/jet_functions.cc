// Functions of one variable: f, f' and f'', each from its formula. Tested by tests/networks/differential_test.cc
#include "tests/support/drawn/jet_arithmetic.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <array>

using namespace llvm;

namespace gradc::testing {
namespace {

using Derivatives = std::array<double, 3>;
using Function = Derivatives (*)(double x, const SketchNode &n);

double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double signOf(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

Derivatives tanhOf(double x) {
  const double y = std::tanh(x);
  return {y, 1 - y * y, -2 * y * (1 - y * y)};
}
Derivatives sigmoidOf(double x) {
  const double y = logistic(x);
  return {y, y * (1 - y), y * (1 - y) * (1 - 2 * y)};
}
Derivatives smoothL1(double x, double sigma) {
  const double square = sigma * sigma;
  if (std::abs(x) < 1 / square) return {0.5 * square * x * x, square * x, square};
  return {std::abs(x) - 0.5 / square, signOf(x), 0};
}
Derivatives powerOf(double x, double p) {
  return {std::pow(x, p), p * std::pow(x, p - 1), p * (p - 1) * std::pow(x, p - 2)};
}

struct NamedFunction {
  StringRef name;
  Function function;
};
constexpr NamedFunction kFunctions[] = {
    {"negative", [](double x, const SketchNode &) { return Derivatives{-x, -1, 0}; }},
    {"exp", [](double x, const SketchNode &) { return Derivatives{std::exp(x), std::exp(x), std::exp(x)}; }},
    {"log", [](double x, const SketchNode &) { return Derivatives{std::log(x), 1 / x, -1 / (x * x)}; }},
    {"sqrt", [](double x, const SketchNode &) { return powerOf(x, 0.5); }},
    {"square", [](double x, const SketchNode &) { return Derivatives{x * x, 2 * x, 2}; }},
    {"reciprocal", [](double x, const SketchNode &) { return Derivatives{1 / x, -1 / (x * x), 2 / (x * x * x)}; }},
    {"abs", [](double x, const SketchNode &) { return Derivatives{std::abs(x), signOf(x), 0}; }},
    {"sign", [](double x, const SketchNode &) { return Derivatives{signOf(x), 0, 0}; }},
    {"relu", [](double x, const SketchNode &) { return Derivatives{std::max(x, 0.0), x > 0 ? 1.0 : 0.0, 0}; }},
    {"sigmoid", [](double x, const SketchNode &) { return sigmoidOf(x); }},
    {"tanh", [](double x, const SketchNode &) { return tanhOf(x); }},
    {"softsign",
     [](double x, const SketchNode &) {
       const double d = 1 + std::abs(x);
       return Derivatives{x / d, 1 / (d * d), -2 * signOf(x) / (d * d * d)};
     }},
    {"log1p",
     [](double x, const SketchNode &) { return Derivatives{std::log1p(x), 1 / (1 + x), -1 / ((1 + x) * (1 + x))}; }},
    {"expm1", [](double x, const SketchNode &) { return Derivatives{std::expm1(x), std::exp(x), std::exp(x)}; }},
    {"test_sine", [](double x, const SketchNode &) { return Derivatives{std::sin(x), std::cos(x), -std::sin(x)}; }},
    {"test_cosine", [](double x, const SketchNode &) { return Derivatives{std::cos(x), -std::sin(x), -std::cos(x)}; }},
    {"Activation",
     [](double x, const SketchNode &) { return Derivatives{std::log1p(std::exp(x)), logistic(x), sigmoidOf(x)[1]}; }},
    {"smooth_l1", [](double x, const SketchNode &n) { return smoothL1(x, n.a); }},
    {"clip",
     [](double x, const SketchNode &n) {
       return Derivatives{std::min(std::max(x, n.a), n.b), x > n.a && x < n.b ? 1.0 : 0.0, 0};
     }},
    {"_plus_scalar", [](double x, const SketchNode &n) { return Derivatives{x + n.a, 1, 0}; }},
    {"_minus_scalar", [](double x, const SketchNode &n) { return Derivatives{x - n.a, 1, 0}; }},
    {"_rminus_scalar", [](double x, const SketchNode &n) { return Derivatives{n.a - x, -1, 0}; }},
    {"_mul_scalar", [](double x, const SketchNode &n) { return Derivatives{x * n.a, n.a, 0}; }},
    {"_div_scalar", [](double x, const SketchNode &n) { return Derivatives{x / n.a, 1 / n.a, 0}; }},
    {"_rdiv_scalar",
     [](double x, const SketchNode &n) { return Derivatives{n.a / x, -n.a / (x * x), 2 * n.a / (x * x * x)}; }},
    {"_power_scalar", [](double x, const SketchNode &n) { return powerOf(x, n.a); }},
    {"_maximum_scalar",
     [](double x, const SketchNode &n) { return Derivatives{std::max(x, n.a), x > n.a ? 1.0 : 0.0, 0}; }},
    {"_minimum_scalar",
     [](double x, const SketchNode &n) { return Derivatives{std::min(x, n.a), x < n.a ? 1.0 : 0.0, 0}; }},
    {"_copy", [](double x, const SketchNode &) { return Derivatives{x, 1, 0}; }},
    {"make_loss", [](double x, const SketchNode &) { return Derivatives{x, 1, 0}; }},
    {"MakeLoss", [](double x, const SketchNode &) { return Derivatives{x, 1, 0}; }},
    {"BlockGrad", [](double x, const SketchNode &) { return Derivatives{x, 0, 0}; }},
    {"zeros_like", [](double, const SketchNode &) { return Derivatives{0, 0, 0}; }},
    {"ones_like", [](double, const SketchNode &) { return Derivatives{1, 0, 0}; }},
    {"_lesser_scalar", [](double x, const SketchNode &n) { return Derivatives{x < n.a ? 1.0 : 0.0, 0, 0}; }},
    {"_greater_scalar", [](double x, const SketchNode &n) { return Derivatives{x > n.a ? 1.0 : 0.0, 0, 0}; }},
    {"test_part", [](double x, const SketchNode &) { return Derivatives{std::floor(x), 0, 0}; }},
};

// Near a pole or a kink, of the function or of a derivative.
bool isDelicate(Function f, double x, const SketchNode &n) {
  const double h = 1e-3, jump[] = {0.2, 0.3, 0.5};
  const Derivatives at[] = {f(x - h, n), f(x, n), f(x + h, n)};
  for (size_t k = 0; k < 3; ++k)
    if (!(std::abs(at[2][k] - at[0][k]) <= jump[k]) || !(std::abs(at[1][k]) <= 100)) return true;
  return false;
}

}  // namespace

bool mapFunction(const SketchNode &node, const JetTensor &x, std::vector<JetTensor> &outputs) {
  const NamedFunction *row = find_if(kFunctions, [&](const NamedFunction &f) { return f.name == node.op; });
  if (row == std::end(kFunctions)) return false;
  JetTensor y{x.shape, {}};
  for (const Jet &jet : x.jets) {
    if (isDelicate(row->function, jet.v, node)) return true;
    const Derivatives at = row->function(jet.v, node);
    y.jets.push_back(at[1] == 0 && at[2] == 0 ? Jet(at[0]) : chain(jet, at[0], at[1], at[2]));
  }
  outputs = {y};
  return true;
}

}  // namespace gradc::testing
