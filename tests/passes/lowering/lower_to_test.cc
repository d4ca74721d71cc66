// Down to the operators of a target, or an error that says what is missing.
#include "ir/op/hidden_keys.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/verify.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/primitives.h"
#include "passes/lowering/lower_to.h"
#include "passes/order/order_mutation.h"
#include "tests/support/ops/derivative.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

constexpr StringRef kThere[] = {"exp", "_mul_scalar", "elemwise_mul", "sum", "_backward_square"};
bool isThere(const NodeKind &kind) { return is_contained(kThere, kind.op->name); }

// The target has a shorter form than the decomposition.
void logBetter(DecomposeRule &d) { d.y(0, d.emit(kExp, {d.x(0)})); }
void noBetter(DecomposeRule &) {}

constexpr TargetRow kRows[] = {{"log", logBetter}, {"square", noBetter}};
constexpr Target kTarget = {.name = "test", .title = "the test's host", .has = isThere, .rows = kRows};
constexpr Target kWithCopies = {.name = "test", .title = "a host with copies", .has = [](const NodeKind &kind) {
                                  return isThere(kind) || kind.op == &kCopy;
                                }};

template <void (*Say)(DecomposeRule &)> constexpr OpDef unary(StringRef name) {
  return {.name = name, .inputs = {"data"}, .shape = shapes::same, .decompose = Say};
}

void sayTwice(DecomposeRule &d) { d.y(0, d.emit(kMulScalar, {d.x(0)}, {{"scalar", "2"}})); }
constexpr OpDef kTwice = unary<sayTwice>("twice");
void sayFourTimes(DecomposeRule &d) { d.y(0, d.emit(kTwice, {d.emit(kTwice, {d.x(0)})})); }
constexpr OpDef kFourTimes = unary<sayFourTimes>("four_times");
void sayItself(DecomposeRule &d) { d.y(0, d.emit(*d.kind().op, {d.emit(kExp, {d.x(0)})})); }
constexpr OpDef kSnake = unary<sayItself>("snake");
void sayNothing(DecomposeRule &) {}
constexpr OpDef kMute = unary<sayNothing>("mute");
void sayWithAxis(DecomposeRule &d) {
  const Value twice = d.emit(kTwice, {d.x(0)});
  d.y(0, d.emit(kMulScalar, {twice}, {{"scalar", d.number(d.size(twice, 1))}}));
}
constexpr OpDef kTimesColumns = unary<sayWithAxis>("times_columns");
void sayInSteps(DecomposeRule &d) { d.y(0, d.emit(kTimesColumns, {d.emit(kSum, {d.x(0)}, {{"axis", "0"}})})); }
constexpr OpDef kInSteps = unary<sayInSteps>("in_steps");
void sayDead(DecomposeRule &d) {
  d.emit(kTanh, {d.x(0)});  // the target has none
  d.y(0, d.x(0));
}
constexpr OpDef kWithDeadNode = unary<sayDead>("with_dead_node");
void sayForward(DecomposeRule &d) { d.y(0, d.emit(kElemwiseMul, {d.x(0), d.forwardInput(0)})); }
constexpr OpDef kAlone = unary<sayForward>("alone");

// Reads what the state was after it has overwritten it.
void sayTooLate(DecomposeRule &d) {
  const Value written = d.emit(kAssign, {d.x(1), d.x(0)});
  const Value late = d.emit(kExp, {beforeWrite(d.x(1))});
  d.wait(late, written);
  d.y(0, late);
}
constexpr OpDef kTooLate = {
    .name = "too_late", .inputs = {"data", "state"}, .shape = shapes::same, .mutated = {1}, .decompose = sayTooLate};

// x · x, of which only the first factor has a gradient.
void sayHalfHeld(DecomposeRule &d) {
  d.y(0, d.emit(kElemwiseMul, {d.x(0), d.emit(kCopy, {d.x(0)}, {{kStopMark, "True"}})}));
}
constexpr OpDef kHalfHeld = [] {
  OpDef op = unary<sayHalfHeld>("half_held");
  op.kernel = mapFloating<[](auto x) { return x * x; }>;
  return op;
}();

