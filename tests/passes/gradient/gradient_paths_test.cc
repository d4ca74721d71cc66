// Which part of the graph a gradient touches (§7, §8): positions and names of x, pruning, no-gradient sets and stops.
// Node counts are asserted: what is pruned must not have been made.
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include "ir/base/error.h"
#include "passes/gradient/gradient.h"

#include "llvm/ADT/BitVector.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;
using Numbers = std::vector<double>;

struct Built {
  GradientResult result;
  std::string text;  // of the generated part; or the error
  uint32_t numGenerated = 0;
};

Built build(TestGraph &g, const GradientRequest &request, GradientOptions options) {
  options.gradientOnly = false;
  Expected<GradientResult> result = buildGradient(g.context, g, request, options);
  if (!result) return {{}, describeError(result.takeError()), 0};
  std::string text = dumpFrom(result->graph, g.graph.numNodes(), g.graph.heads().size());
  uint32_t emitted = result->graph.numNodes() - g.graph.numNodes();
  return {std::move(*result), std::move(text), emitted};
}

GradientOptions unusedIs(UnusedPolicy policy) {
  GradientOptions options;
  options.unused = policy;
  return options;
}

GradientRequest cutting(TestGraph &g, std::vector<StringRef> xs, std::vector<StringRef> cut) {
  GradientRequest request = wrt(g, xs);
  for (StringRef name : cut) request.noGrad.push_back(g.at(name));
  return request;
}

Numbers valuesOf(const Built &built, const Bindings &bindings, size_t numForward) {
  Numbers list;
  std::vector<Array> heads = evaluate(built.result.graph, bindings);
  for (size_t i = numForward; i < heads.size(); ++i)
    list.insert(list.end(), heads[i].values.begin(), heads[i].values.end());
  return list;
}

// ---- choosing x (§7)

TEST(GradientPaths, XS_05_NoneDoesNotExcuseWhatCanCarryNoGradient) {
  TestGraph g("i = var {__dtype__=int32}; m = var {__stop_gradient__=True}; a = test_accumulate(m, s@1); "
              "f = Cast(i) {dtype=float32};"
              "y = elemwise_add(a, f)");
  Inference inference = cantFail(infer(g.context, g, {{{g.at("m").node, {2}}}, {}}, {}));
  for (UnusedPolicy policy : {UnusedPolicy::Error, UnusedPolicy::None, UnusedPolicy::Zeros}) {
    GradientOptions options = unusedIs(policy);
    options.inference = &inference;
    EXPECT_EQ(build(g, wrt(g, {"i"}), options).text,
              "[not_requires_grad] x number 1, 'i', has type int32 and carries no gradient");
    EXPECT_EQ(build(g, wrt(g, {"m"}), options).text,
              "[not_requires_grad] x number 1, 'm', is marked __stop_gradient__ and carries no gradient");
    EXPECT_EQ(build(g, wrt(g, {"s"}), options).text,
              "[aux_x] x number 1, 's', is an auxiliary state: node 'a' (test_accumulate) overwrites it");
  }
}

// Fluid asks for every parameter and returns the pairs that have a gradient; here slots keep their places and say
// `none`.
TEST(GradientPaths, XS_07_ParametersWithoutGradientAreNamedNotReported) {
  TestGraph g("a = elemwise_mul(x, w1); b = elemwise_mul(u, w2); y = exp(a); z = exp(b); heads y, z");
  GradientRequest request = wrt(g, {"w1", "w2"});
  request.heads = {{g.at("y"), std::nullopt, ""}};
  Built built = build(g, request, unusedIs(UnusedPolicy::None));
  std::optional<GradientTable> table = cantFail(readGradientTable(built.result.graph));
  ASSERT_TRUE(table);
  EXPECT_EQ(table->slotStatus, (std::vector<std::string>{"grad", "none"}));
  EXPECT_EQ(table->gradNone, std::vector<std::string>{"w2"});
  ASSERT_EQ(table->heads.size(), 3u);
  EXPECT_EQ(table->heads[2].of, "w1");
  // All of them in the no-gradient set: nothing is emitted.
  request = cutting(g, {"w1", "w2"}, {"w1", "w2"});
  built = build(g, request, unusedIs(UnusedPolicy::None));
  EXPECT_EQ(built.numGenerated, 0u);
  EXPECT_EQ(built.text, "heads \n");
}

