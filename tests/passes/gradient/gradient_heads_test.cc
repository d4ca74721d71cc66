// Head gradients (§4): outputs that carry none, heads as variables of a later gradient, and checks that wait for
// shapes.
#include "tests/support/ops/naive.h"
#include "tests/support/runs/requests.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include "formats/json/reader.h"
#include "ir/graph/graph_builder.h"
#include "passes/inference/head_checks.h"
#include "passes/lowering/lower_to.h"
#include "runtime/session/session.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;
using Numbers = std::vector<double>;

std::string outcome(TestGraph &g, const GradientRequest &request, const GradientOptions &options) {
  Expected<GradientResult> result = buildGradient(g.context, g, request, options);
  if (!result) return describeError(result.takeError());
  return dumpFrom(result->graph, g.graph.numNodes(), g.graph.heads().size());
}

TEST(GradientHeads, H_07_AVariableDoesNotDependOnWhatItFeeds) {
  TestGraph g("y = _plus_scalar(x) {scalar=1}");
  EXPECT_EQ(outcome(g, requestOf(g, {"x"}, {"y"}), GradientOptions()),
            "[unreachable] x number 1, 'y_output', is not reached from any output that is differentiated");
  EXPECT_EQ(outcome(g, requestOf(g, {"x"}, {"x"}), GradientOptions()),
            "_head_grad_0 = ones_like(x)\nheads _head_grad_0\n");
}

TEST(GradientHeads, H_10_ASK_19_OutputsThatCarryNoGradientAreSkipped) {
  TestGraph g("c = _ones {shape=(2,)}; b = BlockGrad(x); y = exp(x); n = tanh(x); heads c, b, y, n");
  GradientRequest request = requestOf(g, {"c", "b", "y", "n"}, {"x"});
  request.noGrad = {g.at("n")};
  EXPECT_EQ(outcome(g, request, GradientOptions()), "_head_grad_2 = ones_like(y)\n"
                                                    "y_backward = elemwise_mul(_head_grad_2, y)\n"
                                                    "heads y_backward\n");
}

TEST(GradientHeads, H_10_E_05_NoOutputCarriesGradient) {
  TestGraph g("c = _ones {shape=(2,)}; d = exp(c); n = tanh(x); i = Cast(x) {dtype=int32}; heads c, d, n, i");
  Inference inference = cantFail(infer(g.context, g, {{{g.at("x").node, {2}}}, {}}, {}));
  GradientOptions options;
  options.inference = &inference;
  const std::string start = "[no_live_output] no output that is differentiated carries gradient: ";
  EXPECT_EQ(outcome(g, requestOf(g, {"c", "d"}, {"x"}), options),
            start + "'c_output' (a constant), 'd_output' (a constant)");
  GradientRequest request = requestOf(g, {"n", "i"}, {"x"});
  request.noGrad = {g.at("n")};
  EXPECT_EQ(outcome(g, request, options), start + "'n_output' (in the no-gradient set), 'i_output' (int32)");
  // One live output is enough, whether or not it depends on the x.
  EXPECT_EQ(outcome(g, requestOf(g, {"c", "n"}, {"d"}), options).substr(0, 13), "[unreachable]");
}

TEST(GradientHeads, H_12_AHeadGradientKeepsItsBytes) {
  // The head is what a, b and the chain of additions start from, and the only operand of the first in-place candidate.
  TestGraph g("x = var {__shape__=(2,)}; r = negative(x); s = elemwise_add(r, x); y = elemwise_add(s, x)");
  for (uint32_t cap : {2u, 8u}) {
    GradientOptions options;
    options.headPolicy = HeadPolicy::Input;
    options.sumCap = cap;
    GradientRequest request = wrt(g, {"x", "r", "s"});
    for (GradientTarget &target : request.wrt) target.request = Request::Add;
    Graph graph = cantFail(buildGradient(g.context, g, request, options)).graph;
    std::vector<NamedArray> bindings{
        {"x", doubles({2}, {1, 2})}, {"_head_grad_0", doubles({2}, {5, 7})}, {"x_grad", doubles({2}, {100, 200})}};
    SessionOptions session;
    session.infer.floatAs = DType::Float64;
    Session run = cantFail(Session::create(g.context, graph, std::move(bindings), session));
    for (double n : {1.0, 2.0}) {
      cantFail(run.run(0));
      EXPECT_EQ(valuesOf<double>(run.variable(nodeNamed(graph, "_head_grad_0"))), (Numbers{5, 7}));
      EXPECT_EQ(valuesOf<double>(run.head(1)), (Numbers{100 + n * 5, 200 + n * 7})) << "the same request, added again";
      EXPECT_EQ(valuesOf<double>(run.head(2)), (Numbers{n * 5, n * 7}));
      EXPECT_EQ(valuesOf<double>(run.head(3)), (Numbers{n * 5, n * 7}));
    }
  }
}

