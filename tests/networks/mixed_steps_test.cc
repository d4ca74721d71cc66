// Optimizers on parameters of 16 bits: MXNet's steps with the weight in float32 besides, as MXNet 1.9.1 computes them
// (tests/oracles/mixed_steps_values.py prints the rows), training with float32 copies, scaled losses.
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/kit/primitives.h"
#include "passes/optimizer/append_optimizer.h"
#include "runtime/arrays/elements.h"
#include "runtime/session/session.h"
#include "tests/support/ops/naive.h"
#include "tests/support/runs/training.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

const std::vector<float> kWeight = {0.5f, -1.25f, 2.0f, 0.03125f}, kGrad = {0.75f, -3.0f, 0.125f, 10.0f};

struct StepRow {
  std::string op, attrs;
  std::vector<double> weight;                      // what the step yields
  std::vector<std::vector<double>> before, after;  // of the inputs behind the gradient
};

// clang-format off
const StepRow kRows[] = {
    {"mp_sgd_update", "lr=0.1",
     {0.425048828125, -0.9501953125, 1.98828125, -0.96875},
     {{0.50004, -1.2501, 2.0004, 0.031253}},
     {{0.42504000663757324, -0.9501000046730042, 1.9879000186920166, -0.9687470197677612}}},
    {"mp_sgd_update", "lr=0.1, wd=0.1, rescale_grad=0.5, clip_gradient=0.8",
     {0.45751953125, -1.1572265625, 1.974609375, -0.049072265625},
     {{0.50004, -1.2501, 2.0004, 0.031253}},
     {{0.4575396180152893, -1.1575989723205566, 1.9741460084915161, -0.049059536308050156}}},
    {"mp_sgd_mom_update", "lr=0.1, momentum=0.9",
     {0.51513671875, -1.1298828125, 2.2578125, -0.96875},
     {{0.1, -0.2, 0.3, 0.0}, {0.50004, -1.2501, 2.0004, 0.031253}},
     {{0.01499999314546585, 0.12000001966953278, 0.257500022649765, -1.0},
      {0.5150399804115295, -1.1301000118255615, 2.2578999996185303, -0.9687470197677612}}},
    {"mp_sgd_mom_update", "lr=0.1, momentum=0.9, wd=0.1, rescale_grad=0.5, clip_gradient=0.8",
     {0.54736328125, -1.337890625, 2.244140625, -0.049072265625},
     {{0.1, -0.2, 0.3, 0.0}, {0.50004, -1.2501, 2.0004, 0.031253}},
     {{0.04749959707260132, -0.0874989852309227, 0.24374601244926453, -0.08031253516674042},
      {0.5475395917892456, -1.3375990390777588, 2.2441461086273193, -0.049059536308050156}}},
    {"mp_nag_mom_update", "lr=0.1, momentum=0.9",
     {0.4384765625, -0.84228515625, 2.21875, -1.869140625},
     {{0.1, -0.2, 0.3, 0.0}, {0.50004, -1.2501, 2.0004, 0.031253}},
     {{0.01499999314546585, 0.12000001966953278, 0.257500022649765, -1.0},
      {0.438539981842041, -0.8421000242233276, 2.2196500301361084, -1.8687469959259033}}},
    {"mp_nag_mom_update", "lr=0.1, momentum=0.9, wd=0.1, rescale_grad=0.5, clip_gradient=0.8",
     {0.50048828125, -1.236328125, 2.193359375, -0.121337890625},
     {{0.1, -0.2, 0.3, 0.0}, {0.50004, -1.2501, 2.0004, 0.031253}},
     {{0.04749959334731102, -0.0874989852309227, 0.24374601244926453, -0.08031253516674042},
      {0.5002892017364502, -1.2363481521606445, 2.1935174465179443, -0.12134082615375519}}},
    {"_mp_adamw_update", "lr=0.1, eta=0.5, wd=0.1, clip_gradient=0.8",
     {0.41162109375, -1.158203125, -5.08984375, 0.02642822265625},
     {{0.1, -0.2, 0.3, 0.0}, {0.01, 0.2, 0.0, 1.5}, {0.50004, -1.2501, 2.0004, 0.031253}, {0.5}},
     {{0.1274999976158142, -0.2600000202655792, 0.2762500047683716, 0.08000002056360245},
      {0.01013062335550785, 0.20043998956680298, 3.906199708580971e-06, 1.4991400241851807},
      {0.4117003083229065, -1.1585580110549927, -5.088263034820557, 0.02642342448234558},
      {0.5}}},
    {"_mp_adamw_update", "lr=0.1, eta=0.5",
     {0.5, -1.25, 2.0, 0.03125},
     {{0.1, -0.2, 0.3, 0.0}, {0.01, 0.2, 0.0, 1.5}, {0.50004, -1.2501, 2.0004, 0.031253}, {NAN}},
     {{0.10000000149011612, -0.20000000298023224, 0.30000001192092896, 0.0},
      {0.009999999776482582, 0.20000000298023224, 0.0, 1.5},
      {0.5000399947166443, -1.250100016593933, 2.0004000663757324, 0.03125299885869026},
      {NAN}}},
    {"mp_lamb_update_phase1", "t=1, wd=0",
     {0.5079295039176941, -0.33217981457710266, 22.599815368652344, 0.2501157522201538},
     {{0.1, -0.2, 0.3, 0.0}, {0.01, 0.2, 0.0, 1.5}, {0.50004, -1.2501, 2.0004, 0.031253}},
     {{0.16500002145767212, -0.4800000786781311, 0.2825000286102295, 1.000000238418579},
      {0.010552492924034595, 0.20879988372325897, 1.5624798834323883e-05, 1.5984987020492554},
      {0.5000399947166443, -1.250100016593933, 2.0004000663757324, 0.03125299885869026}}},
    {"mp_lamb_update_phase1", "t=3, wd=0.1, rescale_grad=0.5, clip_gradient=0.8",
     {0.30590057373046875, -0.2423250377178192, 28.434900283813477, 0.016324317082762718},
     {{0.1, -0.2, 0.3, 0.0}, {0.01, 0.2, 0.0, 1.5}, {0.50004, -1.2501, 2.0004, 0.031253}},
     {{0.1274999976158142, -0.2600000202655792, 0.2762500047683716, 0.08000002056360245},
      {0.01013062335550785, 0.20043998956680298, 3.906199708580971e-06, 1.4991400241851807},
      {0.5000399947166443, -1.250100016593933, 2.0004000663757324, 0.03125299885869026}}},
    {"mp_lamb_update_phase2", "lr=0.1",
     {0.44384765625, -1.025390625, 1.9912109375, -0.71875},
     {{1.5}, {2.0}, {0.50004, -1.2501, 2.0004, 0.031253}},
     {{1.5}, {2.0}, {0.4437899887561798, -1.0250999927520752, 1.9910250902175903, -0.7187470197677612}}},
    {"mp_lamb_update_phase2", "lr=0.1, lower_bound=3",
     {0.387451171875, -0.80029296875, 1.9814453125, -1.46875},
     {{1.5}, {2.0}, {0.50004, -1.2501, 2.0004, 0.031253}},
     {{1.5}, {2.0}, {0.38753998279571533, -0.8000999689102173, 1.9816501140594482, -1.4687470197677612}}},
};
// clang-format on