TEST(GradientPaths, XS_09_AnXOnTheWayToAnotherXDoesNotCutIt) {
  TestGraph g("a = _mul_scalar(x) {scalar=2}; y = elemwise_mul(a, a)");
  for (auto [xs, expected] : {std::pair<std::vector<StringRef>, Numbers>{{"x", "a"}, {24, 12}}, {{"a", "x"}, {12, 24}}})
    EXPECT_EQ(valuesOf(build(g, wrt(g, xs), GradientOptions()), {{"x", Array(3.0)}}, 1), expected);
}

TEST(GradientPaths, XS_11_MessagesCountFromOneAndName) {
  TestGraph g("i = var {__dtype__=int32}; f = Cast(i) {dtype=float32}; a = test_accumulate(x, s@1); "
              "k = elemwise_add(a, f); u = exp(w); heads k, u");
  Inference inference = cantFail(infer(g.context, g, {{{g.at("x").node, {2}}, {g.at("w").node, {2}}}, {}}, {}));
  GradientOptions options;
  options.inference = &inference;
  GradientRequest request = wrt(g, {"x", "w"});
  request.heads = {{g.at("k"), std::nullopt, ""}};
  EXPECT_EQ(build(g, request, options).text.substr(0, 33), "[unreachable] x number 2, 'w', is");
  EXPECT_EQ(build(g, wrt(g, {"x", "w", "i"}), options).text.substr(0, 40), "[not_requires_grad] x number 3, 'i', has");
  EXPECT_EQ(build(g, wrt(g, {"x", "s"}), options).text.substr(0, 28), "[aux_x] x number 2, 's', is ");
}

// A result is not part of a later gradient unless it is requested: order 1 holds nothing that order 2 alone would read,
// and differentiating the emitted graph's first output again adds as much as the first time.
TEST(GradientPaths, XS_13_ResultsAreNotDifferentiatedUnlessAsked) {
  TestGraph g("a = tanh(x); y = elemwise_mul(a, x)");
  Built first = build(g, wrt(g, {"x"}), GradientOptions());
  const Graph once = first.result.graph;
  GradientRequest again = wrt(once, {"x"});
  again.heads = {{g.at("y"), std::nullopt, ""}};
  GradientResult second = cantFail(buildGradient(g.context, once, again, GradientOptions()));
  EXPECT_EQ(second.stats.numGenerated, first.numGenerated);
  again.heads = {{first.result.wrt[0].value, std::nullopt, ""}};
  EXPECT_GT(cantFail(buildGradient(g.context, once, again, GradientOptions())).stats.numGenerated, first.numGenerated);
}

TEST(GradientPaths, ZERO_06_OneOutputOfThree) {
  TestGraph g("s = test_split3(x); y = _mul_scalar(s) {scalar=2}");
  EXPECT_EQ(valuesOf(build(g, wrt(g, {"x"}), GradientOptions()), {{"x", Array(Numbers{1, 1, 1})}}, 1),
            (Numbers{2, 0, 0}));
}

// ---- no-gradient sets (§8)

