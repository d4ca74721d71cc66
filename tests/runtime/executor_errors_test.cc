// What the executor refuses: bindings, types, shapes, plans, operators without a kernel.
#include "tests/support/runs/exec_bench.h"

#include "ir/base/error.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

using namespace llvm;
using gradc::testing::Bench;
using gradc::testing::TestGraph;

namespace gradc {
namespace {

using Doubles = std::vector<double>;

TEST(Executor, RUN_04_E_71_TensorsOfAnotherOrderOrStorageAreRefused) {
  TestGraph g("x = var {__shape__=(1,2,2,2)}; y = exp(x)");
  Bench bench(g);
  cantFail(bench.prepare());
  Array array = doubles({1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  TensorRef tensor = array.ref();
  auto outcome = [&] {
    const std::string variable = testing::describeError(bench.executor->bind(g.at("x").node, tensor));
    EXPECT_EQ(testing::describeError(bench.executor->bindHead(0, tensor)) == "success", variable == "success");
    return variable;
  };
  EXPECT_EQ(outcome(), "success");
  tensor.layout = Layout::ChannelsLast;
  const std::string expected = "[binding] variable 'x': expected (1,2,2,2) float64 row-major dense, got (1,2,2,2) ";
  EXPECT_EQ(outcome(), expected + "float64 channels-last dense");
  tensor = array.ref();
  tensor.storage = StorageKind::Csr;
  EXPECT_EQ(outcome(), expected + "float64 row-major csr");
}

TEST(Executor, RET_05_ARunThatIsRefusedChangesNothing) {
  // The state would change before the node that reads y is reached.
  TestGraph g("x = var {__shape__=(1,)}; s = var {__shape__=(1,)}; y = var {__shape__=(1,)}; a = test_accumulate(x, s);"
              "b = elemwise_mul(a, y)");
  Bench bench(g);
  cantFail(bench.prepare());
  bench.bind("x", doubles({1}, {3}));
  bench.bind("s", doubles({1}, {10}));
  EXPECT_EQ(errorOf(bench.executor->run(0)).message, "variable 'y' is not bound");
  EXPECT_EQ(valuesOf<double>(*bench.arrays[1]), Doubles{10});
  bench.bind("y", doubles({1}, {2}));
  EXPECT_EQ(bench.run(0), Doubles{26});
}

TEST(Executor, E_63_TypesKernelsDoNotComputeIn) {
  TestGraph whole("x = var {__shape__=(2,), __dtype__=int32}; y = exp(x)");
  Bench other(whole);
  EXPECT_EQ(testing::describeError(other.prepare()),
            "[dtype] node 'y' (exp) works on int32, but its kernel computes in float32 and float64");
}

TEST(Executor, E_63_RowNumbersAndComparisonsMayBeWhole) {
  TestGraph g("i = var {__shape__=(2,), __dtype__=int32}; w = var {__shape__=(3, 1)};"
              "e = Embedding(i, w) {input_dim=3, output_dim=1}; c = _greater(i, j); heads e, c");
  Bench bench(g);
  EXPECT_EQ(testing::describeError(bench.prepare()), "success");
}

TEST(Executor, E_71_AnIndexOutOfRangeIsFoundByTheKernel) {
  TestGraph g("i = var {__shape__=(1,)}; a = var {__shape__=(3,)}; y = take(a, i) {mode=raise}");
  Bench bench(g);
  cantFail(bench.prepare());
  bench.bind("a", doubles({3}, {1, 2, 3}));
  bench.bind("i", doubles({1}, {5}));
  EXPECT_EQ(testing::describeError(bench.executor->run(0)), "[binding] index 5 is out of range for axis 0 of size 3");
}

TEST(Executor, RUN_04_BindingErrors) {
  TestGraph g("x = var {__shape__=(2,)}; y = exp(x)");
  Bench bench(g);
  cantFail(bench.prepare());
  GradcError missing = errorOf(bench.executor->run(0));
  EXPECT_EQ(missing.kind, ErrorKind::BindingMissing);
  EXPECT_EQ(missing.message, "variable 'x' is not bound");
  Array wrong = floats({2}, {1, 2}), longer = doubles({3}, {1, 2, 3});
  EXPECT_EQ(errorOf(bench.executor->bind(g.at("x").node, wrong.ref())).message,
            "variable 'x': expected (2,) float64, got (2,) float32");
  EXPECT_EQ(errorOf(bench.executor->bindHead(0, longer.ref())).message,
            "head 0: expected (2,) float64, got (3,) float64");
}

TEST(Executor, E_32_UnknownOperatorsAreNamed) {
  TestGraph g("x = var {__shape__=(2,)}; y = ?vendor_op(x); z = exp(x); heads z, y");
  std::vector<Request> requests{Request::Write, Request::Null};
  Bench skipping(g);
  skipping.inferOptions.allowUnknown = true;
  skipping.options.headRequests = requests;
  EXPECT_EQ(errorOf(skipping.prepare()).message, "success") << "a node that does not run needs no kernel";

  Bench bench(g);
  bench.inferOptions.allowUnknown = true;
  cantFail(skipping.prepare());
  bench.inference = skipping.inference;
  bench.inference.shape[g.graph.entry(g.at("y"))] = bench.inference.shape[g.graph.entry(g.at("z"))];
  bench.inference.dtype[g.graph.entry(g.at("y"))] = DType::Float64;
  bench.requests = countRequests(g, {});
  bench.plan = cantFail(planMemory(g.context, g, bench.inference, bench.requests, PlanOptions()));
  GradcError error = errorOf(bench.create());
  EXPECT_EQ(error.kind, ErrorKind::UnknownOp);
  EXPECT_EQ(error.message, "operator 'vendor_op' of node 'y' (vendor_op) is not known");
}

TEST(Executor, E_58_WantedEntriesNeedShapes) {
  TestGraph g("y = exp(x)");
  Bench bench(g);
  bench.inferOptions.allowUnknown = true;
  GradcError error = errorOf(bench.prepare());
  EXPECT_EQ(error.kind, ErrorKind::InferMissing);
  EXPECT_EQ(error.message, "node 'y' (exp) has shape ? and dtype float64; both have to be known to run it");
}

TEST(Executor, MEM_03_BrokenPlansAreRefused) {
  TestGraph g("x = var {__shape__=(2,)}; a = exp(x); b = tanh(x); c = elemwise_mul(a, b); d = elemwise_mul(c, a)");
  Bench bench(g);
  cantFail(bench.prepare());
  bench.plan.offset[g.graph.entry(g.at("b"))] = bench.plan.offset[g.graph.entry(g.at("a"))];
  EXPECT_EQ(errorOf(bench.create()).kind, ErrorKind::BadPlan);
}

// Kernels look at the shapes of operands whose contents they ignore.
TEST(Executor, E_58_IgnoredOperandsNeedShapesToo) {
  TestGraph g(
      "v = var {__shape__=(6,)}; b = var {__shape__=(2,)}; y = _concat_part(v, a, b, c) {num_args=3, dim=0, index=1}");
  Bench bench(g);
  bench.inferOptions.allowUnknown = true;
  EXPECT_EQ(errorOf(bench.prepare()).message,
            "variable 'a' has shape (?,) and dtype float64; both have to be known to run it");
}

}  // namespace
}  // namespace gradc
