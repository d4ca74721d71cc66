// Small promises of the gradient pass: order of construction, head gradients' types, what a rule may leave out, copies.
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/primitives.h"
#include "passes/gradient/gradient.h"
#include "passes/inference/backward_link.h"
#include "passes/inference/infer.h"

#include "llvm/ADT/StringSet.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

using Numbers = std::vector<double>;

/// y = x, z = 2·x; the rule works only for the outputs that have a head gradient.
constinit const OpDef kFrugal = {
    .name = "frugal",
    .inputs = {"data"},
    .outputs = {"once", "twice"},
    .shape = shapes::same,
    .gradient =
        [](GradRule &g) {
          if (g.isZero(1)) return g.dx(0, g.dy(0));
          Value twice = g.emit(kMulScalar, {g.dy(1)}, {{"scalar", "2"}});
          g.dx(0, g.isZero(0) ? twice : g.emit(kElemwiseAdd, {g.dy(0), twice}));
        },
    .kernel =
        [](const KernelCall &call) {
          for (int64_t i = 0; i < call.in[0].size(); ++i) {
            const double x = call.in[0].as<const double>()[i];
            if (call.wants(0)) call.out[0].as<double>()[i] = x;
            if (call.wants(1)) call.out[1].as<double>()[i] = 2 * x;
          }
        },
};

/// a · b, whose rule states that b has no gradient.
constinit const OpDef kOneSided = {
    .name = "one_sided",
    .inputs = {"lhs", "rhs"},
    .shape = shapes::same,
    .gradient =
        [](GradRule &g) {
          g.dx(0, g.emit(kElemwiseMul, {g.dy(0), g.x(1)}));
          g.noGrad(1);
        },
    .kernel = mapFloating<[](auto a, auto b) { return a * b; }>,
};

/// Its rule gives a gradient for an input that the operator does not have.
constinit const OpDef kTalkative = {
    .name = "talkative",
    .inputs = {"data"},
    .shape = shapes::same,
    .gradient =
        [](GradRule &g) {
          g.dx(0, g.dy(0));
          g.dx(1, g.dy(0));
        },
    .kernel = mapFloating<[](auto x) { return x; }>,
};

/// Its rule reads an input it does not have, and goes on.
constinit const OpDef kBlind = {
    .name = "blind",
    .inputs = {"data"},
    .shape = shapes::same,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kElemwiseMul, {g.dy(0), g.x(5)})); },
};

/// Their decompositions end in themselves, each other, more of themselves, or in nothing.
extern const OpDef kSnake, kHere, kThere, kHydra;
constinit const OpDef kSnake = {
    .name = "snake",
    .inputs = {"data"},
    .shape = shapes::same,
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kSnake, {d.x(0)})); },
};
constinit const OpDef kHere = {
    .name = "here",
    .inputs = {"data"},
    .shape = shapes::same,
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kExp, {d.emit(kThere, {d.x(0)})})); },
};
constinit const OpDef kThere = {
    .name = "there",
    .inputs = {"data"},
    .shape = shapes::same,
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kHere, {d.x(0)})); },
};
constinit const OpDef kHydra = {
    .name = "hydra",
    .inputs = {"data"},
    .shape = shapes::same,
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kHydra, {d.emit(kHydra, {d.x(0)})})); },
};
constinit const OpDef kSilent = {
    .name = "silent",
    .inputs = {"data"},
    .shape = shapes::same,
    .decompose = [](DecomposeRule &) {},
};

/// y = t · t of t = exp x, which gathers two contributions within the decomposition.
constinit const OpDef kFork = {
    .name = "fork",
    .inputs = {"data"},
    .shape = shapes::same,
    .decompose =
        [](DecomposeRule &d) {
          Value t = d.emit(kExp, {d.x(0)});
          d.y(0, d.emit(kElemwiseMul, {t, t}));
        },
};

/// A rule with a fused operator for the case that only its second output has a head gradient.
constinit const OpDef kBackwardMoody = {
    .name = "_backward_moody",
    .inputs = {"dy"},
    .shape = shapes::same,
    .flags = {.isBackward = true},
};
constinit const OpDef kMoody = {
    .name = "moody",
    .inputs = {"data"},
    .outputs = {"first", "second"},
    .shape = shapes::same,
    .gradient =
        [](GradRule &g) {
          if (g.isZero(0)) return void(g.fused(kBackwardMoody, {g.dy(1)}));
          g.dx(0, g.dy(0));
        },
};

