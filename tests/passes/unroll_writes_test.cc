// Unrolling graphs in which something is overwritten: every step overwrites in its turn, and what reads sees the
// version it saw in the loop.
#include "ops/registry.h"
#include "passes/lowering/lower_to.h"
#include "passes/order/order_mutation.h"
#include "passes/unroll/unroll.h"
#include "tests/support/runs/loops.h"

using namespace llvm;

namespace gradc::testing {
namespace {

std::vector<AttrText> lengthTwo(StringRef numArgs, StringRef numStates, StringRef numOut) {
  return {
      {"num_args", numArgs}, {"num_data", "0"}, {"num_states", numStates}, {"num_out_data", numOut}, {"length", "2"}};
}

Expected<Unrolled> tryUnroll(const Graph &graph, ArrayRef<Binding> bindings) {
  InferRequest hints;
  for (const Binding &binding : bindings)
    hints.shapes.push_back({nodeNamed(graph, binding.name), DimsBuffer(ArrayRef(binding.shape))});
  const Inference known = cantFail(infer(testContext(), graph, hints, {}));
  UnrollOptions options;
  options.known = &known;
  options.rowOps = builtinRowOps();
  return unrollLoops(testContext(), graph, options);
}

Unrolled unroll(const Graph &graph, ArrayRef<Binding> bindings) {
  Unrolled made = cantFail(tryUnroll(graph, bindings));
  EXPECT_EQ(describeError(verifyGraph(made.graph, 5)), "success");
  return made;
}

uint32_t countFlows(const Graph &graph) {
  uint32_t count = 0;
  for (uint32_t n = 0; n < graph.numNodes(); ++n) count += graph.kind(NodeId(n)).flow != nullptr;
  return count;
}

const Binding kStateAndOne[] = {{"r", {1}, {2}}, {"s", {1}, {3}}};

std::vector<Doubles> runWithState(const Graph &graph, ArrayRef<Binding> bindings) {
  return runReading(graph, bindings, "s");
}

// test_scale yields r·s and adds 1 to s. No version number tells which s the product after it reads: its position does.
TEST(UnrollWrites, MUT_06_AReadAfterAWriteWithoutNumbers) {
  const Graph step = body("b = test_scale(r, s); y = elemwise_mul(r, s) ^b; heads y, b");
  const Graph graph = around("_scan", {"r", "s"}, lengthTwo("2", "0", "2"), step, 2);
  const Unrolled made = unroll(graph, kStateAndOne);
  EXPECT_EQ(countFlows(made.graph), 0u);
  EXPECT_EQ(runWithState(made.graph, kStateAndOne), (std::vector<Doubles>{{8, 10}, {6, 8}, {5}}));
  EXPECT_EQ(runWithState(graph, kStateAndOne), runWithState(made.graph, kStateAndOne));
}

// The state that a step leaves is the product of that step: nothing reads that of the first one.
TEST(UnrollWrites, MUT_06_EveryStepOverwrites) {
  const Graph step = body("b = test_scale(w, s); y = exp(b)");
  std::vector<AttrText> attrs = lengthTwo("3", "1", "0");
  attrs.push_back({"input_locs", "(1, 2)"});
  const Graph graph = around("_scan", {"r", "w", "s"}, attrs, step, 1);
  const Binding bindings[] = {{"r", {1}, {9}}, {"w", {1}, {0.5}}, {"s", {1}, {3}}};
  const Unrolled made = unroll(graph, bindings);
  EXPECT_EQ(countFlows(made.graph), 0u);
  EXPECT_EQ(runWithState(made.graph, bindings), (std::vector<Doubles>{{std::exp(2.0)}, {5}}));
  EXPECT_EQ(runWithState(graph, bindings), runWithState(made.graph, bindings));
}

constexpr StringRef kWriteWouldBeLost =
    "all: after expansion, no output would depend on some node that overwrites a variable";

/// A loop over the rows of what a writer of s yields, and of s itself or r, or a call that is given both; its body
/// reads the latter alone.
Graph behindAWrite(StringRef op, ArrayRef<AttrText> attrs, bool readsState) {
  Context &context = testContext();
  GraphBuilder builder(context);
  const Value r = builder.addVariable("r", Attrs()), s = builder.addVariable("s", Attrs());
  const NodeId write = cantFail(builder.add(*context.ops.find("test_accumulate"), {r, s}, {"write", Attrs()}));
  const Graph step = cantFail(parseGraph(context, "y = _copy(x)"));
  const Value read = readsState ? Value{s.node, 0, 1} : r;
  const NodeId loop = cantFail(
      builder.add(*context.ops.find(op), {Value{write}, read}, {"loop", context.attrs(attrs), NodeId(), step}));
  SmallVector<Value, 2> heads = {Value{loop}};
  if (readsState) heads.push_back(Value{write});
  const Graph graph = cantFail(std::move(builder).freeze(heads, {})).graph;
  return cantFail(orderMutations(context, graph, OverwrittenPolicy::Save)).graph;
}

Graph loopBehindAWrite(bool readsState) {
  const AttrText attrs[] = {
      {"num_args", "2"}, {"num_data", "2"}, {"num_states", "0"}, {"num_out_data", "1"}, {"input_locs", "(1)"}};
  return behindAWrite("_scan", attrs, readsState);
}

// The loop waited for the write because it was given what the writer yields, too.
TEST(UnrollWrites, MUT_06_AWriteIsWaitedFor) {
  const Graph graph = loopBehindAWrite(true);
  const Unrolled made = unroll(graph, kStateAndOne);
  EXPECT_EQ(countFlows(made.graph), 0u);
  for (const Graph &each : {graph, made.graph})
    EXPECT_EQ(runWithState(each, kStateAndOne), (std::vector<Doubles>{{5}, {5}, {5}}));
}

// Its output goes into a loop that does not read it.
TEST(UnrollWrites, MUT_06_AWriteNobodyNeedsButForTheLoop) {
  const Graph graph = loopBehindAWrite(false);
  const Unrolled made = unroll(graph, kStateAndOne);
  EXPECT_EQ(made.kept, std::vector<std::string>{kWriteWouldBeLost.str()});
  EXPECT_EQ(runWithState(made.graph, kStateAndOne), (std::vector<Doubles>{{2}, {5}}));
}

// The same with a call, which is kept and reported.
TEST(UnrollWrites, MUT_06_AWriteNobodyNeedsButForTheCall) {
  const AttrText attrs[] = {{"num_args", "2"}, {"num_outputs", "1"}, {"input_locs", "(1)"}};
  const Graph graph = behindAWrite("_call", attrs, false);
  const Unrolled made = cantFail(inlineCalls(testContext(), graph, {}));
  EXPECT_EQ(made.kept, std::vector<std::string>{kWriteWouldBeLost.str()});
  EXPECT_EQ(countFlows(made.graph), 1u);
  EXPECT_EQ(runWithState(made.graph, kStateAndOne), (std::vector<Doubles>{{2}, {5}}));
}

/// w is overwritten in each of n steps, and once more behind the loop.
Graph overwritingLoop(StringRef loopName) {
  Context &context = testContext();
  GraphBuilder inside(context);
  const Value x = inside.addVariable("x", Attrs()), s = inside.addVariable("s", Attrs()),
              w = inside.addVariable("w", Attrs());
  const Value as{cantFail(inside.add(*context.ops.find("_assign"), {w, x}, {"as"}))};
  const Value t{cantFail(inside.add(*context.ops.find("elemwise_add"), {as, s}, {"t"}))};
  const Graph step = cantFail(std::move(inside).freeze({t}, {})).graph;
  // Inputs are in the order in which the head reads them.
  std::vector<std::string> order;
  for (NodeId n : bodyInputs(step)) order.push_back(step.name(n).str());
  auto at = [&](StringRef name) { return std::to_string(llvm::find(order, name) - order.begin()); };
  const std::string data = "[" + at("x") + "]", state = "[" + at("s") + "]", whole = "[" + at("w") + "]";
  GraphBuilder builder(context);
  const Value rows = builder.addVariable("rows", Attrs()), start = builder.addVariable("start", Attrs()),
              variable = builder.addVariable("w", Attrs());
  const Attrs attrs = context.attrs({{"num_args", "4"},
                                     {"num_outputs", "1"},
                                     {"num_out_data", "0"},
                                     {"in_data_locs", data},
                                     {"in_state_locs", state},
                                     {"remain_locs", whole}});
  const Value loop{cantFail(
      builder.add(*context.ops.find("_foreach"), {rows, start, variable}, {loopName.str(), attrs, NodeId(), step}))};
  const Value after{cantFail(builder.add(*context.ops.find("_assign"), {variable, loop}, {"after"}))};
  return cantFail(std::move(builder).freeze({after}, {})).graph;
}

// The largest version is 65535. Whichever node makes one too many is named, in the loop or behind it.
TEST(UnrollWrites, IR_09_VersionsThatDoNotFitAreRefused) {
  const Graph graph = overwritingLoop("loop");
  auto outcome = [&](const Graph &of, int64_t rows) {
    return describeError(tryUnroll(of, {{"rows", {rows, 1}, {}}, {"start", {1}, {}}, {"w", {1}, {}}}));
  };
  EXPECT_EQ(outcome(graph, 65534), "success");
  EXPECT_EQ(outcome(graph, 65535),
            "[too_large] node 'after' makes version 65536 of variable 'w' with loops unrolled, but "
            "the largest possible is 65535");
  // Two loops over half as many rows each, and one more write.
  Context &context = testContext();
  GraphBuilder builder(context);
  const Value rows = builder.addVariable("rows", Attrs()), start = builder.addVariable("start", Attrs()),
              w = builder.addVariable("w", Attrs());
  const KindRef loop = graph.kindHandle(nodeNamed(graph, "loop"));
  Value last;
  for (StringRef name : {"first", "second"})
    last = Value{cantFail(builder.add(*loop->op, {rows, last.isValid() ? last : start, w},
                                      {name.str(), loop->attrs, NodeId(), loop->bodies}))};
  const Graph two = cantFail(std::move(builder).freeze({last}, {})).graph;
  EXPECT_EQ(outcome(two, 32768), "[too_large] node 'second[32767]/as' makes version 65536 of variable 'w' with loops "
                                 "unrolled, but the largest possible is 65535");
}

// In a shape of files of that age 0 is unknown.
TEST(UnrollWrites, CF_05_EmptyOutputsInOldFiles) {
  const Graph step = body("y = exp(x); heads y, x");
  const std::vector<AttrText> attrs = {
      {"num_args", "1"}, {"num_data", "0"}, {"num_states", "1"}, {"num_out_data", "1"}, {"length", "0"}};
  Graph graph = around("_scan", {"x"}, attrs, step, 1);
  GraphTable table = graph.table();
  for (int64_t version : {10901, 20000}) {
    table.mxnetVersion = version;
    const Unrolled made = unroll(graph.withTable(table), {{"x", {2}, {1, 2}}});
    EXPECT_EQ(countFlows(made.graph), version < 20000 ? 1u : 0u);
    std::vector<std::string> expected;
    if (version < 20000)
      expected = {
          "loop 'loop': output 0 is empty, and files before mxnet_version 20000 cannot spell an empty constant"};
    EXPECT_EQ(made.kept, expected);
  }
}

// Readers of the loop now read the node of its final state; the stack is another node.
TEST(UnrollWrites, A_21_AGradientIsOfTheOutputItWasOf) {
  const std::vector<AttrText> attrs = {
      {"num_args", "1"}, {"num_data", "0"}, {"num_states", "1"}, {"num_out_data", "1"}, {"length", "3"}};
  const Graph graph = around("_scan", {"x"}, attrs, body("y = exp(x); heads y, y"), 2);
  const Graph last = onlyHead(graph, 1);
  GradientRequest request;
  request.wrt = {{Value{nodeNamed(last, "loop"), 0}}};
  GradientOptions options;
  options.headPolicy = HeadPolicy::Ones;
  options.unused = UnusedPolicy::Zeros;
  const Graph gradient = cantFail(buildGradient(testContext(), last, request, options)).graph;
  const Binding bindings[] = {{"x", {2}, {0.5, 0.25}}};
  const Graph made = unroll(gradient, bindings).graph;
  const GradientTable::Head &head = made.table().gradient->heads.back();
  ASSERT_TRUE(head.ofNode.isValid());
  EXPECT_EQ(made.name(head.ofNode), "loop_output0");
  EXPECT_EQ(describeError(infer(testContext(), made, {{{nodeNamed(made, "x"), {2}}}, {}}, {}).takeError()), "success");
}

// A head that is a variable is what the step leaves behind, whatever number it has.
TEST(UnrollWrites, MUT_06_AHeadIsWhatTheStepLeavesBehind) {
  for (StringRef head : {"s", "s@1"}) {
    const Graph step = body(("b = test_scale(r, s@1); heads b, " + head).str());
    const Graph loop = around("_scan", {"r", "s"}, lengthTwo("2", "0", "2"), step, 2);
    for (const Graph &each : {loop, unroll(loop, kStateAndOne).graph})
      EXPECT_EQ(runWithState(each, kStateAndOne), (std::vector<Doubles>{{6, 8}, {4, 5}, {5}})) << head.str();
    const Graph call = around("_call", {"r", "s"}, {{"num_args", "2"}, {"num_outputs", "2"}}, step, 2);
    const Graph inlined = cantFail(inlineCalls(testContext(), call, {})).graph;
    const Graph lowered = cantFail(lowerTo(testContext(), call, kMxnetTarget, nullptr));
    EXPECT_EQ(countFlows(inlined) + countFlows(lowered), 0u);
    for (const Graph &each : {call, inlined, lowered})
      EXPECT_EQ(runWithState(each, kStateAndOne), (std::vector<Doubles>{{6}, {4}, {4}})) << head.str();
  }
}

// y = r·s·(s + 1): the gradient reads s as it was after the write, from a stack, which has no versions.
TEST(UnrollWrites, MUT_03_AStackHasNoVersions) {
  const Graph step = body("b = test_scale(r, s@1); y = elemwise_mul(b, s@1)");
  const Graph loop = around("_scan", {"r", "s"}, lengthTwo("2", "0", "1"), step, 1);
  const Graph gradient = gradientOf(loop, {"r"}).graph;
  const Unrolled made = unroll(gradient, kStateAndOne);
  EXPECT_EQ(countFlows(made.graph), 0u);
  for (const Graph &each : {gradient, made.graph})
    EXPECT_EQ(runWithState(each, kStateAndOne), (std::vector<Doubles>{{24, 40}, {32}, {5}}));
}

// Nothing in the body overwrites s, so its number there means nothing.
TEST(UnrollWrites, IR_08_NumbersOfABodyMeanNothingAroundIt) {
  Context &context = testContext();
  GraphBuilder builder(context);
  const Value r = builder.addVariable("r", Attrs()), s = builder.addVariable("s", Attrs());
  const AttrText attrs[] = {{"num_args", "2"}, {"num_outputs", "1"}};
  const NodeId write = cantFail(builder.add(*context.ops.find("test_accumulate"), {r, s}, {"write", Attrs()}));
  const NodeId call = cantFail(builder.add(*context.ops.find("_call"), {r, s},
                                           {"call", context.attrs(attrs), NodeId(), body("y = elemwise_mul(r, s@3)")}));
  const Graph graph =
      cantFail(orderMutations(context, cantFail(std::move(builder).freeze({Value{write}, Value{call}}, {})).graph,
                              OverwrittenPolicy::Save))
          .graph;
  const Graph inlined = cantFail(inlineCalls(context, graph, {})).graph,
              lowered = cantFail(lowerTo(context, graph, kMxnetTarget, nullptr));
  for (const Graph &each : {graph, inlined, lowered}) {
    EXPECT_EQ(runWithState(each, kStateAndOne), (std::vector<Doubles>{{5}, {10}, {5}}));
    EXPECT_EQ(each.inputs(each.heads()[1].node)[1].version, 1u) << dump(each);
  }
}

// Two loops in a graph whose inputs have no numbers: the second goes on where the first stopped.
TEST(UnrollWrites, MUT_06_LoopsWithoutNumbers) {
  Context &context = testContext();
  GraphBuilder builder(context);
  const Value r = builder.addVariable("r", Attrs()), s = builder.addVariable("s", Attrs());
  SmallVector<Value, 2> heads;
  for (StringRef name : {"first", "second"}) {
    const Attrs attrs = context.attrs(lengthTwo("2", "0", "1"));
    heads.push_back({cantFail(
        builder.add(*context.ops.find("_scan"), {r, s}, {name.str(), attrs, NodeId(), body("b = test_scale(r, s)")}))});
    builder.setInput(heads.back().node, 1, Value{s.node});
  }
  const Graph graph = cantFail(std::move(builder).freeze(heads, {})).graph;
  const Unrolled made = unroll(graph, kStateAndOne);
  EXPECT_EQ(made.kept, std::vector<std::string>());
  EXPECT_EQ(countFlows(made.graph), 0u);
  for (const Graph &each : {graph, made.graph})
    EXPECT_EQ(runWithState(each, kStateAndOne), (std::vector<Doubles>{{6, 8}, {10, 12}, {7}}));
}

// In the operators of a host that has no calls: reads without numbers stay what they are.
TEST(UnrollWrites, MUT_06_ALoweredCallGivesNoNumbers) {
  Context &context = testContext();
  GraphBuilder builder(context);
  const Value r = builder.addVariable("r", Attrs()), s = builder.addVariable("s", Attrs());
  const AttrText attrs[] = {{"num_args", "2"}, {"num_outputs", "1"}};
  const NodeId call = cantFail(builder.add(*context.ops.find("_call"), {r, s},
                                           {"call", context.attrs(attrs), NodeId(), body("b = test_scale(r, s)")}));
  builder.setInput(call, 1, Value{s.node});
  const NodeId read = cantFail(builder.add(*context.ops.find("sigmoid"), {s}, {"read", Attrs()}));
  builder.setInput(read, 0, Value{s.node});
  builder.addControlDep(read, call);
  const Graph graph = cantFail(std::move(builder).freeze({Value{call}, Value{read}}, {})).graph;
  const Graph lowered = cantFail(lowerTo(context, graph, kMxnetTarget, nullptr));
  EXPECT_EQ(countFlows(lowered), 0u);
  const std::vector<Doubles> expected = {{6}, {1 / (1 + std::exp(-4.0))}, {4}};
  for (const Graph &each : {graph, lowered}) EXPECT_EQ(runWithState(each, kStateAndOne), expected);
}

}  // namespace
}  // namespace gradc::testing
