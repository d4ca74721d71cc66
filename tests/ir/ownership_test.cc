// The table of docs/embedding.md: who owns an object, which threads may use it, how long pointers into it live. A test
// of each row, named after its first object.
#include "imperative/imperative.h"
#include "ir/graph/graph_builder.h"
#include "ops/registry.h"
#include "passes/gradient/gradient.h"
#include "runtime/session/session.h"
#include "tests/support/runs/exec_bench.h"
#include "tests/support/runs/training.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

using namespace llvm;
using gradc::testing::Bench;
using gradc::testing::nodeNamed;
using gradc::testing::TestGraph;

namespace gradc {
namespace {

template <class F> void onThreads(F body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(body, i);
  for (std::thread &thread : threads) thread.join();
}

Graph gradientOf(Context &context, const Graph &graph) {
  GradientRequest request;
  request.wrt = {{Value{nodeNamed(graph, "x")}}};
  return cantFail(buildGradient(context, graph, request, {})).graph;
}

constexpr StringRef kSquares = "x = var {__shape__=(3,)}; s = square(x); y = sum(s)";

Session open(const Graph &graph, const SessionOptions &options = {}) {
  return cantFail(Session::create(testing::testContext(), graph, {{"x", floats({3}, {1, 2, 3})}}, options));
}

TEST(Ownership, Context) {
  Context context;
  registerBuiltinOps(context.ops);
  const OpDef *square = context.ops.find("square");
  std::vector<Graph> graphs(4);
  onThreads([&](int i) {
    for (int round = 0; round < 50; ++round)
      graphs[i] = gradientOf(context, cantFail(testing::parseGraph(context, kSquares)));
  });
  for (const Graph &graph : graphs) EXPECT_EQ(graph, graphs[0]);
  EXPECT_EQ(context.ops.find("square"), square);
}

TEST(Ownership, Graph) {
  Graph graph;
  {
    TestGraph g(kSquares);
    graph = g.graph;
  }
  onThreads([copy = graph](int) {
    EXPECT_EQ(copy.describe(nodeNamed(copy, "s")), "node 's' (square)");
    EXPECT_EQ(copy.attrs(nodeNamed(copy, "x")).get("__shape__"), "(3,)");
  });
}

TEST(Ownership, GraphBuilder) {
  TestGraph g(kSquares);
  GraphBuilder builder(g.context, g);
  const Value s = g.at("s");
  const ArrayRef<Value> inputs = builder.inputs(s.node);
  EXPECT_EQ(inputs[0], g.at("x"));
  // Ids, unlike pointers, stay: nodes are added until the columns have moved.
  Value last = s;
  for (int i = 0; i < 1000; ++i)
    last = Value{cantFail(builder.add(*g.context.ops.find("square"), {last}, {"", Attrs(), NodeId()}))};
  EXPECT_EQ(builder.inputs(s.node)[0], g.at("x"));
  EXPECT_EQ(cantFail(std::move(builder).freeze({last}, {})).graph.numNodes(), 1002u);
}

TEST(Ownership, Inference) {
  TestGraph g(kSquares);
  Bench bench(g);
  cantFail(bench.prepare());
  const Inference &inference = bench.inference;
  onThreads([&](int) {
    EXPECT_EQ(inference.elements(g.graph.entry(g.at("s"))), 3);
    EXPECT_EQ(inference.shapeOf(g.graph.entry(g.at("y"))).rank(), 1u);
    EXPECT_EQ(cantFail(planMemory(testing::testContext(), g, inference, bench.requests, {})).plannedBytes,
              bench.plan.plannedBytes);
  });
}

TEST(Ownership, Session) {
  TestGraph g(kSquares);
  Session session = open(gradientOf(g.context, g));
  const NodeId x = nodeNamed(g, "x");
  cantFail(session.run(0));
  onThreads([&, reader = &std::as_const(session)](int) {
    std::vector<float> values(3), gradient(3);
    const int64_t three[] = {3};
    cantFail(reader->readVariable(x, TensorRef(values.data(), DType::Float32, three)));
    cantFail(reader->readHead(1, TensorRef(gradient.data(), DType::Float32, three)));
    EXPECT_EQ(values, (std::vector<float>{1, 2, 3}));
    EXPECT_EQ(gradient, (std::vector<float>{2, 4, 6}));
  });
  session.variable(x).as<float>()[0] = 5;  // what is written between two runs is what the next one reads
  cantFail(session.run(1));
  EXPECT_EQ(session.head(1).as<float>()[0], 10);
}

TEST(Ownership, VariableMemory) {
  TestGraph g(kSquares);
  const Graph graph = gradientOf(g.context, g);
  const NodeId x = nodeNamed(graph, "x");
  const int64_t three[] = {3};
  std::vector<float> gradient(3);
  auto first = std::make_unique<std::vector<float>>(3, 1.0f);
  SessionOptions options;
  options.variableMemory = {{x, TensorRef(first->data(), DType::Float32, three)}};
  options.headMemory = {{1, TensorRef(gradient.data(), DType::Float32, three)}};
  Session session = cantFail(Session::create(testing::testContext(), graph, {}, options));
  cantFail(session.run(0));
  std::vector<float> second(3, 4.0f);
  cantFail(session.bindVariable(x, TensorRef(second.data(), DType::Float32, three)));
  first.reset();  // the session has been given other memory
  cantFail(session.run(1));
  EXPECT_EQ(gradient, (std::vector<float>{8, 8, 8}));
}

TEST(Ownership, Executor) {
  TestGraph g(kSquares);
  Bench bench(g);
  cantFail(bench.prepare());
  bench.bind("x", doubles({3}, {1, 2, 3}));
  cantFail(bench.executor->run(0));
  const void *own = bench.executor->head(0).data;
  cantFail(bench.executor->run(1));
  EXPECT_EQ(bench.executor->head(0).data, own);
  double elsewhere = 0;
  const int64_t one[] = {1};
  cantFail(bench.executor->bindHead(0, TensorRef(&elsewhere, DType::Float64, one)));
  cantFail(bench.executor->run(2));
  EXPECT_EQ(bench.executor->head(0).data, &elsewhere);
  EXPECT_EQ(elsewhere, 14);
}

TEST(Ownership, Trainer) {
  TestGraph g("h = FullyConnected(data, w) {num_hidden=1, no_bias=True}; y = LinearRegressionOutput(h, label)");
  TrainerOptions options;
  options.batch = 2;
  Trainer trainer = testing::openTrainer(
      g, cantFail(Dataset::create({{"data", floats({4, 1}, {1, 2, 3, 4})}, {"label", floats({4, 1}, {2, 4, 6, 8})}})),
      options);
  Session &session = trainer.session();
  testing::advance(trainer, 2);
  EXPECT_EQ(&trainer.session(), &session);
  const NodeId w = nodeNamed(trainer.training().graph, "w");
  for (const NamedArray &parameter : trainer.parameters())
    EXPECT_EQ(valuesOf<float>(parameter.array), valuesOf<float>(session.variable(w)));
}

// Four threads call one Imperative; the scope of one of them is not that of the others.
TEST(Ownership, Imperative) {
  Context context;
  registerBuiltinOps(context.ops);
  Imperative im(context, ImperativeOptions());
  const Kind square = cantFail(im.kind("square", {}));
  const Tensor x = im.tensor({3}, std::vector<float>{1, 2, 3});
  ASSERT_TRUE(im.attachGrad(x, Request::Add));
  onThreads([&](int i) {
    for (int round = 0; round < 50; ++round) {
      std::optional<RecordScope> record;
      if (i == 0) record.emplace(im);
      const Tensor y = cantFail(im.call(square, {x}));
      EXPECT_EQ(y.isTracked(), i == 0);
      if (i == 0) cantFail(im.backward({y}, BackwardOptions()));
    }
  });
  EXPECT_EQ(valuesOf<float>(x.grad().ref()), (std::vector<float>{100, 200, 300}));
}

TEST(Ownership, Kind) {
  Context context;
  registerBuiltinOps(context.ops);
  Imperative other(context, ImperativeOptions());
  Kind kind, handle;
  {
    Imperative im(context, ImperativeOptions());
    kind = cantFail(im.kind("square", {}));
    handle = kind;
    EXPECT_EQ(valuesOf<float>(cantFail(im.call(handle, {im.tensor({1}, std::vector<float>{3})})).ref())[0], 9);
  }
  kind = Kind();
  EXPECT_TRUE(handle);
  Expected<Tensor> foreign = other.call(handle, {other.tensor({1}, std::vector<float>{3})});
  EXPECT_FALSE(foreign);
  consumeError(foreign.takeError());
  handle = Kind();  // the last, after its Imperative
}

TEST(Ownership, Tensor) {
  Context context;
  registerBuiltinOps(context.ops);
  Tensor y, handle;
  const void *own = nullptr;
  {
    Imperative im(context, ImperativeOptions());
    const Tensor x = im.tensor({3}, std::vector<float>{1, 2, 3});
    ASSERT_TRUE(im.attachGrad(x, Request::Write));
    const RecordScope record(im);
    y = cantFail(im.call(cantFail(im.kind("square", {})), {x}));
    handle = y;
    own = handle.ref().data;
  }
  y = Tensor();
  EXPECT_EQ(handle.ref().data, own);
  EXPECT_EQ(valuesOf<float>(handle.ref()), (std::vector<float>{1, 4, 9}));
  handle = Tensor();  // the last, after its Imperative
}

/// The first object of each row of the table, as the page has them.
std::vector<std::string> objectsOfThePage() {
  const auto page = MemoryBuffer::getFile("docs/embedding.md");
  if (!page) return {};
  StringRef text = (*page)->getBuffer();
  text = text.split("| Object |").second.split("\n\n").first;
  std::vector<std::string> objects;
  for (StringRef rest = text.split("|---|\n").second; !rest.empty(); rest = rest.split('\n').second)
    objects.push_back(rest.split('`').second.split('`').first.str());
  return objects;
}

TEST(Ownership, EveryRowHasATest) {
  std::vector<std::string> tests;
  const ::testing::TestSuite &suite = *::testing::UnitTest::GetInstance()->current_test_suite();
  for (int i = 0; i < suite.total_test_count(); ++i) tests.push_back(suite.GetTestInfo(i)->name());
  const std::vector<std::string> objects = objectsOfThePage();
  ASSERT_GE(objects.size(), 8u);
  for (const std::string &object : objects) EXPECT_TRUE(is_contained(tests, object)) << object;
}

}  // namespace
}  // namespace gradc
