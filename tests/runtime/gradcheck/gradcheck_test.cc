// gradcheck finds right gradients right and wrong ones wrong, for every way a value can be constant or kinked.
#include "ir/graph/graph_builder.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/primitives.h"
#include "passes/lowering/lower_to.h"
#include "runtime/gradcheck/gradcheck.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"
#include "passes/gradient/higher_order/higher_order.h"

#include <gtest/gtest.h>

using namespace llvm;
using gradc::testing::TestGraph;

namespace gradc {
namespace {

// x², with a gradient that forgets the factor: what a wrong rule looks like.
constinit const OpDef kWrongSquare = {
    .name = "wrong_square",
    .inputs = {"data"},
    .shape = shapes::same,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kElemwiseMul, {g.dy(0), g.x(0)})); },
    .kernel = mapFloating<[](auto x) { return x * x; }>,
};

struct CheckContext : testing::TestContext {
  CheckContext() { cantFail(ops.add(kWrongSquare)); }
};

class Gradcheck : public ::testing::Test {
 protected:
  Gradcheck() { options.session.initSeed = 1; }

  Graph parse(StringRef text) { return cantFail(testing::parseGraph(context, text)); }
  GradcheckReport check(const Graph &graph) {
    Expected<GradcheckReport> report = gradcheck(context, graph, {}, options);
    if (!report) {
      ADD_FAILURE() << testing::describeError(report.takeError());
      return GradcheckReport();
    }
    return std::move(*report);
  }
  void expectPass(const Graph &graph) {
    GradcheckReport report = check(graph);
    EXPECT_TRUE(report.passed());
    for (const GradcheckRow &row : report.rows)
      EXPECT_EQ(row.failures, 0u) << row.variable << ": " << row.worstError << " times the tolerance";
  }
  const GradcheckRow &row(const GradcheckReport &report, StringRef name) {
    for (const GradcheckRow &row : report.rows)
      if (row.variable == name) return row;
    report_fatal_error("no row '" + name + "'");
  }

  CheckContext context;
  GradcheckOptions options;
};

TEST_F(Gradcheck, RUN_03_RightGradientsPass) {
  Graph graph = parse(
      "x = var {__shape__=(3,4)}; h = FullyConnected(x, w, b) {num_hidden=5}; t = tanh(h); y = elemwise_mul(t, h);"
      "heads y, t");
  GradcheckReport report = check(graph);
  EXPECT_TRUE(report.passed());
  ASSERT_EQ(report.rows.size(), 4u);
  EXPECT_EQ(report.rows[0].variable, "all variables");
  EXPECT_EQ(report.rows[0].checks, 1u);
  uint32_t checks = 0;
  for (const GradcheckRow &row : report.rows) {
    EXPECT_LE(row.worstError, 1);
    EXPECT_GT(row.largestGradient, 1e-3);
    checks += row.checks;
  }
  EXPECT_EQ(checks, 40u);
}

TEST_F(Gradcheck, RUN_03_WrongGradientsFail) {
  GradcheckReport report =
      check(parse("x = var {__shape__=(3,)}; v = var {__shape__=(3,)}; a = wrong_square(x); y = elemwise_add(a, v)"));
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(row(report, "x").failures, row(report, "x").checks);
  EXPECT_EQ(row(report, "v").failures, 0u);
  EXPECT_GT(row(report, "x").worstError, 1e3);
}

// The head gradients of lower orders are the check's own, so nobody has to give values for them.
TEST_F(Gradcheck, RUN_03_OnlyTheGraphsVariablesNeedValues) {
  options.session.initSeed.reset();
  const Graph graph = parse("y = elemwise_mul(x, x); z = exp(y); heads z, y");
  const auto x = [] { return std::vector<NamedArray>{{"x", doubles({2}, {0.5, -1})}}; };
  for (options.order = 1; options.order <= 3; ++options.order) {
    Expected<GradcheckReport> report = gradcheck(context, graph, x(), options);
    ASSERT_TRUE(bool(report)) << testing::describeError(report.takeError());
    EXPECT_TRUE(report->passed()) << "order " << options.order;
  }
  options.order = 2;
  options.session.hints.shapes = {{testing::nodeNamed(graph, "x"), DimsBuffer({2})}};
  EXPECT_EQ(testing::describeError(gradcheck(context, graph, {}, options)), "[binding] variable 'x' is not bound");
}

