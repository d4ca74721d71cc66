// Kernels that fail: an error at the node, never the end of the process, and the session runs again.
#include "runtime/failures.h"
#include "runtime/session.h"
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

}  // namespace
}  // namespace gradc
