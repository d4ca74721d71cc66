// gradcheck holds what is in the bodies of loops, branches and calls as it holds the nodes around them.
#include "tests/support/runs/loops.h"

using namespace llvm;

namespace gradc::testing {
namespace {

class GradcheckLoops : public ::testing::Test {
 protected:
  GradcheckLoops() {
    options.session.infer.floatAs = DType::Float64;
    options.session.initSeed = 1;
  }

  GradcheckReport check(const Graph &graph, ArrayRef<Binding> bindings) {
    Expected<GradcheckReport> report = gradcheck(testContext(), graph, arraysOf(bindings), options);
    if (report) return std::move(*report);
    ADD_FAILURE() << describeError(report.takeError());
    return {};
  }
  GradcheckReport expectPass(const Graph &graph, ArrayRef<Binding> bindings) {
    GradcheckReport report = check(graph, bindings);
    EXPECT_TRUE(report.passed());
    for (const GradcheckRow &row : report.rows)
      EXPECT_EQ(row.failures, 0u) << row.variable << ": " << row.worstError << ", order " << options.order;
    return report;
  }

  GradcheckOptions options;
};

Graph foreachOf(ArrayRef<StringRef> inputs, StringRef data, StringRef states, StringRef rest, StringRef step,
                size_t numHeads, size_t numOutData) {
  const std::string numArgs = std::to_string(inputs.size() + 1), numOutputs = std::to_string(numHeads),
                    numData = std::to_string(numOutData);
  return around("_foreach", inputs,
                {{"num_args", numArgs},
                 {"num_outputs", numOutputs},
                 {"num_out_data", numData},
                 {"in_data_locs", data},
                 {"in_state_locs", states},
                 {"remain_locs", rest}},
                body(step), numHeads);
}

// The body's inputs in the order of ids: i, w, s.
Graph embeddingLoop() {
  return foreachOf({"i", "s", "w"}, "(0,)", "(2,)", "(1,)",
                   "e = Embedding(i, w) {input_dim=5, output_dim=3}; a = elemwise_add(e, s); t = tanh(a); heads t, t",
                   2, 1);
}

TEST_F(GradcheckLoops, RUN_03_WholeNumbersInABodyStay) {
  const std::vector<Binding> at = {
      {"i", {4, 2}, {0, 1, 4, 2, 3, 3, 1, 0}},
      {"s", {2, 3}, {0.1, -0.2, 0.3, 0.2, 0.5, -0.1}},
      {"w", {5, 3}, {0.1, 0.5, -0.4, 0.3, 0.2, 0.9, -0.7, 0.6, 0.4, 0.1, 0.3, 0.8, 0.2, -0.5, 0.7}}};
  for (options.order = 1; options.order <= 2; ++options.order)
    EXPECT_GE(expectPass(embeddingLoop(), at).held.inputs, 1u) << "order " << options.order;
}

Graph powersUpTo(StringRef bound) {
  return around("_while_loop", {"i", "x", "w"},
                {{"num_args", "5"},
                 {"num_outputs", "2"},
                 {"num_out_data", "0"},
                 {"max_iterations", "5"},
                 {"cond_input_locs", "(0,)"},
                 {"func_input_locs", "(1,2,0)"},
                 {"func_var_locs", "(0,2)"}},
                {body(("c = _lesser_scalar(i) {scalar=" + bound + "}").str()),
                 body("m = elemwise_mul(x, w); j = _plus_scalar(i) {scalar=1}; heads m, j")},
                2);
}

// i is at the number of steps exactly: moved, the loop runs one step more.
TEST_F(GradcheckLoops, CF_07_TheNumberOfStepsStays) {
  const std::vector<Binding> at = {{"i", {1}, {0}}, {"x", {2}, {0.7, -1.2}}, {"w", {2}, {0.9, 1.1}}};
  for (options.order = 1; options.order <= 2; ++options.order)
    EXPECT_GE(expectPass(powersUpTo("3"), at).held.decisions, 1u) << "order " << options.order;
}

Graph choice(StringRef condition, StringRef first, StringRef second) {
  return around("_cond", {"p", "x"},
                {{"num_args", "5"},
                 {"num_outputs", "1"},
                 {"cond_input_locs", "(0,)"},
                 {"then_input_locs", "(1,)"},
                 {"else_input_locs", "(1,)"}},
                {body(condition), body(first), body(second)}, 1);
}

TEST_F(GradcheckLoops, CF_09_TheBranchTakenStays) {
  const Graph branch = choice("c = _copy(p)", "y = square(x)", "y = negative(x)");
  for (double p : {0.0, 1.0})
    for (options.order = 1; options.order <= 2; ++options.order) {
      const GradcheckReport report = check(branch, {{"p", {1}, {p}}, {"x", {2}, {0.5, -2}}});
      for (const GradcheckRow &row : report.rows)
        EXPECT_EQ(row.failures, 0u) << row.variable << ", p " << p << ", order " << options.order;
      EXPECT_GE(report.held.decisions, 1u);
    }
}

// A branch in a call in a loop: x is at the threshold in the second step.
TEST_F(GradcheckLoops, CF_11_DecisionsAndKinksOfNestedBodiesStay) {
  const Graph branch = choice("c = _greater_scalar(p) {scalar=0.5}", "r = relu(x); y = elemwise_mul(r, r)",
                              "n = negative(x); y = exp(n)");
  const Graph called = around("_call", {"p", "x"}, {{"num_args", "2"}, {"num_outputs", "1"}}, branch, 1);
  const Graph loop = around("_foreach", {"p", "x"},
                            {{"num_args", "3"},
                             {"num_outputs", "1"},
                             {"num_out_data", "1"},
                             {"in_data_locs", "(0,1)"},
                             {"in_state_locs", "()"},
                             {"remain_locs", "()"}},
                            called, 1);
  const std::vector<Binding> at = {{"p", {4}, {1, 0.5, 0, 2}}, {"x", {4, 2}, {0.3, 1e-7, 0.2, -0.4, 1, 2, -1e-7, 0.6}}};
  for (options.order = 1; options.order <= 2; ++options.order) {
    const GradcheckReport report = expectPass(loop, at);
    EXPECT_GE(report.held.decisions, 1u);
    EXPECT_GE(report.held.pieces, 1u);
  }
}

TEST_F(GradcheckLoops, STOP_01_ConstantsInABodyAreHeld) {
  const Graph loop = foreachOf({"x", "s"}, "(1,)", "(0,)", "()",
                               "b = BlockGrad(s); m = elemwise_mul(b, x); n = elemwise_add(m, s); heads n, n", 2, 1);
  const GradcheckReport report = expectPass(loop, {{"x", {3, 2}, {1, 2, 0.5, -1, 0.3, 0.8}}, {"s", {2}, {0.4, 0.7}}});
  EXPECT_EQ(report.held.outputs, 1u);
}

// A loop whose outputs are all held does not run again, nor do its bodies.
TEST_F(GradcheckLoops, STOP_03_ALoopThatIsHeld) {
  const Graph loop =
      foreachOf({"x", "s"}, "(0,)", "(1,)", "()", "r = relu(x); n = elemwise_add(r, s); heads n, n", 2, 1);
  const Graph behind =
      foreachOf({"x", "s"}, "(0,)", "(1,)", "()", "r = relu(x); n = elemwise_mul(r, s); heads n, n", 2, 1);
  GraphBuilder builder(testContext(), loop);
  const Value x{nodeNamed(loop, "x")}, held = loop.heads()[0];
  const Value scaled{cantFail(builder.add(*testContext().ops.find("elemwise_mul"), {held, x}, {"scaled", {}, {}}))};
  const Value start = builder.addVariable("t", Attrs());
  const NodeKind &kind = behind.kind(behind.heads()[0].node);
  const NodeId second = cantFail(builder.add(*kind.op, {scaled, start}, {"second", kind.attrs, NodeId(), kind.bodies}));
  const Frozen frozen = cantFail(std::move(builder).freeze({Value{second, 0, 0}}, {}));
  options.gradient.stop = {frozen(held), frozen(Value{held.node, 1, 0})};
  expectPass(frozen.graph, {{"x", {3, 2}, {1, 2, 0.5, -1, 0.3, 0.8}}, {"s", {2}, {0.4, 0.7}}, {"t", {2}, {0.2, 0.6}}});
}

// The loss of every step counts, with the label of its row; a loss that no gradient reaches does not.
TEST_F(GradcheckLoops, RUN_03_LossesInABodyAreCheckedAgainstTheirImpliedLoss) {
  const StringRef step = "f = FullyConnected(x, w) {num_hidden=3, no_bias=True}; y = SoftmaxOutput(f, l); heads y";
  const Graph loop = foreachOf({"x", "l", "w"}, "(0,2)", "()", "(1,)", step, 1, 1);
  const std::vector<Binding> at = {{"x", {3, 2, 2}, {0.1, 0.5, -0.4, 0.3, 0.2, 0.9, -0.7, 0.6, 0.4, 0.1, 0.3, 0.8}},
                                   {"l", {3, 2}, {0, 1, 2, 2, 1, 0}},
                                   {"w", {3, 2}, {0.2, -0.5, 0.7, 0.4, 0.9, -0.1}}};
  const GradcheckReport report = expectPass(loop, at);
  EXPECT_EQ(report.held.outputs, 1u);
  EXPECT_EQ(report.lossWithoutLabel, "");
  const Graph beside = foreachOf({"x", "l", "w"}, "(0,2)", "()", "(1,)",
                                 "f = FullyConnected(x, w) {num_hidden=3, no_bias=True}; y = SoftmaxOutput(f, l);"
                                 "z = exp(f); heads y, z",
                                 2, 2);
  expectPass(onlyHead(beside, 1), at);
}

// The loss of one step is in the state that the next step yields.
TEST_F(GradcheckLoops, RUN_03_ALossBehindAState) {
  const Graph loop = foreachOf({"x", "s", "l"}, "(0,)", "(1,)", "(2,)",
                               "a = elemwise_add(x, s); n = SoftmaxOutput(x, l); heads a, n", 2, 1);
  expectPass(onlyHead(loop, 0), {{"x", {3, 2, 2}, {0.1, 0.5, -0.4, 0.3, 0.2, 0.9, -0.7, 0.6, 0.4, 0.1, 0.3, 0.8}},
                                 {"s", {2, 2}, {0.2, -0.5, 0.7, 0.4}},
                                 {"l", {2}, {0, 1}}});
}

TEST_F(GradcheckLoops, RUN_03_ALossWhoseLabelNobodyKeeps) {
  const Graph loop = foreachOf({"x", "l"}, "(0,1)", "()", "()",
                               "c = _plus_scalar(l) {scalar=1}; y = SoftmaxOutput(x, c); heads y", 1, 1);
  const GradcheckReport report =
      check(loop, {{"x", {1, 2, 3}, {0.1, 0.5, -0.4, 0.3, 0.2, 0.9}}, {"l", {1, 2}, {0, 1}}});
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(report.lossWithoutLabel, "node 'y' (SoftmaxOutput)");
}

TEST_F(GradcheckLoops, RUN_03_TheFirstNodeOfABodyThatIsNotFinite) {
  const Graph loop = foreachOf({"x"}, "(0,)", "()", "()", "y = log(x); heads y", 1, 1);
  const GradcheckReport report = check(loop, {{"x", {2}, {1, -1}}});
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(report.notFinite, "node 'loop' > body > node 'y' (log) is nan at the base point");
}

}  // namespace
}  // namespace gradc::testing