// No gradient flows into a label or a length, though other operators differentiate the variable.
TEST_F(Gradcheck, RUN_03_InputsThatAreNeverDifferentiatedStay) {
  const Graph label = parse("x = var {__shape__=(4,3)}; y = SoftmaxOutput(x, label)");
  options.gradient.wrt = {{Value{testing::nodeNamed(label, "x")}}, {Value{testing::nodeNamed(label, "label")}}};
  options.gradientOptions.unused = UnusedPolicy::None;
  expectPass(label);
  options.gradient.wrt.clear();
  expectPass(parse("x = var {__shape__=(4,2)}; m = SequenceMask(x, n) {use_sequence_length=True}; s = sum(m) {axis=0};"
                   "y = elemwise_div(s, n)"));
}

// A loss whose output is a constant for the request takes no part.
TEST_F(Gradcheck, STOP_03_StoppedLosses) {
  const Graph graph = parse("x = var {__shape__=(4,3)}; y = SoftmaxOutput(x, label); z = exp(x); heads y, z");
  options.gradient.stop = {{testing::nodeNamed(graph, "y")}};
  expectPass(graph);
  options.gradient = {};
  options.gradient.noGrad = {{testing::nodeNamed(graph, "y")}};
  expectPass(graph);
}

TEST_F(Gradcheck, P_04_AnEmittedGraphWithoutGradients) {
  const Graph graph = parse("x = var {__shape__=(2,)}; y = exp(x); z = sin(u); heads y, z");
  GradientRequest request;
  request.heads = {{Value{testing::nodeNamed(graph, "z")}, std::nullopt, ""}};
  request.wrt = {{Value{testing::nodeNamed(graph, "x")}}};
  GradientOptions unused;
  unused.unused = UnusedPolicy::None;
  const Graph emitted = cantFail(buildGradient(context, graph, request, unused)).graph;
  EXPECT_EQ(testing::describeError(gradcheck(context, emitted, {}, options)),
            "[unsupported_option] the emitted graph has no gradients to check: no x that was requested has one");
}

// By name twice, or an emitted graph with two gradients of one variable: a step moves it once.
TEST_F(Gradcheck, RUN_03_AVariableThatIsListedTwice) {
  const Graph graph = parse("x = var {__shape__=(3,)}; y = elemwise_mul(x, v)");
  const Value x{testing::nodeNamed(graph, "x")}, v{testing::nodeNamed(graph, "v")};
  GradientRequest request;
  request.wrt = {{x}, {v}, {x}};
  for (options.order = 1; options.order <= 2; ++options.order) {
    options.gradient = request;
    const GradcheckReport report = check(graph);
    EXPECT_TRUE(report.passed()) << "order " << options.order;
    EXPECT_EQ(report.rows.size(), 3u);
  }
  GradientOptions gradientOptions;
  gradientOptions.headPolicy = HeadPolicy::Ones;
  const Graph emitted = cantFail(buildGradient(context, graph, request, gradientOptions)).graph;
  options.gradient = {};
  const GradcheckReport report = check(emitted);
  EXPECT_TRUE(report.passed());
  EXPECT_EQ(report.rows.size(), 4u) << "both gradients are checked";
}

TEST_F(Gradcheck, RUN_03_SameSeedSameReport) {
  Graph graph = parse("x = var {__shape__=(3,)}; y = exp(x)");
  EXPECT_EQ(check(graph).rows[1].worstError, check(graph).rows[1].worstError);
  double before = check(graph).rows[1].largestGradient;
  options.seed = 2;
  EXPECT_NE(check(graph).rows[1].largestGradient, before);
}

TEST_F(Gradcheck, RUN_03_KinksAreHeldOnTheirPiece) {
  // Steps of 0.5 cross zero everywhere; on its piece relu is linear, so the difference is exact all the same.
  Graph graph = parse("x = var {__shape__=(20,)}; y = relu(x)");
  options.eps = 0.5;
  GradcheckReport report = check(graph);
  EXPECT_TRUE(report.passed());
  EXPECT_EQ(report.held.pieces, 1u);
  EXPECT_EQ(report.held.outputs, 0u);
}

