// Memory of the caller's: variables and heads without a copy, replaced between runs, and what is refused.
#include "ir/graph/graph_builder.h"
#include "passes/gradient/gradient.h"
#include "tests/support/runs/linear_time.h"
#include "tests/support/runs/sessions.h"
#include "tests/support/tensors.h"

#include <gtest/gtest.h>

#include <thread>

using namespace llvm;
using gradc::testing::nodeNamed;
using gradc::testing::open;
using gradc::testing::TestGraph;

namespace gradc {
namespace {

using Floats = std::vector<float>;

Graph squares() {
  TestGraph g("s = square(x); y = sum(s)");
  GradientRequest request;
  request.wrt = {{Value{nodeNamed(g, "x")}}};
  return cantFail(buildGradient(g.context, g, request, {})).graph;
}

TEST(SessionMemory, VariablesAndHeadsAreTheCallers) {
  const Graph graph = squares();
  const NodeId x = nodeNamed(graph, "x");
  Floats values{1, 2, 3}, gradient(3), loss(1);
  const int64_t shape[] = {3};
  SessionOptions options;
  options.variableMemory = {{x, TensorRef(values.data(), DType::Float32, shape)}};
  options.headMemory = {{1, TensorRef(gradient.data(), DType::Float32, shape)}};
  Session session = cantFail(open(graph, options));
  cantFail(session.run(0));
  EXPECT_EQ(gradient, (Floats{2, 4, 6}));
  EXPECT_EQ(session.variable(x).data, values.data());
  EXPECT_EQ(session.head(1).data, gradient.data());
  values = {4, 5, 6};  // seen by the next run
  cantFail(session.run(1));
  EXPECT_EQ(gradient, (Floats{8, 10, 12}));

  Floats others{7, 8, 9}, elsewhere(3);
  cantFail(session.bindVariable(x, TensorRef(others.data(), DType::Float32, shape)));
  cantFail(session.bindHead(1, TensorRef(elsewhere.data(), DType::Float32, shape)));
  cantFail(session.run(2));
  EXPECT_EQ(session.variable(x).data, others.data());
  EXPECT_EQ(session.head(1).data, elsewhere.data());
  EXPECT_EQ(elsewhere, (Floats{14, 16, 18}));
  EXPECT_EQ(gradient, (Floats{8, 10, 12}));
  EXPECT_EQ(valuesOf<float>(session.head(0)), (Floats{194}));
}

TEST(SessionMemory, REQ_06_AddsToWhatIsThere) {
  const Graph graph = squares();
  Floats gradient{100, 200, 300};
  const int64_t shape[] = {3};
  SessionOptions options;
  const Request requests[] = {Request::Write, Request::Add};
  options.exec.headRequests = requests;
  options.headMemory = {{1, TensorRef(gradient.data(), DType::Float32, shape)}};
  Session session = cantFail(open(graph, options, {{"x", floats({3}, {1, 2, 3})}}));
  cantFail(session.run(0));
  cantFail(session.run(1));
  EXPECT_EQ(gradient, (Floats{104, 208, 312}));
}

TEST(SessionMemory, E_71_MemoryThatDoesNotFit) {
  const Graph graph = squares();
  const NodeId x = nodeNamed(graph, "x");
  Floats values(8);
  const int64_t three[] = {3}, four[] = {4};
  Session session = cantFail(open(graph, {}, {{"x", floats({3}, {1, 2, 3})}}));
  auto refused = [&](TensorRef tensor) {
    const GradcError error = errorOf(session.bindVariable(x, tensor));
    EXPECT_EQ(error.kind, ErrorKind::BindingMismatch);
    EXPECT_EQ(errorOf(session.bindHead(1, tensor)).kind, ErrorKind::BindingMismatch);
    return error.message;
  };
  EXPECT_EQ(refused(TensorRef(values.data(), DType::Float32, four)),
            "variable 'x': expected (3,) float32, got (4,) float32");
  EXPECT_EQ(refused(TensorRef(values.data(), DType::Float64, three)),
            "variable 'x': expected (3,) float32, got (3,) float64");
  EXPECT_EQ(refused(TensorRef(reinterpret_cast<char *>(values.data()) + 2, DType::Float32, three)),
            "variable 'x': the address is not a multiple of the 4 bytes of an element");
  refused(TensorRef(values.data(), DType::Float32, three, Layout::ChannelsLast));
  refused(TensorRef(values.data(), DType::Float32, three, Layout::Plain, StorageKind::RowSparse));
  cantFail(session.run(0));  // as before
  EXPECT_EQ(valuesOf<float>(session.head(1)), (Floats{2, 4, 6}));

  SessionOptions options;
  options.variableMemory = {{x, TensorRef(values.data(), DType::Float32, three)}};
  EXPECT_EQ(errorOf(open(graph, options, {{"x", floats({3}, {1, 2, 3})}})).message, "variable 'x' is bound twice");
  options.variableMemory = {{x, TensorRef(values.data(), DType::Float64, three)}};
  EXPECT_EQ(errorOf(open(graph, options)).kind, ErrorKind::BindingMismatch);
}

// Filters are kept in tiles where the machine has AVX-512, but not in the caller's memory.
TEST(SessionMemory, E_71_NullMemory) {
  const Graph graph = squares();
  const NodeId x = nodeNamed(graph, "x");
  const int64_t three[] = {3};
  const TensorRef null(nullptr, DType::Float32, three);
  SessionOptions options;
  options.variableMemory = {{x, null}};
  GradcError error = errorOf(open(graph, options));
  EXPECT_EQ(error.kind, ErrorKind::BindingMismatch);
  EXPECT_EQ(error.message, "variable 'x': the address is null");
  options = {};
  options.headMemory = {{1, null}};
  EXPECT_EQ(errorOf(open(graph, options, {{"x", floats({3}, {1, 2, 3})}})).kind, ErrorKind::BindingMismatch);

  Session session = cantFail(open(graph, {}, {{"x", floats({3}, {1, 2, 3})}}));
  EXPECT_EQ(errorOf(session.bindVariable(x, null)).kind, ErrorKind::BindingMismatch);
  EXPECT_EQ(errorOf(session.bindHead(1, null)).message, "head 1: the address is null");
  cantFail(session.run(0));  // with the memory it had
  EXPECT_EQ(valuesOf<float>(session.head(1)), (Floats{2, 4, 6}));
}

TEST(SessionMemory, E_72_MemoryOfWhatTheGraphDoesNotHave) {
  const Graph graph = squares();
  const NodeId x = nodeNamed(graph, "x"), s = nodeNamed(graph, "s");
  Floats values(3);
  const int64_t three[] = {3};
  const TensorRef tensor(values.data(), DType::Float32, three);
  auto refused = [&](const SessionOptions &options) {
    const GradcError error = errorOf(open(graph, options, {{"x", floats({3}, {1, 2, 3})}}));
    EXPECT_EQ(error.kind, ErrorKind::BindingSurplus);
    return error.message;
  };
  SessionOptions options;
  options.variableMemory = {{s, tensor}};
  EXPECT_EQ(refused(options), "memory is given for node 's' (square), which is not a variable");
  options.variableMemory = {{NodeId(1000000000), tensor}};
  EXPECT_EQ(refused(options), "memory is given for node 1000000000, but the graph has 6 nodes");
  options = {};
  options.headMemory = {{2, tensor}};
  EXPECT_EQ(refused(options), "memory is given for head 2, but the graph has 2 heads");
  options.headMemory = {{1, tensor}, {1, tensor}};
  EXPECT_EQ(errorOf(open(graph, options, {{"x", floats({3}, {1, 2, 3})}})).message, "head 1 is given memory twice");

  Session session = cantFail(open(graph, {}, {{"x", floats({3}, {1, 2, 3})}}));
  for (NodeId n : {s, NodeId(1000000000)})
    EXPECT_EQ(errorOf(session.bindVariable(n, tensor)).kind, ErrorKind::BindingSurplus);
  EXPECT_EQ(errorOf(session.bindHead(2, tensor)).kind, ErrorKind::BindingSurplus);
  EXPECT_EQ(errorOf(session.shareHead(2, x)).kind, ErrorKind::BindingSurplus);
  EXPECT_EQ(errorOf(session.shareHead(1, s)).kind, ErrorKind::BindingSurplus);
}

TEST(SessionMemory, FiltersOfTheCallersStayRowMajor) {
  TestGraph g(
      "data = var {__shape__=(2,16,9,9)}; y = Convolution(data, w) {kernel=(3,3), num_filter=16, no_bias=True}");
  const NodeId w = nodeNamed(g, "w");
  SessionOptions options;
  options.initSeed = 1;
  Session own = cantFail(open(g, options));
  cantFail(own.run(0));
  const Floats filter = valuesOf<float>(own.variable(w)), expected = valuesOf<float>(own.head(0));
  Floats memory = filter;
  const int64_t shape[] = {16, 16, 3, 3};
  const TensorRef tensor(memory.data(), DType::Float32, shape);
  if (own.variableLayout(w) != Layout::Plain) {
    EXPECT_EQ(errorOf(own.bindVariable(w, tensor)).kind, ErrorKind::BindingMismatch);
  }
  options.variableMemory = {{w, tensor}};
  Session session = cantFail(open(g, options));
  EXPECT_EQ(session.variableLayout(w), Layout::Plain);
  cantFail(session.run(0));
  EXPECT_EQ(memory, filter);
  const Floats found = valuesOf<float>(session.head(0));
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4f);
}

TEST(SessionMemory, ReadersMoveNothing) {
  TestGraph g(
      "data = var {__shape__=(2,16,9,9)}; y = Convolution(data, w) {kernel=(3,3), num_filter=16, no_bias=True}");
  const NodeId w = nodeNamed(g, "w");
  SessionOptions options;
  options.initSeed = 1;
  options.exec.threads = 2;
  Session session = cantFail(open(g, options));
  const Floats filter = valuesOf<float>(session.variable(w));
  cantFail(session.run(0));
  const Session &idle = session;
  const int64_t shape[] = {16, 16, 3, 3};
  Floats copies[2] = {Floats(filter.size()), Floats(filter.size())};
  std::vector<std::thread> readers;
  for (Floats &copy : copies)
    readers.emplace_back([&] {
      for (int i = 0; i < 20; ++i) cantFail(idle.readVariable(w, TensorRef(copy.data(), DType::Float32, shape)));
    });
  for (std::thread &reader : readers) reader.join();
  for (const Floats &copy : copies) EXPECT_EQ(copy, filter);
  cantFail(session.run(1));
  EXPECT_EQ(valuesOf<float>(session.variable(w)), filter);
}

/// A session over `count` heads of one float each, every second one to be added.
struct ManyHeads {
  std::vector<Request> requests;
  std::optional<Session> session;