// exp, that many decompositions away.
struct CountdownParams {
  int64_t from;
};
constexpr AttrSpec kCountdownAttrs[] = {required<&CountdownParams::from>("from", "how many")};
void sayOneLess(DecomposeRule &d) {
  const int64_t from = d.params<CountdownParams>().from;
  d.y(0, from == 1 ? d.emit(kExp, {d.x(0)}) : d.emit(*d.kind().op, {d.x(0)}, {{"from", d.number(from - 1)}}));
}
constexpr OpDef kCountdown = {
    .name = "countdown",
    .inputs = {"data"},
    .attrs = kCountdownAttrs,
    .params = paramsOf<CountdownParams>(),
    .shape = shapes::same,
    .decompose = sayOneLess,
};

// Two of one less: ends, after 2ⁿ nodes.
void sayTwoOfOneLess(DecomposeRule &d) {
  const int64_t from = d.params<CountdownParams>().from;
  auto oneLess = [&] { return d.emit(*d.kind().op, {d.x(0)}, {{"from", d.number(from - 1)}}); };
  d.y(0, from == 1 ? d.emit(kExp, {d.x(0)}) : d.emit(kElemwiseMul, {oneLess(), oneLess()}));
}
constexpr OpDef kBush = [] {
  OpDef op = kCountdown;
  op.name = "bush";
  op.decompose = sayTwoOfOneLess;
  return op;
}();

// A gradient operator of a host that computes from nothing.
constexpr OpDef kFromNothing = {
    .name = "from_nothing", .inputs = {}, .shape = shapes::same, .flags = {.isBackward = true}};
void sayFromNothing(DecomposeRule &d) {
  d.y(0, d.emit(kElemwiseMul, {d.emit(kExp, {d.x(0)}), d.emit(kFromNothing, {})}));
}
constexpr OpDef kTimesConstant = unary<sayFromNothing>("times_constant");

struct Lowered {
  explicit Lowered(StringRef text, ArrayRef<int64_t> shape = {}) : graph(context, text, shape) {}

  struct Parsed {
    Parsed(Context &context, StringRef text, ArrayRef<int64_t> shape) {
      for (const OpDef *op : {&kTwice, &kFourTimes, &kSnake, &kMute, &kTimesColumns, &kInSteps, &kWithDeadNode, &kAlone,
                              &kTooLate, &kCountdown, &kBush, &kFromNothing, &kTimesConstant, &kHalfHeld})
        cantFail(context.ops.add(*op));
      graph = cantFail(parseGraph(context, text));
      if (shape.empty()) return;
      InferOptions options;
      options.allowUnknown = true;
      known = cantFail(infer(context, graph, {{{nodeNamed(graph, "x"), DimsBuffer(shape)}}, {}}, options));
    }
    Graph graph;
    std::optional<Inference> known;
  };

  Expected<Graph> run(const Target &target = kTarget) {
    return lowerTo(context, graph.graph, target, graph.known ? &*graph.known : nullptr);
  }
  std::string outcome() { return describeError(run()); }

  TestContext context;
  Parsed graph;
};

// Nothing has to happen before a gradient operator that reads nothing, and what the node waited for is not its forward
// node.
TEST(LowerTo, A_17_MUT_06_AGradientOperatorThatReadsNothingWaitsForNothing) {
  const Target target = {.name = "test", .title = "test", .has = [](const NodeKind &kind) {
                           return isThere(kind) || kind.op == &kFromNothing;
                         }};
  Lowered l("a = exp(x); y = times_constant(x) ^a; heads y");
  const Graph lowered = cantFail(l.run(target));
  const NodeId nothing = lowered.inputs(lowered.heads()[0].node)[1].node;
  EXPECT_EQ(lowered.op(nothing), &kFromNothing);
  EXPECT_TRUE(lowered.controlDeps(nothing).empty());
  EXPECT_EQ(lowered.controlDeps(lowered.inputs(lowered.heads()[0].node)[0].node).size(), 1u);
}