/// −x, in `levels` decompositions.
struct NestedParams {
  int64_t levels;
};
constexpr AttrSpec kNestedAttrs[] = {required<&NestedParams::levels>("levels", "decompositions to go")};
extern const OpDef kNested;
constinit const OpDef kNested = {
    .name = "nested",
    .inputs = {"data"},
    .attrs = kNestedAttrs,
    .params = paramsOf<NestedParams>(),
    .shape = shapes::same,
    .decompose =
        [](DecomposeRule &d) {
          const int64_t left = d.params<NestedParams>().levels - 1;
          d.y(0, left ? d.emit(kNested, {d.x(0)}, {{"levels", d.number(left)}}) : d.emit(kNegative, {d.x(0)}));
        },
    .kernel = mapFloating<[](auto x) { return -x; }>,
};

// Two of one less: ends, after 2ⁿ nodes.
extern const OpDef kBush;
constinit const OpDef kBush = [] {
  OpDef op = kNested;
  op.name = "bush";
  op.decompose = [](DecomposeRule &d) {
    const int64_t left = d.params<NestedParams>().levels - 1;
    auto oneLess = [&] { return d.emit(kBush, {d.x(0)}, {{"levels", d.number(left)}}); };
    d.y(0, left ? d.emit(kElemwiseAdd, {oneLess(), oneLess()}) : d.emit(kNegative, {d.x(0)}));
  };
  return op;
}();

class GradientContract : public ::testing::Test {
 protected:
  GradientContract() {
    for (const OpDef *op : {&kFrugal, &kOneSided, &kTalkative, &kBlind, &kSnake, &kHere, &kThere, &kHydra, &kSilent,
                            &kNested, &kBush, &kFork, &kBackwardMoody, &kMoody})
      cantFail(context.ops.add(*op));
  }

  Graph parse(StringRef text) { return cantFail(parseGraph(context, text)); }
  GradientResult build(const Graph &graph, const GradientRequest &request) {
    Expected<GradientResult> result = buildGradient(context, graph, request, options);
    if (!result) report_fatal_error(StringRef(describeError(result.takeError())));
    return std::move(*result);
  }
  std::string error(const Graph &graph, const GradientRequest &request) {
    return describeError(buildGradient(context, graph, request, options));
  }
  Numbers values(const GradientResult &result, const Bindings &bindings, size_t numForward) {
    Numbers numbers;
    std::vector<Array> heads = evaluate(result.graph, bindings);
    for (size_t i = numForward; i < heads.size(); ++i) numbers.push_back(heads[i].values.at(0));
    return numbers;
  }

  TestContext context;
  GradientOptions options;
};

// ---- construction (§3)

TEST_F(GradientContract, CON_01_ANodeComesAfterAllItsConsumers) {
  // The last reader of p is made first; p's own gradient reads the sum of all of them.
  Graph graph =
      parse("p = exp(x); a = tanh(p); b = sqrt(p); c = elemwise_add(a, b); d = relu(p); y = elemwise_add(c, d)");
  GradientResult result = build(graph, wrt(graph, {"x"}));
  EXPECT_EQ(dumpFrom(result.graph, graph.numNodes(), 1), "_head_grad_0 = ones_like(y)\n"
                                                         "d_backward = _backward_relu(_head_grad_0, d) ^d\n"
                                                         "b_backward = _backward_sqrt(_head_grad_0, b) ^b\n"
                                                         "a_backward = _backward_tanh(_head_grad_0, a) ^a\n"
                                                         "p_sum_grad = add_n(d_backward, b_backward, a_backward)\n"
                                                         "p_backward = elemwise_mul(p_sum_grad, p)\n"
                                                         "heads p_backward\n");
}

TEST_F(GradientContract, CON_09_D_13_AYThatAnotherYReadsWaitsForIt) {
  // c is a y, and d and e give it gradients: its node is made once, from all three.
  Graph graph = parse("c = exp(x); d = tanh(c); e = elemwise_mul(d, c); heads c, e, d");
  GradientResult result = build(graph, wrt(graph, {"x"}));
  EXPECT_EQ(result.graph.inputs(nodeNamed(result.graph, "c_sum_grad")).size(), 3u);
  NodeId backward = nodeNamed(result.graph, "c_backward");
  EXPECT_EQ(result.graph.inputs(backward)[0].node, nodeNamed(result.graph, "c_sum_grad"));
  const double c = std::exp(0.5), t = std::tanh(c), slope = 1 - t * t;
  EXPECT_NEAR(values(result, {{"x", Array(0.5)}}, 3)[0], (1 + t + (c + 1) * slope) * c, 1e-12);
}

