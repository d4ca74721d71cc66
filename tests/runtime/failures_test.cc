// Kernels that fail: an error at the node, never the end of the process, and the session runs again.
#include "imperative/imperative.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "runtime/executor/failures.h"
#include "runtime/session/session.h"
#include "tests/support/runs/exec_bench.h"
#include "tests/support/runs/imperative.h"
#include "tests/support/runs/loops.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

using namespace llvm;
using gradc::testing::around;
using gradc::testing::body;
using gradc::testing::gradientOf;
using gradc::testing::nodeNamed;
using gradc::testing::Tape;
using gradc::testing::testContext;
using gradc::testing::TestGraph;

namespace gradc {
namespace {

enum class Fault { None, Memory, Thread, Kernel };
Fault fault = Fault::None;

void throwFault() {
  switch (fault) {
    case Fault::None: return;
    case Fault::Memory: throw std::bad_alloc();
    case Fault::Thread: throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    case Fault::Kernel: throw KernelError{"the library below refuses"};
  }
}

/// Throws behind each node, as a kernel would within it.
ExecOptions throwing(unsigned threads) {
  ExecOptions exec;
  exec.threads = threads;
  exec.monitor = [](void *, NodeId, ArrayRef<TensorRef>) { throwFault(); };
  return exec;
}

TEST(Failures, A_10_AreErrorsAtTheNode) {
  TestGraph g("y = FullyConnected(x, w) {num_hidden=2, no_bias=True}");
  for (unsigned threads : {1u, 2u}) {
    SessionOptions options;
    options.exec = throwing(threads);
    std::vector<NamedArray> bindings = {{"x", floats({1, 1}, {3})}, {"w", floats({2, 1}, {1, 2})}};
    Session session = cantFail(Session::create(testing::testContext(), g, std::move(bindings), options));
    struct Row {
      Fault fault;
      ErrorKind kind;
      const char *message;
    };
    for (const Row &row : {Row{Fault::Memory, ErrorKind::TooLarge, "no memory to run the graph"},
                           Row{Fault::Thread, ErrorKind::TooLarge, "no thread to run the graph"},
                           Row{Fault::Kernel, ErrorKind::Internal, "the library below refuses"}}) {
      fault = row.fault;
      const GradcError error = errorOf(session.run(0));
      EXPECT_EQ(error.kind, row.kind);
      EXPECT_EQ(error.message, row.message);
      EXPECT_EQ(error.place.node, nodeNamed(g, "y"));
    }
    fault = Fault::None;
    cantFail(session.run(0));
    EXPECT_EQ(valuesOf<float>(session.head(0)), (std::vector<float>{3, 6}));
  }
}

// ---- kernels of hosts that do not throw

struct Counter {
  int numCalls = 0;
  Error (*result)(int) = [](int) -> Error { return Error::success(); };
};

struct Refusal : ErrorInfo<Refusal> {
  static char ID;
  void log(raw_ostream &os) const override { os << "refused by the host"; }
  std::error_code convertToErrorCode() const override { return inconvertibleErrorCode(); }
};
char Refusal::ID;

constinit const OpDef kCounted = {
    .name = "test_counted",
    .inputs = {"data"},
    .shape = shapes::same,
    .kernel =
        [](const KernelCall &call) {
          Counter *counter = static_cast<Counter *>(call.state);
          if (!counter) {
            *call.failure = Failure(ErrorKind::BindingMissing, "nothing counts");
            return;
          }
          if (Error error = counter->result(++counter->numCalls)) {
            *call.failure = std::move(error);
            return;
          }
          call.out[0].as<double>()[0] = counter->numCalls;
        },
};

TEST(Failures, A_10_KernelsOfHostsHaveAnObjectAndLeaveErrors) {
  TestGraph empty("x = var");
  cantFail(empty.context.ops.add(kCounted));
  const Graph graph = cantFail(testing::parseGraph(
      empty.context, "x = var {__shape__=(1,)}; a = test_counted(x); b = exp(a); c = test_counted(b); heads a, c"));
  for (bool isProfiling : {false, true}) {
    testing::Bench bench(graph);
    cantFail(bench.prepare());
    bench.bind("x", doubles({1}, {0}));
    bench.executor->setProfiling(isProfiling);
    const NodeId a = nodeNamed(graph, "a"), c = nodeNamed(graph, "c");
    GradcError error = errorOf(bench.executor->run(0));
    EXPECT_EQ(error.kind, ErrorKind::BindingMissing);
    EXPECT_EQ(error.place.node, a);
    EXPECT_EQ(error.notes.at(0).text, "while running node 'a' (test_counted)");

    Counter first, second;
    cantFail(bench.executor->bindState(a, &first));
    cantFail(bench.executor->bindState(c, &second));
    cantFail(bench.executor->run(1));
    cantFail(bench.executor->run(2));
    EXPECT_EQ(valuesOf<double>(bench.executor->head(0)), (std::vector<double>{2}));
    EXPECT_EQ(second.numCalls, 2);

    // An error of the host's own comes back as it is, and what follows does not run.
    first.result = [](int) -> Error { return make_error<Refusal>(); };
    Error refused = bench.executor->run(3);
    EXPECT_TRUE(refused.isA<Refusal>());
    EXPECT_EQ(toString(std::move(refused)), "refused by the host");
    EXPECT_EQ(second.numCalls, 2);

    first.result = [](int) -> Error { return Error::success(); };
    cantFail(bench.executor->run(4));
    EXPECT_EQ(second.numCalls, 3);
  }
}

// ---- kernels of hosts in bodies

struct Refusals {
  int numCalls = 0, failsAt = 0;
  bool isForeign = false;
} refusals;

void copyOrRefuse(const KernelCall &call) {
  if (++refusals.numCalls != refusals.failsAt) {
    std::memcpy(call.out[0].data, call.in[0].data, call.out[0].bytes());
    return;
  }
  if (refusals.isForeign) *call.failure = make_error<Refusal>();
  else *call.failure = Failure(ErrorKind::Io, "the host refuses");
}

extern const OpDef kRefusing;
constinit const OpDef kRefusing = {
    .name = "test_refusing",
    .inputs = {"data"},
    .shape = shapes::same,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kRefusing, {g.dy(0)})); },
    .kernel = copyOrRefuse,
};