// Equal names, and none, get the numbers that they got when each search began at 0.
TEST(LowerTo, NAME_09_EqualNamesAreNumberedOnward) {
  Lowered l("a = four_times(x)");
  for (StringRef name : {"s", ""}) {
    GraphBuilder builder(l.context);
    Value v = builder.addVariable("x", Attrs());
    const Value taken{cantFail(builder.add(*l.context.ops.find("exp"), v, {name.str() + "_1"}))};
    for (int i = 0; i < 3; ++i) v = Value{cantFail(builder.add(*l.context.ops.find("four_times"), v, {name.str()}))};
    const Graph graph = cantFail(std::move(builder).freeze({v, taken}, {})).graph;
    const Graph lowered = cantFail(lowerTo(l.context, graph, kTarget, nullptr));
    std::vector<std::string> names;
    for (uint32_t n = 0; n < lowered.numNodes(); ++n) names.push_back(lowered.name(NodeId(n)).str());
    const std::string s = name.str();
    EXPECT_EQ(names, (std::vector<std::string>{"x", s + "_0", s, s + "_2", s, s + "_3", s, s + "_1"}));
  }
}

TEST(LowerTo, A_17_DecomposesUntilTheTargetHasEverything) {
  Lowered l("a = exp(x); f = four_times(a); y = elemwise_mul(f, a)");
  EXPECT_EQ(dump(cantFail(l.run())),
            "a = exp(x)\nf_0 = _mul_scalar(a)\nf = _mul_scalar(f_0)\ny = elemwise_mul(f, a)\nheads y\n");
}

TEST(LowerTo, A_17_ARowOfTheTargetTakesPrecedence) {
  EXPECT_EQ(dump(cantFail(Lowered("y = log(x)").run())), "y = exp(x)\nheads y\n");
}

// The row of square says nothing, so its decomposition is asked.
TEST(LowerTo, A_17_ARowMayLeaveTheNodeToItsDecomposition) {
  EXPECT_EQ(
      Lowered("y = square(x)").outcome(),
      "[unknown_op] operator 'square' of node 'y' cannot be expressed in the operators of the test's host: it needs "
      "'broadcast_mul'");
}

TEST(LowerTo, A_17_NodesNobodyReadsAreNotLowered) {
  EXPECT_EQ(dump(cantFail(Lowered("a = exp(x); y = with_dead_node(a)").run())), "a = exp(x)\nheads a\n");
}

TEST(LowerTo, A_17_ErrorsNameTheNodeTheOperatorAndWhatIsMissing) {
  EXPECT_EQ(Lowered("n = tanh(x)").outcome(),
            "[unknown_op] operator 'tanh' of node 'n' cannot be expressed in the operators of the test's host");
  EXPECT_EQ(Lowered("n = mute(x)").outcome(),
            "[bad_gradient_rule] operator 'mute' of node 'n': the decomposition of operator "
            "'mute' sets no value for output 0, which is read");
  EXPECT_EQ(Lowered("n = snake(x)").outcome(),
            "[bad_gradient_rule] operator 'snake' of node 'n': the decomposition does not "
            "end: 'snake' remains after 64 levels");
  EXPECT_EQ(Lowered("n = alone(x)").outcome(),
            "[backward_match] operator 'alone' of node 'n': the decomposition of operator 'alone' reads input 0 of its "
            "forward node, and this node has none");
}

TEST(LowerTo, A_17_OnlyTheAxisThatIsNeededHasToBeKnown) {
  const std::string refusal =
      "[infer_missing] operator 'times_columns' of node 'n': the decomposition of operator "
      "'times_columns' needs the size of axis 1 of operator 'twice', which it emits, which is unknown";
  EXPECT_EQ(Lowered("n = times_columns(x)").outcome(), refusal);
  EXPECT_EQ(Lowered("n = times_columns(x)", {2, -1}).outcome(), refusal);
  Lowered l("n = times_columns(x)", {-1, 3});
  const Graph lowered = cantFail(l.run());
  EXPECT_EQ(evaluate(lowered, {{"x", Array({1, 3}, {1, 2, 3})}})[0].values, (std::vector<double>{6, 12, 18}));
}