TEST_F(Gradcheck, RUN_03_WholeNumbersNeedNoPiece) {
  // What is computed from integers alone never varies; pieces compute in floating types.
  Graph graph = parse("i = var {__shape__=(3,), __dtype__=int64}; m = broadcast_maximum(i, i); r = abs(m); "
                      "t = clip(r) {a_min=0, a_max=9};"
                      "x = var {__shape__=(3,)}; c = Cast(t) {dtype=float32}; y = elemwise_mul(c, x); heads y");
  GradcheckReport report = check(graph);
  EXPECT_TRUE(report.passed());
  EXPECT_EQ(report.held.pieces, 0u);
}

TEST_F(Gradcheck, RUN_03_DeclaredGradientsHaveAPieceOfTheirSlope) {
  options.order = 3;
  expectPass(parse("x = var {__shape__=(9,)}; r = _contrib_round_ste(x); y = elemwise_mul(r, x)"));
  expectPass(parse("x = var {__shape__=(9,)}; r = _contrib_sign_ste(x); y = elemwise_mul(r, x)"));
  expectPass(parse("x = var {__shape__=(9,)}; s = square(x); y = _contrib_gradientmultiplier(s) {scalar=-0.5}"));
}

TEST_F(Gradcheck, STOP_01_BlockGradIsHeld) {
  GradcheckReport report = check(parse("x = var {__shape__=(4,)}; b = BlockGrad(x); y = elemwise_mul(b, x)"));
  EXPECT_TRUE(report.passed());
  EXPECT_EQ(report.held.outputs, 1u);
}

TEST_F(Gradcheck, STOP_03_NG_06_EmittedGraphsSayWhatTheyTookAsConstant) {
  Graph graph = parse("x = var {__shape__=(4,)}; p = exp(x); q = square(p); y = elemwise_mul(q, x)");
  const Value p = TestGraph::findValue(graph, "p"), q = TestGraph::findValue(graph, "q");
  GradientRequest stopped, cut;
  stopped.wrt = cut.wrt = {{TestGraph::findValue(graph, "x"), Request::Write}};
  stopped.stop = {p, q};
  cut.noGrad = {q};
  for (const GradientRequest &request : {stopped, cut})
    for (uint32_t order : {1u, 2u}) {
      const Graph emitted = cantFail(buildGradientOfOrder(context, graph, request, GradientOptions(), order)).graph;
      expectPass(emitted);
      expectPass(cantFail(lowerTo(context, emitted, kMxnetTarget, nullptr)));
      EXPECT_EQ(emitted.table().constants.size(), request.stop.size() + request.noGrad.size()) << "once each";
    }
}

TEST_F(Gradcheck, RUN_03_LossOperatorsAreCheckedAgainstTheirImpliedLoss) {
  GradcheckReport report = check(
      parse("x = var {__shape__=(8,3)}; h = FullyConnected(x, w, b) {num_hidden=4}; y = SoftmaxOutput(h, label)"));
  EXPECT_TRUE(report.passed());
  EXPECT_EQ(report.held.outputs, 1u);
  EXPECT_GT(row(report, "w").largestGradient, 1e-3);
}

// The product with a head gradient is the gradient of a loss only for ones; that of the next order reads any.
TEST_F(Gradcheck, D_27_ALossThatReadsItsHeadGradient) {
  const Graph loss = parse("x = var {__shape__=(2,3)}; y = SoftmaxOutput(x, label) {out_grad=True}");
  GradientRequest request;
  request.wrt.push_back({Value{NodeId(0)}, Request::Write});
  options.gradient.wrt = request.wrt;
  for (uint32_t order : {1, 2, 3}) {
    options.order = order;
    expectPass(loss);
  }
  options.order = 1;
  options.gradient.wrt.clear();
  GradientOptions gradientOptions;
  gradientOptions.headPolicy = HeadPolicy::Input;
  expectPass(cantFail(buildGradientOfOrder(context, loss, request, gradientOptions, 2)).graph);
}

TEST_F(Gradcheck, RUN_03_LossesNoHeadGradientReachesDoNotCount) {
  expectPass(parse("x = var {__shape__=(8,4)}; s = SoftmaxOutput(x, label); b = BlockGrad(s); y = elemwise_mul(b, x)"));
}