// dx = h · 2x; then d(dx)/dh = 2x and d(dx)/dx = 2h.
TEST(GradientHeads, H_13_HeadVariablesAreVariablesOfALaterGradient) {
  TestGraph g("y = square(x)");
  GradientOptions options;
  options.headPolicy = HeadPolicy::Input;
  GradientResult first = cantFail(buildGradient(g.context, g, wrt(g, {"x"}), options));
  GradientRequest again = wrt(first.graph, {"_head_grad_0", "x"});
  again.heads = {{first.wrt[0].value, std::nullopt, ""}};
  options.headPolicy = HeadPolicy::Ones;
  options.gradientOnly = true;
  Graph second = cantFail(buildGradient(g.context, first.graph, again, options)).graph;
  std::vector<testing::Array> values =
      evaluate(second, {{"x", testing::Array(3.0)}, {"_head_grad_0", testing::Array(5.0)}});
  EXPECT_EQ(values[0].values, Numbers{6});
  EXPECT_EQ(values[1].values, Numbers{10});
}

TEST(GradientHeads, CON_10_E_36_EveryRequiredPartIsNamed) {
  TestGraph g("y = exp(x)"), empty("x = var; heads x");
  GradientRequest none;
  EXPECT_EQ(outcome(g, none, GradientOptions()),
            "[empty_xs] no variable to differentiate with respect to (xs): the list is empty");
  GradientOptions options;
  options.headPolicy = HeadPolicy::Required;
  EXPECT_EQ(outcome(g, wrt(g, {"x"}), options), "[missing_attr] output 1, 'y_output', has no head gradient");
  GraphBuilder builder(empty.context, empty.graph);
  Graph headless = cantFail(std::move(builder).freeze({}, {})).graph;
  EXPECT_EQ(describeError(buildGradient(empty.context, headless, wrt(g, {"x"}), GradientOptions())),
            "[missing_attr] no output to differentiate (ys): the graph has no heads");
}

// ---- checks that wait for shapes

struct Waiting {
  TestGraph g{"y = exp(x); z = _mul_scalar(h) {scalar=2}; heads y, z"};
  GradientOptions options;

  /// What inference says of the emitted graph with these shapes.
  std::string inferred(const Graph &graph, DimsBuffer x, DimsBuffer seed, StringRef seedName) {
    InferRequest hints{{{nodeNamed(graph, "x"), x}}, {}};
    if (!seedName.empty()) hints.shapes.push_back({nodeNamed(graph, seedName), seed});
    InferOptions partial;
    partial.allowUnknown = true;
    return describeError(infer(testContext(), graph, hints, partial));
  }
};