// No order helps a node that waits for the write and reads what was there before; it reads a copy.
TEST(LowerTo, A_17_IR_09_AVersionThatIsGoneIsCopied) {
  const Graph lowered = cantFail(Lowered("y = too_late(x, m@1)").run(kPrimitivesTarget));
  EXPECT_FALSE(bool(checkMutationOrder(lowered)));
  const Bindings values = {{"x", Array({1}, {5})}, {"m", Array({1}, {0})}};
  EXPECT_EQ(evaluate(lowered, values)[0].values, std::vector<double>{1}) << dump(lowered);
}

TEST(LowerTo, A_17_SixtyFourLevelsAndNoMore) {
  EXPECT_EQ(dump(cantFail(Lowered("n = countdown(x) {from=64}").run())), "n = exp(x)\nheads n\n");
  EXPECT_NE(Lowered("n = countdown(x) {from=65}").outcome().find("does not end"), std::string::npos);
}

TEST(LowerTo, A_17_SoManyNodesForOneAndNoMore) {
  EXPECT_EQ(Lowered("n = bush(x) {from=10}").outcome(), "success");
  EXPECT_EQ(Lowered("n = bush(x) {from=60}").outcome(),
            "[too_large] operator 'bush' of node 'n': the decomposition has more than 262144 nodes");
}

// The sum drops an axis: what the second step asks about is inferred from what the first emitted.
TEST(LowerTo, A_17_ShapesOfEmittedNodesAreKnownToLaterSteps) {
  Lowered l("n = in_steps(x)", {5, -1, 7});
  EXPECT_EQ(l.outcome(), "success");
  EXPECT_NE(Lowered("n = in_steps(x)", {5, 7, -1}).outcome(), "success");
}

// What takes the place of a node may list its outputs otherwise: a loop of several numbers them, and the only output of
// an operator without names is plain `output`.
TEST(LowerTo, IR_16_HeadsKeepTheirNames) {
  const std::pair<const char *, std::vector<std::string>> cases[] = {
      {"y = RNN(x, w, s) {mode=rnn_tanh, state_size=3, num_layers=1}; heads y", {"y_output"}},
      {"y = RNN(x, w, s) {mode=rnn_tanh, state_size=3, num_layers=1, state_outputs=True}; heads y:1, y",
       {"y_state_output", "y_output"}},
      {"y = CTCLoss(x, s); z = exp(y); heads y, z", {"y_output0", "z_output"}},
      {"y = topk(x) {ret_typ=value}; heads y", {"y_output0"}},
      {"y = topk(x) {ret_typ=both}; heads y, y:1", {"y_output0", "y_output1"}},
      {"y = silu(x); heads y", {"y_output"}},
  };
  for (const auto &[text, names] : cases) {
    SCOPED_TRACE(text);
    TestGraph g(text);
    InferOptions partial;
    partial.allowUnknown = true;
    const Inference known = cantFail(infer(g.context, g, {{{nodeNamed(g, "x"), DimsBuffer{4, 2, 5}}}, {}}, partial));
    const Graph lowered = cantFail(lowerTo(g.context, g, kPrimitivesTarget, &known));
    std::vector<std::string> found;
    for (Value head : lowered.heads()) found.push_back(lowered.listedName(head));
    EXPECT_EQ(found, names);
    const Graph again = cantFail(lowerTo(g.context, lowered, kPrimitivesTarget, nullptr));
    for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(again.listedName(again.heads()[i]), names[i]);
  }
}

TEST(LowerTo, IR_16_ATableOfMoreHeadsThanThereAre) {
  TestGraph g("y = silu(x); heads y");
  GraphTable table;
  table.gradient.emplace().numForwardHeads = 4;
  const Graph lowered = cantFail(lowerTo(g.context, g.graph.withTable(table), kPrimitivesTarget, nullptr));
  ASSERT_EQ(lowered.heads().size(), 1u);
  EXPECT_EQ(lowered.listedName(lowered.heads()[0]), "y_output");
}

