// What passes may rely on about operators (§2): what a rule answers, which forms of gradient there are, masks and
// flags.
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/verify.h"
#include "ops/kit/primitives.h"
#include "passes/gradient/gradient.h"
#include "passes/gradient/higher_order/keep_lists.h"
#include "passes/lowering/lower_to.h"
#include "passes/memory/plan_memory.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

// The generated part of the gradient graph of `text` toward `names`.
std::string generated(TestGraph &g, ArrayRef<StringRef> names) {
  Graph graph = gradientOf(g.context, g, names, 1).graph;
  return dumpFrom(graph, g.graph.numNodes(), g.graph.heads().size());
}

TEST(OperatorContract, REG_01_ARuleAnswersForEveryInput) {
  // The head gradient itself, for several inputs.
  TestGraph add("y = elemwise_add(a, b)");
  EXPECT_EQ(generated(add, {"a"}), "_head_grad_0 = ones_like(y)\nheads _head_grad_0\n");
  EXPECT_EQ(generated(add, {"b"}), "_head_grad_0 = ones_like(y)\nheads _head_grad_0\n");
  // Outputs of one node.
  TestGraph mul("y = elemwise_mul(a, b)");
  EXPECT_EQ(generated(mul, {"a", "b"}),
            "_head_grad_0 = ones_like(y)\ny_backward = _backward_mul(_head_grad_0, a, b) ^y\n"
            "heads y_backward, y_backward:1\n");
  // Outputs of several nodes.
  TestGraph ratio("y = test_ratio(a, b); heads y, y:1");
  GradientResult result = gradientOf(ratio.context, ratio, {"a", "b"}, 1);
  EXPECT_NE(result.wrt[0].value.node, result.wrt[1].value.node);
}

// y = x0 + … + x39 to speak of; the gradient of x33 reads x33 and x39.
constinit const OpDef kForty = {
    .name = "forty",
    .inputs = {{}, [](const NodeKind &) { return 40u; }, true},
    .shape = shapes::same,
    .gradient =
        [](GradRule &g) {
          for (size_t i = 0; i < 40; ++i) g.dx(i, i == 33 ? g.emit(kElemwiseMul, {g.x(33), g.x(39)}) : g.dy(0));
        },
};

TEST(OperatorContract, REG_03_KeepListsComeFromPlaceholders) {
  TestContext context;
  using Positions = std::vector<uint32_t>;
  auto kept = [&](StringRef op, std::initializer_list<AttrText> attrs) {
    Attrs list = context.attrs(ArrayRef<AttrText>(attrs.begin(), attrs.size()));
    KeepList keepList = cantFail(keepListOf(context, cantFail(context.kind(*context.ops.find(op), list))));
    return std::pair(keepList.inputs, keepList.outputs);
  };
  using Lists = std::pair<Positions, Positions>;
  EXPECT_EQ(kept("FullyConnected", {{"num_hidden", "2"}}), Lists({0, 1}, {})) << "data and weight, not the bias";
  EXPECT_EQ(kept("Pooling", {{"kernel", "(2,2)"}}), Lists({0}, {})) << "the outputs are operands nobody looks into";
  EXPECT_EQ(kept("tanh", {}), Lists({}, {0}));
  EXPECT_EQ(kept("elemwise_div", {}), Lists({0, 1}, {}));
  EXPECT_EQ(kept("BatchNorm", {}), Lists({0}, {1, 2})) << "nor the statistics it overwrites";
  EXPECT_EQ(describeError(keepListOf(context, cantFail(context.opaqueKind("mystery", Attrs(), 1)))),
            "[unknown_op] operator 'mystery' is unknown, so its keep-list is unknown");
  cantFail(context.ops.add(kForty));
  EXPECT_EQ(kept("forty", {}), Lists({33, 39}, {})) << "however many inputs there are";
}