/// A graph of x and s whose node is 'loop'; in its innermost body x goes through the operator that refuses.
struct InBody {
  const char *name;
  Graph graph;
  std::vector<float> x;
  std::string place;
  size_t depth;
};

std::vector<InBody> bodiesThatRefuse() {
  [[maybe_unused]] static const bool isAdded = (cantFail(testContext().ops.add(kRefusing)), true);
  const std::vector<AttrText> foreachAttrs = {{"num_args", "3"},       {"num_outputs", "1"},     {"num_out_data", "0"},
                                              {"in_data_locs", "[0]"}, {"in_state_locs", "[1]"}, {"remain_locs", "[]"}};
  const std::vector<AttrText> callAttrs = {{"num_args", "2"}, {"num_outputs", "1"}};
  const std::vector<AttrText> branchAttrs = {{"num_args", "5"},
                                             {"num_outputs", "1"},
                                             {"cond_input_locs", "[1]"},
                                             {"then_input_locs", "[0, 1]"},
                                             {"else_input_locs", "[0, 1]"}};
  auto loop = [&](const Graph &step) { return around("_foreach", {"x", "s"}, foreachAttrs, step, 1); };
  auto call = [&](const Graph &inner) { return around("_call", {"x", "s"}, callAttrs, inner, 1); };
  auto branch = [&](const Graph &decision, const Graph &inner) {
    return around("_cond", {"x", "s"}, branchAttrs, {decision, inner, body("o = elemwise_add(x, s)")}, 1);
  };
  const Graph leaf = body("y = test_refusing(x); o = elemwise_add(y, s)"),
              sure = body("c = _greater_scalar(p) {scalar=0}"),
              unsure = body("y = test_refusing(p); c = _greater_scalar(y) {scalar=0}");
  return {
      {"loop", loop(leaf), {1, 2, 3}, "node 'loop' > body > ", 1},
      {"call in loop", loop(call(leaf)), {1, 2, 3}, "node 'loop' > body > node 'loop' > body > ", 2},
      {"branch in loop", loop(branch(sure, leaf)), {1, 2, 3}, "node 'loop' > body > node 'loop' > body 1 > ", 2},
      {"decision in loop",
       loop(branch(unsure, body("o = elemwise_add(x, s)"))),
       {1, 2, 3},
       "node 'loop' > body > node 'loop' > body 0 > ",
       2},
      {"loop in call", call(loop(leaf)), {1, 2, 3}, "node 'loop' > body > node 'loop' > body > ", 2},
  };
}