// The set as a request takes it: entries of any output. What the file marks belongs to it without being named.
TEST(GradientPaths, NG_01_MarkedVariablesJoinTheSet) {
  TestGraph g("x = var; w = var {__stop_gradient__=True}; v = var {__stop_gradient__=False}; a = elemwise_mul(x, w); "
              "y = elemwise_mul(a, v)");
  AllTargets all = allTargets(g, nullptr);
  ASSERT_EQ(all.targets.size(), 2u);
  EXPECT_EQ(all.targets[0].x, g.at("x"));
  EXPECT_EQ(all.targets[1].x, g.at("v"));
  EXPECT_EQ(all.skipped, std::vector<std::string>{"'w' (marked __stop_gradient__)"});
  // Marked or cut by hand is the same.
  TestGraph plain("x = var; w = var; v = var; a = elemwise_mul(x, w); y = elemwise_mul(a, v)");
  EXPECT_EQ(build(g, wrt(g, {"x", "v"}), GradientOptions()).text,
            build(plain, cutting(plain, {"x", "v"}, {"w"}), GradientOptions()).text);
  GradientRequest request = wrt(g, {"v"});
  request.heads = {{g.at("w"), std::nullopt, ""}};
  EXPECT_EQ(build(g, request, GradientOptions()).text,
            "[no_live_output] no output that is differentiated carries gradient: 'w' (in the no-gradient set)");
  // Asked for beside the x, its gradient is zeros.
  request = wrt(g, {"x"});
  request.retained = {{g.at("w"), Request::Write}};
  Built beside = build(g, request, GradientOptions());
  EXPECT_EQ(beside.result.graph.opName(beside.result.retained[0].value.node), "zeros_like");
}

// Rule A: a gradient operator all of whose results are unwanted is dropped. Rule B: one whose incoming gradients all
// are is dropped, and its results join the set, so that what hangs on them goes too. An output's own gradient never
// joins.
TEST(GradientPaths, NG_02_GradientOperatorsNobodyWantsAreNotMade) {
  TestGraph g("a = exp(x); b = tanh(a); c = relu(b); d = sigmoid(w); y = elemwise_add(c, d)");
  EXPECT_EQ(build(g, wrt(g, {"x", "w"}), GradientOptions()).numGenerated, 5u);  // ones, c, b, a, d
  // Rule A: the results of c's, b's and a's gradient are all in the set.
  EXPECT_EQ(build(g, cutting(g, {"w"}, {"x"}), GradientOptions()).numGenerated, 2u);
  // Rule B: cutting c alone takes b's and a's with it.
  Built cut = build(g, cutting(g, {"x", "w"}, {"c"}), unusedIs(UnusedPolicy::None));
  EXPECT_EQ(cut.text, "_head_grad_0 = ones_like(y)\n"
                      "d_backward = _backward_sigmoid(_head_grad_0, d) ^d\n"
                      "heads d_backward\n");
  EXPECT_EQ(cut.result.wrt[0].status, SlotStatus::None);
  // Not hit by rule B: what starts from no incoming gradient at all. make_loss is its own start.
  TestGraph loss("a = exp(x); b = make_loss(a); y = elemwise_add(b, w)");
  EXPECT_EQ(build(loss, wrt(loss, {"x"}), GradientOptions()).text, "b_backward = ones_like(a)\n"
                                                                   "a_backward = elemwise_mul(b_backward, a)\n"
                                                                   "heads a_backward\n");
}

// The same from the operator's side: no input wanted, nothing; no output live, nothing; some outputs dead, zeros in
// their place.
TEST(GradientPaths, NG_03_WhatOneOperatorMakesOfUnwantedSides) {
  TestGraph g("s = test_split3(x); a = exp(s); b = exp(s:1); k = elemwise_add(a, b)");
  EXPECT_EQ(countOps(build(g, wrt(g, {"x"}), GradientOptions()).result.graph, "zeros_like"), 1u);
  Built some = build(g, cutting(g, {"x"}, {"s:1"}), GradientOptions());
  EXPECT_EQ(countOps(some.result.graph, "zeros_like"), 2u);
  EXPECT_EQ(some.numGenerated, 5u);  // ones, a's gradient, two zeros, the split's
  Built none = build(g, cutting(g, {"x"}, {"s", "s:1"}), unusedIs(UnusedPolicy::Zeros));
  EXPECT_EQ(none.text, "x_zero_grad = zeros_like(x)\nheads x_zero_grad\n");
  EXPECT_EQ(none.result.wrt[0].status, SlotStatus::Zeros);
  EXPECT_EQ(build(g, cutting(g, {"x"}, {"x"}), unusedIs(UnusedPolicy::None)).numGenerated, 0u);
}

