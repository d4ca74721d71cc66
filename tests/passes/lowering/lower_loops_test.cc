// Loops, branches and calls in the operators of a target: bodies are lowered, a `_foreach` is a `_scan` of the
// primitives and a
// `_scan` a `_foreach` of MXNet's, a call is what it calls, and the attributes follow where lowering changed what a
// body is given. What MXNet computes of such graphs: tests/oracles/mxnet_loops.py.
#include "ir/graph/bodies.h"
#include "ir/graph/body_flow.h"
#include "ir/graph/graph_builder.h"
#include "ir/rules/verify.h"
#include "passes/gradient/gradient.h"
#include "passes/lowering/lower_to.h"
#include "runtime/session/session.h"
#include "tests/support/ops/op_table.h"
#include "tests/support/runs/loops.h"
#include "passes/gradient/higher_order/higher_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

using namespace llvm;

namespace gradc::testing {
namespace {

struct File {
  StringRef name;
  std::vector<std::pair<StringRef, Doubles>> vectors;  // each of its own length
  std::vector<StringRef> wrt;
  int64_t width = 0;  // of x, where that is a matrix

  std::vector<int64_t> shapeOf(StringRef variable, const Doubles &values) const {
    const int64_t size = static_cast<int64_t>(values.size());
    if (variable == "x" && width) return {size / width, width};
    return {size};
  }
};
const File kFiles[] = {
    {"cf03", {{"x", {0.5, -1, 2}}, {"s", {0.25}}, {"f", {1}}}, {"x", "s", "f"}},
    {"cf12", {{"x", {0.5, -0.25}}, {"h", {0.1}}, {"w", {0.8}}}, {"x", "h", "w"}},
    {"powers", {{"x", {2}}, {"i", {0.5}}, {"w", {1.5}}}, {"x", "w"}},
    {"squares", {{"x", {1.1}}, {"i", {0.5}}}, {"x"}},
    {"cond", {{"p", {1}}, {"a", {2}}, {"b", {3}}, {"c", {5}}}, {"a", "b", "c"}},
    {"cond", {{"p", {-1}}, {"a", {2}}, {"b", {3}}, {"c", {5}}}, {"a", "b", "c"}},
    {"branch_in_loop",
     {{"x", {1, 0.5, 1, 0.25, 0.75, 0.5, 1, 1}}, {"s", {0.1, 0.2}}, {"w", {0.5, 0.25}}},
     {"x", "s", "w"},
     2},
    {"while_in_foreach",
     {{"x", {0.1, 0.2, 0.3, 0.1, 0.2, 0.2}}, {"h", {0.5, 0.25}}, {"w", {0.75, 1.5}}},
     {"x", "h", "w"},
     2},
};

std::vector<Doubles> run(const Graph &graph, const File &file) {
  SessionOptions options;
  options.exec.backend = Backend::Reference;
  options.infer.floatAs = DType::Float64;
  std::vector<NamedArray> arrays;
  for (const auto &[name, values] : file.vectors) {
    const std::vector<int64_t> shape = file.shapeOf(name, values);
    if (name == "count") arrays.push_back({name.str(), arrayOf<int64_t>(DType::Int64, shape, {int64_t(values[0])})});
    else arrays.push_back({name.str(), doubles(shape, values)});
  }
  Session session = cantFail(Session::create(testContext(), graph, std::move(arrays), options));
  cantFail(session.run(0));
  std::vector<Doubles> heads;
  for (size_t i = 0; i < graph.heads().size(); ++i) heads.push_back(valuesOf<double>(session.head(i)));
  return heads;
}

void expectPrimitives(const Graph &graph) {
  for (const NestedGraph &nested : nestedGraphs(graph))
    for (const KindRef &kind : nested.graph.kinds())
      EXPECT_TRUE(kind->isVariable() || kind->op->primitive) << kind->op->name.str();
}

Graph gradientOf(const Graph &loop, ArrayRef<StringRef> wrt, uint32_t order) {
  GradientRequest request;
  for (StringRef name : wrt) request.wrt.push_back({Value{nodeNamed(loop, name)}});
  GradientOptions options;
  options.headPolicy = HeadPolicy::Ones;
  return cantFail(buildGradientOfOrder(testContext(), loop, request, options, order)).graph;
}

void expectSameValues(const Graph &lowered, const Graph &graph, const File &file) {
  EXPECT_EQ(describeError(verifyGraph(lowered, 5)), "success");
  const std::vector<Doubles> expected = run(graph, file), found = run(lowered, file);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t h = 0; h < found.size(); ++h) {
    SCOPED_TRACE(file.name.str() + ", head " + std::to_string(h));
    expectClose(found[h], expected[h], 1e-12);
  }
}

Inference shapesOf(const Graph &graph, const File &file) {
  InferRequest hints;
  for (const auto &[name, values] : file.vectors)
    hints.shapes.push_back({nodeNamed(graph, name), DimsBuffer(ArrayRef<int64_t>(file.shapeOf(name, values)))});
  return cantFail(infer(testContext(), graph, hints, InferOptions()));
}

TEST(LowerLoops, A_17_A_19_GradientsOfLoopsInPrimitives) {
  for (const File &file : kFiles)
    for (uint32_t order : {1, 2, 3}) {
      const Graph graph = gradientOf(loopFile(file.name), file.wrt, order);
      const Inference known = shapesOf(graph, file);
      const Graph lowered = cantFail(lowerTo(testContext(), graph, kPrimitivesTarget, file.width ? &known : nullptr));
      expectPrimitives(lowered);
      expectSameValues(lowered, graph, file);
    }
}

// In MXNet every operator of a body needs a shape function and a gradient of its own, and yields each value once.
void expectMxnets(const Graph &graph) {
  for (const NestedGraph &nested : nestedGraphs(graph)) {
    const bool isBody = nested.owner.isValid();
    for (const KindRef &kind : nested.graph.kinds()) {
      if (kind->isVariable()) continue;
      EXPECT_TRUE(kMxnetTarget.has(*kind)) << kind->op->name.str();
      EXPECT_TRUE(!isBody || kMxnetTarget.hasInBodies(*kind)) << kind->op->name.str();
      EXPECT_TRUE(!kind->flow || kind->numVisible == kind->numOutputs) << kind->op->name.str();
    }
    for (uint32_t n = 0; n < nested.graph.numNodes() && isBody; ++n)
      EXPECT_TRUE(nested.graph.controlDeps(NodeId(n)).empty()) << "what it waits for is computed in every step";
    for (Value head : nested.graph.heads()) EXPECT_TRUE(!isBody || !nested.graph.isVariable(head.node));
  }
}

TEST(LowerLoops, A_14_A_19_GradientsOfLoopsInMxnet) {
  for (const File &file : kFiles)
    for (uint32_t order : {1, 2, 3}) {
      const Graph graph = gradientOf(loopFile(file.name), file.wrt, order);
      const Inference known = shapesOf(graph, file);
      const Graph lowered = cantFail(lowerTo(testContext(), graph, kMxnetTarget, &known));
      expectMxnets(lowered);
      expectSameValues(lowered, graph, file);
    }
}

/// The heads where everything is float64: formulas that are equal but not the same round apart in float32.
std::vector<Doubles> runInFloat64(const Graph &graph, ArrayRef<NamedArray> arrays) {
  std::vector<NamedArray> bindings;
  for (const NamedArray &array : arrays) {
    const std::vector<float> values = valuesOf<float>(array.array);
    bindings.push_back({array.name, doubles(array.array.shape, {values.begin(), values.end()})});
  }
  SessionOptions options;
  options.exec.backend = Backend::Reference;
  options.infer.floatAs = DType::Float64;
  Session session = cantFail(Session::create(testContext(), graph, std::move(bindings), options));
  cantFail(session.run(0));
  std::vector<Doubles> heads;
  for (size_t h = 0; h < graph.heads().size(); ++h) heads.push_back(valuesOf<double>(session.head(h)));
  return heads;
}

void expectSameInFloat64(const Graph &lowered, const Graph &graph, ArrayRef<NamedArray> arrays) {
  const std::vector<Doubles> expected = runInFloat64(graph, arrays), found = runInFloat64(lowered, arrays);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t h = 0; h < found.size(); ++h) {
    ASSERT_EQ(found[h].size(), expected[h].size());
    for (size_t i = 0; i < found[h].size(); ++i)
      EXPECT_NEAR(found[h][i], expected[h][i], 1e-12 * std::max(1.0, std::abs(expected[h][i]))) << h << " " << i;
  }
}

