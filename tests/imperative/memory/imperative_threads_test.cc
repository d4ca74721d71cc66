// Eight threads record and differentiate over leaves that they share. For the thread sanitizer: ./dev test --tsan
// imperative_threads.
#include "imperative/imperative.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "tests/support/runs/imperative.h"

#include <atomic>
#include <fstream>
#include <iterator>
#include <mutex>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace llvm;

namespace gradc {
namespace {

using testing::Doubles;
using testing::doublesOf;
using testing::scalar;
using testing::Tape;

constexpr int kThreads = 8, kRounds = 40;

/// Runs `work(thread)` in each of them, begun at once.
template <class Work> void inThreads(Work work) {
  std::atomic<int> numReady{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      ++numReady;
      while (numReady.load() < kThreads) std::this_thread::yield();
      work(i);
    });
  for (std::thread &thread : threads) thread.join();
}

// Every contribution is a whole number, so that the sum does not depend on its order.
TEST(ImperativeThreads, TA_84_EveryContributionArrivesOnce) {
  Tape t;
  Tensor x = t.leaf({4}, {1, 2, 3, 4}), w = t.leaf({4}, {5, 6, 7, 8});
  inThreads([&](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      Tensor y = t.mul(x, w);
      for (int i = 0; i < (thread + round) % 4; ++i) y = t.add(y, x);
      t.backward({t.sum(y)}, {.createGraph = round % 5 == 4});
    }
  });
  double extra = 0;
  for (int thread = 0; thread < kThreads; ++thread)
    for (int round = 0; round < kRounds; ++round) extra += (thread + round) % 4;
  const double all = kThreads * kRounds;
  EXPECT_EQ(t.gradOf(x), (Doubles{5 * all + extra, 6 * all + extra, 7 * all + extra, 8 * all + extra}));
  EXPECT_EQ(t.gradOf(w), (Doubles{all, 2 * all, 3 * all, 4 * all}));
}

/// Whether the thread sleeps, as one does that waits for a lock.
bool isAsleep(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t name = text.rfind(')');
  return name != std::string::npos && text.size() > name + 2 && text[name + 2] == 'S';
}

// An operator of the host runs with the lock held: what another thread requests meanwhile waits for it.
TEST(ImperativeThreads, TA_84_OneCallAtATime) {
  static std::atomic<bool> isInside, isDone;
  static std::atomic<pid_t> requester;  // once it is about to call; until then it does not sleep
  static bool hasWaited;
  static constinit const OpDef kSlow = {
      .name = "slow", .inputs = {"data"}, .shape = shapes::same, .kernel = [](const KernelCall &) {
        isInside = true;
        while (!requester.load()) std::this_thread::yield();
        while (!isDone.load() && !isAsleep(requester.load())) std::this_thread::yield();
        hasWaited = !isDone.load();
      }};
  using Work = void (*)(Tape &);
  for (Work work :
       {Work([](Tape &t) { t.im.cacheStats(); }), Work([](Tape &t) { t.value(1); }),
        Work([](Tape &t) { cantFail(t.im.requireGrad(t.leaf(1))); }), Work([](Tape &t) { t.backward({t.leaf(1)}); })}) {
    Tape t;
    cantFail(t.context.ops.add(kSlow));
    isInside = isDone = false;
    requester = 0;
    std::thread other([&] {
      while (!isInside.load()) std::this_thread::yield();
      requester = static_cast<pid_t>(syscall(SYS_gettid));
      work(t);
      isDone = true;
    });
    t("slow", {t.value(1)});
    other.join();
    EXPECT_TRUE(hasWaited);
  }
}

// What a tensor is can be asked while another thread marks it, or gives it a history.
TEST(ImperativeThreads, QuestionsWithoutTheLock) {
  ImperativeOptions options = Tape::referenceOptions();
  options.inplace = InplacePolicy::Rebase;
  Tape t(options);
  const Tensor x = t.leaf(2), leaf = t.value(3), target = t.value(0);
  std::atomic<int> numTracked{0};
  inThreads([&](int thread) {
    for (int round = 0; round < 20 * kRounds; ++round) {
      if (thread == 0) {
        cantFail(t.im.requireGrad(leaf, round % 2 == 0));
      } else if (thread == 1) {
        cantFail(t.into("square", {x}, {target}));
      } else {
        EXPECT_TRUE(leaf.isLeaf());
        numTracked += leaf.requiresGrad() + leaf.isTracked() + target.isTracked() + !target.isLeaf();
      }
    }
  });
  EXPECT_GE(numTracked.load(), 0);
  EXPECT_TRUE(target.isTracked() && !target.isLeaf());
  EXPECT_EQ(scalar(target), 4);
}

