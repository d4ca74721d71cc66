// Steps of optimizers: values as MXNet 1.9.1 computes them in float64 (tests/oracles/optimizer_values.py prints the
// rows), what sets the scheduled ones apart, refusals.
#include "ir/rules/inference.h"
#include "passes/gradient/gradient.h"
#include "tests/support/ops/op_table.h"
#include "tests/support/ops/optimizer_steps.h"
#include "tests/support/tensors.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

const std::vector<double> kWeight = {0.5, -1.25, 2.0, 0.03125}, kGrad = {0.75, -3.0, 0.125, 10.0};

/// A step on arrays of its own, to be repeated.
struct StepCase {
  StepCase(StringRef op, const TextPairs &attrs, const std::vector<std::vector<double>> &before,
           const std::vector<double> &numbers)
      : kind(kindOf(context, op, attrs)), weight(doubles({4}, kWeight)), grad(doubles({4}, kGrad)) {
    for (const std::vector<double> &state : before) states.push_back(doubles({4}, state));
    for (double number : numbers) this->numbers.push_back(doubles({1}, {number}));
  }

  static KindRef kindOf(TestContext &context, StringRef op, const TextPairs &attrs) {
    std::vector<AttrText> texts;
    for (const auto &[key, value] : attrs) texts.push_back({key, value});
    return cantFail(context.kind(*context.ops.find(op), context.attrs(texts)));
  }

  /// The new weight is written over the old one.
  void run(Request request = Request::InPlace) {
    std::vector<TensorRef> in = {weight.ref(), grad.ref()};
    for (gradc::Array &state : states) in.push_back(state.ref());
    for (gradc::Array &number : numbers) in.push_back(number.ref());
    ASSERT_EQ(in.size(), (*kind).numInputs);
    const TensorRef out[] = {weight.ref()};
    ShapeTable shapes;
    auto shapeOf = [&](const TensorRef &tensor) { return *shapes.intern(tensor.shape); };
    ASSERT_EQ(refusalOf(shapes, *kind, map_to_vector(in, shapeOf), map_to_vector(out, shapeOf)), "");
    KernelCall call;
    call.kind = &*kind;
    call.in = in;
    call.out = out;
    call.requests = request;
    (*kind).op->kernel(call);
  }
  void setGradient(int step) {
    std::vector<double> values = kGrad;
    for (double &value : values) value *= std::pow(-0.5, step);
    grad = doubles({4}, values);
  }

  TestContext context;
  KindRef kind;
  gradc::Array weight, grad;
  std::vector<gradc::Array> states, numbers;
};

void expectAfter(const StepCase &c, const OptimizerStep &row) {
  expectClose(valuesOf<double>(c.weight), row.weight, 1e-14);
  for (size_t i = 0; i < row.states.size(); ++i) expectClose(valuesOf<double>(c.states[i]), row.states[i], 1e-14);
}

std::string attrOf(const OptimizerStep &row, StringRef key) {
  const auto at = llvm::find_if(row.attrs, [&](const auto &pair) { return pair.first == key; });
  return at == row.attrs.end() ? "" : at->second;
}

// The values of rows of one step; t of the others is which step it is.
TEST(Optimizer, A_14_ValuesAndStatesAreMxnets) {
  for (const OptimizerStep &row : optimizerSteps()) {
    if (row.steps != 1 && !attrOf(row, "t").empty()) continue;
    SCOPED_TRACE(row.op + ", " + std::to_string(row.steps) + " steps");
    StepCase c(row.op, row.attrs, row.before, row.numbers);
    for (int step = 0; step < row.steps; ++step) {
      c.setGradient(step);
      c.run();
    }
    expectAfter(c, row);
  }
}