// ---- head gradients (§4)

TEST_F(GradientContract, H_01_OnesHaveTheShapeAndTypeOfTheirOutput) {
  Graph graph = parse("y = exp(x)");
  GradientResult result = build(graph, wrt(graph, {"x"}));
  const Value x{nodeNamed(result.graph, "x")};
  for (DimsBuffer dims : {DimsBuffer{2, 3}, DimsBuffer{0, 3}, DimsBuffer{}})
    for (DType type : {DType::Float32, DType::Float16, DType::Float64}) {
      Inference inference = cantFail(infer(context, result.graph, {{{x.node, dims}}, {{x.node, type}}}, {}));
      EntryId ones = result.graph.firstEntry(nodeNamed(result.graph, "_head_grad_0"));
      EXPECT_EQ(inference.shapeOf(ones).dims(), Dims(dims));
      EXPECT_EQ(inference.dtype[ones], type);
    }
  EXPECT_EQ(values(result, {{"x", Array(0.0)}}, 1), Numbers{1});
  // Differentiating an empty y is not an error: the gradient is empty too.
  std::vector<Array> heads = evaluate(result.graph, {{"x", Array(DimsBuffer{0, 3}, {})}});
  EXPECT_EQ(heads[1].shape, (DimsBuffer{0, 3}));
  EXPECT_TRUE(heads[1].values.empty());
}

TEST_F(GradientContract, H_03_ScalarsHaveOneElementWhateverTheirRank) {
  Graph graph = parse("y = exp(x)");
  options.headPolicy = HeadPolicy::Scalar;
  auto outcome = [&](DimsBuffer dims) {
    Inference inference = cantFail(infer(context, graph, {{{nodeNamed(graph, "x"), dims}}, {}}, {}));
    options.inference = &inference;
    return error(graph, wrt(graph, {"x"})).substr(0, 15);
  };
  for (DimsBuffer dims : {DimsBuffer{}, DimsBuffer{1}, DimsBuffer{1, 1}}) EXPECT_EQ(outcome(dims), "success");
  for (DimsBuffer dims : {DimsBuffer{2}, DimsBuffer{1, 2}, DimsBuffer{0}}) EXPECT_EQ(outcome(dims), "[implicit_head]");
}

TEST_F(GradientContract, H_04_E_38_HeadsAreNotBroadcast) {
  Graph graph = parse("y = exp(x); k = exp(h); heads y, k");
  GradientRequest request = wrt(graph, {"x"});
  request.heads = {{Value{nodeNamed(graph, "y")}, Value{nodeNamed(graph, "h")}, ""}};
  auto outcome = [&](DimsBuffer y, DimsBuffer head) {
    InferRequest hints{{{nodeNamed(graph, "x"), y}, {nodeNamed(graph, "h"), head}}, {}};
    Inference inference = cantFail(infer(context, graph, hints, {}));
    options.inference = &inference;
    return error(graph, request).substr(0, 12);
  };
  EXPECT_EQ(outcome({2, 3}, {2, 3}), "success");
  for (DimsBuffer head : {DimsBuffer{1, 3}, DimsBuffer{3}, DimsBuffer{}, DimsBuffer{3, 2}})
    EXPECT_EQ(outcome({2, 3}, head), "[head_shape]");
}

TEST_F(GradientContract, H_04_E_39_HeadsOfWholeNumbers) {
  Graph graph = parse("h = var {__dtype__=int32}; y = exp(x); k = _copy(h); heads y, k");
  InferRequest hints{{{nodeNamed(graph, "x"), {2}}, {nodeNamed(graph, "h"), {2}}}, {}};
  Inference inference = cantFail(infer(context, graph, hints, {}));
  options.inference = &inference;
  GradientRequest request = wrt(graph, {"x"});
  request.heads = {{Value{nodeNamed(graph, "y")}, Value{nodeNamed(graph, "h")}, ""}};
  EXPECT_EQ(error(graph, request), "[head_dtype] head gradient 1, 'h', has type int32, output 'y_output' has float32");
}

