// Training: what a step computes and what it depends on, evaluation, and what is refused.
#include "runtime/training/trainer.h"

#include "tests/support/runs/training.h"
#include "tests/support/runs/triangle.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using gradc::testing::advance;
using gradc::testing::bytesOf;
using gradc::testing::kNet;
using gradc::testing::openTrainer;
using gradc::testing::plainOptions;
using gradc::testing::TestGraph;
using gradc::testing::triangle;

std::vector<float> valueOf(ArrayRef<NamedArray> arrays, StringRef name) {
  for (const NamedArray &array : arrays)
    if (array.name == name) return valuesOf<float>(array.array);
  ADD_FAILURE() << "no array '" << name.str() << "'";
  return {};
}

// ---- steps

TEST(Trainer, AStepIsTheOptimizersOnTheGradientOfTheMeanLoss) {
  TestGraph g("p = FullyConnected(data, w_weight) {num_hidden=1, no_bias=True}; y = LinearRegressionOutput(p, label)");
  TrainerOptions options;
  options.batch = 2;
  options.optimizer.momentum = 0.5;
  options.optimizer.weightDecay = 0.1;
  options.schedule.rate = 0.25;
  options.session.exec.backend = Backend::Reference;
  options.start = {{"w_weight", floats({1, 1}, {2})}};
  Dataset data = cantFail(Dataset::create({{"data", floats({2, 1}, {1, 3})}, {"label", floats({2, 1}, {0, 1})}}));
  Trainer trainer = openTrainer(g, data, options);
  Trainer::Report report = cantFail(trainer.advance());
  // Residuals 2 and 5; loss (4 + 25) / 2 / 2; gradient (2 + 15) / 2 + 0.1 · 2.
  EXPECT_EQ(report.step, 1u);
  EXPECT_EQ(report.rate, 0.25);
  EXPECT_NEAR(report.score.loss(), 7.25, 1e-6);
  EXPECT_NEAR(report.score.metric(), 14.5, 1e-6);
  EXPECT_NEAR(valueOf(trainer.parameters(), "w_weight")[0], 2 - 0.25 * 8.7, 1e-6);
  EXPECT_NEAR(valueOf(trainer.checkpoint(), "w_weight_mom")[0], -0.25 * 8.7, 1e-6);
}

TEST(Trainer, ItsOwnRescaleStandsAlone) {
  TestGraph g("p = FullyConnected(data, w_weight) {num_hidden=1, no_bias=True}; y = LinearRegressionOutput(p, label)");
  TrainerOptions options;
  options.batch = 2;
  options.hasOwnRescale = true;
  options.optimizer.rescale = 0.125;
  options.schedule.rate = 1;
  options.start = {{"w_weight", floats({1, 1}, {2})}};
  Dataset data = cantFail(Dataset::create({{"data", floats({2, 1}, {1, 3})}, {"label", floats({2, 1}, {0, 1})}}));
  Trainer trainer = openTrainer(g, data, options);
  advance(trainer, 1);
  EXPECT_NEAR(valueOf(trainer.parameters(), "w_weight")[0], 2 - 17 * 0.125, 1e-6);
}

TEST(Trainer, AdamsFirstStepIsTheRate) {
  TestGraph g("p = FullyConnected(data, w_weight) {num_hidden=1, no_bias=True}; y = LinearRegressionOutput(p, label)");
  TrainerOptions options;
  options.batch = 1;
  options.optimizer.kind = OptimizerKind::Adam;
  options.schedule.rate = 0.5;
  options.start = {{"w_weight", floats({1, 1}, {2})}};
  Dataset data = cantFail(Dataset::create({{"data", floats({1, 1}, {1})}, {"label", floats({1, 1}, {0})}}));
  Trainer trainer = openTrainer(g, data, options);
  advance(trainer, 1);
  EXPECT_NEAR(valueOf(trainer.parameters(), "w_weight")[0], 1.5, 1e-5) << "with the bias corrected, |step| = rate";
}

