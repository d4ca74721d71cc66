// Loops, branches and calls that are refused: lists, counts, lengths and states that disagree, what a body overwrites
// twice, a host's loop without a limit, bodies that are too deep.
#include "formats/json/graph_table.h"
#include "passes/memory/plan_memory.h"
#include "passes/order/order_mutation.h"
#include "tests/support/runs/loops.h"
#include "tests/support/small_ops.h"
#include "ir/rules/flow_inference.h"
#include "ir/rules/run_flow.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc::testing {
namespace {

// 40,000 states of 2^48 bytes, which one node computes from one variable: two buffers each are more than 2^64 bytes.
TEST(ControlFlowErrors, MEM_03_AWorkspaceThatDoesNotFitIsRefused) {
  constexpr size_t kStates = 40'000;
  Context &context = testContext();
  GraphBuilder inside(context);
  const Value s = inside.addVariable("s", Attrs());
  const Value next{cantFail(inside.add(*context.ops.find("exp"), s, {"next"}))};
  const Graph step = cantFail(std::move(inside).freeze(std::vector<Value>(kStates, next), {})).graph;
  const std::string number = std::to_string(kStates);
  GraphBuilder builder(context);
  const Value x = builder.addVariable("x", Attrs());
  const NodeId loop = cantFail(builder.add(*context.ops.find("_scan"), std::vector<Value>(kStates, x),
                                           {"loop",
                                            context.attrs({{"num_args", number},
                                                           {"num_data", "0"},
                                                           {"num_states", number},
                                                           {"num_out_data", "0"},
                                                           {"length", "2"},
                                                           {"input_locs", "(0,)"}}),
                                            NodeId(), step}));
  const Graph graph = cantFail(std::move(builder).freeze({Value{loop}}, {})).graph;
  const Inference known = cantFail(infer(context, graph, {{{nodeNamed(graph, "x"), {int64_t{1} << 46}}}, {}}, {}));
  EXPECT_EQ(
      describeError(planMemory(context, graph, known, countRequests(graph, {}), PlanOptions())),
      "[too_large] operator '_scan', node 'loop' (_scan): its states and the plan of its body have more than 2^62 "
      "bytes together, which no memory plan can hold");
}

TEST(ControlFlowErrors, CF_10_E_27_E_28_E_29_WhatDisagrees) {
  const Graph two = loopFile("two_states");
  auto refused = [](const Graph &graph, std::vector<ShapeHint> shapes) {
    return describeError(infer(testContext(), graph, {std::move(shapes), {}}, {}));
  };
  auto v = [](const Graph &graph, StringRef name) { return nodeNamed(graph, name); };
  EXPECT_EQ(
      refused(two, {{v(two, "x"), {3, 2}}, {v(two, "z"), {4, 2}}}),
      "[control_flow_attr] operator '_foreach', node '_foreach0' (_foreach): input 1 has 4 rows, but input 0 has 3");
  // The body makes (2,1) of a state (1,1).
  const Graph grows = around("_foreach", {"x", "s"},
                             {{"num_args", "3"},
                              {"num_outputs", "1"},
                              {"num_out_data", "0"},
                              {"in_data_locs", "[1]"},
                              {"in_state_locs", "[0]"},
                              {"remain_locs", "[]"}},
                             body("y = Concat(s, x) {num_args=2, dim=0}"), 1);
  EXPECT_EQ(refused(grows, {{v(grows, "x"), {3, 1, 1}}, {v(grows, "s"), {1, 1}}}),
            "[control_flow_attr] operator '_foreach', node 'loop' (_foreach): a state has shape (1,1) before a step, "
            "and node 'y' (Concat) of body, which is the state after it, has (2,1)");
  const std::vector<AttrText> branches = {{"num_args", "5"},
                                          {"num_outputs", "1"},
                                          {"cond_input_locs", "[0]"},
                                          {"then_input_locs", "[0]"},
                                          {"else_input_locs", "[1]"}};
  const Graph differ =
      around("_cond", {"a", "b"}, branches, {body("p = sum(q)"), body("y = exp(x)"), body("y = exp(x)")}, 1);
  EXPECT_EQ(refused(differ, {{v(differ, "a"), {1}}, {v(differ, "b"), {2}}}),
            "[control_flow_attr] operator '_cond', node 'loop' (_cond): node 'y' (exp) of body 2 has shape (2,), but "
            "output 0 has (1,), as determined by the other branch or by a reader");
  const Graph wide =
      around("_cond", {"a", "b"}, branches, {body("p = exp(q)"), body("y = exp(x)"), body("y = exp(x)")}, 1);
  EXPECT_EQ(
      refused(wide, {{v(wide, "a"), {2}}, {v(wide, "b"), {2}}}),
      "[control_flow_attr] operator '_cond', node 'loop' (_cond): node 'p' (exp) of body 0 is the condition and has "
      "shape (2,), "
      "expected one element");
  const Graph loop = around("_while_loop", {"i", "x"},
                            {{"num_args", "4"},
                             {"num_outputs", "2"},
                             {"num_out_data", "0"},
                             {"max_iterations", "5"},
                             {"cond_input_locs", "[0]"},
                             {"func_input_locs", "[1, 0]"},
                             {"func_var_locs", "[1, 0]"}},
                            {body("p = exp(i)"), body("y = elemwise_add(x, i); z = exp(i); heads z, y")}, 2);
  EXPECT_EQ(refused(loop, {{v(loop, "x"), {2, 0}}}),
            "[control_flow_attr] operator '_while_loop', node 'loop' (_while_loop): node 'p' (exp) of body 0 is the "
            "condition and has shape (2,0), expected one element")
      << "the step tells what the condition reads";
  // Inside a body, with the path.
  const Graph inner = around("_foreach", {"x", "s"},
                             {{"num_args", "3"},
                              {"num_outputs", "1"},
                              {"num_out_data", "0"},
                              {"in_data_locs", "[1]"},
                              {"in_state_locs", "[0]"},
                              {"remain_locs", "[]"}},
                             body("y = elemwise_add(s, x)"), 1);
  EXPECT_EQ(refused(inner, {{v(inner, "x"), {3, 4}}, {v(inner, "s"), {5}}}),
            "[infer_conflict] node 'loop' > body > operator 'elemwise_add', node 'y' (elemwise_add): input 0 has "
            "shape (5,), but input 1 has shape (4,)");
}

/// A loop over the rows of x with the state s.
Graph foreachOver(Graph step) {
  return around("_foreach", {"x", "s"},
                {{"num_args", "3"},
                 {"num_outputs", "2"},
                 {"num_out_data", "1"},
                 {"in_data_locs", "[0]"},
                 {"in_state_locs", "[1]"},
                 {"remain_locs", "[]"}},
                std::move(step), 2);
}

std::string inferred(const Graph &loop, std::vector<DTypeHint> dtypes = {}) {
  const std::vector<ShapeHint> shapes = {{nodeNamed(loop, "x"), {3, 4}}, {nodeNamed(loop, "s"), {4}}};
  return describeError(infer(testContext(), loop, {shapes, std::move(dtypes)}, {}));
}

// Computing a body as if its storage were dense would be silently wrong.
TEST(ControlFlowErrors, E_51_E_59_StorageInsideABody) {
  auto step = [](StringRef storage) {
    return body(("x = var {__storage_type__=" + storage + "}; y = elemwise_add(x, s); z = _copy(s); heads y, z").str());
  };
  EXPECT_EQ(inferred(foreachOver(step("0"))), "success");
  EXPECT_EQ(
      inferred(foreachOver(step("2"))),
      "[storage] node 'loop' > body > operator 'elemwise_add', node 'y' (elemwise_add): input 0, 'x', has storage "
      "csr, expected dense");
  EXPECT_EQ(
      inferred(foreachOver(step("7"))),
      "[bad_hint] node 'loop' > body > variable 'x': attribute '__storage_type__' is \"7\", expected -1, 0, 1 or 2");
  EXPECT_EQ(
      inferred(foreachOver(step("csr"))),
      "[bad_hint] node 'loop' > body > variable 'x': attribute '__storage_type__' is \"csr\", expected -1, 0, 1 or 2");
  // The annotation of the body says the same.
  const Graph dense = step("-1");
  GraphAttrs attrs = graphAttrsOf(dense);
  attrs["storage_type"] = GraphAttr::ofInts({0, 1, 0, 0});
  EXPECT_EQ(
      inferred(foreachOver(withGraphAttrs(dense, std::move(attrs)))),
      "[storage] node 'loop' > body > operator 'elemwise_add', node 'y' (elemwise_add): input 1, 's', has storage "
      "row_sparse, expected dense");
}

TEST(ControlFlowErrors, INF_06_E_53_TypeInsideABody) {
  const Graph loop = foreachOver(body("x = var {__dtype__=int32}; y = negative(x); z = _copy(s); heads y, z"));
  EXPECT_EQ(inferred(loop), "success") << "x gets the type of the body's variable";
  EXPECT_EQ(inferred(loop, {{nodeNamed(loop, "x"), DType::Int32}}), "success");
  EXPECT_EQ(
      inferred(loop, {{nodeNamed(loop, "x"), DType::Float32}}),
      "[bad_hint] node 'loop' > body > variable 'x': attribute '__dtype__' is \"int32\", expected a type that agrees "
      "with float32");
}

// The node inside that is to blame, not the loop around it.
TEST(ControlFlowErrors, E_58_WhatIsUnknownInsideABody) {
  EXPECT_EQ(inferred(foreachOver(body("y = ?mystery(x); z = _copy(s); heads y, z"))),
            "[unknown_op] node 'loop' > body > inference cannot handle node 'y' (mystery): the operator 'mystery' is "
            "unknown");
  EXPECT_EQ(inferred(foreachOver(
                body("p = _zeros {shape=(0,)}; y = Concat(x, p) {num_args=2, dim=0}; z = _copy(s); heads y, z"))),
            "[infer_missing] node 'loop' > body > shape of node 'p' (_zeros) is known only as (?,) after inference "
            "of operator '_zeros'");
}

TEST(ControlFlowErrors, BadLocationLists) {
  const Graph add = body("y = elemwise_add(a, b)");
  auto foreach_ = [&](StringRef data, StringRef states, StringRef remain, StringRef args, StringRef outputs) {
    return refusal("_foreach",
                   {{"num_args", args},
                    {"num_outputs", outputs},
                    {"num_out_data", "0"},
                    {"in_data_locs", data},
                    {"in_state_locs", states},
                    {"remain_locs", remain}},
                   add);
  };
  EXPECT_EQ(foreach_("[0]", "[1]", "[]", "3", "1"), "success");
  EXPECT_EQ(foreach_("[0]", "[2]", "[]", "3", "1"),
            "[bad_attribute] element 0 of attribute 'in_state_locs' is 2, expected an input of body, 0 to 2 exclusive");
  EXPECT_EQ(
      foreach_("[0]", "[-1]", "[]", "3", "1"),
      "[bad_attribute] element 0 of attribute 'in_state_locs' is -1, expected an input of body, 0 to 2 exclusive");
  EXPECT_EQ(foreach_("[0]", "[0]", "[]", "3", "1"),
            "[bad_attribute] element 0 of attribute 'in_state_locs' is 0, expected each input of body once");
  EXPECT_EQ(foreach_("[0]", "[]", "[]", "2", "0"),
            "[bad_attribute] attribute 'num_outputs' is \"0\", expected int from 1 to 65535");
  EXPECT_EQ(foreach_("[1]", "[]", "[]", "2", "1"),
            "[bad_attribute] attribute 'num_outputs' is 1, expected 0: 'num_out_data', and one for each element of "
            "'in_state_locs'");
  EXPECT_EQ(foreach_("[0]", "[1]", "[]", "4", "1"),
            "[bad_attribute] attribute 'num_args' is 4, expected 3: the body, and an input for each element of "
            "'in_data_locs', 'in_state_locs' and 'remain_locs'");
  EXPECT_EQ(refusal("_call", {{"num_args", "2"}, {"num_outputs", "2"}}, add),
            "[bad_attribute] body of operator '_call' has 1 head, expected 2");
  EXPECT_EQ(refusal("_call", {{"num_args", "3"}, {"num_outputs", "1"}}, add),
            "[bad_attribute] attribute 'input_locs' has 3 elements, expected 2, one for each input of body");
  EXPECT_EQ(refusal("_call", {{"num_args", "2"}, {"num_outputs", "1"}}, {}),
            "[bad_attribute] operator '_call' takes more bodies than the 0 given");
  EXPECT_EQ(refusal("_call", {{"num_args", "2"}, {"num_outputs", "1"}}, {add, add}),
            "[bad_attribute] operator '_call' takes 1 body, got 2");
}

TEST(ControlFlowErrors, CountsOfAScanThatNoNodeHas) {
  auto scan = [](StringRef numData, StringRef numStates, StringRef locs) {
    return refusal("_scan",
                   {{"num_args", "3"},
                    {"has_steps", "True"},
                    {"num_data", numData},
                    {"num_states", numStates},
                    {"num_out_data", "0"},
                    {"input_locs", locs}},
                   {body("n = elemwise_add(s, x)")});
  };
  for (StringRef most : {"65537", "9223372036854775807"}) {
    EXPECT_EQ(scan("1", most, "(1, 0)"),
              ("[bad_attribute] attribute 'num_states' is \"" + most + "\", expected int from 0 to 65536").str());
    EXPECT_EQ(scan(most, "1", "(1, 0)"),
              ("[bad_attribute] attribute 'num_data' is \"" + most + "\", expected int from 0 to 65536").str());
  }
  for (StringRef at : {"-1", "2", "9223372036854775807"})
    EXPECT_EQ(scan("1", "1", ("(0, " + at + ")").str()),
              ("[bad_attribute] element 1 of attribute 'input_locs' is " + at +
               ", expected an input of the node behind the number of steps, 0 to 2 exclusive")
                  .str());
}

// A step draws other numbers than the one before, two nodes of a step too, and a run with the same seed the same.
// One operand at two inputs of a body, or one variable at two operands, shares memory: a write would change what is
// read.
TEST(ControlFlowErrors, E_30_MUT_06_WhatABodyOverwritesIsGivenToItOnce) {
  const Graph bump = body("y = test_accumulate(a, s); heads y");
  auto call = [&](const Graph &inside, StringRef locs) {
    return refusal("_call", {{"num_args", "2"}, {"num_outputs", "1"}, {"input_locs", locs}}, inside);
  };
  EXPECT_EQ(call(bump, "(0, 1)"), "success");
  EXPECT_EQ(call(bump, "(1, 1)"),
            "[bad_attribute] body of operator '_call' overwrites input 1, 's', and uses input 0, 'a', and both are "
            "given input 1 of the node");
  EXPECT_EQ(call(body("y = test_accumulate(a, s); z = test_accumulate(y, t); heads z"), "(0, 1, 1)"),
            "[bad_attribute] body of operator '_call' overwrites input 1, 's', and uses input 2, 't', and both are "
            "given input 1 of the node");
  EXPECT_EQ(call(body("y = test_accumulate(a, s); z = reshape_like(y, t); heads z"), "(0, 1, 1)"), "success")
      << "the contents of t are not read";
  // Another body may read it: it runs before or not at all.
  const Graph asks = body("q = _copy(s)");
  const std::vector<AttrText> branch = {{"num_args", "5"},
                                        {"num_outputs", "1"},
                                        {"cond_input_locs", "(1,)"},
                                        {"then_input_locs", "(0, 1)"},
                                        {"else_input_locs", "(0,)"}};
  EXPECT_EQ(refusal("_cond", branch, {asks, bump, body("y = _copy(a)")}), "success");

  Context &context = testContext();
  auto callOf = [&](ArrayRef<size_t> which, StringRef text) {
    GraphBuilder builder(context);
    const std::array<Value, 2> variables = {builder.addVariable("x", Attrs()), builder.addVariable("m", Attrs())};
    SmallVector<Value, 3> operands;
    for (size_t i : which) operands.push_back(variables[i]);
    const Attrs attrs = context.attrs({{"num_args", std::to_string(which.size())}, {"num_outputs", "1"}});
    const Value node = {
        builder.addKind(cantFail(context.kind(*context.ops.find("_call"), attrs, body(text))), operands, NodeId())};
    builder.setName(node.node, "twice", "");
    return cantFail(std::move(builder).freeze({node}, {})).graph;
  };
  auto given = [&](ArrayRef<size_t> which, StringRef text) {
    return describeError(verifyGraph(callOf(which, text), 5));
  };
  const StringRef plain = "b = elemwise_add(a, c); y = test_accumulate(b, s); heads y";
  EXPECT_EQ(given({0, 0, 1}, plain), "success");
  EXPECT_EQ(given({0, 1, 1}, plain), "success") << "orderMutations saves what is read";
  EXPECT_EQ(given({0, 1, 1}, "b = reshape_like(a, c); y = test_accumulate(b, s); heads y"), "success");

  // What is overwritten twice has no order, what is also read is saved first.
  const Graph twice = callOf({0, 1, 1}, "y = test_accumulate(a, s); z = test_accumulate(y, t); heads z");
  const StringRef outcome = "[bad_mutation] node 'twice' (_call) overwrites inputs 1 and 2 in a body, and both are "
                            "variable 'm', expected different variables";
  EXPECT_EQ(describeError(verifyGraph(twice, 5)), outcome);
  EXPECT_EQ(describeError(checkMutationOrder(twice)), outcome);
  EXPECT_EQ(describeError(orderMutations(context, twice, OverwrittenPolicy::Save)), outcome);
  EXPECT_EQ(describeError(Session::create(context, twice, {{"x", doubles({1}, {1})}, {"m", doubles({1}, {2})}}, {})),
            outcome);
  const Graph reads = callOf({0, 1, 1}, plain);
  EXPECT_EQ(describeError(checkMutationOrder(reads)).substr(0, 15), "[stale_version]");
  const OrderedGraph saved = cantFail(orderMutations(context, reads, OverwrittenPolicy::Save));
  EXPECT_EQ(saved.numCopies, 1u);
  // b = x + m as it was, and the state it is added to: 1 + 2 + 2.
  const std::vector<Binding> values = {{"x", {1}, {1}}, {"m", {1}, {2}}};
  EXPECT_EQ(runReading(saved.graph, values, "m"), (std::vector<Doubles>{{5}, {5}}));
}

// Its state goes through the body as many times as the flow says.
template <int64_t maxSteps> OpDef repeatOfAHost(StringRef name) {
  OpDef op;
  op.name = name;
  op.inputs = {"x"};
  op.flow = [](const NodeKind &kind) -> Expected<BodyFlow> {
    FlowBuilder flow(kind, BodyFlow::Form::Loop);
    flow.flow().maxSteps = maxSteps;
    flow.addOperands(BodyFlow::Operand::State, 1);
    flow.addBody("bodies", {0});
    flow.addState(0, 0);
    return std::move(flow).finish();
  };
  op.shape = inferFlowShapes;
  op.dtype = inferFlowTypes;
  op.kernel = runFlow;
  return op;
}

TEST(ControlFlowErrors, A_19_ALoopOfAHostHasALimit) {
  static const OpDef endless = repeatOfAHost<kUnknownDim>("host_endless"), twice = repeatOfAHost<2>("host_twice");
  TestContext context;
  for (const OpDef *op : {&endless, &twice}) cantFail(context.ops.add(*op));
  const Graph step = cantFail(parseGraph(context, "y = exp(x)"));
  EXPECT_EQ(describeError(context.kind(twice, Attrs(), step)), "success");
  EXPECT_EQ(describeError(context.kind(endless, Attrs(), step)),
            "[bad_attribute] the loop of operator 'host_endless' has no sliced operand, and maxSteps is not set: the "
            "number of its steps is unknown");
}

// As for operators without bodies, what it says nothing of stays unknown, or is one type; that of the bodies is not
// known.
TEST(ControlFlowErrors, A_19_REG_22_ALoopOfAHostThatSaysNothingOfShapesOrTypes) {
  static const OpDef shapeless = [] {
    OpDef op = repeatOfAHost<2>("host_shapeless");
    op.shape = nullptr;
    return op;
  }();
  static const OpDef typeless = [] {
    OpDef op = repeatOfAHost<2>("host_typeless");
    op.dtype = nullptr;
    return op;
  }();
  for (const OpDef *op : {&shapeless, &typeless}) {
    TestContext context;
    cantFail(context.ops.add(*op));
    const Graph step = cantFail(parseGraph(context, "y = exp(x)"));
    GraphBuilder builder(context);
    const Value x = builder.addVariable("x", Attrs());
    const NodeId loop = cantFail(builder.add(*op, {x}, {"loop", Attrs(), NodeId(), step}));
    const Graph graph = cantFail(std::move(builder).freeze({Value{loop}}, {})).graph;
    InferOptions options;
    options.allowUnknown = true;
    const Inference known = cantFail(infer(context, graph, {{{nodeNamed(graph, "x"), {2, 3}}}, {}}, options));
    const EntryId e = graph.entry(graph.heads()[0]);
    EXPECT_EQ(toString(known.shapeOf(e)), op == &shapeless ? "?" : "(2,3)");
    EXPECT_EQ(known.dtype[e], DType::Float32);
    EXPECT_FALSE(known.body(graph.heads()[0].node, 0));
  }
}

// Bodies that are used twice, twelve levels deep: what is known of one is found once.
TEST(ControlFlowErrors, E_33_SharedAndDeepBodies) {
  const std::vector<AttrText> attrs = {{"num_args", "2"}, {"num_outputs", "1"}};
  Graph deep = body("y = elemwise_mul(s, x)");
  const Graph shared = callsTwice(deep, 30);
  for (size_t level = 0; level < 60; ++level) deep = around("_call", {"s", "x"}, attrs, deep, 1);
  const std::vector<NamedArray> arrays = {{"s", floats({2}, {3, 4})}, {"x", floats({2}, {2, 1})}};
  EXPECT_EQ(run(deep, arrays), (Tensors{{6, 4}}));
  // 2^30 places: inferred and planned at once, and refused before they are run.
  const GradcError error = errorOf(tryRun(shared, arrays));
  EXPECT_EQ(error.kind, ErrorKind::TooLarge);
  EXPECT_TRUE(StringRef(error.message).contains("counted once for each place they are used in")) << error.message;
}

}  // namespace
}  // namespace gradc::testing