// The target has _backward_square, but not square: without its forward node it would have no meaning there (INF-08).
TEST(LowerTo, A_17_GradientsOfReplacedNodesAreReplacedAsWell) {
  TestGraph g("y = square(x)");
  const Graph graph = gradientOf(g.context, g, {"x"}, 1).graph;
  ASSERT_EQ(countOps(graph, "_backward_square"), 1u);
  const Graph lowered = cantFail(lowerTo(g.context, graph, kPrimitivesTarget, nullptr));
  EXPECT_EQ(countOps(lowered, "_backward_square"), 0u);
  auto hasFused = [](const NodeKind &kind) { return bool(kind.op->primitive) || kind.op->name == "_backward_square"; };
  const Target both = {.name = "both", .title = "both", .has = hasFused};
  EXPECT_EQ(countOps(cantFail(lowerTo(g.context, graph, both, nullptr)), "_backward_square"), 0u);
}

TEST(LowerTo, A_17_GradientsReadTheInputsOfTheirForwardNodes) {
  TestGraph g("e = exp(x); s = sum(e) {axis=1}; y = square(s)");
  const Graph graph = gradientOf(g.context, g, {"x"}, 1).graph;
  InferOptions partial;
  partial.allowUnknown = true;
  const Inference known = cantFail(infer(g.context, graph, {{{nodeNamed(graph, "x"), {-1, -1}}}, {}}, partial));
  const Graph lowered = cantFail(lowerTo(g.context, graph, kPrimitivesTarget, &known));
  const Bindings bindings{{"x", Array({2, 2}, {0.5, 0.25, -1, 2})}};
  const std::vector<Array> before = evaluate(graph, bindings), after = evaluate(lowered, bindings);
  ASSERT_EQ(before.size(), after.size());
  for (size_t head = 0; head < before.size(); ++head) EXPECT_EQ(before[head].values, after[head].values);
}

// One lowered graph, made without a shape, for axes of any length: also shorter ones than its bounds.
TEST(LowerTo, A_17_GradientsOfSlicesAndPaddingsNeedNoSizes) {
  const char *texts[] = {"y = slice(x) {begin=(None,None,-4), end=(None,None,None), step=(None,None,2)}",
                         "y = slice(x) {begin=(None,None,-2,2), end=(None,None,-5,0), step=(None,None,-1,-2)}",
                         "y = slice(x) {begin=(None,None,3), end=(None,None,9)}",
                         "y = Pad(x) {mode=constant, pad_width=(0,0,0,0,1,2,0,3)}",
                         "y = Pad(x) {mode=edge, pad_width=(0,0,0,0,1,2,0,3)}",
                         "y = Pad(x) {mode=reflect, pad_width=(0,0,0,0,0,0,1,0)}"};
  for (const char *text : texts) {
    TestGraph g(text);
    const Graph graph = gradientOf(g.context, g, {"x"}, 1).graph;
    const Graph lowered = cantFail(lowerTo(g.context, graph, kPrimitivesTarget, nullptr));
    for (std::vector<int64_t> shape : {std::vector<int64_t>{1, 1, 1, 2}, {2, 1, 2, 3}, {1, 2, 6, 5}}) {
      SCOPED_TRACE(std::string(text) + " of " + std::to_string(shape[2]) + " rows");
      Array x(shape, std::vector<double>(static_cast<size_t>(shape[0] * shape[1] * shape[2] * shape[3])));
      for (size_t i = 0; i < x.values.size(); ++i) x.values[i] = static_cast<double>(i);
      const std::vector<Array> before = evaluate(graph, {{"x", x}}), after = evaluate(lowered, {{"x", x}});
      ASSERT_EQ(before.size(), after.size());
      for (size_t head = 0; head < before.size(); ++head) EXPECT_EQ(before[head].values, after[head].values);
    }
  }
}

