// Gradients of entries inside bodies as heads: what the unrolled graph has of every step, a row each.
#include "ops/registry.h"
#include "passes/gradient/retain_inside.h"
#include "passes/gradient/stop_inside.h"
#include "passes/targets/lower_to.h"
#include "passes/unroll.h"
#include "tests/support/loops.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc::testing {
namespace {

Expected<Graph> retaining(const Graph &graph, ArrayRef<StringRef> wrt, ArrayRef<std::string> paths) {
  std::vector<NodeInside> nodes;
  for (const std::string &path : paths) nodes.push_back(*findInside(graph, path));
  Expected<Graph> marked = markRetained(testContext(), graph, nodes);
  if (!marked) return marked;
  GradientRequest request;
  for (StringRef name : wrt) request.wrt.push_back({Value{nodeNamed(graph, name)}});
  Expected<GradientResult> result = buildGradient(testContext(), *marked, request, {});
  if (!result) return result.takeError();
  return retainInside(testContext(), result->graph, paths);
}

std::vector<Doubles> values(const Graph &graph, ArrayRef<Binding> bindings) {
  EXPECT_EQ(describeError(verifyGraph(graph, 5)), "success");
  SessionOptions options;
  options.exec.backend = Backend::Reference;
  options.infer.floatAs = DType::Float64;
  Session session = cantFail(Session::create(testContext(), graph, arraysOf(bindings), options));
  cantFail(session.run(0));
  std::vector<Doubles> heads;
  for (size_t h = 0; h < graph.heads().size(); ++h) heads.push_back(valuesOf<double>(session.head(h)));
  return heads;
}

// By the unrolled graph, in which they are entries of the graph.
Doubles unrolledGradients(const Graph &loop, ArrayRef<StringRef> wrt, ArrayRef<std::string> nodes,
                          ArrayRef<Binding> bindings) {
  InferRequest hints;
  for (const Binding &binding : bindings)
    hints.shapes.push_back({nodeNamed(loop, binding.name), DimsBuffer(binding.shape.begin(), binding.shape.end())});
  const Inference known = cantFail(infer(testContext(), loop, hints, {}));
  UnrollOptions unrolling;
  unrolling.known = &known;
  unrolling.rowOps = builtinRowOps();
  const Graph flat = cantFail(unrollLoops(testContext(), loop, unrolling)).graph;
  GradientRequest request;
  for (StringRef name : wrt) request.wrt.push_back({Value{nodeNamed(flat, name)}});
  for (const std::string &node : nodes) request.retained.push_back({Value{nodeNamed(flat, node)}});
  const GradientResult result = cantFail(buildGradient(testContext(), flat, request, {}));
  const std::vector<Doubles> heads = values(result.graph, bindings);
  Doubles all;
  for (size_t i = 0; i < nodes.size(); ++i) llvm::append_range(all, heads[heads.size() - nodes.size() + i]);
  return all;
}

void expectNear(const Doubles &found, const Doubles &expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << i;
}

const Binding kCf12[] = {{"x", {2}, {0.5, -0.25}}, {"h", {1}, {0.1}}, {"w", {1}, {0.8}}};

TEST(RetainInside, NL_01_ALoopStacksThem) {
  const Graph loop = loopFile("cf12");
  const std::string paths[] = {"_foreach0/0/tanh0", "_foreach0/0/_mul0"};
  const Graph graph = cantFail(retaining(loop, {"x", "h", "w"}, paths));
  const std::vector<Doubles> heads = values(graph, kCf12);
  ASSERT_EQ(heads.size(), 7u);
  expectNear(heads[5], unrolledGradients(loop, {"x", "h", "w"}, {"_foreach0[0]/tanh0", "_foreach0[1]/tanh0"}, kCf12));
  expectNear(heads[6], unrolledGradients(loop, {"x", "h", "w"}, {"_foreach0[0]/_mul0", "_foreach0[1]/_mul0"}, kCf12));
  // The others are what they are without.
  const std::vector<Doubles> plain = values(gradientOf(loop, {"x", "h", "w"}).graph, kCf12);
  EXPECT_EQ(plain, std::vector<Doubles>(heads.begin(), heads.begin() + 5));
  // In the order asked, without marks and taps, and in the table by their paths.
  EXPECT_EQ(graph.table().gradient->heads.back().of, paths[1]);
  EXPECT_EQ(graph.table().gradient->heads[5].of, paths[0]);
  EXPECT_EQ(graph.table().gradient->heads.size(), 7u);
  for (const NestedGraph &nested : nestedGraphs(graph))
    for (const KindRef &kind : nested.graph.kinds()) {
      EXPECT_FALSE(kind->attrs.get("__retain_gradient__"));
      EXPECT_NE(kind->spelling, "_gradient_tap");
    }
  const std::string turned[] = {paths[1], paths[0]};
  const std::vector<Doubles> other = values(cantFail(retaining(loop, {"x", "h", "w"}, turned)), kCf12);
  EXPECT_EQ(other[5], heads[6]);
  EXPECT_EQ(other[6], heads[5]);
}

TEST(RetainInside, NL_01_LoopsInLoopsAndCalls) {
  const Binding bindings[] = {{"x", {1}, {1}}, {"w", {1}, {2}}, {"n", {3, 1}, {0, 0, 0}}, {"m", {2, 1}, {0, 0}}};
  const Graph loop = loopFile("cf11");
  const NodeId outer = loop.heads()[0].node;
  const Graph body = loop.bodies(outer)[0];
  NodeId inner, product;
  for (uint32_t n = 0; n < body.numNodes(); ++n)
    if (body.kind(NodeId(n)).flow) inner = NodeId(n);
  const Graph deep = body.bodies(inner)[0];
  for (uint32_t n = 0; n < deep.numNodes(); ++n)
    if (deep.opName(NodeId(n)) == "elemwise_mul") product = NodeId(n);
  ASSERT_TRUE(inner.isValid() && product.isValid());
  const std::string in = body.name(inner).str(), name = deep.name(product).str(), out = loop.name(outer).str();
  std::vector<std::string> steps;
  for (StringRef i : {"[0]/", "[1]/"})
    for (StringRef k : {"[0]/", "[1]/", "[2]/"}) steps.push_back((out + i + in + k + name).str());
  const std::vector<Doubles> heads =
      values(cantFail(retaining(loop, {"x", "w"}, out + "/0/" + in + "/0/" + name)), bindings);
  expectNear(heads.back(), unrolledGradients(loop, {"x", "w"}, steps, bindings));
  EXPECT_EQ(heads.back().size(), 6u);
  // Of a call.
  const Graph call = around("_call", {"a", "b"}, {{"num_args", "2"}, {"num_outputs", "1"}},
                            testing::body("y = elemwise_mul(p, q); z = square(y)"), 1);
  const Binding two[] = {{"a", {2}, {2, 3}}, {"b", {2}, {5, 7}}};
  EXPECT_EQ(values(cantFail(retaining(call, {"b"}, std::string("loop/0/y"))), two).back(), (Doubles{20, 42}));
}

// x·w of three steps of at most five: rows of steps that are not run are zeros.
TEST(RetainInside, CF_06_RowsOfStepsNotRun) {
  const Graph loop = onlyHead(loopFile("powers"), 0);
  const Binding bindings[] = {{"x", {1}, {2}}, {"i", {1}, {0}}, {"w", {1}, {3}}};
  const std::vector<Doubles> heads =
      values(cantFail(retaining(loop, {"w"}, std::string("_while_loop0/1/_mul0"))), bindings);
  EXPECT_EQ(heads.back(), (Doubles{9, 3, 1, 0, 0}));
}

TEST(RetainInside, A_14_MxnetAndPrimitives) {
  const Graph graph = cantFail(retaining(loopFile("cf12"), {"w"}, std::string("_foreach0/0/tanh0")));
  const std::vector<Doubles> expected = values(graph, kCf12);
  for (const Target *target : {&kPrimitivesTarget, &kMxnetTarget}) {
    const Graph lowered = cantFail(lowerTo(testContext(), graph, *target, nullptr));
    const std::vector<Doubles> found = values(lowered, kCf12);
    for (size_t i = 0; i < expected.size(); ++i) expectNear(found[i], expected[i]);
  }
}

TEST(RetainInside, E_01_E_13_E_16_WhatCannotBeRetained) {
  const Graph branch = loopFile("cond");
  EXPECT_EQ(
      describeError(retaining(branch, {"a"}, std::string("_cond0/1/_mul0"))),
      "[unsupported_option] the gradient of '_cond0/1/_mul0' cannot be retained: node '_cond0' (_cond) may not run "
      "the branch it is in, and nothing else has its shape");
  const std::string path = "_foreach0/0/tanh0", twice[] = {path, path};
  EXPECT_EQ(describeError(retaining(loopFile("cf12"), {"w"}, twice)),
            "[already_marked] intermediate '_foreach0/0/tanh0' is retained twice");
  // Nothing that is asked for is behind it.
  EXPECT_EQ(
      describeError(retaining(onlyHead(loopFile("powers"), 0), {"w"}, std::string("_while_loop0/1/_plusscalar0"))),
      "[unreachable] '_while_loop0/1/_plusscalar0' is retained, but no gradient arrives there on the way to what is "
      "asked for");
}

}  // namespace
}  // namespace gradc::testing
