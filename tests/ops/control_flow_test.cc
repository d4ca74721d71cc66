// Loops, branches and calls: attributes, inference through bodies, execution. Files in testdata/loops are what MXNet's
// own front end writes (tests/oracles/mxnet_loops.py).
#include "passes/memory/plan_memory.h"
#include "tests/support/runs/loops.h"
#include "tests/support/small_ops.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace llvm;

namespace gradc::testing {
namespace {

TEST(ControlFlow, CF_01_CF_03_ForeachSlicesStacksAndCarries) {
  const Graph graph = loopFile("cf03");
  const Tensors heads =
      run(graph, {{"x", floats({3}, {0.5, -1, 2})}, {"s", floats({1}, {0.25})}, {"f", floats({1}, {1})}});
  EXPECT_EQ(heads, (Tensors{{2.25, 1.25, 6.25}, {6.25}}));
}

TEST(ControlFlow, INF_16_CF_21_ShapesGoThroughBodiesBothWays) {
  // The example of the row: data (3,u) and a state (2) tell each other.
  Context &context = testContext();
  const Graph graph = around("_foreach", {"x", "s"},
                             {{"num_args", "3"},
                              {"num_outputs", "2"},
                              {"num_out_data", "1"},
                              {"in_data_locs", "[0]"},
                              {"in_state_locs", "[1]"},
                              {"remain_locs", "[]"}},
                             body("y = elemwise_add(a, b); z = _copy(y); heads y, z"), 2);
  InferRequest hints{{{nodeNamed(graph, "x"), {3, kUnknownDim}}, {nodeNamed(graph, "s"), {2}}}, {}};
  const Inference known = cantFail(infer(context, graph, hints, {}));
  EXPECT_EQ(toString(known.shapeOf(graph.entry(Value{nodeNamed(graph, "x")}))), "(3,2)");
  EXPECT_EQ(toString(known.shapeOf(graph.entry(graph.heads()[0]))), "(3,2)");
  EXPECT_EQ(toString(known.shapeOf(graph.entry(graph.heads()[1]))), "(2,)");
  const Inference *inside = known.body(graph.heads()[0].node, 0);
  ASSERT_TRUE(inside);
  EXPECT_EQ(inside->numUnknownShapes, 0u);
  // From the outputs to the data.
  InferRequest half{{{nodeNamed(graph, "x"), {3, 2}}}, {{nodeNamed(graph, "x"), DType::Float64}}};
  const Inference back = cantFail(infer(context, graph, half, {}));
  EXPECT_EQ(toString(back.shapeOf(graph.entry(Value{nodeNamed(graph, "s")}))), "(2,)");
  EXPECT_EQ(back.dtype[graph.entry(Value{nodeNamed(graph, "s")})], DType::Float64);
}

// The body yields its input, of which the one side knows the first dimension and the other side the second.
TEST(ControlFlow, INF_16_WhatIsKnownOfAHeadJoinsWhatIsKnownOfAnInput) {
  Context &context = testContext();
  GraphBuilder builder(context);
  const Value x = builder.addVariable("x", Attrs()), w = builder.addVariable("w", Attrs());
  const Attrs attrs = context.attrs({{"num_args", "1"}, {"num_outputs", "1"}});
  const Value call{cantFail(builder.add(*context.ops.find("_call"), x, {"call", attrs, NodeId(), body("heads a")}))};
  const Value sum{cantFail(builder.add(*context.ops.find("elemwise_add"), {call, w}, {"sum"}))};
  const Graph graph = cantFail(std::move(builder).freeze({sum}, {})).graph;
  InferRequest hints{{{nodeNamed(graph, "x"), {2, kUnknownDim}}, {nodeNamed(graph, "w"), {kUnknownDim, 3}}}, {}};
  const Inference known = cantFail(infer(context, graph, hints, {}));
  for (StringRef name : {"x", "w"})
    EXPECT_EQ(toString(known.shapeOf(graph.entry(Value{nodeNamed(graph, name)}))), "(2,3)") << name.str();
  EXPECT_EQ(known.body(nodeNamed(graph, "call"), 0)->numUnknownShapes, 0u);
  // What contradicts is an error, as before.
  InferRequest wrong{{{nodeNamed(graph, "x"), {2, 4}}, {nodeNamed(graph, "w"), {kUnknownDim, 3}}}, {}};
  EXPECT_FALSE(StringRef(describeError(infer(context, graph, wrong, {}))).starts_with("success"));
}

TEST(ControlFlow, CF_07_CF_08_WhileUsesEachStepsValues) {
  EXPECT_EQ(run(loopFile("squares"), {{"x", floats({1}, {2})}, {"i", floats({1}, {0})}}),
            (Tensors{{2, 4, 16}, {256}, {3}}));
  EXPECT_EQ(run(loopFile("powers"), {{"x", floats({1}, {2})}, {"i", floats({1}, {0})}, {"w", floats({1}, {3})}}),
            (Tensors{{54}, {3}}));
  EXPECT_EQ(run(loopFile("cf08"), {{"x", floats({1}, {1})}, {"i", floats({1}, {1})}}), (Tensors{{4}, {3}}));
}

// CF-06: rows of steps that were not run are zero, and the bound ends the loop.
TEST(ControlFlow, CF_06_PaddingIsZeroAndTheBoundEndsTheLoop) {
  const Graph graph = loopFile("squares");
  EXPECT_EQ(run(graph, {{"x", floats({1}, {2})}, {"i", floats({1}, {2})}}), (Tensors{{2, 0, 0}, {4}, {3}}));
  EXPECT_EQ(run(graph, {{"x", floats({1}, {2})}, {"i", floats({1}, {3})}}), (Tensors{{0, 0, 0}, {2}, {3}}));
  EXPECT_EQ(run(graph, {{"x", floats({1}, {2})}, {"i", floats({1}, {-9})}}), (Tensors{{2, 4, 16}, {256}, {-6}}));
  // Rows of an earlier run are not left there.
  SessionOptions options;
  options.exec.backend = Backend::Reference;
  Session session =
      cantFail(Session::create(testContext(), graph, {{"x", floats({1}, {2})}, {"i", floats({1}, {0})}}, options));
  cantFail(session.run(0));
  session.variable(nodeNamed(graph, "i")).as<float>()[0] = 2;
  cantFail(session.run(1));
  EXPECT_EQ(valuesOf<float>(session.head(0)), (Floats{2, 0, 0}));
}

TEST(ControlFlow, CF_05_ForeachOfNoRowsPassesItsStates) {
  const Graph graph = loopFile("only_states");
  EXPECT_EQ(run(graph, {{"x", floats({0, 1}, {})}, {"s", floats({1}, {7})}}), (Tensors{{7}}));
  EXPECT_EQ(run(graph, {{"x", floats({3, 1}, {2, 3, 4})}, {"s", floats({1}, {1})}}), (Tensors{{24}}));
}

TEST(ControlFlow, StatesThatTradePlaces) {
  const std::vector<NamedArray> arrays = {
      {"x", floats({3, 1}, {0, 0, 0})}, {"s", floats({1}, {1})}, {"t", floats({1}, {2})}};
  EXPECT_EQ(run(loopFile("swapped"), arrays), (Tensors{{1, 2, 1}, {2}, {1}}));
}

TEST(ControlFlow, CF_09_OneBranchRuns) {
  for (float p : {1.f, -1.f})
    EXPECT_EQ(run(loopFile("cond"),
                  {{"p", floats({1}, {p})}, {"a", floats({1}, {2})}, {"b", floats({1}, {3})}, {"c", floats({1}, {5})}}),
              (Tensors{{p > 0 ? 6.f : 25.f}}));
}

TEST(ControlFlow, CF_11_LoopsInLoops) {
  const Tensors heads = run(loopFile("cf11"), {{"x", floats({1}, {1})},
                                               {"w", floats({1}, {2})},
                                               {"n", floats({3, 1}, {0, 0, 0})},
                                               {"m", floats({2, 1}, {0, 0})}});
  EXPECT_EQ(heads, (Tensors{{82}}));
}

TEST(ControlFlow, CF_12_FastKernelsInsideBodiesAgree) {
  const std::vector<NamedArray> arrays = {
      {"x", floats({2}, {0.5, -0.25})}, {"h", floats({1}, {0.1f})}, {"w", floats({1}, {0.8f})}};
  for (Backend backend : {Backend::Reference, Backend::Auto}) {
    const Tensors heads = run(loopFile("cf12"), arrays, backend);
    EXPECT_NEAR(heads[1][0], 0.166566, 1e-6);
    EXPECT_EQ(heads[0][1], heads[1][0]);
  }
}

TEST(ControlFlow, ScanRunsUpAndDownAndEndsWhereItIsTold) {
  // What the state was, then the state after: 10·state + row.
  const Graph step = body("t = _mul_scalar(s) {scalar=10}; n = elemwise_add(x, t); heads s, n");
  const std::vector<AttrText> locs = {{"input_locs", "(1, 0)"}};  // s is read first
  for (bool isReverse : {false, true}) {
    std::vector<AttrText> attrs = scanAttrs(isReverse, false);
    llvm::append_range(attrs, locs);
    const Graph whole = around("_scan", {"x", "s"}, attrs, step, 2);
    const Tensors all = run(whole, {{"x", floats({3}, {1, 2, 3})}, {"s", floats({1}, {0})}});
    EXPECT_EQ(all, isReverse ? (Tensors{{32, 3, 0}, {321}}) : (Tensors{{0, 1, 12}, {123}}));
    attrs = scanAttrs(isReverse, true);
    llvm::append_range(attrs, locs);
    const Graph part = around("_scan", {"k", "x", "s"}, attrs, step, 2);
    for (int64_t k : {0, 2, 3}) {
      const Tensors some = run(
          part,
          {{"k", arrayOf<int64_t>(DType::Int64, {1}, {k})}, {"x", floats({3}, {1, 2, 3})}, {"s", floats({1}, {0})}});
      if (k == 0) {
        EXPECT_EQ(some, (Tensors{{0, 0, 0}, {0}}));
      } else if (k == 2) {
        EXPECT_EQ(some, isReverse ? (Tensors{{2, 0, 0}, {21}}) : (Tensors{{0, 1, 0}, {12}}));
      } else {
        EXPECT_EQ(some, all);
      }
    }
  }
}

TEST(ControlFlow, CallRunsItsBody) {
  const Graph graph = around("_call", {"a", "b"}, {{"num_args", "2"}, {"num_outputs", "2"}},
                             body("y = elemwise_sub(p, q); heads y, q"), 2);
  EXPECT_EQ(run(graph, {{"a", floats({2}, {5, 6})}, {"b", floats({2}, {1, 2})}}), (Tensors{{4, 4}, {1, 2}}));
}

// The arena of a body and the buffers of its states are the workspace of the node, and that of 1000 steps is that of
// one.
TEST(ControlFlow, MEM_03_BodiesArePlannedInTheWorkspaceOfTheirNode) {
  const Graph graph = loopFile("lstm");
  auto planFor = [&](int64_t steps) {
    InferRequest hints{{{nodeNamed(graph, "x"), {steps, 2, 5}}, {nodeNamed(graph, "h"), {2, 3}}}, {}};
    const Inference known = cantFail(infer(testContext(), graph, hints, {}));
    const RequestTable requests = countRequests(graph, {});
    MemoryPlan plan = cantFail(planMemory(testContext(), graph, known, requests, {}));
    cantFail(checkPlan(graph, known, requests, plan, {}));
    return plan;
  };
  const MemoryPlan one = planFor(1), many = planFor(1000);
  ASSERT_EQ(one.flows.size(), 1u);
  EXPECT_GT(one.flows[0].bodies[0]->plan->plannedBytes, 0);
  EXPECT_EQ(one.flows[0].ownBytes, 128 + 2 * 64)
      << "where the states are, and of each one buffer: the other is the output";
  EXPECT_EQ(one.flows[0].bytes, one.flows[0].ownBytes + one.flows[0].bodies[0]->plan->plannedBytes);
  EXPECT_EQ(many.workspaceBytes, one.workspaceBytes);
  EXPECT_EQ(one.workspaceBytes, one.flows[0].bytes);
}

// A state that starts as zeros has the shape of its input, which nothing reads; one that is computed in place has one
// buffer.
TEST(ControlFlow, A_19_StatesThatStartAsZeros) {
  for (StringRef text : {"n = elemwise_add(s, x); heads n, n", "e = exp(s); n = elemwise_add(e, x); heads n, n"})
    for (const Floats &x : {Floats{1, 2, 4}, Floats{1, 2}, Floats{}})
      for (StringRef reverse : {"False", "True"}) {
        const int64_t rows = static_cast<int64_t>(x.size());
        auto loopWith = [&](StringRef zeros) {
          return around("_scan", {"x", "s"},
                        {{"num_args", "2"},
                         {"num_data", "1"},
                         {"num_states", "1"},
                         {"num_out_data", "1"},
                         {"input_locs", "(1, 0)"},
                         {"reverse", reverse},
                         {"zero_states", zeros}},
                        body(text), 2);
        };
        const Graph zero = loopWith("(0,)"), plain = loopWith("None");
        EXPECT_TRUE(zero.kind(zero.heads()[0].node).isIgnored(1));
        auto given = [&](float s) {
          return std::vector<NamedArray>{{"x", floats({rows}, x)}, {"s", floats({1}, {s})}};
        };
        EXPECT_EQ(run(zero, given(7)), run(plain, given(0))) << text.str() << rows;
        EXPECT_EQ(run(zero, given(7), Backend::Auto), run(plain, given(0), Backend::Auto));
        const Graph last = onlyHead(zero, 0), final = onlyHead(zero, 1);
        EXPECT_EQ(run(last, given(7))[0], run(zero, given(7))[0]);
        EXPECT_EQ(run(final, given(7))[0], run(zero, given(7))[1]);
        SessionOptions reference;
        reference.exec.backend = Backend::Reference;
        Session session = cantFail(Session::create(testContext(), zero, given(7), reference));
        for (uint64_t step : {0, 1}) cantFail(session.run(step));
        EXPECT_EQ(valuesOf<float>(session.head(1)), run(plain, given(0))[1]) << "what a run leaves behind is not read";
      }
  EXPECT_EQ(
      refusal(
          "_scan",
          {{"num_args", "2"}, {"num_data", "1"}, {"num_states", "1"}, {"num_out_data", "0"}, {"zero_states", "(1,)"}},
          {body("n = elemwise_add(s, x)")}),
      "[bad_attribute] element 0 of attribute 'zero_states' is 1, expected a state, 0 to 1 exclusive");
}

TEST(ControlFlow, CF_20_ShortDataOfAScan) {
  auto scan = [](StringRef hasSteps, StringRef data, StringRef list = "short_data") {
    return refusal("_scan",
                   {{"num_args", "3"},
                    {"has_steps", hasSteps},
                    {"num_data", "1"},
                    {"num_states", "1"},
                    {"num_out_data", "0"},
                    {"input_locs", "(0, 1)"},
                    {list, data}},
                   {body("n = elemwise_add(x, s)")});
  };
  EXPECT_EQ(scan("True", "(0,)"), "success");
  EXPECT_EQ(scan("False", "(0,)"), "[bad_attribute] attribute 'short_data' is given, and 'has_steps' is not");
  for (StringRef data : {"1", "-1"})
    EXPECT_EQ(scan("True", ("(0, " + data + ")").str()),
              ("[bad_attribute] element 1 of attribute 'short_data' is " + data + ", expected 0 to 1 exclusive").str());
  EXPECT_EQ(scan("False", "(0,)", "stacks"), "success");
  EXPECT_EQ(scan("False", "(1,)", "stacks"),
            "[bad_attribute] element 0 of attribute 'stacks' is 1, expected 0 to 1 exclusive");
}

// The step reads the state where it makes the next, and nowhere else.
TEST(ControlFlow, MEM_04_AStateInPlaceHasOneBuffer) {
  // What comes first in the body is its first input.
  constexpr StringRef kDataFirst = "(0, 1)", kStateFirst = "(1, 0)";
  auto ownBytes = [](StringRef text, size_t head, StringRef locs) {
    const Graph graph = onlyHead(
        around("_scan", {"x", "s"},
               {{"num_args", "2"}, {"num_data", "1"}, {"num_states", "1"}, {"num_out_data", "1"}, {"input_locs", locs}},
               body(text), 2),
        head);
    InferRequest hints{{{nodeNamed(graph, "x"), {5, 1000}}}, {}};
    const Inference known = cantFail(infer(testContext(), graph, hints, {}));
    const RequestTable requests = countRequests(graph, {});
    return cantFail(planMemory(testContext(), graph, known, requests, {})).flows[0].ownBytes;
  };
  const int64_t table = 64, state = 4032;
  EXPECT_EQ(ownBytes("n = elemwise_add(s, x); heads x, n", 1, kDataFirst), table) << "the output";
  EXPECT_EQ(ownBytes("n = elemwise_add(s, x); heads x, n", 0, kDataFirst), table + state);
  EXPECT_EQ(ownBytes("n = elemwise_add(s, x); heads s, n", 1, kStateFirst), table + state)
      << "the state is yielded as well";
  EXPECT_EQ(ownBytes("e = exp(s); n = elemwise_add(e, x); heads x, n", 1, kDataFirst), table + state);
  EXPECT_EQ(ownBytes("n = elemwise_add(s, x); e = exp(s); heads e, n", 1, kStateFirst), table + state);
}

// What a body overwrites, it overwrites once per step.
TEST(ControlFlow, MUT_06_AStepMovesTheMovingStatistics) {
  const Graph graph = loopFile("norm_in_loop");
  const NodeKind &kind = graph.kind(graph.heads()[0].node);
  EXPECT_TRUE(kind.isMutated(4));
  EXPECT_TRUE(kind.isMutated(5));
  EXPECT_FALSE(kind.isMutated(0));
  SessionOptions options;
  options.exec.backend = Backend::Reference;
  options.exec.isTraining = true;
  Session session = cantFail(Session::create(testContext(), graph,
                                             {{"x", floats({2, 2, 1}, {1, 3, 5, 9})},
                                              {"s", floats({2, 1}, {0, 0})},
                                              {"gamma", floats({1}, {1})},
                                              {"beta", floats({1}, {0})},
                                              {"moving_mean", floats({1}, {0})},
                                              {"moving_var", floats({1}, {1})}},
                                             options));
  cantFail(session.run(0));
  // Momentum 0.9, means 2 and 7.
  EXPECT_NEAR(session.variable(nodeNamed(graph, "moving_mean")).as<float>()[0], 0.9 * (0.1 * 2) + 0.1 * 7, 1e-6);
}

TEST(ControlFlow, RUN_02_EveryStepDrawsItsOwnNumbers) {
  const Graph graph = loopFile("dropout_in_loop");
  SessionOptions options;
  options.exec.backend = Backend::Reference;
  options.exec.isTraining = true;
  auto outputs = [&](uint64_t step) {
    Session session = cantFail(Session::create(
        testContext(), graph, {{"x", floats({4, 64}, Floats(256, 1))}, {"h", floats({64}, Floats(64, 0))}}, options));
    cantFail(session.run(step));
    return Tensors{valuesOf<float>(session.head(0)), valuesOf<float>(session.head(1))};
  };
  const Tensors once = outputs(0);
  EXPECT_EQ(outputs(0), once);
  EXPECT_NE(outputs(1), once);
  Floats sum(64, 0);
  for (size_t a = 0; a < 4; ++a) {
    const Floats row(once[0].begin() + a * 64, once[0].begin() + (a + 1) * 64);
    for (size_t b = 0; b < a; ++b) EXPECT_NE(row, Floats(once[0].begin() + b * 64, once[0].begin() + (b + 1) * 64));
    for (size_t i = 0; i < 64; ++i) sum[i] += row[i];
  }
  EXPECT_NE(once[1], sum);
}

}  // namespace
}  // namespace gradc::testing