// ---- what rules may leave out (§11)

TEST_F(GradientContract, MO_04_ARuleMaySkipWhatHasNoHeadGradient) {
  Graph graph = parse("f = frugal(x); y = exp(f:1)");
  GradientResult result = build(graph, wrt(graph, {"x"}));
  EXPECT_EQ(result.stats.numZeros, 0u);
  EXPECT_EQ(countOps(result.graph, "zeros_like"), 0u);
  EXPECT_EQ(values(result, {{"x", Array(0.0)}}, 1), Numbers{2});
  // A rule that asks for it gets zeros (ZERO-01).
  Graph split = parse("s = test_split3(x); y = exp(s:1)");
  EXPECT_EQ(build(split, wrt(split, {"x"})).stats.numZeros, 2u);
}

TEST_F(GradientContract, MO_05_PlaceholdersEnterNoSumAndAreNobodysGradient) {
  Graph graph = parse("a = one_sided(w, x); b = tanh(x); y = elemwise_add(a, b)");
  GradientResult result = build(graph, wrt(graph, {"x"}));
  EXPECT_EQ(result.stats.numSums, 0u);
  EXPECT_EQ(result.graph.name(result.wrt[0].value.node), "b_backward");
  // An x that only placeholders reach gets a zeros_like node.
  Graph alone = parse("y = one_sided(w, x)");
  result = build(alone, wrt(alone, {"w", "x"}));
  EXPECT_EQ(result.graph.op(result.wrt[1].value.node), context.ops.wellKnown.zerosLike);
  EXPECT_EQ(values(result, {{"w", Array(3.0)}, {"x", Array(5.0)}}, 1), (Numbers{5, 0}));
}

TEST_F(GradientContract, E_40_ARuleAnswersForTheInputsThereAre) {
  Graph graph = parse("y = talkative(x)");
  EXPECT_EQ(error(graph, wrt(graph, {"x"})),
            "[bad_gradient_rule] the gradient rule of operator 'talkative' gives the gradient of input 1, "
            "but the node has 1");
}

TEST_F(GradientContract, E_40_ARuleReadsTheInputsThereAre) {
  Graph graph = parse("a = exp(x); y = blind(a)");
  Expected<GradientResult> result = buildGradient(context, graph, wrt(graph, {"x"}), options);
  ASSERT_FALSE(result);
  handleAllErrors(result.takeError(), [&](const GradcError &info) {
    EXPECT_EQ(info.message, "the gradient rule of operator 'blind' reads input 5, but the node has 1");
    EXPECT_EQ(info.place.node, nodeNamed(graph, "y"));
  });
}

TEST_F(GradientContract, E_40_ADecompositionThatDoesNotEnd) {
  auto outcome = [&](StringRef op) {
    Graph graph = parse(("a = exp(x); n = " + op + "(a); y = relu(n)").str());
    return error(graph, wrt(graph, {"x"}));
  };
  const StringRef start = "[bad_gradient_rule] the decomposition of operator '";
  EXPECT_EQ(outcome("snake"), (start + "snake' of node 'n' does not end: 'snake' remains after 64 levels").str());
  EXPECT_EQ(outcome("here"), (start + "here' of node 'n' does not end: 'here' remains after 64 levels").str());
  EXPECT_EQ(outcome("there"), (start + "there' of node 'n' does not end: 'there' remains after 64 levels").str());
  EXPECT_EQ(outcome("hydra"), (start + "hydra' of node 'n' does not end: 'hydra' remains after 64 levels").str());
  // A decomposition may take all 64 levels, and each node starts to count anew.
  Graph graph = parse("a = nested(x) {levels=64}; b = nested(a) {levels=64}; y = exp(b)");
  EXPECT_EQ(values(build(graph, wrt(graph, {"x"})), {{"x", Array(0.0)}}, 1), Numbers{1});
}

TEST_F(GradientContract, A_06_ADecompositionOfTooManyNodes) {
  Graph small = parse("n = bush(x) {levels=4}"), large = parse("n = bush(x) {levels=60}");
  EXPECT_EQ(values(build(small, wrt(small, {"x"})), {{"x", Array(0.0)}}, 1), Numbers{-8});
  EXPECT_EQ(error(large, wrt(large, {"x"})),
            "[too_large] the decomposition of operator 'bush' of node 'n' has more than 262144 nodes");
}