// The rate is an input, halved and doubled again; so is which step it is.
TEST(Optimizer, ScheduledStepsTakeTheRateAndTheStepAsInputs) {
  for (const OptimizerStep &row : optimizerSteps()) {
    if (row.op == "_adamw_update") continue;  // below
    SCOPED_TRACE(row.op + ", " + std::to_string(row.steps) + " steps");
    TextPairs attrs;
    std::vector<double> numbers = row.numbers;
    const std::string lr = attrOf(row, "lr"), t = attrOf(row, "t");
    for (const auto &[key, value] : row.attrs)
      if (key != "lr" && key != "t") attrs.push_back({key, value});
    if (!lr.empty()) attrs.push_back({"rate_factor", "2"});
    if (!lr.empty()) numbers.push_back(static_cast<double>(std::stof(lr)) / 2);
    if (!t.empty()) numbers.push_back(std::stod(t));
    StepCase c("_scheduled_" + StringRef(row.op).ltrim('_').str(), attrs, row.before, numbers);
    for (int step = 0; step < row.steps; ++step) {
      c.setGradient(step);
      if (!t.empty() && row.steps != 1) c.numbers.back() = doubles({1}, {step + 1.0});
      c.run();
    }
    expectAfter(c, row);
  }
}

// The rate is eta, and what corrects the means at the start is lr.
TEST(Optimizer, AdamWsDecayFollowsTheScheduleAlone) {
  const std::vector<std::vector<double>> before = {{0.1, -0.2, 0.3, 0}, {0.01, 0.2, 0, 1.5}};
  const TextPairs common = {{"beta1", "0.5"}, {"beta2", "0.75"}, {"wd", "0.25"}};
  for (int t : {1, 2, 7}) {
    TextPairs attrs = common;
    attrs.push_back({"eta", "0.125"});
    // Exact in float32 at no t but these would be luck; the tolerance is float32's.
    attrs.push_back({"lr", std::to_string(std::sqrt(1 - std::pow(0.75, t)) / (1 - std::pow(0.5, t)))});
    StepCase fixed("_adamw_update", attrs, before, {1});
    fixed.run();
    StepCase scheduled("_scheduled_adamw_update", common, before, {0.125, static_cast<double>(t)});
    scheduled.run();
    expectClose(valuesOf<double>(scheduled.weight), valuesOf<double>(fixed.weight), 1e-6);
  }
}