TEST_F(Gradcheck, RUN_03_RandomOperatorsRepeatTheirDraws) {
  expectPass(parse("x = var {__shape__=(30,)}; d = Dropout(x) {p=0.5}; y = square(d)"));
}

TEST_F(Gradcheck, MUT_03_OverwrittenStatesAreReadAsTheyWere) {
  // m comes first by its place in y, so keeping the versions gives x and k other ids.
  Graph graph = parse("m = test_accumulate(w, s@1); r = elemwise_mul(x, s); k = tanh(r); y = elemwise_mul(m, k)");
  options.gradient.wrt = {{testing::TestGraph::findValue(graph, "x"), Request::Write}};
  options.session.hints.shapes = {{testing::nodeNamed(graph, "x"), {3}}};
  for (uint32_t order : {1u, 2u}) {
    options.order = order;
    expectPass(graph);
  }
}

TEST_F(Gradcheck, MUT_06_StatesAreRestoredBeforeEachEvaluation) {
  // Moving statistics would drift from one evaluation to the next and be seen through use_global_stats.
  expectPass(parse("x = var {__shape__=(6,2)}; s = var {__shape__=(6,2)}; a = test_accumulate(x, s); y = square(a)"));
}

TEST_F(Gradcheck, RUN_03_BatchNormInTrainingForm) {
  Graph graph = parse("x = var {__shape__=(8,3)}; h = FullyConnected(x, w, b) {num_hidden=4};"
                      "n = BatchNorm(h, gamma, beta, mean, var) {fix_gamma=False}; y = square(n)");
  options.samples = 60;
  GradcheckReport report = check(graph);
  EXPECT_TRUE(report.passed());
  EXPECT_TRUE(row(report, "b").isVacuous) << "a bias before batch statistics has no effect";
  EXPECT_FALSE(row(report, "gamma").isVacuous);
}

TEST_F(Gradcheck, RUN_03_VacuousRunsDoNotPass) {
  // The gradient is zero everywhere in double precision, but not structurally zero.
  GradcheckReport report = check(parse("x = var {__shape__=(4,)}; h = _mul_scalar(x) {scalar=1e-30}; y = tanh(h)"));
  EXPECT_TRUE(report.rows[1].isVacuous);
  EXPECT_EQ(report.rows[1].failures, 0u);
  EXPECT_FALSE(report.passed());
}

TEST_F(Gradcheck, P_04_UnusedVariablesAreStructuralZeros) {
  options.gradient.wrt.clear();
  Graph graph = parse("x = var {__shape__=(2,)}; y = exp(x); u = var {__shape__=(2,)}; z = exp(u); heads y, z");
  options.gradient.heads = {{TestGraph::findValue(graph, "y"), std::nullopt, ""}};
  GradcheckReport report = check(graph);
  EXPECT_TRUE(report.passed());
  EXPECT_TRUE(row(report, "u").isStructuralZero);
  EXPECT_FALSE(row(report, "x").isStructuralZero);
}

TEST_F(Gradcheck, STOP_03_StoppedEntriesAreConstants) {
  Graph graph = parse("x = var {__shape__=(4,)}; a = exp(x); y = elemwise_mul(a, x)");
  options.gradient.stop = {TestGraph::findValue(graph, "a")};
  expectPass(graph);
}

TEST_F(Gradcheck, RUN_03_InnerEntriesCanBeTheOutput) {
  Graph graph = parse("x = var {__shape__=(4,)}; a = square(x); y = wrong_square(a)");
  options.gradient.heads = {{TestGraph::findValue(graph, "a"), std::nullopt, ""}};
  expectPass(graph);
}

TEST_F(Gradcheck, HO_02_HigherOrders) {
  Graph graph = parse("x = var {__shape__=(3,)}; a = tanh(x); y = elemwise_mul(a, x)");
  for (uint32_t order : {2u, 3u}) {
    options.order = order;
    expectPass(graph);
  }
  options.order = 2;
  // d/dx (dy · x) is dy: right for the wrong first order, so only order 1 finds the mistake.
  EXPECT_TRUE(check(parse("x = var {__shape__=(3,)}; y = wrong_square(x)")).passed());
}

// ---- emitted graphs

