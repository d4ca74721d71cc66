// Loops that are refused when they run, operands that no step reads, bodies that are nested too deep.
#include "tests/support/runs/loops.h"
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

// A loop that may run 100,000 steps and runs 10 has 400 MB in a stack, and touches 10 rows of it; so it is with the
// gradients of stacks, and with their sums.
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

/// tanh and a counter, while the counter is below 10.
Graph tenTanhs(StringRef mostSteps, bool mustEnd) {
  return around(
      "_while_loop", {"t", "i"},
      {{"num_args", "4"},
       {"num_outputs", "2"},
       {"num_out_data", "0"},
       {"max_iterations", mostSteps},
       {"cond_input_locs", "(1,)"},
       {"func_input_locs", "(0,1)"},
       {"func_var_locs", "(0,1)"},
       {"__must_end__", mustEnd ? "True" : "False"}},
      {body("c = _lesser_scalar(i) {scalar=10}"), body("h = tanh(t); j = _plus_scalar(i) {scalar=1}; heads h, j")}, 1);
}

// MXNet's loop ends at the bound; that of a program of blocks would end with a wrong value.
TEST(LoopRun, CF_06_ALoopThatMustEndRefusesMoreSteps) {
  const std::vector<NamedArray> given = {{"t", floats({1}, {0.5})}, {"i", floats({1}, {0})}};
  EXPECT_EQ(run(tenTanhs("10", true), given), run(tenTanhs("10", false), given)) << "the tenth step is the last";
  EXPECT_EQ(run(tenTanhs("9", false), given).size(), 1u);
  auto expectRefused = [&](const Graph &graph, StringRef path) {
    const GradcError error = errorOf(tryRun(graph, given));
    EXPECT_EQ(error.kind, ErrorKind::LengthMismatch);
    EXPECT_EQ(error.message, (path + "the condition still holds after 9 steps, which is the bound").str());
    ASSERT_EQ(error.notes.size(), 2u);
    EXPECT_EQ(error.notes[0].remedy, Remedy::AllowMoreSteps);
    EXPECT_EQ(error.notes[1].text, "while running node 'loop' (" + graph.opName(graph.heads()[0].node).str() + ")");
  };
  const Graph loop = tenTanhs("9", true);
  expectRefused(loop, "");
  expectRefused(around("_call", {"t", "i"}, {{"num_args", "2"}, {"num_outputs", "1"}}, loop, 1),
                "node 'loop' > body > node 'loop' (_while_loop): ");
  const GradientResult gradient = gradientOf(loop, {"t"});
  EXPECT_EQ(errorOf(tryRun(gradient.graph, given)).kind, ErrorKind::LengthMismatch) << "of the gradient";
}

// Whatever bound of its own a loop has, and however it ends.
TEST(LoopRun, ALimitOnTheStepsOfEveryLoop) {
  const std::vector<NamedArray> given = {{"t", floats({1}, {0.5})}, {"i", floats({1}, {0})}};
  auto refused = [](const Graph &graph, const std::vector<NamedArray> &arrays, uint64_t most) {
    SessionOptions options;
    options.exec.backend = Backend::Reference;
    options.exec.maxSteps = most;
    Session session = cantFail(Session::create(testContext(), graph, arrays, options));
    return session.run(0);
  };
  const Graph loop = tenTanhs("2147483647", false);
  EXPECT_FALSE(bool(refused(loop, given, 10))) << "ten steps are ten";
  const Graph call = around("_call", {"t", "i"}, {{"num_args", "2"}, {"num_outputs", "1"}}, loop, 1);
  const std::pair<Graph, std::string> graphs[] = {{loop, ""},
                                                  {call, "node 'loop' > body > node 'loop' (_while_loop): "}};
  for (const auto &[graph, path] : graphs) {
    const GradcError error = errorOf(refused(graph, given, 9));
    EXPECT_EQ(error.kind, ErrorKind::LengthMismatch);
    EXPECT_EQ(error.message, path + "the loop goes on after 9 steps, which is the limit");
    ASSERT_FALSE(error.notes.empty());
    EXPECT_EQ(error.notes[0].remedy, Remedy::AllowMoreSteps);
  }
  // Steps over rows, each of which runs the inner loop anew.
  auto overRows = [](const Graph &step) {
    return around("_foreach", {"x", "i"},
                  {{"num_args", "3"},
                   {"num_outputs", "1"},
                   {"num_out_data", "1"},
                   {"in_data_locs", "(0,)"},
                   {"in_state_locs", "()"},
                   {"remain_locs", "(1,)"}},
                  step, 1);
  };
  const Graph rows = overRows(loop);
  const std::vector<NamedArray> threeRows = {{"x", floats({3, 1}, {0.5, 0.2, 0.1})}, {"i", floats({1}, {0})}};
  EXPECT_FALSE(bool(refused(rows, threeRows, 10)));
  EXPECT_EQ(errorOf(refused(rows, threeRows, 9)).message,
            "node 'loop' > body > node 'loop' (_while_loop): the loop goes on after 9 steps, which is the limit");
  const Graph plain = overRows(body("y = elemwise_add(x, i)"));
  EXPECT_FALSE(bool(refused(plain, threeRows, 3)));
  EXPECT_EQ(errorOf(refused(plain, threeRows, 2)).message, "the loop goes on after 2 steps, which is the limit");
}

