// Runs that are taken up again, and the checkpoints that are refused.
#include "runtime/arrays/npz_reader.h"
#include "runtime/training/trainer.h"

#include "tests/support/runs/training.h"
#include "tests/support/runs/triangle.h"
#include "tests/support/sanitizers.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

#include <sys/resource.h>

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

void expectResumes(TrainerOptions options, uint64_t steps) {
  TestGraph g(kNet);
  Trainer whole = openTrainer(g, triangle(52), options);
  advance(whole, 2 * steps);
  Trainer first = openTrainer(g, triangle(52), options);
  advance(first, steps);
  const std::string saved = bytesOf(first.checkpoint());
  Trainer second = openTrainer(g, triangle(52), options);
  advance(second, 1);  // a run of its own before
  cantFail(second.resume(cantFail(parseNpz(saved, "saved.npz")), "saved.npz"));
  EXPECT_EQ(second.step(), steps);
  EXPECT_EQ(bytesOf(second.checkpoint()), saved);
  advance(second, steps);
  EXPECT_EQ(bytesOf(second.checkpoint()), bytesOf(whole.checkpoint()));
  EXPECT_EQ(bytesOf(second.parameters()), bytesOf(whole.parameters()));
}

TEST(Checkpoint, RUN_02_ResumedRunsAreTheSameBytes) {
  TrainerOptions options = plainOptions();
  expectResumes(options, 9);  // in the middle of an epoch of 6 steps
  options.optimizer.kind = OptimizerKind::Adam;
  expectResumes(options, 6);
  options.shuffle = std::nullopt;
  options.schedule = {.kind = ScheduleKind::Step, .rate = 0.1, .every = 5};
  expectResumes(options, 7);
  for (size_t kind = 2; kind < kNumOptimizers; ++kind) {
    options.optimizer.kind = static_cast<OptimizerKind>(kind);
    expectResumes(options, 3);
  }
}

TEST(Checkpoint, RUN_02_ResumedRunsOfTheFastBackend) {
  TrainerOptions options = plainOptions();
  options.session.exec.backend = Backend::Auto;
  options.session.exec.threads = 2;
  expectResumes(options, 9);
}

// A copy of a weight beside the weight would be the largest memory that this program ever has.
TEST(Checkpoint, WrittenWithoutCopies) {
#ifdef GRADC_HEAP_OF_SANITIZER
  GTEST_SKIP() << "a sanitizer has a heap of its own";
#endif
  constexpr int64_t kWide = 16 << 20;  // a weight, its gradient and its state of 64 MiB each
  TestGraph g(
      "data = var; w = var {__shape__=(1,16777216)}; h = broadcast_mul(data, w); s = sum(h) {axis=1}; y = MakeLoss(s)");
  TrainerOptions options = plainOptions();
  options.batch = 1;
  options.optimizer.momentum = 0.9;
  Trainer trainer = openTrainer(g, cantFail(Dataset::create({{"data", floats({2, 1}, {1, 2})}})), options);
  advance(trainer, 1);
  for (auto write : {&Trainer::writeParameters, &Trainer::writeCheckpoint}) {
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    cantFail((trainer.*write)(nulls()));
    getrusage(RUSAGE_SELF, &after);
    EXPECT_LT((after.ru_maxrss - before.ru_maxrss) * 1024, kWide) << "bytes, of a weight of four times as many";
  }
}

struct OtherRun {
  const char *what;
  std::string net;
  TrainerOptions options;
  int64_t rows;
  const char *message, *note;
};