// From the second order on nothing is left of a linear function: no order starts from its outputs again.
TEST_F(Gradcheck, HO_08_OrdersThatVanishStayZero) {
  for (uint32_t order : {2u, 3u, 4u}) {
    options.order = order;
    const GradcheckReport report =
        check(parse("x = var {__shape__=(3,)}; s = var {__shape__=(3,)}; y = elemwise_add(x, s)"));
    EXPECT_TRUE(report.passed()) << order;
    EXPECT_TRUE(row(report, "x").isStructuralZero) << order;
  }
}

TEST_F(Gradcheck, CLI_03_EmittedGraphsAreChecked) {
  Graph right = parse("x = var {__shape__=(3,)}; a = exp(x); y = elemwise_mul(a, x)");
  Graph wrong = parse("x = var {__shape__=(3,)}; a = wrong_square(x); y = elemwise_mul(a, x)");
  GradientRequest request;
  for (HeadPolicy policy : {HeadPolicy::Ones, HeadPolicy::Input}) {
    GradientOptions gradientOptions;
    gradientOptions.headPolicy = policy;
    request.wrt = allTargets(right, nullptr).targets;
    expectPass(cantFail(buildGradient(context, right, request, gradientOptions)).graph);
    request.wrt = allTargets(wrong, nullptr).targets;
    EXPECT_FALSE(check(cantFail(buildGradient(context, wrong, request, gradientOptions)).graph).passed());
  }
}

TEST_F(Gradcheck, CLI_03_EmittedGraphsOfOrderTwo) {
  Graph forward = parse("x = var {__shape__=(3,)}; a = tanh(x); y = elemwise_mul(a, x)");
  GradientRequest request;
  request.wrt = allTargets(forward, nullptr).targets;
  request.wrt[0].request = Request::Add;
  Graph second = cantFail(buildGradientOfOrder(context, forward, request, GradientOptions(), 2)).graph;
  expectPass(second);
}

// The table names a y by its listed name, which may appear several times: for a y that is listed twice, for nodes of
// one name, and for a y whose gradient is taken again.
TEST_F(Gradcheck, CLI_03_HeadGradientsUnderOneNameAreToldApart) {
  auto seeded = [&](const Graph &graph, StringRef prefix, ArrayRef<Value> ys) {
    GradientRequest request;
    request.wrt.push_back({Value{NodeId(0)}, Request::Write});
    for (size_t i = 0; i < ys.size(); ++i) request.heads.push_back({ys[i], std::nullopt, (prefix + Twine(i)).str()});
    return cantFail(buildGradient(context, graph, request, GradientOptions())).graph;
  };
  GraphBuilder builder(context);
  const Value x = builder.addVariable("x", context.attrs({{"__shape__", "(3,)"}}));
  const Value y{cantFail(builder.add(*context.ops.find("exp"), {x}, {"same", {}, {}}))},
      z{cantFail(builder.add(*context.ops.find("sin"), {x}, {"same", {}, {}}))};
  const Graph sameNames = cantFail(std::move(builder).freeze({y, z}, {})).graph;
  for (Value v : {y, z}) options.gradient.heads.push_back({v, std::nullopt, ""});
  expectPass(seeded(sameNames, "first", {y, z}));

  const Graph twice = seeded(parse("x = var {__shape__=(3,)}; y = exp(x)"), "again", {y, y});
  options.gradient.heads = {{y, std::nullopt, ""}, {y, std::nullopt, ""}};
  expectPass(twice);
}

// What an emitted graph does not record is not found out, but the report has the factor.
TEST_F(Gradcheck, CLI_03_OneFactorOfAllGradientsIsReported) {
  const Graph forward = parse("x = var {__shape__=(3,)}; w = var {__shape__=(3,)}; y = elemwise_mul(x, w)");
  auto emitted = [&](double scale) {
    GradientRequest request;
    request.wrt = allTargets(forward, nullptr).targets;
    GradientOptions gradientOptions;
    gradientOptions.lossScale = scale;
    return cantFail(buildGradient(context, forward, request, gradientOptions)).graph;
  };
  const GradcheckReport scaled = check(emitted(8));
  EXPECT_FALSE(scaled.passed());
  ASSERT_TRUE(scaled.factor.has_value());
  EXPECT_NEAR(*scaled.factor, 8, 1e-3);
  EXPECT_FALSE(check(emitted(1)).factor) << "it passes";
  const GradcheckReport other = check(parse("x = var {__shape__=(3,)}; a = wrong_square(x); y = elemwise_add(a, x)"));
  EXPECT_FALSE(other.passed() || other.factor) << "one of two terms is wrong";
}