// The rate's schedule is AdamW's eta, the decay goes with it, and the bias correction does not touch the decay.
TEST(Trainer, AdamWDecaysBySchedule) {
  TestGraph g("p = FullyConnected(data, w_weight) {num_hidden=1, no_bias=True}; y = LinearRegressionOutput(p, label)");
  TrainerOptions options;
  options.batch = 1;
  options.optimizer.kind = OptimizerKind::AdamW;
  options.optimizer.weightDecay = 0.1;
  options.schedule = {.rate = 0.5, .warmup = 2};
  options.start = {{"w_weight", floats({1, 1}, {2})}};
  Dataset data = cantFail(Dataset::create({{"data", floats({1, 1}, {1})}, {"label", floats({1, 1}, {0})}}));
  Trainer trainer = openTrainer(g, data, options);
  advance(trainer, 1);
  const double first = 2 - 0.25 * (1 + 0.1 * 2);
  EXPECT_NEAR(valueOf(trainer.parameters(), "w_weight")[0], first, 1e-5);
  advance(trainer, 1);
  const double mean = (0.9 * 0.1 * 2 + 0.1 * first) / (1 - 0.81),
               var = (0.999 * 4 + first * first) * 0.001 / (1 - 0.998001);
  EXPECT_NEAR(valueOf(trainer.parameters(), "w_weight")[0], first - 0.5 * (mean / std::sqrt(var) + 0.1 * first), 1e-4);
}

TEST(Trainer, LambsStepIsAsLongAsTheWeight) {
  TestGraph g("p = FullyConnected(data, w_weight) {num_hidden=1, no_bias=True}; y = LinearRegressionOutput(p, label)");
  TrainerOptions options;
  options.batch = 1;
  options.optimizer.kind = OptimizerKind::Lamb;
  options.schedule.rate = 0.25;
  options.start = {{"w_weight", floats({1, 2}, {3, 4})}};
  Dataset data = cantFail(Dataset::create({{"data", floats({1, 2}, {1, 2})}, {"label", floats({1, 1}, {0})}}));
  Trainer trainer = openTrainer(g, data, options);
  advance(trainer, 1);
  const std::vector<float> after = valueOf(trainer.parameters(), "w_weight");
  // The direction is (1, 1), of length √2; the weight has length 5.
  EXPECT_NEAR(after[0], 3 - 0.25 * 5 / std::sqrt(2.0), 1e-5);
  EXPECT_NEAR(after[1], 4 - 0.25 * 5 / std::sqrt(2.0), 1e-5);
}

TEST(Trainer, LearnsATriangle) {
  // A rate for each optimizer, in the order of OptimizerKind.
  constexpr double kRates[kNumOptimizers] = {0.1, 0.02, 0.1, 0.01, 0.01, 0.01, 0.01, 0.1, 0.5, 0.02, 0.02, 0.05};
  for (Backend backend : {Backend::Reference, Backend::Auto})
    for (size_t kind = 0; kind < kNumOptimizers; ++kind) {
      TestGraph g(kNet);
      TrainerOptions options = plainOptions();
      options.session.exec.backend = backend;
      options.optimizer.kind = static_cast<OptimizerKind>(kind);
      SCOPED_TRACE(optimizerInfo(options.optimizer.kind).name.str());
      // Its L1 term, by default, is as large as gradients here.
      if (options.optimizer.kind == OptimizerKind::Ftrl) options.optimizer.attrs = {{"lamda1", "0.0001"}};
      options.schedule = {.rate = kRates[kind]};
      Trainer trainer = openTrainer(g, triangle(48), options);
      Dataset heldOut = triangle(30);
      const double before = cantFail(trainer.evaluate(heldOut)).loss();
      advance(trainer, 60);
      Score after = cantFail(trainer.evaluate(heldOut));
      EXPECT_LT(after.loss(), before / 2);
      EXPECT_GT(after.metric(), 0.95);
      EXPECT_EQ(after.rows, 30);
    }
}

TEST(Trainer, FrozenVariablesStay) {
  TestGraph g(kNet);
  TrainerOptions options = plainOptions();
  options.frozen = {"fc1_weight"};
  Trainer trainer = openTrainer(g, triangle(24), options);
  const std::vector<float> before = valueOf(trainer.parameters(), "fc1_weight");
  const std::vector<float> other = valueOf(trainer.parameters(), "fc2_weight");
  advance(trainer, 2);
  EXPECT_EQ(valueOf(trainer.parameters(), "fc1_weight"), before);
  EXPECT_NE(valueOf(trainer.parameters(), "fc2_weight"), other);
}