/// In operators of MXNet, with the shapes known.
void expectMxnetsValues(const Graph &graph, const std::vector<NamedArray> &arrays) {
  InferRequest hints;
  for (const NamedArray &array : arrays)
    hints.shapes.push_back(
        {nodeNamed(graph, array.name), DimsBuffer(array.array.shape.begin(), array.array.shape.end())});
  const Inference known = cantFail(infer(testContext(), graph, hints, {}));
  const Graph lowered = cantFail(lowerTo(testContext(), graph, kMxnetTarget, &known));
  expectMxnets(lowered);
  EXPECT_EQ(describeError(verifyGraph(lowered, 5)), "success");
  expectSameInFloat64(lowered, graph, arrays);
}

Floats wave(size_t size) {
  Floats values;
  for (size_t i = 0; i < size; ++i) values.push_back(static_cast<float>(std::sin(1.7 * double(i) + 0.3)));
  return values;
}

// A loop with a condition, which counts its steps for its gradient.
Graph loopInABranch() {
  return around(
      "_while_loop", {"a", "b"},
      {{"num_args", "4"},
       {"num_outputs", "1"},
       {"num_out_data", "0"},
       {"max_iterations", "3"},
       {"cond_input_locs", "(0,)"},
       {"func_input_locs", "(0, 1)"},
       {"func_var_locs", "(0,)"}},
      {body("n = sum(a); q = _lesser_scalar(n) {scalar=4}"), body("c = exp(a); z = elemwise_add(c, b); heads z")}, 1);
}