TEST(OperatorContract, REG_04_SeveralOperatorsOrNone) {
  TestGraph g("y = test_sine(x)");
  EXPECT_EQ(generated(g, {"x"}), "_head_grad_0 = ones_like(y)\ny_backward_0 = test_cosine(x)\n"
                                 "y_backward_1 = elemwise_mul(_head_grad_0, y_backward_0)\nheads y_backward_1\n");
  // An operator without a gradient that is on no path is not an error.
  TestGraph none("f = _greater_scalar(x) {scalar=0}; y = elemwise_add(f, w)");
  EXPECT_EQ(generated(none, {"x", "w"}), "x_zero_grad = zeros_like(x)\n_head_grad_0 = ones_like(y)\n"
                                         "heads x_zero_grad, _head_grad_0\n");
}

TEST(OperatorContract, REG_05_REG_06_REG_07_REG_08_FormsOfFusedGradients) {
  TestGraph in("y = square(x)"), out("y = sqrt(x)"), none("y = Flatten(x)"), both("y = softsign(x)");
  EXPECT_EQ(generated(in, {"x"}), "_head_grad_0 = ones_like(y)\ny_backward = _backward_square(_head_grad_0, x) ^y\n"
                                  "heads y_backward\n");
  EXPECT_EQ(generated(out, {"x"}), "_head_grad_0 = ones_like(y)\ny_backward = _backward_sqrt(_head_grad_0, y) ^y\n"
                                   "heads y_backward\n");
  EXPECT_EQ(generated(none, {"x"}), "_head_grad_0 = ones_like(y)\ny_backward = _backward_copy(_head_grad_0) ^y\n"
                                    "heads y_backward\n");
  // Head gradients, inputs, outputs; attributes are those of the forward node.
  TestGraph pool("y = Pooling(x) {kernel=(2,2), pool_type=avg}");
  GradientResult result = gradientOf(pool.context, pool, {"x"}, 1);
  NodeId n = result.wrt[0].value.node;
  EXPECT_EQ(dumpFrom(result.graph, 2, 1),
            "_head_grad_0 = ones_like(y)\ny_backward = _backward_Pooling(_head_grad_0, x, y) "
            "^y\nheads y_backward\n");
  EXPECT_EQ(result.graph.attrs(n), result.graph.attrs(nodeNamed(result.graph, "y")));
}

// Found by fuzzing: gather_nd has no attribute `shape`, its gradient has one, and reads it.
TEST(OperatorContract, REG_05_WhatTheForwardOperatorDoesNotKnowIsNotPassedOn) {
  TestGraph g("y = gather_nd(x, i) {shape=(1,1), __ctx_group__=left}");
  const GradientResult result = gradientOf(g.context, g, {"x"}, 1);
  const Attrs &attrs = result.graph.attrs(result.wrt[0].value.node);
  EXPECT_EQ(attrs.get("shape"), std::nullopt);
  EXPECT_EQ(attrs.get("__ctx_group__"), StringRef("left"));
  EXPECT_EQ(result.graph.attrs(nodeNamed(result.graph, "y")), g.graph.attrs(nodeNamed(g.graph, "y")));
  // A decomposition: sum has `exclude`, norm has not.
  TestGraph n("y = norm(x) {ord=1, axis=0, exclude=True}");
  const Graph lowered = cantFail(lowerTo(n.context, n, kPrimitivesTarget, nullptr));
  for (uint32_t i = 0; i < lowered.numNodes(); ++i)
    EXPECT_EQ(lowered.attrs(NodeId(i)).get("exclude"), std::nullopt) << lowered.name(NodeId(i)).str();
}

TEST(OperatorContract, REG_09_ZeroHeadsVisitNoRule) {
  // Whatever the form: a node all of whose head gradients are zero by structure leads to nothing.
  for (StringRef op : {"square", "sqrt", "Flatten", "softsign", "test_sine"}) {
    TestGraph g(("a = " + op + "(x); b = BlockGrad(a); y = elemwise_add(b, w)").str());
    EXPECT_EQ(generated(g, {"x"}), "x_zero_grad = zeros_like(x)\nheads x_zero_grad\n") << op.str();
    TestGraph h(("a = " + op + "(x); b = sign(a); y = elemwise_add(b, w)").str());
    EXPECT_EQ(generated(h, {"x"}), "x_zero_grad = zeros_like(x)\nheads x_zero_grad\n") << op.str();
  }
}