TEST(Trainer, LabelsThatAreComputed) {
  TestGraph direct("o = FullyConnected(data, w_weight, b_bias) {num_hidden=3}; y = SoftmaxOutput(o, label)");
  TestGraph computed("o = FullyConnected(data, w_weight, b_bias) {num_hidden=3}; l = Reshape(label) {shape=(-1,)};"
                     "y = SoftmaxOutput(o, l)");
  Trainer one = openTrainer(direct, triangle(16), plainOptions());
  Dataset square = triangle(16);
  std::vector<NamedArray> columns;
  for (size_t c = 0; c < 2; ++c) {
    TensorRef column = square.column(c);
    std::vector<int64_t> shape = column.shape.vec();
    if (c == 1) shape.push_back(1);
    columns.push_back({square.name(c).str(), floats(shape, valuesOf<float>(column))});
  }
  Trainer other = openTrainer(computed, cantFail(Dataset::create(columns)), plainOptions());
  advance(one, 1);
  advance(other, 1);
  EXPECT_EQ(cantFail(one.advance()).score.loss(), cantFail(other.advance()).score.loss());
}

// ---- evaluation

TEST(Trainer, EvaluationCountsEveryExampleOnce) {
  TestGraph g(kNet);
  Dataset heldOut = triangle(19);
  TrainerOptions options = plainOptions();
  Trainer byEight = openTrainer(g, triangle(48), options);
  options.batch = 19;
  Trainer atOnce = openTrainer(g, triangle(48), options);
  Score parts = cantFail(byEight.evaluate(heldOut)), whole = cantFail(atOnce.evaluate(heldOut));
  EXPECT_EQ(parts.rows, 19);
  EXPECT_EQ(parts.metricSum, whole.metricSum);
  EXPECT_NEAR(parts.loss(), whole.loss(), 1e-6);
}

// A state with a row per example, as begin states of recurrent networks are, has fewer rows in the last batch.
TEST(Trainer, EvaluationOfStatesOfTheBatch) {
  TestGraph g("z = broadcast_mul(data, w); s = elemwise_add(z, state); y = LinearRegressionOutput(s, label)");
  TrainerOptions options;
  options.batch = 2;
  options.frozen = {"state"};
  options.start = {{"w", floats({1, 1}, {3})}, {"state", floats({2, 1}, {5, 5})}};
  const Dataset data =
      cantFail(Dataset::create({{"data", floats({3, 1}, {1, 2, 4})}, {"label", floats({3, 1}, {7, 7, 7})}}));
  Dataset heldOut = data;
  // Residuals 1, 4 and 10, the last in a batch of its own.
  EXPECT_NEAR(cantFail(openTrainer(g, data, options).evaluate(heldOut)).loss(), (1 + 16 + 100) / 6.0, 1e-5);
  options.start[1] = {"state", floats({2, 1}, {5, 6})};
  const GradcError error = errorOf(openTrainer(g, data, options).evaluate(heldOut));
  EXPECT_EQ(error.kind, ErrorKind::BindingMismatch);
  EXPECT_EQ(error.message, "variable 'state' has shape (2,1) in training and (1,1) in the last batch of an evaluation");
}

TEST(Trainer, EvaluationLeavesTheRunAlone) {
  TestGraph g(kNet);
  Trainer one = openTrainer(g, triangle(48), plainOptions()), other = openTrainer(g, triangle(48), plainOptions());
  Dataset heldOut = triangle(10);
  advance(one, 4);
  for (int i = 0; i < 4; ++i) {
    advance(other, 1);
    cantFail(other.evaluate(heldOut));
  }
  EXPECT_EQ(bytesOf(one.checkpoint()), bytesOf(other.checkpoint()));
}

TEST(Trainer, ArchivesAreWrittenArrayByArray) {
  TestGraph g(kNet);
  Trainer trainer = openTrainer(g, triangle(48), plainOptions());
  advance(trainer, 2);
  auto written = [&](Error (Trainer::*write)(raw_ostream &) const) {
    std::string text;
    raw_string_ostream os(text);
    cantFail((trainer.*write)(os));
    return os.str();
  };
  EXPECT_EQ(written(&Trainer::writeParameters), bytesOf(trainer.parameters()));
  EXPECT_EQ(written(&Trainer::writeCheckpoint), bytesOf(trainer.checkpoint()));
}

// ---- what runs depend on

TEST(Trainer, RUN_02_ReferenceRunsDoNotDependOnThreads) {
  TestGraph g(kNet);
  TrainerOptions options = plainOptions();
  Trainer one = openTrainer(g, triangle(48), options);
  options.session.exec.threads = 3;
  Trainer three = openTrainer(g, triangle(48), options);
  advance(one, 8);
  advance(three, 8);
  EXPECT_EQ(bytesOf(one.checkpoint()), bytesOf(three.checkpoint()));
}

