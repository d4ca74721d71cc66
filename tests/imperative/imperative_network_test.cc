// Networks on the tape: what overwrites states, what has hidden outputs, and LeNet through a file.
#include "formats/json/reader.h"
#include "imperative/imperative.h"
#include "runtime/session/session.h"
#include "tests/support/drawn/dice.h"
#include "tests/support/ops/differences.h"
#include "tests/support/runs/imperative.h"
#include "tests/support/test_graph.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

constexpr AttrText kNorm[] = {{"fix_gamma", "False"}, {"momentum", "0.5"}};

// Moving statistics are overwritten by every call in training, once; the gradient is that of the batch's own.
TEST(ImperativeNetwork, MUT_06_RET_08_BatchNormOverwritesItsStatesOnce) {
  Tape t;
  const Doubles values = {1, 2, 3, 5, 4, 4, 7, 1};
  auto loss = [&](const Doubles &at, Tensor &x, Tensor &mean, Tensor &deviation) {
    x = t.leaf({4, 2}, at);
    Tensor gamma = t.value({2}, {1.5, 0.5}), beta = t.value({2}, {0, 0.1});
    mean = t.value({2}, {0, 0});
    deviation = t.value({2}, {1, 1});
    TrainScope train(t.im);
    Tensor y = t("BatchNorm", {x, gamma, beta, mean, deviation}, kNorm);
    Tensor z = t("BatchNorm", {t("square", {y}), gamma, beta, mean, deviation}, kNorm);
    return t.sum(t("tanh", {z}));
  };
  Tensor x, mean, deviation, other;
  Tensor y = loss(values, x, mean, deviation);
  EXPECT_EQ(mean.version(), 2u);
  EXPECT_NE(scalar(t.sum(mean)), 0);
  const Doubles states = doublesOf(mean);
  t.backward({y});
  EXPECT_EQ(doublesOf(mean), states);
  Doubles moved = values;
  EXPECT_LT(relativeDistance(t.gradOf(x),
                             differences(moved, 1e-5, [&] { return scalar(loss(moved, other, mean, deviation)); })),
            1e-7);
}

TEST(ImperativeNetwork, E_19_StatesThatAreTracked) {
  Tape t;
  Tensor x = t.leaf({4, 2}, {1, 2, 3, 5, 4, 4, 7, 1}), one = t.value({2}, {1, 1}), mean = t.leaf({2}, {0, 0});
  EXPECT_EQ(t.rowOf(t.attempt("BatchNorm", {x, one, one, mean, one}, kNorm)), "E-19");
  EXPECT_EQ(mean.version(), 0u);
}

class LeNet {
 public:
  explicit LeNet(Tape &t) : t(t) {
    testing::Dice dice(7);
    auto parameter = [&](StringRef name, std::vector<int64_t> dims, float scale) {
      int64_t size = 1;
      for (int64_t dim : dims) size *= dim;
      std::vector<float> values(static_cast<size_t>(size));
      for (float &value : values) value = scale * static_cast<float>(dice.uniform(-1, 1));
      Tensor tensor = t.im.tensor(dims, values);
      cantFail(t.im.setName(tensor, name));
      variables.push_back(tensor);
      return tensor;
    };
    data = parameter("data", {2, 1, 12, 12}, 1);
    w1 = parameter("conv1_weight", {4, 1, 5, 5}, 0.3f);
    b1 = parameter("conv1_bias", {4}, 0.1f);
    w2 = parameter("fc1_weight", {10, 64}, 0.2f);
    b2 = parameter("fc1_bias", {10}, 0.1f);
    w3 = parameter("fc2_weight", {3, 10}, 0.5f);
    b3 = parameter("fc2_bias", {3}, 0.1f);
    label = t.im.tensor({2}, std::vector<float>{2, 0});
    cantFail(t.im.setName(label, "label"));
    variables.push_back(label);
    for (const Tensor &leaf : {w1, b1, w2, b2, w3, b3}) cantFail(t.im.mark(leaf, Request::Write));
  }

  Tensor run() {
    RecordScope record(t.im);
    Tensor y = t("Convolution", {data, w1, b1}, {{"kernel", "(5,5)"}, {"num_filter", "4"}});
    y = t("Activation", {y}, {{"act_type", "tanh"}});
    y = t("Pooling", {y}, {{"kernel", "(2,2)"}, {"stride", "(2,2)"}, {"pool_type", "max"}});
    y = t("FullyConnected", {t("Flatten", {y}), w2, b2}, {{"num_hidden", "10"}});
    y = t("FullyConnected", {t("Activation", {y}, {{"act_type", "tanh"}}), w3, b3}, {{"num_hidden", "3"}});
    return t("SoftmaxOutput", {y, label});
  }

  Tape &t;
  Tensor data, w1, b1, w2, b2, w3, b3, label;
  std::vector<Tensor> variables;
};

TEST(ImperativeNetwork, LeNetThroughAFileIsTheTapeBitForBit) {
  Tape t;
  LeNet net(t);
  Tensor y = net.run();
  const Graph recorded = cantFail(t.im.graphOf({y}));
  t.backward({y});
  const Graph graph = cantFail(readJson(t.context, written(recorded), ReadOptions())).graph;
  GradientRequest request;
  std::vector<NamedArray> bindings;
  std::vector<Tensor> asked;
  for (NodeId n : listInputs(graph).args)
    for (const Tensor &variable : net.variables) {
      if (graph.name(n) != variable.name()) continue;
      const TensorRef ref = variable.ref();
      bindings.push_back({variable.name(),
                          arrayOf<float>(DType::Float32, {ref.shape.begin(), ref.shape.end()}, valuesOf<float>(ref))});
      if (!variable.isTracked()) continue;
      request.wrt.push_back({Value{n}});
      asked.push_back(variable);
    }
  ASSERT_EQ(asked.size(), 6u);
  const GradientResult gradient = cantFail(buildGradient(t.context, graph, request, GradientOptions()));
  SessionOptions options;
  options.exec.backend = Backend::Reference;
  options.exec.isTraining = true;
  Expected<Session> session = Session::create(t.context, gradient.graph, std::move(bindings), options);
  ASSERT_TRUE(static_cast<bool>(session)) << toString(session.takeError());
  cantFail(session->run(0));
  EXPECT_EQ(valuesOf<float>(session->head(0)), valuesOf<float>(y.ref()));
  for (size_t i = 0; i < asked.size(); ++i)
    EXPECT_EQ(valuesOf<float>(session->head(1 + i)), valuesOf<float>(asked[i].grad().ref())) << asked[i].name();
}

TEST(ImperativeNetwork, TheFastBackendAgrees) {
  Tape reference;
  ImperativeOptions options;
  Tape fast(options);
  LeNet expected(reference), found(fast);
  for (int step = 0; step < 2; ++step) {
    reference.backward({expected.run()});
    fast.backward({found.run()});
  }
  for (size_t i = 0; i < expected.variables.size(); ++i) {
    if (!expected.variables[i].isTracked()) continue;
    const std::vector<float> a = valuesOf<float>(expected.variables[i].grad().ref()),
                             b = valuesOf<float>(found.variables[i].grad().ref());
    for (size_t k = 0; k < a.size(); ++k) EXPECT_NEAR(a[k], b[k], 1e-5f);
  }
}

}  // namespace
}  // namespace gradc