TEST(GradientHeads, H_03_E_03_ScalarsAreCheckedOnceShapesAreKnown) {
  Waiting w;
  w.options.headPolicy = HeadPolicy::Scalar;
  Graph graph = cantFail(buildGradient(w.g.context, w.g, requestOf(w.g, {"y"}, {"x"}), w.options)).graph;
  for (DimsBuffer one : {DimsBuffer{}, DimsBuffer{1}, DimsBuffer{1, 1}})
    EXPECT_EQ(w.inferred(graph, one, {}, ""), "success");
  const std::string refusal =
      "[implicit_head] output 'y_output' has shape (2,3); an implicit head gradient needs a scalar";
  EXPECT_EQ(w.inferred(graph, {2, 3}, {}, ""), refusal);
  EXPECT_EQ(w.inferred(cantFail(lowerTo(w.g.context, graph, kMxnetTarget, nullptr)), {2, 3}, {}, ""), refusal);
  // Differentiated once more, it still waits.
  GradientRequest again = wrt(graph, {"x"});
  Graph second = cantFail(buildGradient(w.g.context, graph, again, GradientOptions())).graph;
  EXPECT_EQ(w.inferred(second, {2, 3}, {}, ""), refusal);
  // Settled when it was emitted: nothing is kept.
  Inference inference = cantFail(infer(w.g.context, w.g, {{{w.g.at("x").node, {1}}, {w.g.at("h").node, {1}}}, {}}, {}));
  w.options.inference = &inference;
  EXPECT_TRUE(cantFail(buildGradient(w.g.context, w.g, requestOf(w.g, {"y"}, {"x"}), w.options))
                  .graph.table()
                  .headPairs.empty());
}

TEST(GradientHeads, H_04_E_38_SeedsAreCheckedOnceShapesAreKnown) {
  Waiting w;
  GradientRequest request = requestOf(w.g, {"z", "y"}, {"x", "h"});
  request.heads[1].seed = w.g.at("z");
  Graph entry = cantFail(buildGradient(w.g.context, w.g, request, w.options)).graph;
  EXPECT_EQ(w.inferred(entry, {2, 3}, {2, 3}, "h"), "success");
  EXPECT_EQ(w.inferred(entry, {2, 3}, {3}, "h"),
            "[head_shape] head gradient 2, 'z_output', has shape (3,), output 'y_output' has (2,3)");
  request.heads[1].seed = std::nullopt;
  request.heads[1].seedName = "dy";
  Graph variable = cantFail(buildGradient(w.g.context, w.g, request, w.options)).graph;
  EXPECT_EQ(w.inferred(variable, {2, 3}, {2, 3}, "dy"), "success");
  EXPECT_EQ(w.inferred(variable, {2, 3}, {1, 3}, "dy"),
            "[head_shape] head gradient 2, 'dy', has shape (1,3), output 'y_output' has (2,3)");
}

// A file may list its nodes in any order; the pairs follow their nodes.
TEST(GradientHeads, H_04_PairsFollowTheNodesOfAFile) {
  TestContext context;
  LoadedGraph loaded = cantFail(readJson(context, R"({"nodes": [
{"op": "null", "name": "unused", "inputs": []}, {"op": "null", "name": "dy", "inputs": []},
{"op": "null", "name": "x", "inputs": []}, {"op": "exp", "name": "y", "inputs": [[2, 0]]},
{"op": "elemwise_mul", "name": "g", "inputs": [[1, 0], [3, 0]]}],
"arg_nodes": [0, 1, 2], "heads": [[3, 0], [4, 0]], "attrs": {"head_pairs": ["list_int", [1, 3, 0, 1, 0]]}})",
                                         ReadOptions()));
  const Graph &graph = loaded.graph;
  std::vector<HeadPair> pairs = graph.table().headPairs;
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(graph.name(pairs[0].y.node), "y");
  EXPECT_EQ(graph.name(pairs[0].seed.node), "dy");
  EXPECT_EQ(pairs[0].position, 1u);
}

TEST(GradientHeads, H_04_E_39_TypesOfSeedsAreCheckedOnceKnown) {
  Waiting w;
  GradientRequest request = requestOf(w.g, {"y"}, {"x"});
  request.heads[0].seedName = "dy";
  Graph graph = cantFail(buildGradient(w.g.context, w.g, request, w.options)).graph;
  InferRequest hints{{{nodeNamed(graph, "x"), {2}}},
                     {{nodeNamed(graph, "dy"), DType::Int32}, {nodeNamed(graph, "x"), DType::Float32}}};
  InferOptions partial;
  partial.allowUnknown = true;
  EXPECT_EQ(describeError(infer(w.g.context, graph, hints, partial)),
            "[head_dtype] head gradient 1, 'dy', has type int32, output 'y_output' has float32");
}

}  // namespace
}  // namespace gradc