TEST(GradientPaths, NG_07_D_04_OnThePathIsBelowXAndAboveY) {
  // u is not above y, v is not below x, q has no gradient, and nothing on the path reads the second output of s.
  TestGraph g("s = test_split3(x); u = exp(s:1); v = tanh(w); q = test_part(v); k = elemwise_mul(s, q); y = relu(k); "
              "heads y, u");
  GradientRequest request = wrt(g, {"x"});
  request.heads = {{g.at("y"), std::nullopt, ""}};
  EXPECT_EQ(build(g, request, GradientOptions()).text,
            "_head_grad_0 = ones_like(y)\n"
            "y_backward = _backward_relu(_head_grad_0, y) ^y\n"
            "k_backward = elemwise_mul(y_backward, q)\n"
            "s_zero_head_1 = zeros_like(s:1)\n"
            "s_zero_head_2 = zeros_like(s:2)\n"
            "s_backward = _backward_test_split3(k_backward, s_zero_head_1, s_zero_head_2) ^s\n"
            "heads s_backward\n");
}

// Nothing is emitted that hangs on values no one produces, nor anything nothing reads: every generated node is reached
// from a head along data edges or is a forward node some gradient waits for.
TEST(GradientPaths, NG_08_ASK_22_NoLooseEnds) {
  TestGraph g("s = test_split3(x); a = tanh(s); b = relu(s:1); c = elemwise_mul(a, w); k = elemwise_add(c, b); "
              "y = exp(k); z = sqrt(s:2); heads y, z");
  for (std::vector<StringRef> cut :
       std::vector<std::vector<StringRef>>{{}, {"b"}, {"c"}, {"z", "a"}, {"k"}, {"s:1", "w"}}) {
    Built built = build(g, cutting(g, {"x"}, cut), unusedIs(UnusedPolicy::None));
    const Graph &graph = built.result.graph;
    BitVector read(graph.numNodes());
    for (Value head : graph.heads()) read.set(head.node.value);
    for (uint32_t n = graph.numNodes(); n-- > g.graph.numNodes();) {
      EXPECT_TRUE(read[n]) << graph.name(NodeId(n)).str() << " with " << cut.size() << " cuts";
      for (Value v : graph.inputs(NodeId(n))) read.set(v.node.value);
    }
  }
}

// A second request on the emitted graph adds only what its own gradients feed; what the first call made stays as it is.
TEST(GradientPaths, NG_09_ASecondCallAddsWhatItFeeds) {
  TestGraph g("a = tanh(x); b = relu(w); y = elemwise_mul(a, b); z = exp(a); heads y, z");
  Built first = build(g, wrt(g, {"x", "w"}), GradientOptions());
  const Graph once = first.result.graph;
  GradientRequest request = wrt(once, {"x"});
  request.heads = {{g.at("y"), std::nullopt, ""}};
  GradientResult second = cantFail(buildGradient(g.context, once, request, GradientOptions()));
  EXPECT_EQ(dumpFrom(second.graph, once.numNodes(), once.heads().size()),
            "_head_grad_0_1 = ones_like(y)\n"
            "y_backward_1 = elemwise_mul(_head_grad_0_1, b)\n"
            "a_backward_1 = _backward_tanh(y_backward_1, a) ^a\n"
            "heads a_backward_1\n");
  EXPECT_EQ(second.stats.numGenerated, 3u) << "nothing was made and thrown away";
  EXPECT_EQ(dumpFrom(second.graph, 0, 0).substr(0, dump(once).find("heads")),
            dump(once).substr(0, dump(once).find("heads")));
}

