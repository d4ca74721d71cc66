// Each allocation of each entry fails, once and for all: an error every time, nothing left behind, and the same result as
// before when there is memory again. LLVM's containers throw, as in the tool and as docs/embedding.md asks of a host.
#include "formats/json/reader.h"
#include "formats/json/writer.h"
#include "ir/verify.h"
#include "passes/gradient/gradient.h"
#include "passes/infer.h"
#include "passes/memory/plan_memory.h"
#include "passes/order_mutation.h"
#include "passes/targets/lower_to.h"
#include "passes/targets/target.h"
#include "runtime/gradcheck/gradcheck.h"
#include "runtime/training/trainer.h"
#include "tests/support/failing_heap.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"
#include "tests/support/tool.h"
#include "tests/support/training.h"

#include "llvm/Support/ErrorHandling.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

[[noreturn]] void throwBadAlloc(void *, const char *, bool) { throw std::bad_alloc(); }
const bool isInstalled = (install_bad_alloc_error_handler(throwBadAlloc, nullptr), true);

/// cantFail, saying what failed in a build without assertions too.
template <class T> T must(Expected<T> value) {
  if (!value) report_fatal_error(Twine(toString(value.takeError())));
  return std::move(*value);
}

constexpr uint64_t kAllOfFirst = 2000, kSampledBehind = 400;

/// The number of the allocation to fail after the k-th: every one of the first, then at a stride that is no multiple of a
/// loop's.
uint64_t next(uint64_t k, uint64_t count) {
  if (k < kAllOfFirst) return k + 1;
  uint64_t stride = std::max<uint64_t>(1, (count - kAllOfFirst) / kSampledBehind) | 1;
  while (stride > 1 && (stride % 3 == 0 || stride % 5 == 0 || stride % 7 == 0)) stride += 2;
  return k + stride;
}

/// `operation` gives the bytes of its result, and does with `failingHeap.during` what is to fail.
template <class Operation> void failEach(Operation operation) {
  ASSERT_TRUE(isInstalled);
  FailingHeap &heap = failingHeap;
  auto run = [&](uint64_t failsAt, Failing failing) {
    heap.count = 0;
    heap.failsAt = failsAt;
    heap.failing = failing;
    heap.wasWithinOneDnn = false;
    return operation();
  };
  const std::string expected = must(run(FailingHeap::kNever, Failing::Once));
  ASSERT_EQ(must(run(FailingHeap::kNever, Failing::Once)), expected);
  const uint64_t count = heap.count;
  ASSERT_GT(count, 0u);
  consumeError(run(1, Failing::Once).takeError());  // the first exception of a program leaves tables of the unwinder
  for (Failing failing : {Failing::Once, Failing::Onward}) {
    uint64_t numErrors = 0, numTried = 0;
    for (uint64_t k = 1; k <= count; k = next(k, count)) {
      SCOPED_TRACE("allocation " + std::to_string(k) + " of " + std::to_string(count) +
                   (failing == Failing::Once ? "" : " and all that follow"));
      const int64_t before = heap.live;
      ++numTried;
      {
        Expected<std::string> result = run(k, failing);
        if (result) {
          ASSERT_EQ(*result, expected) << "it did without";
        } else {
          ++numErrors;
          const GradcError error = errorOf(result.takeError());
          ASSERT_EQ(error.kind, ErrorKind::TooLarge) << error.message;
          ASSERT_NE(error.message.find(" memory"), std::string::npos) << error.message;
        }
      }
      if (!heap.wasWithinOneDnn) {  // which loses blocks of its own then
        ASSERT_EQ(heap.live, before) << "blocks are left behind";
      }
    }
    EXPECT_GT(2 * numErrors, numTried);
  }
  EXPECT_EQ(must(run(FailingHeap::kNever, Failing::Once)), expected);
}

std::string written(const Graph &graph) {
  std::string text;
  raw_string_ostream os(text);
  writeJson(os, graph);
  return text;
}

// Batch norm has auxiliary states, dropout draws, `h` is read twice.
constexpr StringRef kNet =
    "data = var {__shape__=(4,2)}; h = FullyConnected(data, fc1_weight, fc1_bias) {num_hidden=8};"
    "n = BatchNorm(h, bn_gamma, bn_beta, bn_mean, bn_var) {fix_gamma=False}; r = Activation(n) {act_type=relu};"
    "d = Dropout(r) {p=0.25}; s = elemwise_add(d, h); o = FullyConnected(s, fc2_weight, fc2_bias) {num_hidden=3};"
    "y = SoftmaxOutput(o, label)";