TEST(Optimizer, AdamWTakesNoStepWithoutAScale) {
  for (double scale : {0.0, HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    const std::vector<std::vector<double>> before = {{0.1, -0.2, 0.3, 0}, {0.01, 0.2, 0, 1.5}};
    StepCase c("_adamw_update", {{"lr", "1"}, {"eta", "1"}}, before, {scale});
    c.run();
    EXPECT_EQ(valuesOf<double>(c.weight), kWeight) << scale;
    EXPECT_EQ(valuesOf<double>(c.states[0]), before[0]) << scale;
    EXPECT_EQ(valuesOf<double>(c.states[1]), before[1]) << scale;
  }
}

TEST(Optimizer, REQ_03_StatesMoveEvenWhenNobodyWantsTheWeight) {
  for (const OptimizerStep &row : optimizerSteps()) {
    if (row.steps != 1) continue;
    SCOPED_TRACE(row.op);
    StepCase c(row.op, row.attrs, row.before, row.numbers);
    c.run(Request::Null);
    EXPECT_EQ(valuesOf<double>(c.weight), kWeight);
    for (size_t i = 0; i < row.states.size(); ++i) expectClose(valuesOf<double>(c.states[i]), row.states[i], 1e-14);
  }
}

TEST(Optimizer, NaNStaysNaNAndNothingElseDoes) {
  for (const OptimizerStep &row : optimizerSteps()) {
    if (row.steps != 1 || row.op == "signsgd_update" || row.op == "signum_update") continue;
    SCOPED_TRACE(row.op);
    StepCase c(row.op, row.attrs, row.before, row.numbers);
    std::vector<double> grad = kGrad;
    grad[1] = std::nan("");
    c.grad = doubles({4}, grad);
    c.run();
    const std::vector<double> after = valuesOf<double>(c.weight);
    for (size_t i = 0; i < after.size(); ++i) EXPECT_EQ(std::isnan(after[i]), i == 1) << i;
  }
}

TEST(Optimizer, INF_ShapesBothWays) {
  EXPECT_EQ(inferShapes("sgd_mom_update", {{"lr", "1"}}, "? (2,?) (?,3) -> ?"), "(2,3) (2,3) (2,3) -> (2,3)");
  EXPECT_EQ(inferShapes("_scheduled_adam_update", {}, "? ? ? ? ? -> (2,3)"), "(2,3) (2,3) (2,3) (2,3) (1,) -> (2,3)");
  EXPECT_EQ(inferShapes("_scheduled_sgd_update", {}, "(4,) ? ? -> ?"), "(4,) (4,) (1,) -> (4,)");
  EXPECT_EQ(inferShapes("lamb_update_phase2", {{"lr", "1"}}, "(4,2) ? ? ? -> ?"), "(4,2) (4,2) (1,) (1,) -> (4,2)");
  EXPECT_EQ(inferShapes("_adamw_update", {{"lr", "1"}, {"eta", "1"}}, "? ? ? (3,) ? -> ?"),
            "(3,) (3,) (3,) (3,) (1,) -> (3,)");
  EXPECT_EQ(inferShapes("_scheduled_ftml_update", {}, "? ? ? (3,) ? ? ? -> ?"),
            "(3,) (3,) (3,) (3,) (3,) (1,) (1,) -> (3,)");
}

struct Refusal {
  StringRef op;
  std::vector<AttrText> attrs;
  StringRef part;  // of the message
};

TEST(Optimizer, REG_19_RequiredAttributesAndRanges) {
  // clang-format off
  const Refusal rows[] = {
      {"adam_update", {}, "'lr'"},
      {"nag_mom_update", {}, "'lr'"},
      {"_adamw_update", {{"lr", "1"}}, "'eta'"},
      {"ftml_update", {{"lr", "1"}}, "'t'"},
      {"ftml_update", {{"lr", "1"}, {"t", "0"}}, "'t'"},
      {"ftml_update", {{"lr", "1"}, {"t", "1"}, {"beta1", "1.5"}}, "'beta1'"},
      {"lamb_update_phase1", {{"t", "1"}}, "'wd'"},
      {"lamb_update_phase1", {{"wd", "1"}, {"t", "-3"}}, "'t'"},
      {"lamb_update_phase2", {}, "'lr'"},
      {"rmsprop_update", {{"lr", "fast"}}, "'lr'"},
  };
  // clang-format on
  for (const Refusal &row : rows) {
    TestContext context;
    const std::string text = describeError(context.kind(*context.ops.find(row.op), context.attrs(row.attrs)));
    EXPECT_NE(text.find(row.part), std::string::npos) << row.op.str() << ": " << text;
  }
}

struct ShapeRefusal {
  StringRef op;
  std::vector<AttrText> attrs;
  StringRef shapes, message;
};

TEST(Optimizer, INF_ShapesThatDoNotAgree) {
  // clang-format off
  const ShapeRefusal rows[] = {
      {"sgd_update", {{"lr", "1"}}, "(2,3) (3,2) -> ?", "input 1 has shape (3,2), but output 0 has shape (2,3)"},
      {"lamb_update_phase2", {{"lr", "1"}}, "(2,) (2,) (2,) ? -> ?", "input 2 has shape (2,), expected (1,)"},
      {"_adamw_update", {{"lr", "1"}, {"eta", "1"}}, "(2,) ? ? ? (2,) -> ?", "input 4 has shape (2,), expected (1,)"},
      {"_scheduled_rmsprop_update", {}, "(2,) ? (3,) ? -> ?", "input 2 has shape (3,), but output 0 has shape (2,)"},
      {"_scheduled_ftml_update", {}, "(2,) ? ? ? ? ? (3,) -> ?", "input 6 has shape (3,), expected (1,)"},
  };
  // clang-format on
  for (const ShapeRefusal &row : rows)
    EXPECT_EQ(inferShapes(row.op, row.attrs, row.shapes), row.message) << row.op.str();
}

TEST(Optimizer, E_02_StepsHaveNoGradient) {
  TestGraph g("s = square(w); y = sgd_update(s, g) {lr=0.1}");
  GradientRequest request;
  request.wrt = {{g.at("w"), Request::Write}};
  GradcError error = errorOf(buildGradient(g.context, g, request, {}));
  EXPECT_EQ(error.kind, ErrorKind::NotDifferentiable) << error.message;
}

}  // namespace
}  // namespace gradc