// A part is spread out by its step: by one that no axis has, the graph would not fit anywhere.
TEST(LowerTo, A_17_LongStepsNeedTheSizeOfTheirAxis) {
  TestGraph g("y = slice(x) {begin=(1,), end=(None,), step=(9223372036854775807,)}");
  const Graph graph = gradientOf(g.context, g, {"x"}, 1).graph;
  const std::string outcome = describeError(lowerTo(g.context, graph, kPrimitivesTarget, nullptr));
  EXPECT_NE(outcome.find("needs the size of axis 0 of input 0, 'data', of its forward node"), std::string::npos)
      << outcome;
  const Inference known = cantFail(infer(g.context, graph, {{{nodeNamed(graph, "x"), {3}}}, {}}, InferOptions()));
  const Graph lowered = cantFail(lowerTo(g.context, graph, kPrimitivesTarget, &known));
  const Bindings bindings{{"x", Array({3}, {1, 2, 3})}};
  EXPECT_EQ(evaluate(lowered, bindings).back().values, (std::vector<double>{0, 1, 0}));
}

// Batch statistics of (1, 3): mean 2, variance 1. Half of each joins half of the moving ones, 10 and 4.
TEST(LowerTo, A_17_StatesAreOverwrittenWhicheverOutputIsRead) {
  const Bindings bindings{{"x", Array({2, 1}, {1, 3})},
                          {"g", Array({1}, {1})},
                          {"b", Array({1}, {0})},
                          {"m", Array({1}, {10})},
                          {"v", Array({1}, {4})}};
  for (const char *read : {"n", "n:1", "n:2"})
    for (const char *states : {"m, v", "m@1, v@1"})
      for (bool isTraining : {true, false}) {
        SCOPED_TRACE(std::string(read) + ", " + states + (isTraining ? ", training" : ", inference"));
        TestGraph g("n = BatchNorm(x, g, b, " + std::string(states) + ") {momentum=0.5}; heads " + read);
        const Inference known = cantFail(infer(g.context, g, hintsOf(g, bindings), InferOptions()));
        const Graph lowered = cantFail(lowerTo(g.context, g, kPrimitivesTarget, &known));
        ASSERT_EQ(countOps(lowered, "_assign"), 2u);
        EXPECT_EQ(describeError(checkMutationOrder(lowered)), "success");
        EXPECT_EQ(describeError(verifyGraph(lowered, 10)), "success");
        NaiveOptions options;
        options.isTraining = isTraining;
        NaiveRun run = cantFail(NaiveRun::run(lowered, bindings, options));
        EXPECT_EQ(run.value(Value{nodeNamed(lowered, "m")}).values[0], isTraining ? 6 : 10);
        EXPECT_EQ(run.value(Value{nodeNamed(lowered, "v")}).values[0], isTraining ? 2.5 : 4);
      }
}

// Of 10, 6 and 3 the sum reads what the first layer left behind.
TEST(LowerTo, A_17_StatesAreOverwrittenInOrder) {
  TestGraph g("n = BatchNorm(x, g, b, m@1, v@1) {momentum=0.5}; k = BatchNorm(n, g, b, m@2, v@2) {momentum=0.5}; "
              "y = broadcast_add(n, m@1); heads k, y");
  const Bindings bindings{{"x", Array({2, 1}, {1, 3})},
                          {"g", Array({1}, {1})},
                          {"b", Array({1}, {0})},
                          {"m", Array({1}, {10})},
                          {"v", Array({1}, {4})}};
  const Inference known = cantFail(infer(g.context, g, hintsOf(g, bindings), InferOptions()));
  const Graph lowered = cantFail(lowerTo(g.context, g, kPrimitivesTarget, &known));
  const Graph ordered = cantFail(orderMutations(g.context, lowered, OverwrittenPolicy::Error)).graph;
  EXPECT_EQ(describeError(checkMutationOrder(ordered)), "success");
  NaiveRun run = cantFail(NaiveRun::run(ordered, bindings, NaiveOptions()));
  EXPECT_EQ(run.value(Value{nodeNamed(ordered, "m")}).values[0], 3) << "half of 6, with the mean of n, 0";
  const Array n = run.value(Value{nodeNamed(ordered, "n")}), y = run.value(ordered.heads()[1]);
  EXPECT_DOUBLE_EQ(y.values[0], n.values[0] + 6) << "between the two";
}