struct Compiled {
  Graph graph;
  Inference inference;
  RequestTable requests;
  MemoryPlan plan;
};

Compiled compiled(Context &context, const Graph &forward) {
  GradientRequest request;
  request.wrt = allTargets(forward, nullptr).targets;
  Compiled done;
  done.graph = must(buildGradient(context, forward, request, GradientOptions())).graph;
  done.inference = must(infer(context, done.graph, {}, {}));
  done.requests = countRequests(done.graph, {});
  done.plan = must(planMemory(context, done.graph, done.inference, done.requests, PlanOptions()));
  return done;
}

// ---- compiling

class Allocation : public ::testing::Test {
 protected:
  TestGraph g{kNet};
};

TEST_F(Allocation, ReadingAGraph) {
  std::vector<std::string> texts;
  const Compiled done = compiled(g.context, g);
  texts.push_back(written(annotatePlan(annotate(done.graph, done.inference), done.inference, done.plan)));
  for (const char *file : {"everything", "old", "shuffled"})
    texts.push_back(readText(std::string("testdata/json/") + file + ".json"));
  for (const std::string &text : texts) {
    TestContext context;
    failEach([&]() -> Expected<std::string> {
      Expected<LoadedGraph> loaded = failingHeap.during([&] { return readJson(context, text, ReadOptions()); });
      if (!loaded) return loaded.takeError();
      return written(loaded->graph);
    });
    EXPECT_EQ(context.usage(), Context::Usage());
  }
}

TEST_F(Allocation, Differentiating) {
  GradientRequest request;
  request.wrt = allTargets(g, nullptr).targets;
  for (uint32_t order : {1u, 2u}) {
    TestGraph smooth("h = FullyConnected(data, w, b) {num_hidden=8}; t = tanh(h); s = elemwise_mul(t, h); y = sum(s)");
    TestGraph &graph = order == 1 ? g : smooth;
    request.wrt = allTargets(graph, nullptr).targets;
    failEach([&]() -> Expected<std::string> {
      Expected<GradientResult> result = failingHeap.during(
          [&] { return buildGradientOfOrder(graph.context, graph, request, GradientOptions(), order); });
      if (!result) return result.takeError();
      return written(result->graph);
    });
  }
}

TEST_F(Allocation, Inferring) {
  const Compiled done = compiled(g.context, g);
  failEach([&]() -> Expected<std::string> {
    Expected<Inference> found = failingHeap.during([&] { return infer(g.context, done.graph, {}, {}); });
    if (!found) return found.takeError();
    return written(annotate(done.graph, *found));
  });
}

TEST_F(Allocation, Planning) {
  const Compiled done = compiled(g.context, g);
  failEach([&]() -> Expected<std::string> {
    Expected<MemoryPlan> plan = failingHeap.during(
        [&] { return planMemory(g.context, done.graph, done.inference, done.requests, PlanOptions()); });
    if (!plan) return plan.takeError();
    return written(annotatePlan(done.graph, done.inference, *plan));
  });
  failEach([&]() -> Expected<std::string> {
    Error error = failingHeap.during(
        [&] { return checkPlan(done.graph, done.inference, done.requests, done.plan, PlanOptions()); });
    if (error) return error;
    return "fits";
  });
}

TEST_F(Allocation, Verifying) {
  const std::string text = readText("testdata/json/everything.json");
  const Graph graph = must(readJson(g.context, text, ReadOptions())).graph;
  failEach([&]() -> Expected<std::string> {
    if (Error error = failingHeap.during([&] { return verifyGraph(graph, 10); })) return error;
    return "sound";
  });
}

TEST_F(Allocation, OrderingMutations) {
  const Compiled done = compiled(g.context, g);
  failEach([&]() -> Expected<std::string> {
    Expected<OrderedGraph> ordered =
        failingHeap.during([&] { return orderMutations(g.context, done.graph, OverwrittenPolicy::Save); });
    if (!ordered) return ordered.takeError();
    return written(ordered->graph);
  });
}