TEST(OperatorContract, REG_11_InferenceGoesBothWays) {
  TestContext context;
  // The output's shape reaches the inputs, and one input's type the other.
  Graph graph = cantFail(parseGraph(context, "y = elemwise_add(a, b); z = Flatten(y); w = elemwise_mul(z, c)"));
  InferRequest hints{{{nodeNamed(graph, "a"), {kUnknownDim, 3}}, {nodeNamed(graph, "c"), {2, 3}}},
                     {{nodeNamed(graph, "b"), DType::Float16}}};
  InferOptions options;
  options.allowUnknown = true;
  Inference inference = cantFail(infer(context, graph, hints, options));
  auto shape = [&](StringRef name) { return toString(inference.shapeOf(graph.entry(Value{nodeNamed(graph, name)}))); };
  EXPECT_EQ(shape("b"), "(2,3)");
  EXPECT_EQ(shape("y"), "(2,3)");
  EXPECT_EQ(inference.dtype[graph.entry(Value{nodeNamed(graph, "c")})], DType::Float16);
}

TEST(OperatorContract, REG_13_BackwardOperatorsNameTheirForwardNode) {
  TestContext context;
  GraphBuilder builder(context);
  Value x = builder.addVariable("x", Attrs()), h = builder.addVariable("h", Attrs());
  NodeId alone = cantFail(builder.add(*context.ops.find("_backward_tanh"), {h, x}, {"alone", Attrs(), NodeId()}));
  Graph graph = cantFail(std::move(builder).freeze({Value{alone}}, {})).graph;
  EXPECT_EQ(describeError(verifyGraph(graph, 5)).substr(0, 16), "[backward_match]");
}

TEST(OperatorContract, REG_14_InplacePairsAreOutputsAndInputs) {
  TestContext context;
  size_t numIdentities = 0, numPairs = 0;
  for (const OpDef *op : context.ops.all())
    for (const InplacePair &pair : op->inplace) {
      ++numPairs;
      numIdentities += pair.isIdentity;
      EXPECT_TRUE(op->outputs.number || pair.output < op->outputs.names.count) << op->name.str();
      EXPECT_TRUE(op->inputs.number || pair.input < op->inputs.names.count) << op->name.str();
      EXPECT_FALSE(op->ignored.fixed >> pair.input & 1) << op->name.str() << ": an input without contents";
    }
  EXPECT_GT(numPairs, 50u);
  EXPECT_GT(numIdentities, 5u);
  // b is computed where a was.
  TestGraph g("x = var {__shape__=(64,)}; a = exp(x); b = tanh(a); y = exp(b)");
  Inference inference = cantFail(infer(g.context, g, {}, {}));
  MemoryPlan plan = cantFail(planMemory(g.context, g, inference, countRequests(g, {}), {}));
  EXPECT_EQ(plan.offset[g.graph.entry(g.at("b"))], plan.offset[g.graph.entry(g.at("a"))]);
}

TEST(OperatorContract, REG_15_IgnoredInputsKeepNothingAlive) {
  TestContext context;
  for (StringRef op : {"zeros_like", "ones_like"}) {
    const KindRef handle = cantFail(context.kind(*context.ops.find(op), Attrs()));
    const NodeKind &kind = *handle;
    EXPECT_TRUE(kind.isIgnored(0)) << op.str();
  }
  const KindRef likeHandle = cantFail(context.kind(*context.ops.wellKnown.identityLike, Attrs()));
  const NodeKind &like = *likeHandle;
  EXPECT_FALSE(like.isIgnored(0));
  EXPECT_TRUE(like.isIgnored(1));
  // Nothing reads the value of a: it gets no place.
  TestGraph g("x = var {__shape__=(4,)}; a = exp(x); z = zeros_like(a); y = elemwise_add(z, x)");
  Inference inference = cantFail(infer(g.context, g, {}, {}));
  MemoryPlan plan = cantFail(planMemory(g.context, g, inference, countRequests(g, {}), {}));
  EXPECT_EQ(plan.offset[g.graph.entry(g.at("a"))], kUnused);
}