TEST(Trainer, SeedsDecideEverythingThatIsDrawn) {
  TestGraph g(kNet);
  TrainerOptions options = plainOptions();
  Trainer one = openTrainer(g, triangle(48), options), again = openTrainer(g, triangle(48), options);
  options.seed = 1;
  Trainer other = openTrainer(g, triangle(48), options);
  EXPECT_EQ(bytesOf(one.parameters()), bytesOf(again.parameters()));
  EXPECT_NE(valueOf(one.parameters(), "fc1_weight"), valueOf(other.parameters(), "fc1_weight"));
}

// ---- refusals

GradcError refusal(TestGraph &g, Dataset data, TrainerOptions options) {
  return errorOf(Trainer::create(g.context, g, std::move(data), std::move(options)));
}

TEST(Trainer, E_70_ALabelNobodyFeeds) {
  TestGraph g(kNet);
  Dataset all = triangle(16);
  Dataset data = cantFail(Dataset::create({{"data", floats({16, 2}, valuesOf<float>(all.column(0)))}}));
  GradcError error = refusal(g, data, plainOptions());
  EXPECT_EQ(error.kind, ErrorKind::BindingMissing);
  EXPECT_EQ(error.message, "variable 'label' has no value: it is not a parameter, and no array is fed to it");
}

TEST(Trainer, E_71_ArraysThatDoNotFit) {
  TestGraph g("data = var {__shape__=(0,2)}; o = FullyConnected(data, w_weight, b_bias) {num_hidden=3};"
              "y = SoftmaxOutput(o, label)");
  Dataset wide = cantFail(Dataset::create(
      {{"data", floats({8, 3}, std::vector<float>(24))}, {"label", floats({8}, std::vector<float>(8))}}));
  GradcError shape = refusal(g, wide, plainOptions());
  EXPECT_EQ(shape.kind, ErrorKind::BindingMismatch);
  EXPECT_EQ(shape.message, "'data': expected shape (?,2), got (8,3)");
  GradcError batch = refusal(g, triangle(7), plainOptions());
  EXPECT_EQ(batch.kind, ErrorKind::BindingMismatch);
  EXPECT_EQ(batch.message, "the batch size is 8, expected 1 to 7, the number of examples");
  Dataset labels = cantFail(Dataset::create(
      {{"data", floats({8, 2}, std::vector<float>(16))}, {"label", floats({8}, {0, 1, 2, 0, 1, 5, 0, 0})}}));
  EXPECT_EQ(refusal(g, labels, plainOptions()).message, "'label' is 5 in row 5, expected a class number from 0 to 2");
}

TEST(Trainer, E_72_NamesTheGraphHasNot) {
  TestGraph g(kNet);
  Dataset all = triangle(16);
  Dataset data = cantFail(Dataset::create({{"dato", floats({16, 2}, valuesOf<float>(all.column(0)))}}));
  GradcError feed = refusal(g, data, plainOptions());
  EXPECT_EQ(feed.kind, ErrorKind::BindingSurplus);
  EXPECT_EQ(feed.message, "'dato' is bound, but the graph has no variable of that name");
  TrainerOptions options = plainOptions();
  options.frozen = {"fc9_weight"};
  EXPECT_EQ(refusal(g, triangle(16), options).message, "the graph has no variable 'fc9_weight' to freeze");
}

TEST(Trainer, E_07_NothingToTrain) {
  TestGraph g("o = FullyConnected(data, w_weight, b_bias) {num_hidden=3}; y = SoftmaxOutput(o, label)");
  TrainerOptions options = plainOptions();
  options.frozen = {"w_weight", "b_bias"};
  EXPECT_EQ(refusal(g, triangle(16), options).kind, ErrorKind::EmptyXs);
}

TEST(Trainer, EvaluationRefusesOtherColumns) {
  TestGraph g(kNet);
  Trainer trainer = openTrainer(g, triangle(16), plainOptions());
  Dataset wide = cantFail(Dataset::create(
      {{"data", floats({4, 3}, std::vector<float>(12))}, {"label", floats({4}, std::vector<float>(4))}}));
  EXPECT_EQ(errorOf(trainer.evaluate(wide)).message, "'data': expected rows of shape (2,), got (3,)");
  Dataset labels = cantFail(Dataset::create({{"data", floats({1, 2}, {0, 0})}, {"label", floats({1}, {3})}}));
  EXPECT_EQ(errorOf(trainer.evaluate(labels)).message, "'label' is 3 in row 0, expected a class number from 0 to 2");
  Dataset alone = cantFail(Dataset::create({{"data", floats({1, 2}, {0, 0})}}));
  EXPECT_EQ(errorOf(trainer.evaluate(alone)).kind, ErrorKind::BindingMismatch);
}