TEST_F(Allocation, Lowering) {
  const Compiled done = compiled(g.context, g);
  failEach([&]() -> Expected<std::string> {
    Expected<Graph> lowered =
        failingHeap.during([&] { return lowerTo(g.context, done.graph, kMxnetTarget, &done.inference); });
    if (!lowered) return lowered.takeError();
    return written(*lowered);
  });
}

TEST_F(Allocation, AppendingAnOptimizer) {
  const Compiled done = compiled(g.context, g);
  failEach([&]() -> Expected<std::string> {
    Expected<TrainingGraph> training =
        failingHeap.during([&] { return appendOptimizer(g.context, done.graph, OptimizerOptions()); });
    if (!training) return training.takeError();
    return written(training->graph);
  });
}

// ---- files of arrays

std::vector<NamedArray> someArrays() {
  return {{"w", floats({2, 2}, {1, 2, 3, 4})}, {"b", arrayOf<uint8_t>(DType::Bool, {3}, {1, 0, 1})}};
}

TEST(AllocationOfArrays, ReadingAnArchive) {
  const std::string bytes = bytesOf(someArrays());
  failEach([&]() -> Expected<std::string> {
    Expected<std::vector<NamedArray>> arrays = failingHeap.during([&] { return parseNpz(bytes, "x.npz"); });
    if (!arrays) return arrays.takeError();
    return bytesOf(*arrays);
  });
}

// ---- running

std::string bytesOf(Session &session) {
  std::string text;
  for (const NamedArray &array : must(session.outputs()))
    text += array.array.bytes.data() ? std::string(array.array.bytes.begin(), array.array.bytes.end()) : "";
  return text;
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
    "p = Pooling(r) {kernel=(2,2),stride=(2,2),pool_type=max}; c2 = Convolution(p, w2) {kernel=(1,1),num_filter=16,no_bias=True};"
    "f = FullyConnected(c2, fw, fb) {num_hidden=5}; y = SoftmaxOutput(f, label)";

class AllocationOnBackend : public ::testing::TestWithParam<Backend> {
 protected:
  TestGraph g{kNet};
};

TEST_P(AllocationOnBackend, OpeningASession) {
  for (StringRef text : {kNet, kConvolutions}) {
    TestGraph net(text);
    const Compiled done = compiled(net.context, net);
    const SessionOptions options = optionsOf(GetParam());
    failEach([&]() -> Expected<std::string> {
      Expected<Session> session =
          failingHeap.during([&] { return Session::create(net.context, done.graph, {}, options); });
      if (!session) return session.takeError();
      cantFail(session->run(0));
      return bytesOf(*session);
    });
  }
}

TEST_P(AllocationOnBackend, Running) {
  for (StringRef text : {kNet, kConvolutions}) {
    TestGraph net(text);
    const Compiled done = compiled(net.context, net);
    failEach([&]() -> Expected<std::string> {
      Session fresh = must(Session::create(net.context, done.graph, {}, optionsOf(GetParam())));
      if (Error error = failingHeap.during([&] { return fresh.run(0); })) return error;
      Expected<std::vector<NamedArray>> outputs = failingHeap.during([&] { return fresh.outputs(); });
      if (!outputs) return outputs.takeError();
      return testing::bytesOf(*outputs);
    });
  }
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
    return testing::bytesOf(trainer->checkpoint());
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
    return std::to_string(report->score.loss()) + testing::bytesOf(trainer.checkpoint());
  });
}

TEST_P(AllocationOnBackend, Resuming) {
  TestGraph net(kTrained);
  Trainer trainer = openTrainer(net, points(), trainerOptions(GetParam()));
  testing::advance(trainer, 1);
  const std::vector<NamedArray> after = trainer.checkpoint();
  Trainer other = openTrainer(net, points(), trainerOptions(GetParam()));
  const std::string untouched = testing::bytesOf(other.checkpoint());
  failEach([&]() -> Expected<std::string> {
    Trainer fresh = openTrainer(net, points(), trainerOptions(GetParam()));
    if (Error error = failingHeap.during([&] { return fresh.resume(after, "after"); })) {
      EXPECT_EQ(testing::bytesOf(fresh.checkpoint()), untouched);
      return error;
    }
    return testing::bytesOf(fresh.checkpoint());
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, AllocationOnBackend, ::testing::Values(Backend::Reference, Backend::Auto),
                         [](const auto &info) { return info.param == Backend::Reference ? "Reference" : "Fast"; });

}  // namespace
}  // namespace gradc