TEST(Checkpoint, E_71_CheckpointsOfAnotherRunAreRefusedByName) {
  const std::string net = kNet.str();
  auto replaced = [&](StringRef from, StringRef to) {
    std::string text = net;
    return text.replace(text.find(from), from.size(), to.str());
  };
  TrainerOptions plain = plainOptions(), adam = plain, batch = plain, seed = plain;
  adam.optimizer.kind = OptimizerKind::Adam;
  batch.batch = 4;
  seed.seed = 7;
  const char *another = "checkpoint 'run.npz' is of another network or optimizer";
  const OtherRun runs[] = {
      {"names", replaced("fc1_weight", "first_weight"), plain, 48, another, "it has no 'first_weight'"},
      {"shapes", replaced("num_hidden=8", "num_hidden=6"), plain, 48, another,
       "its 'fc1_weight' is (8,2) float32, expected (6,2) float32"},
      {"attributes", replaced("act_type=relu", "act_type=tanh"), plain, 48, another,
       "the arrays are the same, operators or attributes are not"},
      {"optimizer", net, adam, 48, another, "it has no 'fc2_bias_mean'"},
      {"batch", net, batch, 48, "checkpoint 'run.npz' was made with batch size 8, this run has 4", nullptr},
      {"seed", net, seed, 48, "checkpoint 'run.npz' was made with seed 0, this run has 7", nullptr},
      {"data", net, plain, 40, "checkpoint 'run.npz' was made with number of examples 48, this run has 40", nullptr},
  };
  TestGraph g(kNet);
  Trainer trainer = openTrainer(g, triangle(48), plain);
  advance(trainer, 3);
  const std::vector<NamedArray> checkpoint = trainer.checkpoint();
  for (const OtherRun &run : runs) {
    SCOPED_TRACE(run.what);
    TestGraph other(run.net);
    Trainer resumed = openTrainer(other, triangle(run.rows), run.options);
    const std::string before = bytesOf(resumed.checkpoint());
    GradcError error = errorOf(resumed.resume(checkpoint, "run.npz"));
    EXPECT_EQ(error.kind, ErrorKind::BindingMismatch);
    EXPECT_EQ(error.message, run.message);
    if (run.note) {
      ASSERT_EQ(error.notes.size(), 1u);
      EXPECT_EQ(error.notes[0].text, run.note);
    }
    EXPECT_EQ(bytesOf(resumed.checkpoint()), before) << "a refused checkpoint changes nothing";
  }
}

TEST(Checkpoint, E_34_AParameterWithTheNameOfANumberOfTheRun) {
  auto open = [&](StringRef name) -> Error {
    TestGraph g(
        ("p = FullyConnected(data, " + name + ") {num_hidden=1, no_bias=True}; y = LinearRegressionOutput(p, label)")
            .str());
    Dataset data = cantFail(Dataset::create({{"data", floats({1, 1}, {1})}, {"label", floats({1, 1}, {0})}}));
    TrainerOptions options;
    options.batch = 1;
    return Trainer::create(g.context, g, std::move(data), std::move(options)).takeError();
  };
  EXPECT_FALSE(errorToBool(open("gradc.steps")));
  const GradcError error = errorOf(open("gradc.step"));
  EXPECT_EQ(error.kind, ErrorKind::AmbiguousName);
  EXPECT_EQ(error.message, "variable 'gradc.step' has the name under which a checkpoint keeps a number of the run");
}

TEST(Checkpoint, E_71_ParametersAloneAreNoCheckpoint) {
  TestGraph g(kNet);
  Trainer trainer = openTrainer(g, triangle(16), plainOptions());
  GradcError error = errorOf(trainer.resume(trainer.parameters(), "params.npz"));
  EXPECT_EQ(error.message, "checkpoint 'params.npz' has no 'gradc.step'");
  std::vector<NamedArray> arrays = trainer.checkpoint();
  for (NamedArray &array : arrays)
    if (array.name == "gradc.step") array.array = {DType::UInt64, {2}, std::vector<char>(16)};
  EXPECT_EQ(errorOf(trainer.resume(arrays, "long.npz")).message,
            "checkpoint 'long.npz' has a 'gradc.step' that is (2,) uint64, expected one uint64");
}

}  // namespace
}  // namespace gradc