  explicit ManyHeads(uint32_t count) {
    GraphBuilder builder(testing::testContext());
    const Value x = builder.addVariable("x", Attrs());
    std::vector<Value> heads;
    for (uint32_t i = 0; i < count; ++i) {
      heads.push_back({cantFail(builder.add(*testing::testContext().ops.find("exp"), x, {}))});
      requests.push_back(i % 2 ? Request::Add : Request::Write);
    }
    SessionOptions options;
    options.exec.headRequests = requests;
    options.exec.backend = Backend::Reference;
    const Graph graph = cantFail(std::move(builder).freeze(heads, {})).graph;
    session.emplace(cantFail(open(graph, options, {{"x", floats({1}, {1})}})));
  }
};

TEST(SessionMemory, REQ_09_HeadsAreBoundInLinearTime) {
  testing::expectLinear(2000, [](uint32_t count) {
    ManyHeads many(count);
    Floats memory(2 * count);
    const int64_t one[] = {1};
    float *at = memory.data();
    // In turn from both sides, then all of those that are added in one place, then back.
    return testing::secondsOf([&] {
      for (uint32_t i = 0; i < count; ++i)
        cantFail(many.session->bindHead(i, TensorRef(at + (i % 3 ? i : 2 * count - 1 - i), DType::Float32, one)));
      for (uint32_t i = 1; i < count; i += 2)
        cantFail(many.session->bindHead(i, TensorRef(at + 1, DType::Float32, one)));
    });
  });
}

TEST(SessionMemory, REQ_09_E_18_WhichHeadsMayShare) {
  ManyHeads many(6);
  Floats memory(16);
  auto bind = [&](size_t head, size_t at) {
    const int64_t one[] = {1};
    const GradcError error = errorOf(many.session->bindHead(head, TensorRef(memory.data() + at, DType::Float32, one)));
    EXPECT_TRUE(error.kind == ErrorKind::BufferAlias || error.message == "success") << error.message;
    return error.kind != ErrorKind::BufferAlias;
  };
  EXPECT_TRUE(bind(0, 0));
  EXPECT_TRUE(bind(1, 4));
  EXPECT_TRUE(bind(3, 4)) << "both are added";
  EXPECT_TRUE(bind(3, 4)) << "as before";
  EXPECT_FALSE(bind(2, 4)) << "it is written";
  EXPECT_FALSE(bind(5, 0)) << "the other one is written";
  EXPECT_TRUE(bind(2, 1)) << "beside";
  EXPECT_TRUE(bind(0, 2));
  EXPECT_TRUE(bind(5, 0)) << "it has moved away";
  EXPECT_TRUE(bind(1, 5));
  EXPECT_FALSE(bind(2, 4)) << "head 3 is still there";
  EXPECT_TRUE(bind(3, 5));
  EXPECT_TRUE(bind(2, 4));
  cantFail(many.session->run(0));
  EXPECT_EQ(memory[5], 2 * memory[4]) << "added twice";
}

TEST(SessionMemory, E_71_E_72_ReadersOfWhatIsNotThere) {
  const Graph graph = squares();
  const NodeId x = nodeNamed(graph, "x"), s = nodeNamed(graph, "s");
  Session session = cantFail(open(graph, {}, {{"x", floats({3}, {1, 2, 3})}}));
  Session other = cantFail(open(graph, {}, {{"x", floats({2}, {1, 2})}}));
  cantFail(session.run(0));
  Floats memory(4);
  const int64_t three[] = {3}, four[] = {4};
  const TensorRef fits(memory.data(), DType::Float32, three), wide(memory.data(), DType::Float32, four);
  for (NodeId n : {s, NodeId(6), NodeId(1000000000), NodeId()}) {
    EXPECT_EQ(session.variable(n).data, nullptr);
    EXPECT_EQ(session.plainVariable(n).data, nullptr);
    EXPECT_EQ(session.variableLayout(n), Layout::Plain);
    EXPECT_EQ(errorOf(session.readVariable(n, fits)).kind, ErrorKind::BindingSurplus);
    EXPECT_EQ(errorOf(session.assignVariable(n, other)).kind, ErrorKind::BindingSurplus);
    EXPECT_EQ(errorOf(session.shareHead(1, n)).kind, ErrorKind::BindingSurplus);
    EXPECT_EQ(errorOf(session.bindVariable(n, fits)).kind, ErrorKind::BindingSurplus);
    SessionOptions options;
    options.hints.shapes = {{n, {3}}};
    EXPECT_EQ(errorOf(open(graph, options, {{"x", floats({3}, {1, 2, 3})}})).kind, ErrorKind::BadHint);
  }
  for (size_t i : {size_t{2}, size_t{1000000000}, ~size_t{0}}) {
    EXPECT_EQ(session.head(i).data, nullptr);
    EXPECT_EQ(session.headLayout(i), Layout::Plain);
    EXPECT_EQ(errorOf(session.readHead(i, fits)).kind, ErrorKind::BindingSurplus);
    EXPECT_EQ(errorOf(session.shareHead(i, x)).kind, ErrorKind::BindingSurplus);
  }
  EXPECT_EQ(errorOf(session.readVariable(x, wide)).message, "'x': expected (3,) float32, got (4,) float32");
  EXPECT_EQ(errorOf(session.readHead(1, wide)).kind, ErrorKind::BindingMismatch);
  EXPECT_EQ(errorOf(session.readVariable(x, TensorRef(nullptr, DType::Float32, three))).kind,
            ErrorKind::BindingMismatch);
  EXPECT_EQ(errorOf(session.assignVariable(x, other)).message, "'x': expected (3,) float32, got (2,) float32");
  EXPECT_EQ(memory, Floats(4));
  cantFail(session.readHead(1, fits));
  EXPECT_EQ(memory, (Floats{2, 4, 6, 0}));
}

TEST(SessionMemory, E_71_ColumnsOfAnotherLength) {
  const Graph graph = squares();
  auto refused = [&](const SessionOptions &options) {
    const GradcError error = errorOf(open(graph, options, {{"x", floats({3}, {1, 2, 3})}}));
    EXPECT_EQ(error.kind, ErrorKind::BindingMismatch);
    return error.message;
  };
  const std::vector<Request> requests(3, Request::Write);
  const std::vector<CallForm> forms(5);
  Overrides overrides{std::vector<NodeOverride>(7), nullptr};
  std::vector<void *> memory(1);
  SessionOptions options;
  options.exec.headRequests = requests;
  EXPECT_EQ(refused(options), "ExecOptions::headRequests has 3 rows, but the graph has 2 heads");
  options.exec = {};
  options.exec.forms = forms;
  EXPECT_EQ(refused(options), "ExecOptions::forms has 5 rows, but the graph has 6 nodes");
  options.exec = {};
  options.exec.headMemory = memory;
  EXPECT_EQ(refused(options), "ExecOptions::headMemory has 1 row, but the graph has 2 heads");
  options.exec = {};
  options.exec.overrides = &overrides;
  EXPECT_EQ(refused(options), "Overrides::nodes has 7 rows, but the graph has 6 nodes");
  overrides.nodes.resize(6);
  overrides.nodes[nodeNamed(graph, "s").value] = {NodeOverride::Kind::Hold, {}, nullptr};
  EXPECT_EQ(refused(options), "the override of node 's' (square) has 0 base values, expected 1 output");
  options.exec = {};
  EXPECT_EQ(errorOf(open(graph, options, {{"x", Array{DType::Float32, {3}, std::vector<char>(8)}}})).message,
            "'x' has 8 bytes, which are not those of shape (3,) of float32");
}

}  // namespace
}  // namespace gradc
