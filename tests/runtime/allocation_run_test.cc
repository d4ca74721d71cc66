// As allocation_test.cc: sessions, training and checks of gradients, on either backend.
#include "runtime/gradcheck/gradcheck.h"
#include "runtime/training/trainer.h"
#include "tests/support/runs/fail_each.h"
#include "tests/support/runs/loops.h"
#include "tests/support/runs/training.h"
#include "tests/support/test_graph.h"

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

// Batch norm has auxiliary states, dropout draws, `h` is read twice.
constexpr StringRef kNet =
    "data = var {__shape__=(4,2)}; h = FullyConnected(data, fc1_weight, fc1_bias) {num_hidden=8};"
    "n = BatchNorm(h, bn_gamma, bn_beta, bn_mean, bn_var) {fix_gamma=False}; r = Activation(n) {act_type=relu};"
    "d = Dropout(r) {p=0.25}; s = elemwise_add(d, h); o = FullyConnected(s, fc2_weight, fc2_bias) {num_hidden=3};"
    "y = SoftmaxOutput(o, label)";

Graph gradientOf(Context &context, const Graph &forward) {
  GradientRequest request;
  request.wrt = allTargets(forward, nullptr).targets;
  return must(buildGradient(context, forward, request, GradientOptions())).graph;
}

SessionOptions optionsOf(Backend backend) {
  SessionOptions options;
  options.initSeed = 3;
  options.exec.backend = backend;
  options.exec.isTraining = true;
  return options;
}

// What has kernels of oneDNN, layouts of its own and workspaces.
constexpr StringRef kConvolutions =
    "data = var {__shape__=(2,8,8,8)}; c = Convolution(data, c_weight, c_bias) {kernel=(3,3),num_filter=16,pad=(1,1)};"
    "b = BatchNorm(c, g, e, m, v) {fix_gamma=False}; r = Activation(b) {act_type=relu};"
    "p = Pooling(r) {kernel=(2,2),stride=(2,2),pool_type=max}; "
    "c2 = Convolution(p, w2) {kernel=(1,1),num_filter=16,no_bias=True};"
    "f = FullyConnected(c2, fw, fb) {num_hidden=5}; y = SoftmaxOutput(f, label)";

class AllocationOnBackend : public ::testing::TestWithParam<Backend> {};

TEST_P(AllocationOnBackend, OpeningASession) {
  for (StringRef text : {kNet, kConvolutions}) {
    TestGraph net(text);
    const Graph graph = gradientOf(net.context, net);
    const SessionOptions options = optionsOf(GetParam());
    failEach([&]() -> Expected<std::string> {
      Expected<Session> session = failingHeap.during([&] { return Session::create(net.context, graph, {}, options); });
      if (!session) return session.takeError();
      cantFail(session->run(0));
      return bytesOf(must(session->outputs()));
    });
  }
}

TEST_P(AllocationOnBackend, Running) {
  for (StringRef text : {kNet, kConvolutions}) {
    TestGraph net(text);
    const Graph graph = gradientOf(net.context, net);
    failEach([&]() -> Expected<std::string> {
      Session fresh = must(Session::create(net.context, graph, {}, optionsOf(GetParam())));
      if (Error error = failingHeap.during([&] { return fresh.run(0); })) return error;
      Expected<std::vector<NamedArray>> outputs = failingHeap.during([&] { return fresh.outputs(); });
      if (!outputs) return outputs.takeError();
      return bytesOf(*outputs);
    });
  }
}

/// Allocations of a run that is not the first.
uint64_t allocationsOf(const Graph &graph, std::vector<NamedArray> bindings, const SessionOptions &options) {
  Session session = must(Session::create(testContext(), graph, std::move(bindings), options));
  cantFail(session.run(0));
  failingHeap.count = 0;
  failingHeap.failsAt = FailingHeap::kNever;
  cantFail(failingHeap.during([&] { return session.run(1); }));
  return failingHeap.count;
}

// All that the steps of a loop and of its gradient need is there before the first: a thousand allocate no more than
// two. (Fast kernels are oneDNN's, which may allocate in each call.)
TEST(AllocationOfLoops, CF_12_StepsAllocateNothing) {
  const Graph cell =
      body("f = FullyConnected(h, w, b) {num_hidden=3}; a = elemwise_add(f, x); n = tanh(a); heads n, n");
  const Graph foreach = around("_foreach", {"x", "h", "w", "b"},
                               {{"num_args", "5"},
                                {"num_outputs", "2"},
                                {"num_out_data", "1"},
                                {"in_data_locs", "(3,)"},
                                {"in_state_locs", "(0,)"},
                                {"remain_locs", "(1,2)"}},
                               cell, 2);
  const GradientResult gradient = testing::gradientOf(foreach, {"h", "w", "b", "x"});
  auto rows = [&](int64_t count) {
    std::vector<NamedArray> bindings = {{"x", floats({count, 2, 3}, Floats(static_cast<size_t>(count) * 6, 0.5))}};
    return allocationsOf(gradient.graph, std::move(bindings), optionsOf(Backend::Reference));
  };
  EXPECT_EQ(rows(1000), rows(2));
}