// Orders, hooks, modes, names, statistics, and tensors that end in another thread than they began.
TEST(ImperativeThreads, TA_85_EverythingAtOnce) {
  Tape t;
  Tensor x = t.leaf({3}, {1, 2, 3});
  std::atomic<int> numHooks{0};
  cantFail(t.im.addHook(x, [&](const Tensor &) -> Expected<Tensor> { return ++numHooks, Tensor(); }));
  std::mutex mutex;
  std::vector<Tensor> passed;
  inThreads([&](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      EXPECT_EQ(modesOf(t.im).recording, Recording::ByLeaf);
      switch ((thread + round) % 5) {
        case 0: {  // 3x² by x twice
          Tensor first = t.grad({t.mul(t.mul(x, x), x)}, {x}, {.createGraph = true})[0];
          EXPECT_EQ(doublesOf(t.grad({first}, {x})[0]), (Doubles{6, 12, 18}));
          break;
        }
        case 1: {
          NoGradScope quiet(t.im);
          EXPECT_FALSE(t.mul(x, x).isTracked());
          break;
        }
        case 2: {
          Tensor own = t.leaf({3}, {1, 1, 1});
          cantFail(t.im.setName(own, "own"));
          t.backward({t.mul(own, x)}, {.inputs = Tensors(own)});
          EXPECT_EQ(t.gradOf(own), (Doubles{1, 2, 3}));
          break;
        }
        case 3: {
          std::lock_guard guard(mutex);
          passed.push_back(t("exp", {t.mul(x, x)}));
          if (passed.size() > 4) passed.erase(passed.begin());
          break;
        }
        case 4: {
          Tensor y;
          {
            std::lock_guard guard(mutex);
            if (!passed.empty()) y = passed.back();
          }
          if (y) {
            EXPECT_EQ(t.grad({y}, {x}, {.retain = true}).size(), 1u);
          }
          EXPECT_LE(t.im.memoryStats().pool.keptBytes, t.im.memoryStats().pool.systemBytes);
          EXPECT_TRUE(static_cast<bool>(t.im.graphOf({t.mul(x, x)})));
        }
      }
    }
  });
  EXPECT_GT(numHooks.load(), 0);
  EXPECT_FALSE(x.grad());
}

// Each has an Imperative of its own in one Context.
TEST(ImperativeThreads, OneContextManyImperatives) {
  Context context;
  registerBuiltinOps(context.ops);
  inThreads([&](int thread) {
    Imperative im(context, Tape::referenceOptions());
    const Kind square = cantFail(im.kind("square", {})), scale = cantFail(im.kind("_mul_scalar", {{"scalar", "3"}}));
    Tensor x = im.full({2}, static_cast<double>(thread));
    cantFail(im.requireGrad(x));
    for (int round = 0; round < kRounds; ++round)
      cantFail(im.backward({cantFail(im.call(scale, {cantFail(im.call(square, {x}))}))}, {}));
    EXPECT_EQ(doublesOf(x.grad()), Doubles(2, 6.0 * thread * kRounds));
  });
}

// The last tensors end after their Imperative, in several threads at once.
TEST(ImperativeThreads, TensorsOutliveTheirImperativeInManyThreads) {
  std::vector<std::vector<Tensor>> lists(kThreads);
  {
    Tape t;
    Tensor x = t.leaf({2}, {1, 2});
    for (int i = 0; i < 2000; ++i) lists[static_cast<size_t>(i % kThreads)].push_back(t("exp", {t.mul(x, x)}));
    for (int size = 1; size < 200; ++size)
      lists[static_cast<size_t>(size % kThreads)].push_back(t.im.zeros({size * 8}, DType::Float64));
  }
  inThreads([&](int thread) {
    std::vector<Tensor> &list = lists[static_cast<size_t>(thread)];
    while (!list.empty()) {
      EXPECT_TRUE(list.back().size() > 0);
      list.pop_back();
    }
  });
}

// In a forked process instructions run on a thread of their own, for the one that holds the lock.
TEST(ImperativeThreads, TA_88_AKernelOfTheHostDropsForeignMemoryInAForkedProcess) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer allows no threads in a child";
#endif
  static constinit Tensor *dropped = nullptr;
  static constinit const OpDef kDroppingGradient = {
      .name = "_backward_dropping", .inputs = {"dy"}, .shape = shapes::same, .kernel = [](const KernelCall &call) {
        *dropped = Tensor();
        *call.out[0].as<double>() = *call.in[0].as<double>();
      }};
  static constinit const OpDef kDropping = {
      .name = "dropping",
      .inputs = {"data"},
      .shape = shapes::same,
      .gradient = [](GradRule &g) { g.dx(0, g.emit(kDroppingGradient, {g.dy(0)})); },
      .kernel = [](const KernelCall &call) { *call.out[0].as<double>() = *call.in[0].as<double>(); }};
  ImperativeOptions options = Tape::referenceOptions();
  options.threads = 2;
  Tape t(options);
  for (const OpDef *op : {&kDropping, &kDroppingGradient}) cantFail(t.context.ops.add(*op));
  const Tensor x = t.leaf(3);
  double memory = 5;
  const int64_t one[] = {1};
  Tensor foreign = cantFail(t.im.makeForeign(TensorRef(&memory, DType::Float64, one), nullptr, nullptr));
  dropped = &foreign;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // it would wait for itself
    t.backward({t("dropping", {x})});
    _exit(foreign || scalar(x.grad()) != 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace gradc