double slopeAt(Context &context, const Graph &graph, double x) {
  std::vector<std::string> names{"x"};
  const Graph gradient = cantFail(derivativeGraph(context, graph, names, 1));
  return evaluate(gradient, {{"x", Array(x)}, {"p1_0", Array(1)}})[0].values[0];
}

// Whether the node is replaced by others, or by an operand that other nodes read as well.
TEST(LowerTo, NG_01_MarksStayOnTheOutputs) {
  const double e = std::exp(1.0);
  Lowered replaced("a = exp(x); y = twice(a) {__stop_gradient__=True}; b = elemwise_mul(y, x); z = elemwise_mul(b, a)");
  EXPECT_DOUBLE_EQ(slopeAt(replaced.context, cantFail(replaced.run()), 1), 4 * e * e);
  Lowered removed(
      "a = exp(x); y = with_dead_node(a) {__stop_gradient__=True}; b = elemwise_mul(y, x); z = elemwise_mul(b, a)");
  EXPECT_DOUBLE_EQ(slopeAt(removed.context, cantFail(removed.run(kWithCopies)), 1), 2 * e * e);
}

// Whether the graph is lowered first, or the gradient of the operator is that of its decomposition.
TEST(LowerTo, NG_01_DecompositionsMayHoldValues) {
  Lowered l("y = half_held(x)");
  EXPECT_EQ(slopeAt(l.context, cantFail(l.run(kWithCopies)), 3), 3);
  EXPECT_EQ(slopeAt(l.context, l.graph.graph, 3), 3);
}

TEST(LowerTo, A_17_LoweredFormsNeitherOverflowNorCancel) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Bindings bindings = {{"x", Array({1e300, 1e-300, 0, infinity, 1, 3})},
                             {"w", Array({1e300, 1e-300, 0, -infinity, 1e-300, -4})}};
  const std::pair<const char *, std::vector<double>> cases[] = {
      {"y = _hypot(x, w)", {std::sqrt(2) * 1e300, std::sqrt(2) * 1e-300, 0, infinity, 1, 5}},
      {"a = hard_swish(x); b = zeros_like(w); y = elemwise_add(a, b)", {1e300, 5e-301, 0, infinity, 4.0 / 6, 3}},
  };
  for (const auto &[text, expected] : cases) {
    TestGraph g(text);
    const Graph lowered = cantFail(lowerTo(g.context, g, kPrimitivesTarget, nullptr));
    const std::vector<double> found = evaluate(lowered, bindings)[0].values;
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_DOUBLE_EQ(found[i], expected[i]) << text << " at " << i;
  }
}

// The label's probability is 0; the least one takes its place, as in the operator.
TEST(LowerTo, A_17_ALoweredLossStaysFinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Bindings bindings = {{"x", Array({2, 3}, {0, -infinity, 1, -infinity, 2, -infinity})},
                             {"l", Array({1.0, 1.0})}};
  TestGraph g("y = softmax_cross_entropy(x, l)");
  const Inference known = cantFail(infer(g.context, g, hintsOf(g, bindings), InferOptions()));
  const Graph lowered = cantFail(lowerTo(g.context, g, kPrimitivesTarget, &known));
  const double loss = evaluate(g, bindings)[0].values[0];
  EXPECT_NEAR(loss, -std::log(1e-8), 1e-6);
  EXPECT_DOUBLE_EQ(evaluate(lowered, bindings)[0].values[0], loss);
}

TEST(LowerTo, A_17_LostGradientsAreErrors) {
  TestGraph g("a = exp(x); y = _contrib_gradientmultiplier(a) {scalar=2}; z = elemwise_mul(y, x)");
  const Graph lowered = cantFail(lowerTo(g.context, g, kPrimitivesTarget, nullptr));
  EXPECT_EQ(describeError(buildGradient(g.context, lowered, wrt(lowered, {"x"}), GradientOptions())),
            "[not_differentiable] the gradient passes through node 'y' (_copy), which was lowered from "
            "_contrib_gradientmultiplier and lacks the gradient that _contrib_gradientmultiplier defines");
}

