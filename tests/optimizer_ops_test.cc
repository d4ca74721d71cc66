// Steps of optimizers: values as MXNet 1.9.1 computes them in float64 (tests/optimizer_values.py prints the rows), and
// what sets the scheduled ones apart.
#include "passes/gradient/gradient.h"
#include "tests/support/op_harness.h"
#include "tests/support/op_table.h"
#include "tests/support/tensors.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

const std::vector<double> kWeight = {0.5, -1.25, 2.0, 0.03125}, kGrad = {0.75, -3.0, 0.125, 10.0};
const std::vector<double> kMean = {0.1, -0.2, 0.3, 0.0}, kVar = {0.01, 0.2, 0.0, 1.5};

struct StepRow {
  std::string op;
  std::vector<std::pair<std::string, std::string>> attrs;
  std::vector<double> weight;               // the new one
  std::vector<std::vector<double>> states;  // after the step
};

const StepRow kRows[] = {
    {"sgd_update", {{"lr", "0.1"}},
     {0.4249999988824129, -0.9499999955296516, 1.9874999998137355, -0.9687500149011612},
     {}},
    {"sgd_update", {{"lr", "0.1"}, {"wd", "0.01"}, {"rescale_grad", "0.5"}},
     {0.46199999944493175, -1.098749997774139, 1.991749999921769, -0.46878125745034777},
     {}},
    {"sgd_update", {{"lr", "0.1"}, {"wd", "0.1"}, {"rescale_grad", "0.5"}, {"clip_gradient", "0.8"}},
     {0.45749999929219487, -1.1574999972432853, 1.9737499993108214, -0.04906250239349903},
     {}},
    {"sgd_mom_update", {{"lr", "0.1"}, {"momentum", "0.9"}},
     {0.5149999964982271, -1.12999999076128, 2.2574999926611783, -0.9687500149011612},
     {{0.014999996498227128, 0.12000000923871992, 0.2574999926611781, -1.0000000149011612}}},
    {"sgd_mom_update", {{"lr", "0.1"}, {"momentum", "0.9"}, {"wd", "0.01"}, {"rescale_grad", "0.5"}},
     {0.551999997060746, -1.2787499930057675, 2.2617499927692117, -0.4687812574503478},
     {{0.051999997060745956, -0.02874999300576747, 0.2617499927692115, -0.5000312574503478}}},
    {"sgd_mom_update", {{"lr", "0.1"}, {"momentum", "0.9"}, {"wd", "0.1"}, {"rescale_grad", "0.5"},
     {"clip_gradient", "0.8"}},
     {0.5474999969080091, -1.3374999924749136, 2.2437499921582638, -0.04906250239349903},
     {{0.04749999690800906, -0.08749999247491358, 0.24374999215826393, -0.08031250239349903}}},
    {"adam_update", {{"lr", "0.1"}},
     {0.3393774874311969, -1.1449548113371886, -5.146775438949729, -0.04784407630688496},
     {{0.16500001549720766, -0.4800000667572022, 0.2824999958276749, 1.000000238418579}, {0.010552492886781693,
     0.20879988670349123, 1.5624798834323883e-05, 1.5984987318515778}}},
    {"adam_update", {{"lr", "0.1"}, {"wd", "0.01"}, {"rescale_grad", "0.5"}},
     {0.3728515788276682, -1.1763138170426333, -8.66552790041749, -0.009261247947344106},
     {{0.12800000666454436, -0.3312500312644988, 0.2782499947696924, 0.5000313692160416}, {0.010134398269568386,
     0.20208762937140887, 6.806162298471685e-06, 1.5235028225041751}}},
    {"adam_update", {{"lr", "0.1"}, {"wd", "0.1"}, {"rescale_grad", "0.5"}, {"clip_gradient", "0.8"}},
     {0.36861611694219054, -1.1919260749546197, -1.5688748966132349, 0.024716152373213056},
     {{0.13250000782310967, -0.26000001549720797, 0.29624999940395363, 0.08000002026557951}, {0.010170622803904109,
     0.2004399943542478, 6.890536442397012e-05, 1.499140011091232}}},
    {"adam_update", {{"lr", "0.1"}, {"beta1", "0.5"}, {"beta2", "0.75"}, {"epsilon", "0.1"}},
     {0.4123476580529412, -1.1529828713795331, 1.8692307684813025, -0.06469604917300238},
     {{0.425, -1.6, 0.2125, 5.0}, {0.148125, 2.4, 0.00390625, 26.125}}},
};

