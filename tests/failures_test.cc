// Kernels that fail: an error at the node, never the end of the process, and the session runs again.
#include "ir/inference.h"
#include "runtime/failures.h"
#include "runtime/session.h"
#include "tests/support/exec_bench.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

using namespace llvm;
using gradc::testing::nodeNamed;
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
    bench.executor->bindState(a, &first);
    bench.executor->bindState(c, &second);
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

}  // namespace
}  // namespace gradc