// The gradients of what is kept have the same bits, whatever else is requested.
TEST(GradientPaths, NG_10_PruningKeepsEveryBit) {
  TestGraph g("a = tanh(x); b = exp(w); c = elemwise_mul(a, b); d = sigmoid(c); e = elemwise_mul(d, a); "
              "f = elemwise_mul(e, v); y = log(f)");
  Bindings bindings{{"x", Array(0.3)}, {"w", Array(0.7)}, {"v", Array(1.9)}};
  Built all = build(g, wrt(g, {"x", "w", "v"}), GradientOptions());
  Numbers whole = valuesOf(all, bindings, 1);
  const std::vector<StringRef> names{"x", "w", "v"};
  GradientOptions unpruned;
  unpruned.reach = ReachPolicy::WholeGraph;
  for (size_t i = 0; i < names.size(); ++i) {
    Built one = build(g, wrt(g, {names[i]}), GradientOptions());
    EXPECT_EQ(valuesOf(one, bindings, 1), Numbers{whole[i]}) << names[i].str();
    EXPECT_LE(one.numGenerated, all.numGenerated);
    GradientResult visited = cantFail(buildGradient(g.context, g, wrt(g, {names[i]}), unpruned));
    EXPECT_EQ(evaluate(visited.graph, bindings)[1].values, Numbers{whole[i]});
    EXPECT_LE(one.result.stats.numGenerated, visited.stats.numGenerated);
  }
  EXPECT_LT(build(g, wrt(g, {"v"}), GradientOptions()).numGenerated, all.numGenerated);
}

TEST(GradientPaths, NG_11_EverythingCutIsAnEmptyResult) {
  TestGraph g("h = FullyConnected(x, w, b) {num_hidden=4}; y = SoftmaxOutput(h, label)");
  Built built = build(g, cutting(g, {"w", "b"}, {"w", "b"}), unusedIs(UnusedPolicy::None));
  EXPECT_EQ(dump(built.result.graph), dump(g)) << "no backward operators";
  for (const GradientSlot &slot : built.result.wrt) EXPECT_EQ(slot.status, SlotStatus::None);
}

// ---- stops (§8)

TEST(GradientPaths, STOP_02_TheOutputOfALossIsListedAsLoss) {
  TestGraph g("q = square(x); l = make_loss(q)");
  EXPECT_EQ(g.graph.listedName(g.at("l")), "l_loss");
  EXPECT_EQ(build(g, wrt(g, {"x"}), GradientOptions()).text, "l_backward = ones_like(q)\n"
                                                             "q_backward = _backward_square(l_backward, x) ^q\n"
                                                             "heads q_backward\n");
}

// x2 = detach(x + 2) is a new variable for the gradient: x is unconnected, y0 gets 1, and nothing is made for x.
TEST(GradientPaths, STOP_04_ADetachedValueLeavesItsSourceAlone) {
  TestGraph g("t = _plus_scalar(x) {scalar=2}; x2 = var; y = elemwise_add(x2, y0); heads t, y");
  GradientRequest request = wrt(g, {"x", "y0"});
  request.heads = {{g.at("y"), std::nullopt, ""}};
  EXPECT_EQ(build(g, request, GradientOptions()).text,
            "[unreachable] x number 1, 'x', is not reached from any output that is differentiated");
  Built built = build(g, request, unusedIs(UnusedPolicy::None));
  EXPECT_EQ(built.text, "_head_grad_0 = ones_like(y)\nheads _head_grad_0\n");
  EXPECT_EQ(built.result.wrt[0].status, SlotStatus::None);
  EXPECT_EQ(valuesOf(built, {{"x", Array(5.0)}, {"x2", Array(7.0)}, {"y0", Array(1.0)}}, 2), Numbers{1});
}

TEST(GradientPaths, STOP_05_CastingToWholeNumbersStops) {
  for (auto [type, stops] :
       {std::pair<StringRef, bool>{"int32", true}, {"bool", true}, {"uint8", true}, {"float16", false}}) {
    TestGraph g(
        ("a = exp(x); i = Cast(a) {dtype=" + type + "}; f = Cast(i) {dtype=float32}; y = elemwise_add(f, w)").str());
    Inference inference = cantFail(infer(g.context, g, {{{g.at("x").node, {2}}}, {}}, {}));
    GradientOptions options;
    options.inference = &inference;
    Built built = build(g, wrt(g, {"x"}), options);
    if (stops) EXPECT_EQ(built.text, "x_zero_grad = zeros_like(x)\nheads x_zero_grad\n") << type.str();
    else EXPECT_EQ(countOps(built.result.graph, "_backward_cast"), 2u) << type.str();
  }
}

}  // namespace
}  // namespace gradc