// Each node of a step, named after its row: the body runs up in the loop, and down in its gradient.
TEST(LoopRun, TimingsOfNodesInBodies) {
  const std::vector<AttrText> attrs = {
      {"num_args", "2"}, {"num_data", "1"}, {"num_states", "1"}, {"num_out_data", "0"}, {"reverse", "True"}};
  const Graph inner = around("_call", {"x", "s"}, {{"num_args", "2"}, {"num_outputs", "1"}},
                             body("n = elemwise_add(x, s); t = tanh(n)"), 1);
  const Graph loop = around("_scan", {"x", "s"}, attrs, inner, 1);
  Session session = cantFail(
      Session::create(testContext(), loop, {{"x", floats({2, 1}, {1, 2})}, {"s", floats({1}, {0})}}, SessionOptions()));
  cantFail(session.run(0));
  EXPECT_TRUE(session.timings().empty());
  session.setProfiling(true);
  cantFail(session.run(0));
  cantFail(session.run(0));
  const ArrayRef<Executor::Timing> timings = session.timings();
  // The loop, then for each row the call with its two nodes.
  constexpr uint32_t kNone = Executor::Timing::kNone;
  const std::vector<std::pair<uint32_t, int64_t>> expected = {{kNone, 0}, {0, 1}, {1, 0}, {1, 0},
                                                              {0, 0},     {4, 0}, {4, 0}};
  ASSERT_EQ(timings.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(timings[i].owner, expected[i].first) << i;
    EXPECT_EQ(timings[i].step, expected[i].second) << i;
    if (timings[i].owner == kNone) continue;
    const Executor::Timing &owner = timings[timings[i].owner];
    EXPECT_GE(timings[i].startMicros, owner.startMicros);
    EXPECT_LE(timings[i].startMicros + timings[i].durationMicros, owner.startMicros + owner.durationMicros + 1e-3);
  }
  session.setProfiling(false);
  cantFail(session.run(0));
  EXPECT_TRUE(session.timings().empty());
}

// 400 GB of rows, of which a run touches ten.
TEST(LoopRun, CF_20_StacksLargerThanTheMachine) {
#ifdef GRADC_HEAP_OF_SANITIZER
  GTEST_SKIP() << "a sanitizer limits the size of an allocation";
#endif
  const GradientResult result = gradientOf(tenTanhs("100000000", false), {"t"});
  Session session =
      cantFail(Session::create(testContext(), result.graph,
                               {{"t", floats({1000}, Floats(1000, 0.5))}, {"i", floats({1}, {0})}}, SessionOptions()));
  cantFail(session.run(0));
  EXPECT_NEAR(valuesOf<float>(session.head(result.graph.heads().size() - 1))[0], 0.22275953, 1e-4);
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