TEST(OperatorContract, REG_16_OverwrittenInputs) {
  TestGraph g("y = BatchNorm(x, gamma, beta, mean@1, var@1)");
  const NodeKind &kind = g.graph.kind(g.at("y").node);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(kind.isMutated(i), i >= 3) << i;
  InputLists lists = listInputs(g);
  EXPECT_EQ(lists.args.size(), 3u);
  EXPECT_EQ(lists.aux.size(), 2u);
}

TEST(OperatorContract, REG_17_HiddenOutputsAreNoHeads) {
  TestGraph g("y = Dropout(x); n = BatchNorm(y, gamma, beta, mean@1, var@1); heads n");
  const NodeKind &dropout = g.graph.kind(g.at("y").node), &norm = g.graph.kind(g.at("n").node);
  EXPECT_EQ(dropout.numOutputs, 2u);
  EXPECT_EQ(dropout.numVisible, 1u);
  EXPECT_EQ(norm.numOutputs, 3u);
  EXPECT_EQ(norm.numVisible, 1u);
  EXPECT_EQ(outputName(norm, 0), "output");
  EXPECT_EQ(outputName(norm, 1), "mean");
  EXPECT_EQ(inputName(norm, 4), "moving_var");
  // The state goes from the forward node to its gradient.
  Graph graph = gradientOf(g.context, g, {"x"}, 1).graph;
  NodeId backward = nodeNamed(graph, "y_backward");
  EXPECT_TRUE(llvm::is_contained(graph.inputs(backward), Value{nodeNamed(graph, "y"), 1}));
}

TEST(OperatorContract, REG_18_GradientsOfRandomOperatorsTakeTheForwardDraws) {
  TestGraph g("a = Dropout(x) {p=0.5}; b = Dropout(x) {p=0.5}; heads a, b");
  EXPECT_TRUE(g.graph.op(g.at("a").node)->flags.isRandom);
  GradientResult result = gradientOf(g.context, g, {"x"}, 1);
  size_t numRandom = 0;
  for (uint32_t n = g.graph.numNodes(); n < result.graph.numNodes(); ++n)
    numRandom += result.graph.op(NodeId(n)) && result.graph.op(NodeId(n))->flags.isRandom;
  EXPECT_EQ(numRandom, 0u) << "nothing draws again";
  // Equal nodes are two nodes: each has a mask of its own, and dx is the sum of both.
  std::vector<double> ones(64, 1);
  std::vector<Array> heads = evaluate(result.graph, {{"x", Array(ones)}});
  EXPECT_NE(heads[0].values, heads[1].values);
  for (size_t i = 0; i < ones.size(); ++i) EXPECT_EQ(heads[2].values[i], heads[0].values[i] + heads[1].values[i]) << i;
}

TEST(OperatorContract, REG_20_E_42_WrongNumberOfInputs) {
  TestContext context;
  GraphBuilder builder(context);
  Value x = builder.addVariable("x", Attrs());
  EXPECT_EQ(describeError(builder.add(*context.ops.find("elemwise_mul"), {x}, {"y", Attrs(), NodeId()})),
            "[arity] node 'y': operator 'elemwise_mul' takes 2 inputs, got 1");
}

TEST(OperatorContract, REG_23_OutputsNobodyUsesAreAskedNull) {
  TestGraph g("a = var {__shape__=(2,)}; b = var {__shape__=(2,)}; y = broadcast_mul(a, b)");
  Graph graph = gradientOf(g.context, g, {"b"}, 1).graph;
  RequestTable table = countRequests(graph, {});
  NodeId backward = nodeNamed(graph, "y_backward");
  EXPECT_EQ(table.request[graph.entry({backward, 0})], Request::Null);
  EXPECT_EQ(table.request[graph.entry({backward, 1})], Request::Write);
  Inference inference = cantFail(infer(g.context, graph, {}, {}));
  EXPECT_EQ(cantFail(planMemory(g.context, graph, inference, table, {})).offset[graph.entry({backward, 0})], kUnused);
}

}  // namespace
}  // namespace gradc