// The step of a row, on the values above; `isScheduled` takes the learning rate as an input, halved and doubled again.
struct StepCase {
  StepCase(const StepRow &row, bool isScheduled) {
    std::vector<AttrText> attrs;
    double rate = 0;
    for (const auto &[key, value] : row.attrs)
      if (!isScheduled || key != "lr") attrs.push_back({key, value});
      else rate = static_cast<double>(std::stof(value));
    if (isScheduled) attrs.push_back({"rate_factor", "2"});
    std::vector<Value> inputs = {h.variable({4}, kWeight), h.variable({4}, kGrad)};
    for (size_t i = 0; i < row.states.size(); ++i) states.push_back(h.variable({4}, i == 0 ? kMean : kVar));
    inputs.insert(inputs.end(), states.begin(), states.end());
    if (isScheduled) inputs.push_back(h.variable({1}, std::vector<double>{rate / 2}));
    step = h.apply((isScheduled ? "_scheduled_" : "") + row.op, inputs, attrs);
  }

  OpHarness h;
  std::vector<Value> states;
  Value step;
};

void expectStep(const StepRow &row, bool isScheduled) {
  SCOPED_TRACE(row.op + (isScheduled ? ", scheduled" : ""));
  StepCase c(row, isScheduled);
  expectClose(c.h.values(c.step), row.weight, 1e-15);
  for (size_t i = 0; i < row.states.size(); ++i) expectClose(c.h.storage(c.states[i]), row.states[i], 1e-15);
}

TEST(Optimizer, A_14_ValuesAndStatesAreMxnets) {
  for (const StepRow &row : kRows) expectStep(row, false);
}

TEST(Optimizer, ScheduledStepsTakeTheRateAsAnInput) {
  for (const StepRow &row : kRows) expectStep(row, true);
}

TEST(Optimizer, MEM_04_NewValueMayBeWrittenOverTheOld) {
  for (const StepRow &row : kRows) {
    StepCase c(row, false);
    const KindRef handle = cantFail(c.h.context().kind(*c.h.context().ops.find(row.op), [&] {
      std::vector<AttrText> attrs;
      for (const auto &[key, value] : row.attrs) attrs.push_back({key, value});
      return c.h.context().attrs(attrs);
    }()));
    const NodeKind &kind = *handle;
    gradc::Array weight = doubles({4}, kWeight), grad = doubles({4}, kGrad), mean = doubles({4}, kMean), var = doubles({4}, kVar);
    const TensorRef all[] = {weight.ref(), grad.ref(), mean.ref(), var.ref()}, out[] = {weight.ref()};
    const Request requests[] = {Request::InPlace};
    KernelCall call;
    call.kind = &kind;
    call.in = ArrayRef<TensorRef>(all).take_front(kind.numInputs);
    call.out = out;
    call.requests = requests;
    kind.op->kernel(call);
    expectClose(valuesOf<double>(weight), row.weight, 1e-15);
  }
}

TEST(Optimizer, REQ_03_StatesMoveEvenWhenNobodyWantsTheWeight) {
  TestContext context;
  const KindRef handle = cantFail(context.kind(*context.ops.find("sgd_mom_update"), context.attrs({{"lr", "0.5"}, {"momentum", "0.5"}})));
  const NodeKind &kind = *handle;
  gradc::Array weight = doubles({1}, {1}), grad = doubles({1}, {2}), mom = doubles({1}, {4}), untouched = doubles({1}, {7});
  const TensorRef in[] = {weight.ref(), grad.ref(), mom.ref()}, out[] = {untouched.ref()};
  const Request requests[] = {Request::Null};
  KernelCall call;
  call.kind = &kind;
  call.in = in;
  call.out = out;
  call.requests = requests;
  kind.op->kernel(call);
  EXPECT_EQ(valuesOf<double>(mom), std::vector<double>{1});
  EXPECT_EQ(valuesOf<double>(untouched), std::vector<double>{7});
}

TEST(Optimizer, INF_ShapesBothWays) {
  EXPECT_EQ(inferShapes("sgd_mom_update", {{"lr", "1"}}, "? (2,?) (?,3) -> ?"), "(2,3) (2,3) (2,3) -> (2,3)");
  EXPECT_EQ(inferShapes("_scheduled_adam_update", {}, "? ? ? ? ? -> (2,3)"), "(2,3) (2,3) (2,3) (2,3) (1,) -> (2,3)");
  EXPECT_EQ(inferShapes("_scheduled_sgd_update", {}, "(4,) ? ? -> ?"), "(4,) (4,) (1,) -> (4,)");
}

TEST(Optimizer, REG_19_TheRateIsRequired) {
  TestContext context;
  const std::string text = describeError(context.kind(*context.ops.find("adam_update"), Attrs()));
  EXPECT_NE(text.find("'lr'"), std::string::npos) << text;
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
