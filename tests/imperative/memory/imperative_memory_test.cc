// What the tape costs: allocations of a steady step, bytes per call, and a report that agrees with the process's own.
#include "imperative/imperative.h"
#include "tests/support/runs/failing_heap.h"
#include "tests/support/runs/imperative.h"

using namespace llvm;

namespace gradc {
namespace {

using testing::Doubles;
using testing::failingHeap;
using testing::Tape;

/// A network of three layers, with a hook of each kind, trained in place.
class HookedStep {
 public:
  explicit HookedStep(bool createGraph) : createGraph(createGraph) {
    const int64_t square[] = {4, 4};
    for (int layer = 0; layer < 3; ++layer) {
      weights.push_back(t.leaf(square, Doubles(16, 0.1 * (layer + 1))));
      cantFail(t.im.addHook(
          weights.back(), [this](const Tensor &gradient) -> Expected<Tensor> { return t.im.call(halve, {gradient}); }));
      cantFail(t.im.addPostAccumulateHook(weights.back(), [this](const Tensor &leaf) -> Expected<Tensor> {
        NoGradScope quiet(t.im);
        ++numUpdates;
        if (Error error = t.im.callInto(sgd, {leaf, leaf.grad(), rate}, {leaf})) return error;
        if (Error error = t.im.queueCallback([this]() -> Error { return ++numCallbacks, Error::success(); }))
          return error;
        return this->createGraph ? Expected<Tensor>(Tensor()) : clear(leaf);
      }));
    }
  }

  void run() {
    Tensor y = x;
    for (const Tensor &w : weights) y = cantFail(t.im.call(tanh, {cantFail(t.im.call(dense, {y, w}))}));
    cantFail(t.im.backward({cantFail(t.im.call(sum, {y}))}, {.createGraph = createGraph}));
    if (createGraph)
      for (const Tensor &w : weights) cantFail(t.im.setGrad(w, {}));
  }

  Tape t;
  int numUpdates = 0, numCallbacks = 0;

 private:
  Expected<Tensor> clear(const Tensor &leaf) {
    if (Error error = t.im.clearGrad(leaf)) return error;
    return Tensor();
  }