std::vector<NamedArray> arraysFor(const InBody &test) {
  return {{"x", floats({3, 1}, test.x)}, {"s", floats({1}, {4})}};
}

// At step 2 of 3: what the kernel left comes back with the way to its node, and nothing runs after it.
TEST(Failures, A_10_KernelsOfHostsInBodiesLeaveErrors) {
  for (const InBody &test : bodiesThatRefuse()) {
    SCOPED_TRACE(test.name);
    Session session = cantFail(Session::create(testContext(), test.graph, arraysFor(test), SessionOptions()));
    refusals = {0, 2};
    const GradcError error = errorOf(session.run(0));
    EXPECT_EQ(refusals.numCalls, 2);
    EXPECT_EQ(error.kind, ErrorKind::Io);
    EXPECT_EQ(error.message, test.place + "node 'y' (test_refusing): the host refuses");
    ASSERT_EQ(error.place.path.size(), test.depth);
    Graph inner = test.graph;
    for (const BodyStep &step : error.place.path) {
      EXPECT_EQ(step.owner, nodeNamed(inner, "loop"));
      inner = Graph(inner.bodies(step.owner)[step.body]);
    }
    EXPECT_EQ(error.place.node, nodeNamed(inner, "y"));
    refusals = {0, 2, true};
    EXPECT_TRUE(session.run(1).isA<Refusal>());
    EXPECT_EQ(refusals.numCalls, 2);
    refusals = {};
    cantFail(session.run(2));
    EXPECT_EQ(refusals.numCalls, 3);
    EXPECT_EQ(valuesOf<float>(session.head(0)), (std::vector<float>{1 + 2 + 3 + 4}));
  }
}

TEST(Failures, A_10_KernelsOfHostsInBodiesOfGradientsLeaveErrors) {
  for (const InBody &test : bodiesThatRefuse()) {
    if (StringRef(test.name) == "decision in loop") continue;  // nothing flows through it
    SCOPED_TRACE(test.name);
    const GradientResult gradient = gradientOf(test.graph, {"x"});
    Session session = cantFail(Session::create(testContext(), gradient.graph, arraysFor(test), SessionOptions()));
    refusals = {0, 5};
    const GradcError error = errorOf(session.run(0));
    EXPECT_EQ(refusals.numCalls, 5);
    EXPECT_EQ(error.kind, ErrorKind::Io);
    EXPECT_TRUE(StringRef(error.message).ends_with("(test_refusing): the host refuses")) << error.message;
    EXPECT_EQ(error.place.path.size(), test.depth);
    refusals = {};
    cantFail(session.run(1));
    EXPECT_EQ(refusals.numCalls, 6);
  }
}

TEST(Failures, A_10_RET_05_KernelsOfHostsInBodiesOnATape) {
  for (const InBody &test : bodiesThatRefuse()) {
    SCOPED_TRACE(test.name);
    Imperative im(testContext(), Tape::referenceOptions());
    const Kind kind = cantFail(im.kind(test.graph.kindHandle(nodeNamed(test.graph, "loop"))));
    const Tensor x = im.tensor({3, 1}, testing::Doubles{1, 2, 3}), s = im.tensor({1}, testing::Doubles{4});
    cantFail(im.requireGrad(x));
    refusals = {0, 2};
    const GradcError error = errorOf(im.call(kind, {x, s}));
    EXPECT_EQ(refusals.numCalls, 2);
    EXPECT_EQ(error.kind, ErrorKind::Io);
    EXPECT_TRUE(StringRef(error.message).ends_with("> node 'y' (test_refusing): the host refuses")) << error.message;
    refusals = {};
    const Tensor y = cantFail(im.call(kind, {x, s}));
    EXPECT_EQ(testing::doublesOf(y), testing::Doubles{1 + 2 + 3 + 4});
    if (StringRef(test.name) == "decision in loop") continue;
    refusals = {0, 2};
    const GradcError inGradient = errorOf(im.grad({y}, {x}, {.retain = true}));
    EXPECT_EQ(refusals.numCalls, 2);
    EXPECT_EQ(inGradient.kind, ErrorKind::Io);
    EXPECT_TRUE(StringRef(inGradient.message).contains(" > body")) << inGradient.message;
    refusals = {};
    EXPECT_EQ(testing::doublesOf(cantFail(im.grad({y}, {x}, {}))[0]), (testing::Doubles{1, 1, 1}));
  }
}

}  // namespace
}  // namespace gradc