TEST_F(Gradcheck, CLI_03_GradientsAloneCannotBeChecked) {
  Graph forward = parse("x = var {__shape__=(3,)}; y = exp(x)");
  GradientRequest request;
  request.wrt = allTargets(forward, nullptr).targets;
  GradientOptions gradientOptions;
  gradientOptions.gradientOnly = true;
  Graph alone = cantFail(buildGradient(context, forward, request, gradientOptions)).graph;
  GradcError error = errorOf(gradcheck(context, alone, {}, options));
  EXPECT_EQ(error.kind, ErrorKind::UnsupportedOption);
  EXPECT_EQ(error.notes[0].text, "emit it with its forward heads");
}

TEST_F(Gradcheck, RUN_04_BindingsAreUsed) {
  Graph graph = parse("x = var {__shape__=(2,)}; y = square(x)");
  Expected<GradcheckReport> report = gradcheck(context, graph, {{"x", floats({2}, {0, 0})}}, options);
  EXPECT_TRUE(cantFail(std::move(report)).rows[1].isVacuous) << "the gradient of x² at 0";
  options.session.initSeed = std::nullopt;
  EXPECT_EQ(errorOf(gradcheck(context, graph, {}, options)).kind, ErrorKind::BindingMissing);
}

// The differences of these functions err by (k·h)²/6 relative to their gradient: by 1.5 to 1.5e4 times the tolerance.
TEST_F(Gradcheck, RUN_03_CurvatureIsNotAWrongGradient) {
  for (StringRef k : {"300", "3000", "30000"}) {
    const std::string inner = ("x = var {__shape__=(3,4)}; m = _mul_scalar(x) {scalar=" + k + "}; ").str();
    const GradcheckReport report = check(parse(inner + "y = sin(m)"));
    EXPECT_TRUE(report.passed()) << k.str();
    EXPECT_GT(row(report, "x").extrapolated, 0u) << k.str();
    EXPECT_LE(row(report, "x").worstError, 1);
    EXPECT_FALSE(report.isUnsettled);
    const GradcheckReport wrong = check(parse(inner + "s = sin(m); y = wrong_square(s)"));
    EXPECT_FALSE(wrong.passed()) << k.str();
    EXPECT_EQ(row(wrong, "x").extrapolated, 0u) << k.str();
    EXPECT_EQ(row(wrong, "x").failures, row(wrong, "x").checks) << k.str();
  }
  const GradcheckReport plain = check(parse("x = var {__shape__=(3,4)}; y = sin(x)"));
  EXPECT_EQ(row(plain, "x").extrapolated, 0u);
  // A step of 1e-5 is many periods of it.
  const GradcheckReport unsettled =
      check(parse("x = var {__shape__=(3,4)}; m = _mul_scalar(x) {scalar=1e7}; y = sin(m)"));
  EXPECT_FALSE(unsettled.passed());
  EXPECT_TRUE(unsettled.isUnsettled);
}

// 50 variables: 40 checks would leave eleven of them out.
TEST_F(Gradcheck, RUN_03_EveryVariableIsSampledByItself) {
  std::string text = "s0 = var {__shape__=(2,)}; ";
  for (int i = 1; i <= 49; ++i)
    text += "v" + std::to_string(i) + " = var {__shape__=(2,)}; s" + std::to_string(i) + " = elemwise_mul(s" +
            std::to_string(i - 1) + ", v" + std::to_string(i) + "); ";
  const Graph graph = parse(text + "y = tanh(s49)");
  options.session.infer.floatAs = DType::Float64;
  const GradcheckReport report = check(graph);
  EXPECT_EQ(report.numUnsampled(), 0u);
  uint32_t checks = 0;
  for (const GradcheckRow &row : report.rows) checks += row.checks;
  EXPECT_EQ(checks, 51u);
  options.samples = 20;
  EXPECT_EQ(check(graph).numUnsampled(), 31u) << "one check moves all of them";
}

}  // namespace
}  // namespace gradc