Dataset points() {
  return must(
      Dataset::create({{"data", floats({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})}, {"label", floats({4}, {0, 1, 2, 0})}}));
}

TrainerOptions trainerOptions(Backend backend) {
  TrainerOptions options;
  options.batch = 2;
  options.optimizer.momentum = 0.9;
  options.session.exec.backend = backend;
  return options;
}

constexpr StringRef kTrained =
    "h = FullyConnected(data, fc1_weight, fc1_bias) {num_hidden=4};"
    "n = BatchNorm(h, bn_gamma, bn_beta, bn_mean, bn_var) {fix_gamma=False}; r = Activation(n) {act_type=relu};"
    "o = FullyConnected(r, fc2_weight, fc2_bias) {num_hidden=3}; y = SoftmaxOutput(o, label)";

TEST_P(AllocationOnBackend, PreparingTraining) {
  TestGraph net(kTrained);
  failEach([&]() -> Expected<std::string> {
    Dataset data = points();
    TrainerOptions options = trainerOptions(GetParam());
    Expected<Trainer> trainer =
        failingHeap.during([&] { return Trainer::create(net.context, net, std::move(data), std::move(options)); });
    if (!trainer) return trainer.takeError();
    return bytesOf(trainer->checkpoint());
  });
}

TEST_P(AllocationOnBackend, TrainingAStep) {
  TestGraph net(kTrained);
  Trainer trainer = openTrainer(net, points(), trainerOptions(GetParam()));
  const std::vector<NamedArray> start = trainer.checkpoint();
  failEach([&]() -> Expected<std::string> {
    cantFail(trainer.resume(start, "start"));
    Expected<Trainer::Report> report = failingHeap.during([&] { return trainer.advance(); });
    if (!report) return report.takeError();
    return std::to_string(report->score.loss()) + bytesOf(trainer.checkpoint());
  });
}

TEST_P(AllocationOnBackend, Evaluating) {
  TestGraph net(kTrained);
  Trainer trainer = openTrainer(net, points(), trainerOptions(GetParam()));
  failEach([&]() -> Expected<std::string> {
    Dataset data = points();
    Expected<Score> score = failingHeap.during([&] { return trainer.evaluate(data); });
    if (!score) return score.takeError();
    return std::to_string(score->loss());
  });
}

TEST_P(AllocationOnBackend, WritingACheckpoint) {
  TestGraph net(kTrained);
  Trainer trainer = openTrainer(net, points(), trainerOptions(GetParam()));
  failEach([&]() -> Expected<std::string> {
    std::string text;
    raw_string_ostream os(text);
    if (Error error = failingHeap.during([&] { return trainer.writeCheckpoint(os); })) return error;
    return text;
  });
}

TEST_P(AllocationOnBackend, Resuming) {
  TestGraph net(kTrained);
  Trainer trainer = openTrainer(net, points(), trainerOptions(GetParam()));
  advance(trainer, 1);
  const std::vector<NamedArray> after = trainer.checkpoint();
  Trainer other = openTrainer(net, points(), trainerOptions(GetParam()));
  const std::string untouched = bytesOf(other.checkpoint());
  failEach([&]() -> Expected<std::string> {
    Trainer fresh = openTrainer(net, points(), trainerOptions(GetParam()));
    if (Error error = failingHeap.during([&] { return fresh.resume(after, "after"); })) {
      EXPECT_EQ(bytesOf(fresh.checkpoint()), untouched);
      return error;
    }
    return bytesOf(fresh.checkpoint());
  });
}

TEST(AllocationOfChecks, CheckingGradients) {
  TestGraph net("h = FullyConnected(data, w, b) {num_hidden=4}; t = tanh(h); y = sum(t)");
  const std::vector<NamedArray> bindings = {{"data", floats({2, 3}, {1, 2, 3, 4, 5, 6})}};
  GradcheckOptions options;
  options.session.initSeed = 1;
  options.samples = 4;
  failEach([&]() -> Expected<std::string> {
    std::vector<NamedArray> given = bindings;
    Expected<GradcheckReport> report =
        failingHeap.during([&] { return gradcheck(net.context, net, std::move(given), options); });
    if (!report) return report.takeError();
    EXPECT_TRUE(report->passed());
    return std::to_string(report->rows[0].worstError);
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, AllocationOnBackend, ::testing::Values(Backend::Reference, Backend::Auto),
                         [](const auto &info) { return info.param == Backend::Reference ? "Reference" : "Fast"; });

}  // namespace
}  // namespace gradc