// What a branch saves is zeros in the other one: of its own type, and of a shape that MXNet cannot spell where it is
// empty.
TEST(LowerLoops, A_14_CF_09_ZerosOfTheOtherBranch) {
  const auto branches = [](const Graph &first, const Graph &second) {
    const auto locations = [](const Graph &branch) { return bodyInputs(branch).size() == 3 ? "(0, 1, 2)" : "(1, 2)"; };
    return around("_cond", {"p", "a", "b"},
                  {{"num_args", "6"},
                   {"num_outputs", "1"},
                   {"cond_input_locs", "(0,)"},
                   {"then_input_locs", locations(first)},
                   {"else_input_locs", locations(second)}},
                  {body("q = _copy(p)"), first, second}, 1);
  };
  const Graph other = body("c = sin(a); z = elemwise_mul(c, b); heads z");
  const Graph typed = branches(body("s = Cast(a) {dtype=float64}; t = exp(s); u = sin(t); v = Cast(u) {dtype=float32};"
                                    "z = elemwise_mul(v, b); heads z"),
                               other);
  const Graph inner = branches(body("c = exp(a); z = elemwise_mul(c, b); heads z"), other);
  const Graph second = branches(other, inner), first = branches(inner, other);
  const Graph whole =
      branches(body("i = Cast(a) {dtype=int32}; c = take(b, i); z = elemwise_mul(c, b); heads z"), other);
  const Graph whole64 =
      branches(body("i = Cast(a) {dtype=int64}; c = take(b, i); z = elemwise_mul(c, b); heads z"), other);
  const Graph counted = branches(loopInABranch(), other);
  const Graph empty = branches(body("c = exp(a); d = sin(c); z = elemwise_mul(d, b); heads z"), other);
  for (float p : {1.f, 0.5f, 0.f}) {
    for (const Graph &graph : {typed, first, second, whole, whole64, counted})
      expectMxnetsValues(testing::gradientOf(graph, {"a", "b"}).graph,
                         {{"p", floats({1}, {p})}, {"a", floats({2}, {0.5, -1})}, {"b", floats({2}, {2, 3})}});
    expectMxnetsValues(testing::gradientOf(empty, {"a", "b"}).graph,
                       {{"p", floats({1}, {p})}, {"a", floats({0, 3}, {})}, {"b", floats({0, 3}, {})}});
  }
}

