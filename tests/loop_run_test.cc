// Loops that are refused when they run, operands that no step reads, bodies that are nested too deep.
#include "tests/support/loops.h"
#include "tests/support/sanitizers.h"

#include <cmath>
#include <pthread.h>
#include <sys/resource.h>

using namespace llvm;

namespace gradc::testing {
namespace {

TEST(LoopRun, E_27_MoreStepsThanRowsAreRefused) {
  std::vector<AttrText> attrs = scanAttrs(false, true);
  const Graph loop = around("_scan", {"k", "x", "s"}, attrs, body("n = elemwise_add(x, s); heads n, n"), 2);
  for (int64_t k : {4, -1}) {
    const GradcError error = errorOf(tryRun(
        loop,
        {{"k", arrayOf<int64_t>(DType::Int64, {1}, {k})}, {"x", floats({3}, {1, 2, 3})}, {"s", floats({1}, {0})}}));
    EXPECT_EQ(error.kind, ErrorKind::LengthMismatch);
    ASSERT_EQ(error.notes.size(), 1u);
    EXPECT_EQ(error.notes[0].text, "while running node 'loop' (_scan)");
    EXPECT_NE(error.message.find("the requested number of steps is " + std::to_string(k) + ", expected 0 to 3"),
              std::string::npos)
        << error.message;
  }
}

// Inside a body, the path is in the message.
TEST(LoopRun, E_27_MoreStepsInABody) {
  std::vector<AttrText> attrs = scanAttrs(false, true);
  const Graph loop = around("_scan", {"k", "x", "s"}, attrs, body("n = elemwise_add(x, s); heads n, n"), 2);
  const Graph call = around("_call", {"k", "x", "s"}, {{"num_args", "3"}, {"num_outputs", "2"}}, loop, 2);
  const GradcError error = errorOf(tryRun(
      call, {{"k", arrayOf<int64_t>(DType::Int64, {1}, {4})}, {"x", floats({3}, {1, 2, 3})}, {"s", floats({1}, {0})}}));
  EXPECT_EQ(
      error.message,
      "node 'loop' > body > node 'loop' (_scan): the requested number of steps is 4, expected 0 to 3 (the number of "
      "rows)");
}

// What a body takes the shape of alone is not read, so that it need not be kept.
TEST(LoopRun, RC_03_OperandsThatNoStepReadsAreIgnored) {
  const Graph loop =
      around("_scan", {"x", "s", "c"},
             {{"num_args", "3"},
              {"num_data", "1"},
              {"num_states", "1"},
              {"num_out_data", "1"},
              {"input_locs", "(2, 1, 0)"}},  // c is read first
             body("e = exp(x); z = zeros_like(e); n = elemwise_add(s, z); o = ones_like(c); heads o, n"), 2);
  const NodeKind &kind = loop.kind(loop.heads()[0].node);
  EXPECT_TRUE(kind.isIgnored(0)) << "its only reader does not run";
  EXPECT_TRUE(kind.isIgnored(2));
  EXPECT_FALSE(kind.isIgnored(1)) << "a state is read as its own first value";
  const Tensors heads = run(loop, {{"x", floats({3}, {1, 2, 3})}, {"s", floats({1}, {7})}, {"c", floats({2}, {1, 2})}});
  EXPECT_EQ(heads, (Tensors{{1, 1, 1, 1, 1, 1}, {7}}));
}

TEST(LoopRun, E_33_BodiesNestedTooDeep) {
  const std::vector<AttrText> attrs = {{"num_args", "1"}, {"num_outputs", "1"}};
  Graph deep = body("y = exp(x)");
  for (size_t level = 0; level < kMaxBodyNesting; ++level) deep = around("_call", {"x"}, attrs, deep, 1);
  EXPECT_NE(refusal("_call", attrs, {deep}).find("would have bodies nested more than 64 levels deep"),
            std::string::npos);
}

// A loop that may run 100,000 steps and runs 10 has 400 MB in a stack, and touches 10 rows of it; so it is with the gradients of
// stacks, and with their sums.
TEST(LoopRun, CF_20_RowsOfStepsNotRunAreNotTouched) {
  const Graph condition = body("c = _lesser_scalar(i) {scalar=10}"),
              step = body("h = tanh(t); j = _plus_scalar(i) {scalar=1}; heads h, j");
  const Graph loop = around("_while_loop", {"t", "i"},
                            {{"num_args", "4"},
                             {"num_outputs", "2"},
                             {"num_out_data", "0"},
                             {"max_iterations", "100000"},
                             {"cond_input_locs", "(1,)"},
                             {"func_input_locs", "(0,1)"},
                             {"func_var_locs", "(0,1)"}},
                            {condition, step}, 1);
  for (uint32_t order : {1, 2, 3}) {
    const GradientResult result = gradientOf(loop, {"t"}, order);
    SessionOptions options;
    Session session = cantFail(Session::create(
        testContext(), result.graph, {{"t", floats({1000}, Floats(1000, 0.5))}, {"i", floats({1}, {0})}}, options));
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    cantFail(session.run(0));
    getrusage(RUSAGE_SELF, &after);
    EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 50'000) << "KiB, order " << order;
    const Floats gradient = valuesOf<float>(session.head(result.graph.heads().size() - 1));
    // Of tanh applied ten times, by its Taylor series in float64.
    const double expected[] = {0.22275953, -0.868688632, 3.73591519};
    EXPECT_NEAR(gradient[0], expected[order - 1], 1e-4) << "order " << order;
    EXPECT_EQ(gradient, Floats(1000, gradient[0]));
  }
}

// A condition of 16 bits: −0 counts as false.
TEST(LoopRun, CF_09_AHalfDecides) {
  const std::vector<AttrText> attrs = {{"num_args", "4"},
                                       {"num_outputs", "1"},
                                       {"cond_input_locs", "(0,)"},
                                       {"then_input_locs", "(0,)"},
                                       {"else_input_locs", "(0,)"}};
  for (StringRef half : {"float16", "bfloat16"}) {
    const Graph cond = around(
        "_cond", {"p"}, attrs,
        {body("c = Cast(q) {dtype=" + half.str() + "}"), body("a = ones_like(q)"), body("b = zeros_like(q)")}, 1);
    for (float p : {0.5f, 0.f, -0.f, -2.f})
      EXPECT_EQ(run(cond, {{"p", floats({1}, {p})}}), (Tensors{{p != 0 ? 1.f : 0.f}})) << half.str() << " " << p;
  }
}

/// What runs on a stack of this many bytes.
template <class Work> void onStack(size_t bytes, Work work) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, bytes);
  pthread_t thread;
  auto start = [](void *given) -> void * { return (*static_cast<Work *>(given))(), nullptr; };
  ASSERT_EQ(pthread_create(&thread, &attributes, start, &work), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

#ifdef GRADC_ADDRESS_SANITIZER
constexpr size_t kSmallStack = 4 << 20;
#else
constexpr size_t kSmallStack = 256 << 10;
#endif

// d tanh(s·x)/ds of one step, sixty loops deep; and of 100,000 steps.
TEST(LoopRun, A_19_DeepAndLongLoopsOnASmallStack) {
  onStack(kSmallStack, [] {
    const std::vector<AttrText> attrs = {
        {"num_args", "2"}, {"num_data", "0"}, {"num_states", "1"}, {"num_out_data", "0"}, {"length", "1"}};
    Graph deep = body("m = elemwise_mul(s, x); y = tanh(m)");
    for (size_t level = 0; level < 60; ++level) deep = around("_scan", {"s", "x"}, attrs, deep, 1);
    const Doubles slope = run(gradientOf(deep, {"s"}), {{"s", {1}, {0.5}}, {"x", {1}, {2}}})[0];
    EXPECT_NEAR(slope[0], 2 * (1 - std::tanh(1.) * std::tanh(1.)), 1e-12);
    std::vector<AttrText> sum = {{"num_args", "2"}, {"num_data", "1"}, {"num_states", "1"}, {"num_out_data", "0"}};
    const Graph longLoop = around("_scan", {"x", "s"}, sum, body("n = elemwise_add(x, s)"), 1);
    const Doubles ones = run(gradientOf(longLoop, {"x"}), {{"x", {100000, 1}, Doubles(100000, 1)}, {"s", {1}, {0}}})[0];
    EXPECT_EQ(ones, Doubles(100000, 1));
  });
}

}  // namespace
}  // namespace gradc::testing