class MixedSteps : public ::testing::TestWithParam<StepRow> {};

TEST_P(MixedSteps, WeightsOf16BitsAreSteppedInFloat32) {
  const StepRow &row = GetParam();
  TestContext context;
  const OpDef *op = context.ops.find(row.op);
  ASSERT_TRUE(op);
  std::string text = "y = " + row.op + "(";
  for (size_t i = 0; i < op->inputs.names.count; ++i) text += (i ? ", " : "") + op->inputs.names.names[i].str();
  TestGraph g(text + ") {" + row.attrs + "}");
  std::vector<NamedArray> bindings = {{"weight", floats({4}, kWeight)},
                                      {op->inputs.names.names[1].str(), floats({4}, kGrad)}};
  for (size_t i = 0; i < row.before.size(); ++i) {
    const std::vector<double> &values = row.before[i];
    bindings.push_back({op->inputs.names.names[2 + i].str(), floats({static_cast<int64_t>(values.size())},
                                                                    std::vector<float>(values.begin(), values.end()))});
  }
  SessionOptions options;
  options.exec.backend = Backend::Reference;
  options.hints.dtypes.push_back({g.at("weight").node, DType::Float16});
  Session session = cantFail(Session::create(testContext(), g, std::move(bindings), options));
  cantFail(session.run(0));
  EXPECT_EQ(session.head(0).dtype, row.op == "mp_lamb_update_phase1" ? DType::Float32 : DType::Float16);
  auto expectNear = [&](const TensorRef &found, const std::vector<double> &expected, double relative, StringRef what) {
    for (size_t i = 0; i < expected.size(); ++i) {
      const double value = readElement(found, static_cast<int64_t>(i));
      if (std::isnan(expected[i])) EXPECT_TRUE(std::isnan(value)) << what.str();
      else EXPECT_NEAR(value, expected[i], relative * std::abs(expected[i]) + 1e-12) << what.str() << " " << i;
    }
  };
  // MXNet sums in another order here and there: the last places of float32, and so at most one of float16.
  expectNear(session.head(0), row.weight, isHalf(session.head(0).dtype) ? 0x1p-10 : 4e-6, "weight");
  for (size_t i = 0; i < row.after.size(); ++i) {
    const StringRef name = op->inputs.names.names[2 + i];
    const TensorRef state = session.variable(g.at(name).node);
    EXPECT_EQ(state.dtype, DType::Float32) << name.str();
    expectNear(state, row.after[i], 4e-6, name);
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, MixedSteps, ::testing::ValuesIn(kRows));

constexpr StringRef kNet = "x = var {__dtype__=float16, __shape__=(2,)}; w_weight = var; y = elemwise_mul(x, w_weight)";

/// By node.
std::vector<DType> typesOf(TestGraph &g) {
  const Graph &graph = g;
  const Inference inference = cantFail(infer(g.context, graph, {}, InferOptions()));
  std::vector<DType> types;
  for (uint32_t n = 0; n < graph.numNodes(); ++n) types.push_back(inference.dtype[graph.firstEntry(NodeId(n))]);
  return types;
}

TrainingGraph appended(TestGraph &g, const OptimizerOptions &options) {
  GradientRequest request;
  request.wrt.push_back({g.at("w_weight"), Request::Write});
  const Graph gradients = cantFail(buildGradient(g.context, g, request, {})).graph;
  OptimizerOptions mixed = options;
  mixed.types = typesOf(g);
  return cantFail(appendOptimizer(g.context, gradients, mixed));
}

TEST(MixedTraining, AStepIsTakenOnACopyInFloat32) {
  TestGraph g(kNet);
  OptimizerOptions options;
  options.momentum = 0.5;
  const TrainingGraph result = appended(g, options);
  EXPECT_EQ(
      dumpFrom(result.graph, nodeNamed(result.graph, "y_backward").value, 0),
      "y_backward = elemwise_mul(_head_grad_0, x)\n"
      "w_weight_grad32 = Cast(y_backward)\n"
      "w_weight_step = _scheduled_sgd_mom_update(w_weight_weight32, w_weight_grad32, w_weight_mom@1, learning_rate)\n"
      "w_weight_weight32_update = _assign(w_weight_weight32@1, w_weight_step)\n"
      "w_weight_update = Cast(w_weight_weight32_update) ^y\n"
      "heads y, w_weight_update\n");
  ASSERT_EQ(result.parameters.size(), 1u);
  EXPECT_EQ(result.graph.name(result.parameters[0].master), "w_weight_weight32");
  const Inference inference = cantFail(infer(g.context, result.graph, {}, InferOptions()));
  for (StringRef name : {"w_weight_weight32", "w_weight_mom", "learning_rate"})
    EXPECT_EQ(inference.dtype[result.graph.firstEntry(nodeNamed(result.graph, name))], DType::Float32) << name.str();
  EXPECT_EQ(inference.dtype[result.graph.entry(result.graph.heads()[1])], DType::Float16);
}

TEST(MixedTraining, A_14_FixedRatesGiveMxnetsOperators) {
  TestGraph g(kNet);
  OptimizerOptions options;
  options.fixedRate = 0.5;
  EXPECT_EQ(appended(g, options).graph.opName(nodeNamed(appended(g, options).graph, "w_weight_update")),
            "mp_sgd_update");
  options.momentum = 0.5;
  const TrainingGraph result = appended(g, options);
  const NodeId update = nodeNamed(result.graph, "w_weight_update");
  EXPECT_EQ(result.graph.opName(update), "mp_sgd_mom_update");
  EXPECT_EQ(result.parameters[0].states.size(), 2u);
  options.momentum = 0;
  options.kind = OptimizerKind::RmsProp;
  GradientRequest request;
  request.wrt.push_back({g.at("w_weight"), Request::Write});
  const Graph gradients = cantFail(buildGradient(g.context, g, request, {})).graph;
  options.types = typesOf(g);
  EXPECT_EQ(describeError(appendOptimizer(g.context, gradients, options)),
            "[unsupported_option] MXNet has no step of 'rmsprop' for 16-bit parameters, so its rate cannot be fixed");
}

constexpr StringRef kLayer =
    "data = var; o = FullyConnected(data, fc_weight, fc_bias) {num_hidden=3}; y = SoftmaxOutput(o, label)";

TrainerOptions halfOptions(DType type) {
  TrainerOptions options;
  options.batch = 4;
  options.schedule = {.rate = 1e-4, .total = 20};
  options.session.exec.backend = Backend::Reference;
  options.session.infer.floatAs = type;
  return options;
}

Dataset points() {
  return cantFail(Dataset::create(
      {{"data", floats({4, 2}, {1, 0.5f, -1, 0.25f, 0.5f, -1, 2, 1})}, {"label", floats({4}, {0, 1, 2, 0})}}));
}

std::vector<double> arrayNamed(ArrayRef<NamedArray> arrays, StringRef name, DType *type = nullptr) {
  std::vector<double> values;
  for (const NamedArray &array : arrays) {
    if (array.name != name) continue;
    if (type) *type = array.array.dtype;
    for (int64_t i = 0; i < array.array.view().size(); ++i) values.push_back(readElement(array.array.view(), i));
  }
  EXPECT_FALSE(values.empty()) << name.str();
  return values;
}

// Each step is less than half a unit of the last place of most weights: without copies in float32 they would not move.
TEST(MixedTraining, SmallStepsAddUp) {
  std::map<DType, std::vector<double>> ends;
  for (DType type : {DType::Float32, DType::Float16, DType::BFloat16}) {
    TestGraph g(kLayer);
    Trainer trainer = openTrainer(g, points(), halfOptions(type));
    const std::vector<NamedArray> start = trainer.checkpoint();
    DType found;
    const std::vector<double> weight = arrayNamed(start, "fc_weight", &found);
    EXPECT_EQ(found, type);
    if (isHalf(type)) {
      DType ofCopy;
      EXPECT_EQ(arrayNamed(start, "fc_weight_weight32", &ofCopy), weight) << "the copy starts as the weight";
      EXPECT_EQ(ofCopy, DType::Float32);
    }
    advance(trainer, 20);
    const std::vector<NamedArray> end = trainer.checkpoint();
    ends[type] = arrayNamed(end, isHalf(type) ? "fc_weight_weight32" : "fc_weight");
    for (size_t i = 0; i < weight.size(); ++i) ends[type][i] -= weight[i];
  }
  for (DType type : {DType::Float16, DType::BFloat16})
    for (size_t i = 0; i < 6; ++i)
      EXPECT_NEAR(ends[type][i], ends[DType::Float32][i], 0.05 * std::abs(ends[DType::Float32][i]) + 2e-5);
}

// Labels of 16 bits are class numbers too: a step at the rate 0 shows the metric of the start.
TEST(MixedTraining, TheMetricReadsLabelsOf16Bits) {
  auto metric = [](DType type) {
    TestGraph g(kLayer);
    Trainer trainer = openTrainer(g, points(), halfOptions(type));
    return cantFail(trainer.advance()).score.metricSum;
  };
  const double expected = metric(DType::Float32);
  EXPECT_GT(expected, 0);
  EXPECT_EQ(metric(DType::Float16), expected);
  EXPECT_EQ(metric(DType::BFloat16), expected);
}

// Powers of two change nothing but what becomes 0 in between.
TEST(MixedTraining, ScaledLossesGiveTheSameSteps) {
  auto copyAfter = [](DType type, double scale) {
    TestGraph g(kLayer);
    TrainerOptions options = halfOptions(type);
    options.lossScale = scale;
    Trainer trainer = openTrainer(g, points(), std::move(options));
    advance(trainer, 5);
    return arrayNamed(trainer.checkpoint(), isHalf(type) ? "fc_weight_weight32" : "fc_weight");
  };
  for (DType type : {DType::Float32, DType::Float16, DType::BFloat16})
    EXPECT_EQ(copyAfter(type, 1), copyAfter(type, 64)) << dtypeName(type).str();
}

struct NamedParams {
  bool outGrad;
};

// Whether an operator ignores its head is what it declares: not that it stands for a loss, nor what its attributes are
// called.
TEST(ScaledLosses, WhatIgnoresItsHeadIsDeclared) {
  static constexpr AttrSpec kAttrs[] = {required<&NamedParams::outGrad>("out_grad", "a name that means nothing here")};
  static const auto lossOf = [](bool ignoresHead) {
    OpDef op;
    op.name = ignoresHead ? "test_ignoring_loss" : "test_reading_loss";
    op.inputs = {"data"};
    op.attrs = kAttrs;
    op.params = paramsOf<NamedParams>();
    op.shape = shapes::same;
    op.gradient = [](GradRule &g) { g.dx(0, g.emit(kCopy, {g.dy(0)})); };
    if (ignoresHead) op.gradient = [](GradRule &g) { g.dx(0, g.emit(kOnesLike, {g.x(0)})); };
    op.impliedLoss = [](const KernelCall &) { return 0.0; };
    op.ignoresHead = ignoresHead;
    return op;
  };
  static const OpDef ignoring = lossOf(true), reading = lossOf(false);
  for (const OpDef *op : {&ignoring, &reading})
    for (StringRef text : {"True", "False"}) {
      TestContext context;
      cantFail(context.ops.add(*op));
      const Graph graph = cantFail(parseGraph(context, "y = " + op->name.str() + "(x) {out_grad=" + text.str() + "}"));
      GradientOptions options;
      options.lossScale = 8;
      const Graph made = cantFail(buildGradient(context, graph, wrt(graph, {"x"}), options)).graph;
      EXPECT_EQ(countOps(made, "_mul_scalar"), 1u) << dump(made);
      const NodeId last = made.heads().back().node;
      EXPECT_EQ(made.op(last)->name == "_mul_scalar", op == &ignoring) << dump(made);
    }
}

// The gradient of a loss with respect to its own output is its head gradient.
TEST(ScaledLosses, TheHeadGradientOfALossIsScaledToo) {
  TestGraph g("x = var; y = SoftmaxOutput(x, label)");
  GradientRequest request;
  for (StringRef name : {"x", "y"}) request.wrt.push_back({g.at(name), Request::Write});
  GradientOptions options;
  options.lossScale = 8;
  const GradientResult result = cantFail(buildGradient(g.context, g, request, options));
  EXPECT_EQ(dumpFrom(result.graph, nodeNamed(g, "y").value + 1, 0),
            "y_backward_0 = _SoftmaxOutput_grad(x, label) ^y\ny_backward_1 = _mul_scalar(y_backward_0)\n"
            "_head_grad_0 = ones_like(y)\n_head_grad_0_scaled = _mul_scalar(_head_grad_0)\n"
            "heads y, y_backward_1, _head_grad_0_scaled\n");
}

TEST(ScaledLosses, HeadGradientsAndWhatLossesYieldAreScaled) {
  auto emitted = [](StringRef text, double scale) {
    TestGraph g(text);
    GradientRequest request;
    request.wrt.push_back({g.at("x"), Request::Write});
    GradientOptions options;
    options.lossScale = scale;
    Expected<GradientResult> result = buildGradient(g.context, g, request, options);
    if (!result) return describeError(result.takeError());
    return dumpFrom(result->graph, nodeNamed(g, "y").value + 1, 0);
  };
  EXPECT_EQ(emitted("x = var; y = exp(x)", 8),
            "_head_grad_0 = ones_like(y)\n_head_grad_0_scaled = _mul_scalar(_head_grad_0)\n"
            "y_backward = elemwise_mul(_head_grad_0_scaled, y)\nheads y, y_backward\n");
  EXPECT_EQ(emitted("x = var; y = exp(x)", 1),
            "_head_grad_0 = ones_like(y)\ny_backward = elemwise_mul(_head_grad_0, y)\nheads y, y_backward\n");
  EXPECT_TRUE(StringRef(emitted("x = var; y = SoftmaxOutput(x, label)", 8)).contains("_mul_scalar(y_backward"));
  // What enters is scaled, and the operator multiplies by it: once is enough.
  const std::string byHead = emitted("x = var; y = SoftmaxOutput(x, label) {out_grad=True}", 8);
  EXPECT_TRUE(StringRef(byHead).contains("_head_grad_0_scaled = _mul_scalar(_head_grad_0)")) << byHead;
  EXPECT_FALSE(StringRef(byHead).contains("_mul_scalar(y_backward")) << byHead;
  for (double scale : {0.0, -1.0, HUGE_VAL, std::nan("")})
    EXPECT_TRUE(StringRef(emitted("x = var; y = exp(x)", scale)).contains("expected a finite number above 0"));
}

}  // namespace
}  // namespace gradc