TEST_F(GradientContract, E_41_ADecompositionThatSaysNothing) {
  Graph graph = parse("n = silent(x); y = exp(n)");
  EXPECT_EQ(error(graph, wrt(graph, {"x"})),
            "[bad_gradient_rule] the decomposition of operator 'silent' sets no value for output 0 of node 'n'");
}

TEST_F(GradientContract, NAME_09_SumsWithinDecompositions) {
  Graph graph = parse("a = fork(x); y = fork(a)");
  const Graph gradient = build(graph, wrt(graph, {"x"})).graph;
  StringSet<> names;
  for (uint32_t n = 0; n < gradient.numNodes(); ++n)
    EXPECT_TRUE(names.insert(gradient.name(NodeId(n))).second) << gradient.name(NodeId(n)).str();
}

// ---- how a backward node corresponds to its forward node (INF-08)

TEST_F(GradientContract, INF_08_AFusedOperatorForOneCaseAlone) {
  Graph graph = parse("x = var {__shape__=(2,3)}; m = moody(x); y = exp(m:1)");
  const Graph gradient = build(graph, wrt(graph, {"x"})).graph;
  const NodeId fused = nodeNamed(gradient, "m_backward");
  ASSERT_EQ(gradient.op(fused), &kBackwardMoody);
  EXPECT_EQ(describeError(infer(context, gradient, {}, {})), "success");
  RuleSummaries summaries(context);
  const BackwardLink *link = summaries.link(gradient.kindHandle(nodeNamed(gradient, "m")), gradient.kindHandle(fused));
  ASSERT_TRUE(link);
  EXPECT_EQ(link->outputs, (std::vector<LinkedEntry>{{0, 0}}));
  EXPECT_EQ(link->fromOutputs, (std::vector<LinkedEntry>{{0, 1}}));
}

TEST_F(GradientContract, INF_08_E_56_AMistakeInTheRuleIsNamed) {
  Graph graph = parse("x = var {__shape__=(2,3)}; y = blind(x); b = _backward_moody(x) ^y; heads b");
  EXPECT_EQ(
      describeError(infer(context, graph, {}, {})),
      "[backward_match] node 'b' (_backward_moody) has node 'y' (blind) as its forward node, whose gradient cannot be "
      "determined: the gradient rule of operator 'blind' reads input 5, but the node has 1 [bad_gradient_rule]");
}

// ---- copies (§6)

TEST_F(GradientContract, COPY_02_WithoutACopyOperatorGradientsShareEntries) {
  Graph graph = parse("y = elemwise_add(a, b)");
  EXPECT_EQ(build(graph, wrt(graph, {"a", "b"})).stats.numCopies, 1u);
  context.ops.wellKnown.copy = nullptr;
  GradientResult result = build(graph, wrt(graph, {"a", "b"}));
  EXPECT_EQ(result.wrt[0].value, result.wrt[1].value);
  EXPECT_EQ(values(result, {{"a", Array(1.0)}, {"b", Array(1.0)}}, 1), (Numbers{1, 1}));
  // A chain of additions ends with its last one.
  options.sumCap = 2;
  Graph chain = parse("a = exp(x); y = elemwise_mul(a, x)");
  result = build(chain, wrt(chain, {"x"}));
  EXPECT_EQ(result.graph.opName(result.wrt[0].value.node), "_grad_add");
}

TEST_F(GradientContract, COPY_07_AnIntermediateThatIsAnXIsSummedOnce) {
  Graph graph = parse("p = exp(x); y = elemwise_mul(p, p)");
  GradientRequest request = wrt(graph, {"x", "p"});
  GradientResult without = build(graph, request);
  request.retained = {{Value{nodeNamed(graph, "p")}, Request::Write}};
  GradientResult result = build(graph, request);
  EXPECT_EQ(result.stats.numSums, without.stats.numSums);
  EXPECT_EQ(result.stats.numGenerated, without.stats.numGenerated + 1) << "a copy, so that the heads share no buffer";
  EXPECT_EQ(result.graph.inputs(result.retained[0].value.node)[0], result.wrt[1].value);
  EXPECT_EQ(values(result, {{"x", Array(0.0)}}, 1), (Numbers{2, 2, 2}));
}

}  // namespace
}  // namespace gradc