// Batch norm overwrites them in each step, whether anything reads them or not.
TEST(Trainer, FrozenMovingStatisticsKeepTheirBits) {
  const StringRef net = "h = FullyConnected(data, w) {num_hidden=3, no_bias=True};"
                        "n = BatchNorm(h, gamma, beta, mean, var) {fix_gamma=False, momentum=0.5};"
                        "p = FullyConnected(n, v) {num_hidden=1, no_bias=True}; y = LinearRegressionOutput(p, label)";
  auto run = [&](std::vector<std::string> frozen, bool isResumed) {
    TestGraph g(net);
    TrainerOptions options;
    options.batch = 2;
    options.schedule.rate = 0.1;
    options.frozen = std::move(frozen);
    options.start = {{"mean", floats({3}, {0.1f, -0.2f, 0.3f})}, {"var", floats({3}, {0.7f, 1.1f, 1.3f})}};
    const Dataset data = cantFail(Dataset::create(
        {{"data", floats({4, 2}, {1, 3, 2, 5, -1, 4, 0, 2})}, {"label", floats({4, 1}, {0, 1, 2, 1})}}));
    Trainer trainer = openTrainer(g, data, options);
    advance(trainer, 2);
    if (!isResumed) {
      advance(trainer, 2);
      return trainer.parameters();
    }
    TestGraph again(net);
    Trainer second = openTrainer(again, data, options);
    cantFail(second.resume(trainer.checkpoint(), "checkpoint"));
    advance(second, 2);
    return second.parameters();
  };
  const std::vector<float> mean = {0.1f, -0.2f, 0.3f}, var = {0.7f, 1.1f, 1.3f};
  const std::vector<NamedArray> free = run({}, false), both = run({"mean", "var"}, false), one = run({"var"}, false);
  EXPECT_NE(valueOf(free, "mean"), mean);
  EXPECT_NE(valueOf(free, "var"), var);
  EXPECT_EQ(valueOf(both, "mean"), mean);
  EXPECT_EQ(valueOf(both, "var"), var);
  EXPECT_EQ(valueOf(one, "mean"), valueOf(free, "mean"));
  EXPECT_EQ(valueOf(one, "var"), var);
  EXPECT_EQ(valueOf(both, "w"), valueOf(free, "w")) << "training normalizes with the statistics of the batch";
  EXPECT_EQ(bytesOf(run({"mean", "var"}, true)), bytesOf(both)) << "of a resumed run";
}

TEST(Trainer, HeadsThatDoNotLookLikeLossesAreNamed) {
  const std::pair<StringRef, std::vector<size_t>> rows[] = {
      {"p = FullyConnected(data, w, b) {num_hidden=3}", {0}},                  // a layer
      {"p = FullyConnected(data, w, b) {num_hidden=1}", {0}},                  // one number per example, of a layer
      {"p = FullyConnected(data, w, b) {num_hidden=3}; y = softmax(p)", {0}},  // probabilities
      {"p = FullyConnected(data, w, b) {num_hidden=3}; y = mean(p)", {}},      // one number
      {"p = FullyConnected(data, w, b) {num_hidden=3}; y = mean(p) {axis=1}", {}},  // one per example
      {"p = FullyConnected(data, w, b) {num_hidden=3}; y = mean(p) {axis=1, keepdims=True}", {}},
      {"p = FullyConnected(data, w, b) {num_hidden=3}; y = MakeLoss(p)", {}},  // its own loss
      {"p = FullyConnected(data, w, b) {num_hidden=3}; b = BlockGrad(p); y = mean(p); heads y, b", {}},
      {"p = FullyConnected(data, w, b) {num_hidden=3}; y = mean(p); heads p, y, p", {0, 2}},
  };
  for (const auto &[text, expected] : rows) {
    TestGraph g(text);
    TrainerOptions options;
    options.batch = 2;
    const Trainer trainer =
        openTrainer(g, cantFail(Dataset::create({{"data", floats({4, 2}, {1, 3, 2, 5, -1, 4, 0, 2})}})), options);
    EXPECT_EQ(trainer.headsUnlikeLosses().vec(), expected) << text.str();
  }
}

}  // namespace
}  // namespace gradc
