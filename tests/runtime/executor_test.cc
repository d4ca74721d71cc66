// The executor against the naive interpreter, and each promise of its header by itself. What it refuses is in
// tests/runtime/executor_errors_test.cc.
#include "ir/rules/inference.h"
#include "ops/kit/primitives.h"
#include "tests/support/ops/naive.h"
#include "tests/support/runs/exec_bench.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>
#include <set>

using namespace llvm;
using gradc::testing::Bench;
using gradc::testing::Bindings;
using gradc::testing::NaiveRun;
using gradc::testing::TestGraph;

// Counts allocations, for the one test that forbids them. Inlined, GCC takes them for mismatched.
static std::atomic<size_t> numAllocations{0};
[[gnu::noinline]] void *operator new(size_t bytes) {
  ++numAllocations;
  if (void *memory = std::malloc(bytes ? bytes : 1)) return memory;
  std::abort();
}
void *operator new(size_t bytes, const std::nothrow_t &) noexcept { return operator new(bytes); }
[[gnu::noinline]] void operator delete(void *memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void *memory, size_t) noexcept { std::free(memory); }

namespace gradc {
namespace {

using Doubles = std::vector<double>;

TEST(Executor, RUN_02_EqualsTheNaiveInterpreterBitForBit) {
  TestGraph g("x = var {__shape__=(6,)}; a = exp(x); b = elemwise_mul(a, x); s = test_split3(b); t = tanh(s:1);"
              "u = elemwise_add(t, s:0); v = sigmoid(u); q = test_square(v); c = _copy(b); r = relu(c);"
              "heads q, s:2, r, b");
  Bindings bindings{{"x", testing::Array(Doubles{0.3, -1.2, 0.7, 2.5, -0.4, 0.11})}};
  NaiveRun naive = cantFail(NaiveRun::run(g, bindings, {}));
  std::vector<testing::Array> expected = naive.heads();
  for (bool allowInplace : {false, true})
    for (unsigned threads : {1u, 4u}) {
      Bench bench(g);
      bench.allowInplace = allowInplace;
      bench.options.threads = threads;
      cantFail(bench.prepare());
      bench.bind("x", doubles({6}, bindings["x"].values));
      for (int run = 0; run < 2; ++run)
        for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(bench.run(i), expected[i].values) << "head " << i;
    }
}

TEST(Executor, RUN_01_NodesNobodyWantsDoNotRun) {
  TestGraph g("x = var {__shape__=(2,)}; a = exp(x); b = tanh(x); heads a, b");
  std::vector<Request> requests{Request::Null, Request::Write};
  std::vector<NodeId> ran;
  Bench bench(g);
  bench.options.headRequests = requests;
  bench.options.monitorUser = &ran;
  bench.options.monitor = [](void *user, NodeId n, ArrayRef<TensorRef>) {
    static_cast<std::vector<NodeId> *>(user)->push_back(n);
  };
  cantFail(bench.prepare());
  bench.bind("x", doubles({2}, {1, 2}));
  cantFail(bench.executor->run(0));
  EXPECT_EQ(ran, std::vector<NodeId>{g.at("b").node});
  EXPECT_EQ(bench.executor->head(0).data, nullptr);
}

TEST(Executor, RUN_01_NodesWithoutElementsDoNotRun) {
  TestGraph g("x = var {__shape__=(3,0)}; a = exp(x); y = sum(a) {axis=1}; heads y, a");
  std::vector<NodeId> ran;
  Bench bench(g);
  bench.inferOptions.unknownDim = UnknownDim::MinusOne;
  bench.options.monitorUser = &ran;
  bench.options.monitor = [](void *user, NodeId n, ArrayRef<TensorRef>) {
    static_cast<std::vector<NodeId> *>(user)->push_back(n);
  };
  cantFail(bench.prepare());
  EXPECT_EQ(bench.run(0), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(ran, std::vector<NodeId>{g.at("y").node}) << "the sums of nothing are numbers, exp of nothing is nothing";
  EXPECT_EQ(bench.executor->head(1).size(), 0);
}

TEST(Executor, REQ_03_UnreadOutputsHaveNoMemory) {
  TestGraph g("x = var {__shape__=(3,)}; q = test_square(x)");
  std::vector<void *> data;
  Bench bench(g);
  bench.options.monitorUser = &data;
  bench.options.monitor = [](void *user, NodeId, ArrayRef<TensorRef> outputs) {
    for (const TensorRef &output : outputs) static_cast<std::vector<void *> *>(user)->push_back(output.data);
  };
  cantFail(bench.prepare());
  bench.bind("x", doubles({3}, {1, 2, 3}));
  EXPECT_EQ(bench.run(0), (Doubles{1, 4, 9}));
  EXPECT_EQ(data, (std::vector<void *>{bench.executor->head(0).data, nullptr}));
}

TEST(Executor, RET_02_REQ_04_WriteReplacesAndAddAccumulates) {
  TestGraph g("x = var {__shape__=(2,)}; y = _plus_scalar(x) {scalar=1}; z = _mul_scalar(x) {scalar=3}; heads y, z");
  std::vector<Request> requests{Request::Add, Request::Write};
  Bench bench(g);
  bench.options.headRequests = requests;
  cantFail(bench.prepare());
  bench.bind("x", doubles({2}, {1, 2}));
  EXPECT_EQ(bench.run(0), (Doubles{2, 3}));
  EXPECT_EQ(bench.run(0), (Doubles{4, 6}));
  EXPECT_EQ(valuesOf<double>(bench.executor->head(1)), (Doubles{3, 6}));
  EXPECT_EQ(bench.run(1), (Doubles{3, 6}));
  EXPECT_EQ(valuesOf<double>(bench.executor->head(0)), (Doubles{6, 9}));
}

TEST(Executor, RET_08_TheRunSaysWhetherDropoutDropsForwardAndBackward) {
  TestGraph g("x = var {__shape__=(64,)}; dy = var {__shape__=(64,)}; y = Dropout(x) {p=0.5}");
  GradientRequest request = testing::wrt(g, {"x"});
  request.heads = {{g.at("y"), std::nullopt, "dy"}};
  Graph graph = cantFail(buildGradient(g.context, g, request, {})).graph;
  Doubles x(64), dy(64);
  for (size_t i = 0; i < 64; ++i) x[i] = 1 + static_cast<double>(i), dy[i] = 100 - static_cast<double>(i);
  for (auto [isTraining, backend] : {std::pair(false, Backend::Auto), std::pair(true, Backend::Auto),
                                     std::pair(false, Backend::Reference), std::pair(true, Backend::Reference)}) {
    Bench bench(graph);
    bench.options.isTraining = isTraining;
    bench.options.backend = backend;
    bench.hints.shapes = {{testing::nodeNamed(graph, "dy"), {64}}};
    cantFail(bench.prepare());
    bench.bind("x", doubles({64}, x));
    bench.bind("dy", doubles({64}, dy));
    const Doubles y = bench.run(0), dx = valuesOf<double>(bench.executor->head(1));
    size_t numDropped = 0;
    for (size_t i = 0; i < 64; ++i) {
      EXPECT_EQ(dx[i] / dy[i], y[i] / x[i]) << i;
      numDropped += dx[i] == 0;
    }
    EXPECT_EQ(numDropped > 16 && numDropped < 48, isTraining) << numDropped;
    if (!isTraining) {
      EXPECT_EQ(dx, dy);
    }
  }
}

TEST(Executor, REQ_06_AddIsTheFullResultThenOneAddition) {
  // 0.1 + 0.2 + 0.3 depends on the order: a kernel that accumulated term by term would round otherwise.
  TestGraph g("a = var {__shape__=(1,)}; b = var {__shape__=(1,)}; c = var {__shape__=(1,)};"
              "s = add_n(a, b, c) {num_args=3}; t = exp(s); heads s, t, s");
  std::vector<Request> requests{Request::Add, Request::Write, Request::Write};
  Bench bench(g);
  bench.options.headRequests = requests;
  cantFail(bench.prepare());
  Array start = doubles({1}, {5.7});
  cantFail(bench.executor->bindHead(0, start.ref()));
  bench.bind("a", doubles({1}, {0.1}));
  bench.bind("b", doubles({1}, {0.2}));
  bench.bind("c", doubles({1}, {0.3}));
  double sum = (0.1 + 0.2) + 0.3;
  EXPECT_EQ(bench.run(0), Doubles{5.7 + sum});
  EXPECT_NE(5.7 + sum, ((5.7 + 0.1) + 0.2) + 0.3) << "the example must tell the two orders apart";
  EXPECT_EQ(valuesOf<double>(bench.executor->head(2)), Doubles{sum}) << "the head asked 'write' keeps the result";
}

TEST(Executor, REQ_06_AddOntoAnEntryOthersReadAndOntoAVariable) {
  TestGraph g("x = var {__shape__=(2,)}; y = square(x); z = elemwise_mul(y, y); w = exp(z); heads y, x, w");
  std::vector<Request> requests{Request::Add, Request::Add, Request::Add};
  Bench bench(g);
  bench.options.headRequests = requests;
  cantFail(bench.prepare());
  bench.bind("x", doubles({2}, {2, -1}));
  cantFail(bench.executor->run(0));
  cantFail(bench.executor->run(0));
  EXPECT_EQ(valuesOf<double>(bench.executor->head(0)), (Doubles{8, 2}));
  EXPECT_EQ(valuesOf<double>(bench.executor->head(1)), (Doubles{4, -2}));
  EXPECT_EQ(valuesOf<double>(bench.executor->head(2)), (Doubles{2 * std::exp(16), 2 * std::exp(1)}));
}

TEST(Executor, REQ_08_MixedRequestsAreEachHonoured) {
  TestGraph g("x = var {__shape__=(1,)}; a = exp(x); b = tanh(x); c = square(x); heads a, b, c");
  std::vector<Request> requests{Request::Write, Request::Null, Request::Add};
  Bench bench(g);
  bench.options.headRequests = requests;
  cantFail(bench.prepare());
  bench.bind("x", doubles({1}, {3}));
  cantFail(bench.executor->run(0));
  cantFail(bench.executor->run(0));
  EXPECT_EQ(valuesOf<double>(bench.executor->head(0)), Doubles{std::exp(3.0)});
  EXPECT_EQ(bench.executor->head(1).data, nullptr);
  EXPECT_EQ(valuesOf<double>(bench.executor->head(2)), Doubles{18});
  Array other = doubles({1}, {0});
  EXPECT_EQ(errorOf(bench.executor->bindHead(1, other.ref())).kind, ErrorKind::BindingSurplus);
}

TEST(Executor, H_12_VariablesAreNeverWritten) {
  // Every operator here may work in place, and the head gradient's first reader is the last use of it.
  TestGraph g("dy = var {__shape__=(2,)}; a = _mul_scalar(dy) {scalar=2}; b = negative(a); c = elemwise_add(b, dy)");
  for (Backend backend : {Backend::Reference, Backend::Auto}) {
    Bench bench(g);
    bench.options.backend = backend;
    cantFail(bench.prepare());
    bench.bind("dy", doubles({2}, {5, 7}));
    EXPECT_EQ(bench.run(0), (Doubles{-5, -7}));
    EXPECT_EQ(valuesOf<double>(*bench.arrays[0]), (Doubles{5, 7}));
  }
}

TEST(Executor, MUT_06_StatesChangeOncePerRun) {
  TestGraph g("x = var {__shape__=(1,)}; s = var {__shape__=(1,)}; y = test_accumulate(x, s)");
  Bench bench(g);
  cantFail(bench.prepare());
  bench.bind("x", doubles({1}, {3}));
  bench.bind("s", doubles({1}, {10}));
  EXPECT_EQ(bench.run(0), Doubles{13});
  EXPECT_EQ(valuesOf<double>(*bench.arrays[1]), Doubles{13});
  EXPECT_EQ(bench.run(0), Doubles{16});
}

TEST(Executor, MUT_06_StatesChangeEvenWhenNobodyWantsTheOutput) {
  TestGraph g("x = var {__shape__=(1,)}; s = var {__shape__=(1,)}; y = test_accumulate(x, s); z = exp(x); heads y, z");
  std::vector<Request> requests{Request::Null, Request::Write};
  Bench bench(g);
  bench.options.headRequests = requests;
  cantFail(bench.prepare());
  bench.bind("x", doubles({1}, {3}));
  bench.bind("s", doubles({1}, {10}));
  cantFail(bench.executor->run(0));
  EXPECT_EQ(valuesOf<double>(*bench.arrays[1]), Doubles{13});
}

TEST(Executor, COPY_06_HeadsNeverShareMemory) {
  TestGraph g("x = var {__shape__=(2,)}; y = _copy(x); heads y, x, y, x");
  Bench bench(g);
  cantFail(bench.prepare());
  bench.bind("x", doubles({2}, {1, 2}));
  cantFail(bench.executor->run(0));
  std::set<void *> places{bench.arrays[0]->bytes.data()};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(valuesOf<double>(bench.executor->head(i)), (Doubles{1, 2}));
    places.insert(bench.executor->head(i).data);
  }
  EXPECT_EQ(places.size(), 5u);
}

TEST(Executor, A_10_TheRunLoopDoesNotAllocate) {
  TestGraph g("x = var {__shape__=(4,)}; a = exp(x); b = elemwise_mul(a, x); c = tanh(b); heads c, b, x");
  std::vector<Request> requests{Request::Write, Request::Add, Request::Write};
  Bench bench(g);
  bench.options.headRequests = requests;
  cantFail(bench.prepare());
  bench.bind("x", doubles({4}, {1, 2, 3, 4}));
  bench.executor->setProfiling(true);
  cantFail(bench.executor->run(0));
  size_t before = numAllocations;
  cantFail(bench.executor->run(1));
  EXPECT_EQ(numAllocations, before);
}

// The layers of a network and their gradients, on reference kernels: these allocate nothing either.
TEST(Executor, A_10_NorDoTheReferenceKernelsOfANetwork) {
  TestGraph g("x = var {__shape__=(4,3,8,8)}; c = Convolution(x, w, b) {kernel=(3,3), pad=(1,1), num_filter=5};"
              "n = BatchNorm(c, gamma, beta, mean, var) {fix_gamma=False}; r = relu(n);"
              "p = Pooling(r) {kernel=(2,2), stride=(2,2)}; d = Dropout(p) {p=0.3}; "
              "f = FullyConnected(d, fw, fb) {num_hidden=6};"
              "s = SoftmaxOutput(f, label)");
  Graph graph = testing::gradientOf(g.context, g, {"x", "w", "b", "gamma", "beta", "fw", "fb"}, 1).graph;
  Bench bench(graph);
  bench.options.backend = Backend::Reference;
  bench.options.isTraining = true;
  cantFail(bench.prepare());
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    if (!graph.isVariable(NodeId(n))) continue;
    Dims dims = bench.inference.shapeOf(graph.firstEntry(NodeId(n))).dims();
    bench.bind(graph.name(NodeId(n)), doubles(dims.vec(), Doubles(static_cast<size_t>(*numElements(dims)), 0.5)));
  }
  cantFail(bench.executor->run(0));
  size_t before = numAllocations;
  cantFail(bench.executor->run(1));
  EXPECT_EQ(numAllocations, before);
}

TEST(Executor, HOOK_08_MonitorSeesNodesInOrderWithTheirValues) {
  TestGraph g("x = var {__shape__=(1,)}; a = _plus_scalar(x) {scalar=1}; b = _plus_scalar(a) {scalar=1}; "
              "c = _plus_scalar(b) {scalar=1}");
  Doubles seen;
  Bench bench(g);
  bench.options.monitorUser = &seen;
  bench.options.monitor = [](void *user, NodeId, ArrayRef<TensorRef> outputs) {
    static_cast<Doubles *>(user)->push_back(*outputs[0].as<double>());
  };
  cantFail(bench.prepare());
  bench.bind("x", doubles({1}, {5}));
  cantFail(bench.executor->run(0));
  EXPECT_EQ(seen, (Doubles{6, 7, 8}));
}

TEST(Executor, TimingsCoverEveryNodeOfTheLastRun) {
  TestGraph g("x = var {__shape__=(1,)}; a = exp(x); b = exp(a)");
  Bench bench(g);
  cantFail(bench.prepare());
  bench.bind("x", doubles({1}, {0}));
  cantFail(bench.executor->run(0));
  EXPECT_TRUE(bench.executor->timings().empty());
  bench.executor->setProfiling(true);
  cantFail(bench.executor->run(0));
  cantFail(bench.executor->run(0));
  ArrayRef<Executor::Timing> timings = bench.executor->timings();
  ASSERT_EQ(timings.size(), 2u);
  EXPECT_EQ(timings[0].node, g.at("a").node);
  EXPECT_GE(timings[0].durationMicros, 0);
  EXPECT_GE(timings[1].startMicros, timings[0].startMicros + timings[0].durationMicros);
}

TEST(Executor, RUN_03_OverridesHoldValuesAndPieces) {
  TestGraph g("x = var {__shape__=(2,)}; h = exp(x); r = relu(x); y = elemwise_mul(h, r)");
  Array held = doubles({2}, {10, 20}), base = doubles({2}, {1, -1});
  Overrides overrides{std::vector<NodeOverride>(g.graph.numNodes()), nullptr};
  overrides.nodes[g.at("h").node.value] = {NodeOverride::Kind::Hold, {held.ref()}, nullptr};
  overrides.nodes[g.at("r").node.value] = {NodeOverride::Kind::Piece, {base.ref()}, nullptr};
  Bench bench(g);
  bench.options.overrides = &overrides;
  cantFail(bench.prepare());
  bench.bind("x", doubles({2}, {-3, 4}));
  // relu stays the identity where the base was positive, zero where it was not.
  EXPECT_EQ(bench.run(0), (Doubles{-30, 0}));
}

/// Two outputs, of one and of no element; the first one says whether the second is requested.
constexpr OpDef twoSizes() {
  OpDef op;
  op.name = "test_two_sizes";
  op.outputs = {"one", "none"};
  op.shape = [](ShapeInference &s) {
    s.setOut(0, {1});
    s.setOut(1, {0});
  };
  op.dtype = [](DTypeInference &t) {
    t.setOut(0, DType::Float64);
    t.setOut(1, DType::Float64);
  };
  op.kernel = [](const KernelCall &call) { *call.out[0].as<double>() = call.wants(1); };
  return op;
}
constinit const OpDef kTwoSizes = twoSizes();

TEST(Executor, REQ_03_OutputsWithoutElementsAreNotAskedFor) {
  testing::TestContext context;
  cantFail(context.ops.add(kTwoSizes));
  const Graph graph = cantFail(testing::parseGraph(context, "y = test_two_sizes(); z = exp(y:1); heads y, y:1, z"));
  Bench bench(graph);
  cantFail(bench.prepare());
  EXPECT_EQ(bench.run(0), Doubles{0});
  EXPECT_EQ(bench.run(2), Doubles());
}

}  // namespace
}  // namespace gradc