TEST(LowerLoops, A_14_HigherOrdersOfCtcInMxnet) {
  const Graph loss = body("y = CTCLoss(x, label)");
  for (uint32_t order : {2, 3})
    expectMxnetsValues(gradientOf(loss, {"x"}, order),
                       {{"x", floats({5, 2, 4}, wave(40))}, {"label", floats({2, 2}, {1, 2, 3, 0})}});
}

// In bodies MXNet has no gradient operators of losses. With a sum, nothing but the loss needs the state of a step.
TEST(LowerLoops, A_14_LossesInABody) {
  for (StringRef op : {"elemwise_mul", "elemwise_add"})
    for (StringRef loss :
         {"SoftmaxOutput", "LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"}) {
      const bool isSoftmax = loss == "SoftmaxOutput";
      const Graph loop =
          around("_foreach", {"x", "label", "s"},
                 {{"num_args", "4"},
                  {"num_outputs", "2"},
                  {"num_out_data", "1"},
                  {"in_data_locs", "(0,2)"},
                  {"in_state_locs", "(1,)"},
                  {"remain_locs", "()"}},
                 body(("m = " + op + "(d, s); y = " + loss + "(m, l); n = tanh(s); heads y, n").str()), 2);
      expectMxnetsValues(gradientOf(loop, {"x", "s"}, 1), {{"x", floats({2, 3, 4}, wave(24))},
                                                           {"label", isSoftmax ? floats({2, 3}, {0, 2, 1, 3, 3, 0})
                                                                               : floats({2, 3, 4}, Floats(24, 0.5))},
                                                           {"s", floats({3, 4}, wave(12))}});
    }
}

Graph foreachOf(StringRef text) {
  return around("_foreach", {"x", "s"},
                {{"num_args", "3"},
                 {"num_outputs", "2"},
                 {"num_out_data", "1"},
                 {"in_data_locs", "(0,)"},
                 {"in_state_locs", "(1,)"},
                 {"remain_locs", "()"}},
                body(text), 2);
}

// Elements picked and put by position, and rows of the last axis.
TEST(LowerLoops, A_14_WhatHigherOrdersInABodyNeed) {
  const std::vector<NamedArray> arrays = {{"x", floats({2, 2, 3, 4}, wave(48))}, {"s", floats({2, 3, 4}, wave(24))}};
  for (StringRef y : {"topk(t) {k=2, ret_typ=value, axis=1}", "sort(t) {axis=-1}", "sort(t) {axis=None}",
                      "FullyConnected(t, w) {num_hidden=6, no_bias=True, flatten=False}"})
    for (uint32_t order : {1, 2, 3}) {
      const std::string w = y.contains('w') ? "v = Reshape(s) {shape=(6,4)}; w = _mul_scalar(v) {scalar=0.125};" : "";
      const std::string text =
          "m = elemwise_mul(d, s); t = tanh(m);" + w + "y = " + y.str() + "; n = sin(m); heads y, n";
      expectMxnetsValues(gradientOf(foreachOf(text), {"x", "s"}, order), arrays);
    }
}

// MXNet's cumulative sum fails for a negative axis.
TEST(LowerLoops, A_14_MxnetSumsAlongANumberedAxis) {
  for (bool isKnown : {false, true})
    for (auto [axis, expected] :
         {std::pair("-1", Floats{0, 1, 2, 0, 1, 2}), std::pair("-2", Floats{0, 0, 0, 1, 1, 1}),
          std::pair("1L", Floats{0, 1, 2, 0, 1, 2}), std::pair("True", Floats{0, 1, 2, 0, 1, 2})}) {
      const Graph graph = body((Twine("y = _index_like(x) {axis=") + axis + "}; z = Cast(y) {dtype=float32}").str());
      const NamedArray x = {"x", floats({2, 3}, wave(6))};
      const Inference known = cantFail(infer(testContext(), graph, {{{nodeNamed(graph, "x"), {2, 3}}}, {}}, {}));
      const Graph lowered = cantFail(lowerTo(testContext(), graph, kMxnetTarget, isKnown ? &known : nullptr));
      EXPECT_EQ(testing::run(lowered, {x}), Tensors{expected});
      for (const KindRef &kind : lowered.kinds())
        EXPECT_FALSE(!kind->isVariable() && kind->op->name == "_np_cumsum" &&
                     kind->attrs.get("axis")->starts_with("-"));
    }
}