// Bodies of unknown operators too; equal ones are lowered once, and errors name the way to the node.
TEST(LowerTo, A_17_BodiesAreLoweredWithTheirNodes) {
  TestContext context;
  auto loopOver = [&](const Graph &body) {
    GraphBuilder builder(context);
    Value v = builder.addVariable("x", Attrs());
    for (const char *name : {"loop", "again"}) {
      const KindRef kind = cantFail(context.opaqueKind("_loop", Attrs(), 1, body));
      const NodeId node = builder.addKind(kind, v, NodeId());
      builder.setName(node, name, "");
      v = Value{node};
    }
    return cantFail(std::move(builder).freeze(v, {})).graph;
  };
  const Graph body = cantFail(parseGraph(context, "r = square(i); y = exp(r)"));
  const Graph lowered = cantFail(lowerTo(context, loopOver(loopOver(body)), kPrimitivesTarget, nullptr));
  const Graph inner = lowered.bodies(nodeNamed(lowered, "loop"))[0];
  EXPECT_EQ(&inner.columns(), &lowered.bodies(nodeNamed(lowered, "again"))[0].columns());
  EXPECT_EQ(dump(inner.bodies(nodeNamed(inner, "again"))[0]), "r = broadcast_mul(i, i)\ny = exp(r)\nheads y\n");

  const Graph needy = cantFail(parseGraph(context, "y = gamma(i)"));
  EXPECT_EQ(
      describeError(lowerTo(context, loopOver(loopOver(needy)), kTarget, nullptr)),
      "[unknown_op] node 'loop' > body > node 'loop' > body > operator 'gamma' of node 'y' cannot be expressed in the "
      "operators of the test's host");
}

TEST(LowerTo, A_17_WhatAGraphNeedsOfAHost) {
  TestGraph g("r = relu(x); y = elemwise_add(r, x); z = softsign(y)");
  auto names = [](const OperatorNeeds &needs) {
    std::vector<std::string> list;
    for (const OpDef *op : needs.operators) list.push_back(op->name.str());
    llvm::sort(list);
    return join(list, " ");
  };
  std::map<std::string, std::string> found;
  for (const auto &[op, needs] : needsOf(g.context, g, kNoTarget, nullptr)) found[op->name.str()] = names(needs);
  EXPECT_EQ(found,
            (std::map<std::string, std::string>{{"elemwise_add", "broadcast_add"},
                                                {"relu", "_cast_like _constant broadcast_maximum"},
                                                {"softsign", "_cast_like _constant abs broadcast_add broadcast_div"}}));
  EXPECT_TRUE(needsOf(g.context, g, kPrimitivesTarget, nullptr).empty());
}

// Errors that end the search belong to the operator of the graph's own node, whatever number the node of the body has.
TEST(LowerTo, A_17_WhatABodyCannotBeLoweredForIsItsOwnersNeed) {
  TestContext context;
  for (const OpDef *op : {&kSnake, &kTwice}) cantFail(context.ops.add(*op));
  const Graph inner = cantFail(parseGraph(context, "a = exp(i); b = exp(a); c = exp(b); d = exp(c); y = snake(d)"));
  GraphBuilder builder(context);
  const Value x = builder.addVariable("x", Attrs());
  const NodeId loop = builder.addKind(cantFail(context.opaqueKind("_loop", Attrs(), 1, inner)), x, NodeId());
  builder.setName(loop, "loop", "");
  const Graph graph = cantFail(std::move(builder).freeze(Value{loop}, {})).graph;
  const auto found = needsOf(context, graph, kTarget, nullptr);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.begin()->first, graph.op(graph.heads()[0].node));
  ASSERT_EQ(found.begin()->second.refusals.size(), 1u);
  EXPECT_EQ(*found.begin()->second.refusals.begin(),
            "node 'loop' > body > operator 'snake' of node 'y': the decomposition does not end: 'snake' remains after "
            "64 levels");
}

}  // namespace
}  // namespace gradc