  const bool createGraph;
  const Kind dense = cantFail(t.im.kind("FullyConnected", {{"num_hidden", "4"}, {"no_bias", "True"}})),
             tanh = cantFail(t.im.kind("tanh", {})), sum = cantFail(t.im.kind("sum", {})),
             halve = cantFail(t.im.kind("_mul_scalar", {{"scalar", "0.5"}})),
             sgd = cantFail(t.im.kind("_scheduled_sgd_update", {}));
  const Tensor x = t.value({2, 4}, Doubles(8, 1)), rate = t.im.full({1}, 0.25);
  std::vector<Tensor> weights;
};

TEST(ImperativeMemory, ASteadyStepWithHooksAllocatesNothing) {
  for (bool createGraph : {false, true}) {
    HookedStep step(createGraph);
    for (int i = 0; i < 5; ++i) step.run();
    const size_t systemBytes = step.t.im.memoryStats().pool.systemBytes;
    failingHeap.count = 0;
    failingHeap.during([&] {
      for (int i = 0; i < 20; ++i) step.run();
      return 0;
    });
    EXPECT_EQ(failingHeap.count, 0u);
    EXPECT_EQ(step.t.im.memoryStats().pool.systemBytes, systemBytes);
    EXPECT_EQ(step.numUpdates, 75);
    EXPECT_EQ(step.numCallbacks, 75);
  }
}

// Operators of many operands, replayed call by call; and writes in place of what is kept.
TEST(ImperativeMemory, ASteadyStepOfOtherFormsAllocatesNothing) {
  ImperativeOptions options = Tape::referenceOptions();
  options.inplace = InplacePolicy::Rebase;
  Tape t(options);
  const Tensor x = t.leaf({2, 2}, {1, 2, 3, 5}), w = t.leaf({2, 2}, {2, 3, 4, 5}), scale = t.leaf({2}, {1, 2});
  const Tensor mean = t.value({2}, {0, 0}), var = t.value({2}, {1, 1});
  const Kind concat = cantFail(t.im.kind("Concat", {{"num_args", "12"}})), norm = cantFail(t.im.kind("BatchNorm", {})),
             mul = cantFail(t.im.kind("elemwise_mul", {})), sum = cantFail(t.im.kind("sum", {}));
  const std::vector<Tensor> parts(12, x);
  const Tensor operands[] = {w, scale, scale, mean, var};
  auto step = [&] {
    RecordScope record(t.im);
    const Tensor y = cantFail(t.im.call(concat, parts)), z = cantFail(t.im.call(norm, operands));
    cantFail(t.im.callInto(mul, {z, w}, {z}));
    const Tensor ys[] = {cantFail(t.im.call(sum, {y})), cantFail(t.im.call(sum, {z}))};
    cantFail(t.im.backward(ys, {.createGraph = true}));
    const Tensor first = x.grad();
    for (const Tensor &leaf : {x, w, scale}) cantFail(t.im.setGrad(leaf, {}));
    cantFail(t.im.backward({cantFail(t.im.call(mul, {first, x}))}, {}));
  };
  for (int i = 0; i < 5; ++i) step();
  failingHeap.count = 0;
  failingHeap.during([&] {
    for (int i = 0; i < 20; ++i) step();
    return 0;
  });
  EXPECT_EQ(failingHeap.count, 0u);
}

// Of three operators in turn one keeps both factors, one nothing and one its output.
TEST(ImperativeMemory, AtMost160BytesOfTapePerCallBesidesArrays) {
  Tape t;
  Tensor x = t.leaf({8}, Doubles(8, 0.5));
  const Kind mul = cantFail(t.im.kind("elemwise_mul", {})), add = cantFail(t.im.kind("elemwise_add", {})),
             tanh = cantFail(t.im.kind("tanh", {}));
  auto tapeBytes = [&] {
    const PoolStats pool = t.im.memoryStats().pool;
    return pool.systemBytes - pool.cachedBytes - pool.leafBytes - pool.keptBytes;
  };
  Tensor y = x;
  auto run = [&](int rounds) {
    for (int i = 0; i < rounds; ++i)
      y = cantFail(t.im.call(tanh, {cantFail(t.im.call(add, {cantFail(t.im.call(mul, {y, x})), x}))}));
  };
  run(1);
  const size_t before = tapeBytes(), kept = t.im.memoryStats().pool.keptBytes;
  run(10000);
  const double perCall = static_cast<double>(tapeBytes() - before) / 30000;
  EXPECT_LE(perCall, 160);
  EXPECT_GE(perCall, 100) << "what is not counted?";
  RecordProperty("bytes", static_cast<int>(perCall));
  // The outputs of tanh alone, 64 bytes of numbers behind a header of 64: the factors are those, and a leaf.
  EXPECT_EQ(t.im.memoryStats().pool.keptBytes - kept, 10000u * 128);
  t.backward({y});
  EXPECT_EQ(t.im.memoryStats().pool.keptBytes, 0u);
}

TEST(ImperativeMemory, LeavesAndKeptValuesAreToldApart) {
  Tape t;
  auto pool = [&] { return t.im.memoryStats().pool; };
  const int64_t size = 1 << 15;
  const size_t bytes = (size_t{1} << 18) + 64;  // with the header, and nothing more
  Tensor x = t.im.zeros({size}, DType::Float64), c = t.im.zeros({size}, DType::Float64);
  EXPECT_EQ(pool().leafBytes, 0u);
  cantFail(t.im.requireGrad(x));
  cantFail(t.im.requireGrad(x));
  EXPECT_EQ(pool().leafBytes, bytes);
  Tensor y = t.mul(x, c), z = t("exp", {y});
  t.mul(x, c);                             // another keeper of c, gone at once
  EXPECT_EQ(pool().keptBytes, 2 * bytes);  // c and z
  cantFail(t.im.requireGrad(c));
  EXPECT_EQ(pool().leafBytes, 2 * bytes);
  EXPECT_EQ(pool().keptBytes, bytes);
  cantFail(t.im.requireGrad(c, false));
  EXPECT_EQ(pool().keptBytes, 2 * bytes);
  t.backward({z});
  EXPECT_EQ(pool().keptBytes, 0u);
  EXPECT_EQ(pool().leafBytes, bytes);
  x = Tensor();
  y = z = Tensor();
  EXPECT_EQ(pool().leafBytes, 0u);
}

// A value counts as a leaf while any tensor over it is one.
TEST(ImperativeMemory, LeavesThatShareMemory) {
  Tape t;
  auto pool = [&] { return t.im.memoryStats().pool; };
  Tensor x = t.leaf({1000}, Doubles(1000, 1)), alias = t.im.detach(x), third = t.im.detach(x);
  const size_t bytes = pool().leafBytes;
  for (const Tensor &tensor : {alias, third}) cantFail(t.im.requireGrad(tensor));
  EXPECT_EQ(pool().leafBytes, bytes);
  cantFail(t.im.dropGrad(alias));
  cantFail(t.im.requireGrad(third, false));
  EXPECT_EQ(pool().leafBytes, bytes);
  cantFail(t.im.requireGrad(third));
  Tensor y = t("square", {x});
  EXPECT_EQ(pool().keptBytes, 0u);
  x = Tensor();
  EXPECT_EQ(pool().leafBytes, bytes);
  third = Tensor();
  EXPECT_EQ(pool().leafBytes, 0u);
  EXPECT_EQ(pool().keptBytes, bytes);
  // A gradient that is a leaf gets other memory.
  Tensor z = t.leaf({1000}, Doubles(1000, 1));
  t.backward({t.times(z, "2")});
  cantFail(t.im.requireGrad(z.grad()));
  EXPECT_EQ(pool().leafBytes, 2 * bytes);
  Tensor kept = t("square", {z.grad()});
  t.backward({t.times(z, "2")});
  EXPECT_EQ(pool().leafBytes, 2 * bytes);
  cantFail(t.im.setGrad(z, Tensor()));
  z = Tensor();
  EXPECT_EQ(pool().leafBytes, 0u);
}

// ---- the report and the process

size_t processBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

/// What `fill` takes of the process, as the process and as the Imperative count it.
template <class Fill> void expectAgreement(Fill fill) {
  if (processBytes() == 0) GTEST_SKIP() << "a sanitizer has the heap";
  Context context;
  registerBuiltinOps(context.ops);
  const size_t before = processBytes();
  Imperative im(context, Tape::referenceOptions());
  std::vector<Tensor> held;
  held.reserve(100000);
  const size_t own = held.capacity() * sizeof(Tensor);
  fill(im, held);
  const size_t process = processBytes() - before - own;
  const MemoryStats stats = im.memoryStats();
  const double ratio = static_cast<double>(stats.totalBytes()) / static_cast<double>(process);
  EXPECT_GE(ratio, 0.95) << process << " bytes";
  EXPECT_LE(ratio, 1.05) << process << " bytes";
  EXPECT_LE(stats.pool.leafBytes + stats.pool.keptBytes + stats.pool.cachedBytes, stats.pool.systemBytes);
}

TEST(ImperativeMemoryReport, LeavesKeptValuesAndTheTape) {
  expectAgreement([](Imperative &im, std::vector<Tensor> &held) {
    const Kind exp = cantFail(im.kind("exp", {}));
    for (int i = 0; i < 10000; ++i) {
      Tensor x = im.full({1 + i % 300}, 0.5);
      cantFail(im.requireGrad(x));
      held.push_back(cantFail(im.call(exp, {x})));
      held.push_back(x);
    }
    EXPECT_GT(im.memoryStats().pool.keptBytes, size_t{10} << 20);
    EXPECT_GT(im.memoryStats().pool.leafBytes, size_t{10} << 20);
  });
}

TEST(ImperativeMemoryReport, FreeBlocks) {
  expectAgreement([](Imperative &im, std::vector<Tensor> &held) {
    for (int i = 0; i < 20000; ++i) held.push_back(im.full({1 + i % 100}, 0.5));
    held.clear();
    EXPECT_GT(im.memoryStats().pool.cachedBytes, size_t{8} << 20);
  });
}

TEST(ImperativeMemoryReport, CachedPlans) {
  expectAgreement([](Imperative &im, std::vector<Tensor> &held) {
    held.push_back(im.full({8}, 0.5));
    cantFail(im.requireGrad(held[0]));
    const Kind mul = cantFail(im.kind("elemwise_mul", {})), tanh = cantFail(im.kind("tanh", {}));
    for (int length = 1; length <= 100; ++length) {
      Tensor y = held[0];
      for (int i = 0; i < length; ++i) y = cantFail(im.call(tanh, {cantFail(im.call(mul, {y, held[0]}))}));
      cantFail(im.backward({y}, {}));
    }
    EXPECT_GT(im.memoryStats().planBytes, size_t{3} << 20);
  });
}

TEST(ImperativeMemoryReport, PlansOfReplays) {
  expectAgreement([](Imperative &im, std::vector<Tensor> &held) {
    held.push_back(im.full({8}, 0.5));
    cantFail(im.requireGrad(held[0]));
    const Kind mul = cantFail(im.kind("elemwise_mul", {})), tanh = cantFail(im.kind("tanh", {}));
    for (int length = 1; length <= 100; ++length) {
      Tensor y = held[0];
      for (int i = 0; i < length; ++i) y = cantFail(im.call(tanh, {cantFail(im.call(mul, {y, held[0]}))}));
      cantFail(im.grad({y}, {held[0]}, {.createGraph = true}));
    }
  });
}

// Beside the plans: hooks, long names, buffers of the caller, gradients with a history.
TEST(ImperativeMemoryReport, WhatMarksHave) {
  expectAgreement([](Imperative &im, std::vector<Tensor> &held) {
    const Kind square = cantFail(im.kind("square", {}));
    for (int i = 0; i < 5000; ++i) {
      Tensor x = im.full({4}, 0.5), buffer = im.full({4}, 0.0);
      cantFail(im.mark(x, Request::Write, buffer));
      cantFail(im.setName(x, "layer" + std::to_string(i) + ".attention.projection.weight"));
      cantFail(im.addHook(x, [](const Tensor &) { return Expected<Tensor>(Tensor()); }));
      held.push_back(x);
    }
    std::vector<Tensor> ys;
    {
      RecordScope record(im);
      for (const Tensor &x : held) ys.push_back(cantFail(im.call(square, {x})));
    }
    cantFail(im.backward(ys, {.createGraph = true}));
  });
}

TEST(ImperativeMemoryReport, Names) {
  expectAgreement([](Imperative &im, std::vector<Tensor> &held) {
    for (int i = 0; i < 5000; ++i) {
      held.push_back(im.full({4}, 0.5));
      cantFail(im.setName(held.back(), "layer" + std::to_string(i) + ".attention.projection.weight"));
    }
  });
}

TEST(ImperativeMemoryReport, Functions) {
  expectAgreement([](Imperative &im, std::vector<Tensor> &held) {
    const Kind exp = cantFail(im.kind("exp", {}));
    const auto f = std::make_shared<Function>();
    f->name = "a_function";
    f->forward = [&](const FunctionContext &context, Tensors in) -> Expected<TensorList> {
      Expected<Tensor> y = im.call(exp, in);
      if (!y) return y.takeError();
      context.save({in[0], *y});
      return TensorList{*y};
    };
    f->backward = [](const FunctionContext &, Tensors dy) -> Expected<TensorList> { return TensorList{dy[0]}; };
    Tensor x = im.full({1}, 0.5);
    cantFail(im.requireGrad(x));
    for (int i = 0; i < 10000; ++i) held.push_back(cantFail(im.apply(f, {x}))[0]);
  });
}

TEST(ImperativeMemoryReport, Signatures) {
  expectAgreement([](Imperative &im, std::vector<Tensor> &) {
    const Kind exp = cantFail(im.kind("exp", {}));
    for (int64_t size = 1; size <= 3000; ++size) cantFail(im.call(exp, {im.zeros({size}, DType::Float32)}));
  });
}

}  // namespace
}  // namespace gradc