// What its gradient is made of reads the data and the labels of the step, which the fused operator does not.
TEST(LowerLoops, A_14_A_17_CtcInABody) {
  const Graph loop = around(
      "_scan", {"x", "s", "label"},
      {{"num_args", "3"}, {"num_data", "1"}, {"num_states", "1"}, {"num_out_data", "1"}, {"input_locs", "(0, 1, 2)"}},
      body("m = elemwise_add(d, s); y = CTCLoss(m, l); n = sin(m); heads y, n"), 2);
  const Graph graph = gradientOf(loop, {"x", "s"}, 1);
  const std::vector<NamedArray> arrays = {
      {"x", floats({3, 4, 1, 5}, wave(60))}, {"s", floats({4, 1, 5}, wave(20))}, {"label", floats({1, 2}, {1, 2})}};
  expectMxnetsValues(graph, arrays);
  const Graph lowered = cantFail(lowerTo(testContext(), graph, kPrimitivesTarget, nullptr));
  expectPrimitives(lowered);
  expectSameInFloat64(lowered, graph, arrays);
}

TEST(LowerLoops, A_17_ACallIsWhatItCalls) {
  const Graph inner = around("_call", {"p", "q"}, {{"num_args", "2"}, {"num_outputs", "1"}, {"input_locs", "(1, 0)"}},
                             body("y = elemwise_sub(b, a)"), 1);
  const Graph graph = around("_call", {"a", "b"}, {{"num_args", "2"}, {"num_outputs", "2"}},
                             body("y = elemwise_sub(p, q); heads y, q"), 2);
  EXPECT_EQ(dump(cantFail(lowerTo(testContext(), inner, kMxnetTarget, nullptr))),
            "loop = elemwise_sub(q, p)\nheads loop\n");
  EXPECT_EQ(dump(cantFail(lowerTo(testContext(), graph, kMxnetTarget, nullptr))),
            "loop = elemwise_sub(a, b)\nheads loop, b\n");
}

TEST(LowerLoops, A_21_WhatABodyWaitsForIsWaitedForInTheCallsPlace) {
  const Graph call = around("_call", {"x"}, {{"num_args", "1"}, {"num_outputs", "1"}, {"input_locs", "(0,)"}},
                            body("a = exp(x); b = sin(x) ^a; heads b"), 1);
  for (const Target *target : {&kMxnetTarget, &kPrimitivesTarget}) {
    const Graph lowered = cantFail(lowerTo(testContext(), call, *target, nullptr));
    const NodeId sine = lowered.heads()[0].node;
    ASSERT_EQ(lowered.opName(sine), "sin");
    ASSERT_EQ(lowered.controlDeps(sine).size(), 1u);
    EXPECT_EQ(lowered.opName(lowered.controlDeps(sine)[0]), "exp");
  }
}

// A call in a body reads what it is given in another order, so the body comes to its inputs in that order once it is
// inlined. What a body needs is needed for the operator that has the body.
TEST(LowerLoops, A_17_NeedsOfABody) {
  const Graph loop = loopFile("cf03");
  constexpr Target kNothing = {
      .name = "none", .title = "nothing", .has = [](const NodeKind &kind) { return kind.isVariable(); }};
  std::map<std::string, std::set<std::string>> found;
  for (const auto &[op, needs] : needsOf(testContext(), loop, kNothing, nullptr))
    for (const OpDef *needed : needs.operators) found[op->name.str()].insert(needed->name.str());
  EXPECT_EQ(found, (std::map<std::string, std::set<std::string>>{
                       {"_foreach", {"_cast_like", "_constant", "_copy", "_scan", "broadcast_add", "broadcast_mul"}}}));
}

