// Learning rates as functions of the step, and the values parameters start from.
#include "runtime/session/initial_values.h"
#include "runtime/training/rate_schedule.h"
#include "runtime/training/trainer.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using gradc::testing::nodeNamed;
using gradc::testing::TestGraph;

TEST(RateSchedule, WarmUpThenTheFormAskedFor) {
  RateSchedule constant{.rate = 0.5, .warmup = 5};
  EXPECT_EQ(constant.at(1), 0.1);
  EXPECT_EQ(constant.at(4), 0.4);
  EXPECT_EQ(constant.at(5), 0.5);
  EXPECT_EQ(constant.at(500), 0.5);
  RateSchedule step{.kind = ScheduleKind::Step, .rate = 1, .every = 10, .factor = 0.5};
  EXPECT_EQ(step.at(1), 1);
  EXPECT_EQ(step.at(10), 1);
  EXPECT_EQ(step.at(11), 0.5);
  EXPECT_EQ(step.at(21), 0.25);
  RateSchedule cosine{.kind = ScheduleKind::Cosine, .rate = 1, .warmup = 10, .total = 110, .lowest = 0.2};
  EXPECT_EQ(cosine.at(10), 1);
  EXPECT_NEAR(cosine.at(60), 0.6, 1e-12);
  EXPECT_NEAR(cosine.at(85), 0.2 + 0.4 * (1 + std::cos(M_PI * 0.75)), 1e-12);
  EXPECT_EQ(cosine.at(110), 0.2);
  EXPECT_EQ(cosine.at(1000), 0.2);
}

TEST(RateSchedule, E_13_ARateThatDropsEveryZeroSteps) {
  const RateSchedule step{.kind = ScheduleKind::Step, .rate = 1, .every = 0};
  const GradcError error = errorOf(step.check());
  EXPECT_EQ(error.kind, ErrorKind::UnsupportedOption);
  EXPECT_EQ(error.message, "the learning rate drops every 0 steps, expected at least 1");
  EXPECT_EQ(step.at(1), 1);  // does not divide by 0
  cantFail(RateSchedule{.kind = ScheduleKind::Constant, .every = 0}.check());
  cantFail(RateSchedule{.kind = ScheduleKind::Step, .every = 1}.check());

  TestGraph g("h = FullyConnected(data, w, b) {num_hidden=2}; y = SoftmaxOutput(h, label)");
  TrainerOptions options;
  options.batch = 2;
  options.schedule = step;
  Dataset data =
      cantFail(Dataset::create({{"data", floats({2, 3}, {1, 2, 3, 4, 5, 6})}, {"label", floats({2}, {0, 1})}}));
  EXPECT_EQ(errorOf(Trainer::create(g.context, g, std::move(data), options)).message, error.message);
}

TEST(Initializer, RolesOfParametersDecide) {
  TestGraph g("x = var {__shape__=(4,30)}; h = FullyConnected(x, w, b) {num_hidden=50};"
              "n = BatchNorm(h, g, e, m, v); c = var {__init__=[\"Constant\", {\"value\": 2}],__shape__=(4,50)};"
              "y = elemwise_add(n, c)");
  Inference inference = cantFail(infer(g.context, g, {}, {}));
  const Initializer initializer(g, inference, 1);
  auto filled = [&](StringRef name) {
    const NodeId n = nodeNamed(g, name);
    Dims shape = inference.shapeOf(g.graph.firstEntry(n)).dims();
    Array array{DType::Float32, shape.vec(), std::vector<char>(static_cast<size_t>(*numElements(shape)) * 4)};
    initializer.fillParameter(n, array.ref());
    return valuesOf<float>(array);
  };
  for (StringRef zero : {"b", "e", "m"}) EXPECT_EQ(filled(zero)[49], 0) << zero.str();
  for (StringRef one : {"g", "v"}) EXPECT_EQ(filled(one)[49], 1) << one.str();
  EXPECT_EQ(filled("c")[7], 2);
  double largest = 0, squares = 0;
  std::vector<float> weights = filled("w");
  for (float weight : weights) {
    largest = std::max(largest, std::fabs(double{weight}));
    squares += double{weight} * weight;
  }
  const double bound = std::sqrt(6.0 / 80);
  EXPECT_LE(largest, bound);
  EXPECT_NEAR(squares / static_cast<double>(weights.size()), bound * bound / 3, bound * bound / 30);
}

}  // namespace
}  // namespace gradc