TEST(LowerLoops, A_17_AttributesFollowTheInputsOfABody) {
  const Graph call = around("_call", {"s", "r"}, {{"num_args", "2"}, {"num_outputs", "1"}, {"input_locs", "(1, 0)"}},
                            body("t = _mul_scalar(x) {scalar=3}; y = elemwise_sub(t, z)"), 1);
  const File file{"", {{"x", {1, 2, 4}}, {"s", {0.5}}}, {}};
  const Graph scan = around(
      "_scan", {"x", "s"},
      {{"num_args", "2"}, {"num_data", "1"}, {"num_states", "1"}, {"num_out_data", "0"}, {"input_locs", "(1, 0)"}},
      call, 1);
  const Graph lowered = cantFail(lowerTo(testContext(), scan, kPrimitivesTarget, nullptr));
  expectPrimitives(lowered);
  const Graph &inside = lowered.bodies(lowered.heads()[0].node)[0];
  EXPECT_EQ(inside.name(bodyInputs(inside)[0]), "r");
  EXPECT_EQ(run(lowered, file), run(scan, file));
  EXPECT_EQ(run(scan, file), (std::vector<Doubles>{{3 * 4 - (3 * 2 - (3 * 1 - 0.5))}}));
  const Graph loop = around("_foreach", {"x", "s"},
                            {{"num_args", "3"},
                             {"num_outputs", "1"},
                             {"num_out_data", "0"},
                             {"in_data_locs", "[1]"},
                             {"in_state_locs", "[0]"},
                             {"remain_locs", "[]"}},
                            call, 1);
  EXPECT_EQ(run(cantFail(lowerTo(testContext(), loop, kPrimitivesTarget, nullptr)), file), run(scan, file));
  const Graph mxnet = cantFail(lowerTo(testContext(), loop, kMxnetTarget, nullptr));
  EXPECT_EQ(mxnet.opName(mxnet.heads()[0].node), "_foreach");
  EXPECT_EQ(run(mxnet, file), run(scan, file));
}

Graph mxnets(const Graph &graph) { return cantFail(lowerTo(testContext(), graph, kMxnetTarget, nullptr)); }

// Two variables of a body are given one state, another state is not read, and nothing that is sliced is read.
TEST(LowerLoops, A_14_WhatABodyDoesNotReadIsReadByMxnets) {
  const Graph scan = around(
      "_scan", {"x", "s", "t"},
      {{"num_args", "3"}, {"num_data", "1"}, {"num_states", "2"}, {"num_out_data", "1"}, {"input_locs", "(1, 1)"}},
      body("y = elemwise_mul(p, q); z = _plus_scalar(p) {scalar=2}; heads p, z, y"), 3);
  const File file{"scan", {{"x", {1, 2, 4}}, {"s", {0.5}}, {"t", {3}}}, {}};
  const Graph lowered = mxnets(scan);
  expectMxnets(lowered);
  expectSameValues(lowered, scan, file);
  EXPECT_EQ(run(lowered, file), (std::vector<Doubles>{{0.5, 2.5, 4.5}, {6.5}, {20.25}}));
}

// Rows up to the count, in either direction; the others are zero, and the state is as it was before them.
TEST(LowerLoops, A_14_RowsBeyondTheCountAreMasked) {
  for (StringRef reverse : {"False", "True"}) {
    const Graph scan = around("_scan", {"count", "x", "s"},
                              {{"num_args", "3"},
                               {"num_data", "1"},
                               {"num_states", "1"},
                               {"num_out_data", "1"},
                               {"has_steps", "True"},
                               {"input_locs", "(1, 0)"},
                               {"length", "4"},
                               {"reverse", reverse}},
                              body("t = _mul_scalar(s) {scalar=2}; y = elemwise_add(x, t); heads t, y"), 2);
    const File file{"scan", {{"count", {3}}, {"x", {1, 10, 100, 1e300}}, {"s", {1}}}, {}};
    const Graph lowered = mxnets(scan);
    expectMxnets(lowered);
    expectSameValues(lowered, scan, file);
    EXPECT_EQ(run(lowered, file)[1], (Doubles{reverse == "True" ? 100 * 4 + 10 * 2 + 1 + 8.0 : 4 + 20 + 100 + 8.0}));
  }
}

TEST(LowerLoops, A_14_DrawsInABodyAreNotMxnets) {
  const File file{"dropout_in_loop", {{"x", {1, 2}}, {"h", {1}}}, {"x"}};
  const Graph graph = gradientOf(loopFile(file.name), file.wrt, 1);
  const std::string outcome = describeError(lowerTo(testContext(), graph, kMxnetTarget, nullptr));
  EXPECT_NE(outcome.find("draws, which MXNet does not keep in a body"), std::string::npos) << outcome;
}

}  // namespace
}  // namespace gradc::testing
