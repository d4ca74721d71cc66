// Gradients of entries inside bodies as heads: what the unrolled graph has of every step, a row each.
#include "ops/control/rebody.h"
#include "ops/registry.h"
#include "passes/gradient/higher_order/higher_order.h"
#include "passes/gradient/higher_order/retain_inside.h"
#include "passes/gradient/higher_order/mark_inside.h"
#include "passes/lowering/lower_to.h"
#include "passes/unroll/unroll.h"
#include "tests/support/runs/loops.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc::testing {
namespace {

Expected<Graph> retaining(const Graph &graph, ArrayRef<StringRef> wrt, ArrayRef<std::string> paths,
                          uint32_t order = 1) {
  std::vector<NodeInside> nodes;
  for (const std::string &path : paths) nodes.push_back(*cantFail(findInside(graph, path)));
  Expected<Graph> marked = markRetained(testContext(), graph, nodes);
  if (!marked) return marked;
  GradientRequest request;
  for (StringRef name : wrt) request.wrt.push_back({Value{nodeNamed(graph, name)}});
  Expected<GradientResult> result =
      buildGradientRetaining(testContext(), *marked, request, {}, order, paths, withBodies);
  if (!result) return result.takeError();
  return result->graph;
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

/// A body that runs the graph on a row, its second input the state, and yields what it yields and the state.
Graph onRows(const Graph &inner) {
  GraphBuilder builder(testContext(), inner);
  SmallVector<Value, 2> heads = {inner.heads()[0], Value{nodeNamed(inner, "s")}};
  return cantFail(std::move(builder).freeze(heads, {})).graph;
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
  const Graph without = gradientOf(loop, {"x", "h", "w"}).graph;
  const std::vector<Doubles> plain = values(without, kCf12);
  EXPECT_EQ(plain, std::vector<Doubles>(heads.begin(), heads.begin() + 5));
  EXPECT_EQ(graph.numOutputs(nodeNamed(graph, "_foreach0")), without.numOutputs(nodeNamed(without, "_foreach0")));
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

// Several at once, in both branches, in loops in them, and at different depths: each has zeros of its own shape, in the
// order of the paths.
TEST(RetainInside, NL_02_SeveralThatNoGradientReaches) {
  const Graph inner = around("_scan", {"x", "s"}, scanAttrs(false, false),
                             testing::body("k = sum(x); m = square(x); l = broadcast_add(m, k);"
                                           "n = elemwise_add(l, s); b = BlockGrad(n); heads b, b"),
                             1);
  const Graph first = testing::body("e = exp(a); q = sum(e); c = BlockGrad(q); t = broadcast_mul(a, c)");
  GraphBuilder second(testContext(), inner);
  const Value kept{cantFail(second.add(*testContext().ops.find("exp"), inner.heads()[0], {"z"}))};
  const Value stopped{cantFail(second.add(*testContext().ops.find("BlockGrad"), kept, {"u"}))};
  const Graph other = cantFail(std::move(second).freeze({stopped}, {})).graph;
  Context &context = testContext();
  GraphBuilder builder(context);
  const Value p = builder.addVariable("p", Attrs()), a = builder.addVariable("a", Attrs()),
              s = builder.addVariable("s", Attrs());
  std::vector<std::string> inputs;
  for (NodeId n : bodyInputs(other)) inputs.push_back(other.name(n).str());
  const std::string places = inputs[0] == "x" ? "(1, 2)" : "(2, 1)";
  const Attrs attrs = context.attrs({{"num_args", "6"},
                                     {"num_outputs", "1"},
                                     {"cond_input_locs", "(0,)"},
                                     {"then_input_locs", "(1,)"},
                                     {"else_input_locs", places}});
  const Graph bodies[] = {testing::body("d = _copy(p)"), first, other};
  const Value choice{cantFail(builder.add(*context.ops.find("_cond"), {p, a, s}, {"choice", attrs, NodeId(), bodies}))};
  const Graph graph = cantFail(std::move(builder).freeze({choice}, {})).graph;
  const std::string paths[] = {"choice/2/loop/0/m", "choice/1/q", "choice/2/z",
                               "choice/2/loop/0/k", "choice/1/e", "choice/2/loop"};
  for (double way : {1.0, 0.0}) {
    const Binding bindings[] = {{"p", {1}, {way}}, {"a", {3, 2}, {1, 2, 3, 4, 5, 6}}, {"s", {2}, {1, 1}}};
    const Graph made = cantFail(retaining(graph, {"a"}, paths));
    const std::vector<Doubles> heads = values(made, bindings);
    ASSERT_EQ(heads.size(), 2 + std::size(paths));
    const size_t sizes[] = {6, 1, 6, 3, 6, 6};
    for (size_t i = 0; i < std::size(paths); ++i) {
      EXPECT_EQ(heads[2 + i], Doubles(sizes[i])) << paths[i];
      EXPECT_EQ(made.table().gradient->heads[2 + i].of, paths[i]);
    }
  }
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
  EXPECT_EQ(describeError(retaining(loopFile("powers"), {"w"}, std::string("_while_loop0/0/_lesser_scalar0"))),
            "[unsupported_option] the gradient of '_while_loop0/0/_lesser_scalar0' cannot be retained: it is in the "
            "condition of node '_while_loop0' (_while_loop), a body that yields only the decision");
  const std::string path = "_foreach0/0/tanh0", twice[] = {path, path};
  EXPECT_EQ(describeError(retaining(loopFile("cf12"), {"w"}, twice)),
            "[already_marked] intermediate '_foreach0/0/tanh0' is retained twice");
}

// A row each, beside one that is reached: of a node that nothing asked for is behind, and in loops within loops. The
// others are what they are without.
TEST(RetainInside, NL_02_NoGradientArrives) {
  const Graph loop = onlyHead(loopFile("powers"), 0);
  const Binding bindings[] = {{"x", {1}, {2}}, {"i", {1}, {0}}, {"w", {1}, {3}}};
  const std::string paths[] = {"_while_loop0/1/_plusscalar0", "_while_loop0/1/_mul0"};
  const Graph graph = cantFail(retaining(loop, {"w"}, paths));
  const std::vector<Doubles> heads = values(graph, bindings), plain = values(gradientOf(loop, {"w"}).graph, bindings);
  ASSERT_EQ(heads.size(), plain.size() + 2);
  EXPECT_TRUE(std::equal(plain.begin(), plain.end(), heads.begin()));
  EXPECT_EQ(heads[plain.size()], Doubles(5));
  EXPECT_EQ(heads.back(), (Doubles{9, 3, 1, 0, 0}));
  EXPECT_EQ(graph.table().gradient->heads[plain.size()].of, paths[0]);
  // Of another shape than the one that is reached and listed before it.
  const Graph scan = around("_scan", {"x", "s"}, scanAttrs(false, false),
                            testing::body("m = square(x); k = sum(x); b = BlockGrad(k); c = broadcast_mul(m, b);"
                                          "n = elemwise_add(c, s); heads n, n"),
                            1);
  const Binding three[] = {{"x", {3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}, {"s", {4}, {1, 1, 1, 1}}};
  const std::string both[] = {"loop/0/m", "loop/0/k"};
  const std::vector<Doubles> mixed = values(cantFail(retaining(scan, {"x"}, both)), three);
  expectNear(mixed[mixed.size() - 2], unrolledGradients(scan, {"x"}, {"loop[0]/m", "loop[1]/m", "loop[2]/m"}, three));
  EXPECT_EQ(mixed.back(), Doubles(3));
  // The gradient does not pass the inner loop.
  const Graph inner = around("_scan", {"x", "s"}, scanAttrs(false, false),
                             testing::body("m = square(x); n = elemwise_add(m, s); heads n, n"), 1);
  const Graph outer =
      around("_scan", {"r", "t"}, {{"num_args", "2"}, {"num_data", "1"}, {"num_states", "1"}, {"num_out_data", "1"}},
             onRows(inner), 2);
  const Graph onlyState = cantFail(GraphBuilder(testContext(), outer).freeze({outer.heads()[1]}, {})).graph;
  const Binding rows[] = {{"r", {2, 3, 4}, Doubles(24, 1)}, {"t", {4}, Doubles(4, 2)}};
  EXPECT_EQ(values(cantFail(retaining(onlyState, {"t"}, std::string("loop/0/loop/0/m"))), rows).back(), Doubles(24));
}

// Where the other branch runs they are zeros. The gradient of what is added to a node is that of the node.
// Zeros whose shape only another branch says are in a branch alone.
bool hasShapelessZeros(const Graph &graph) {
  for (const NestedGraph &nested : nestedGraphs(graph))
    for (const KindRef &kind : nested.graph.kinds())
      if (!kind->isVariable() && kind->op->name == "_zeros_without_dtype") return true;
  return false;
}

Inference inferredOf(const Graph &graph, ArrayRef<Binding> bindings) {
  InferRequest hints;
  for (const Binding &binding : bindings) {
    const NodeId n = nodeNamed(graph, binding.name);
    hints.shapes.push_back({n, DimsBuffer(binding.shape.begin(), binding.shape.end())});
    hints.dtypes.push_back({n, DType::Float64});
  }
  return cantFail(infer(testContext(), graph, hints, {}));
}

TEST(RetainInside, CF_09_Branches) {
  const Graph branch = around("_cond", {"s", "w", "p"},
                              {{"num_args", "6"},
                               {"num_outputs", "1"},
                               {"cond_input_locs", "(0,)"},
                               {"then_input_locs", "(0,1,2)"},
                               {"else_input_locs", "(0,)"}},
                              {testing::body("c = _greater_scalar(s) {scalar=0.5}"),
                               testing::body("m = elemwise_mul(s, w); y = elemwise_add(m, p)"),
                               testing::body("k = square(s); y = _mul_scalar(k) {scalar=3}")},
                              1);
  const Graph loop = around("_foreach", {"p", "s", "w"},
                            {{"num_args", "4"},
                             {"num_outputs", "1"},
                             {"num_out_data", "0"},
                             {"in_data_locs", "(2,)"},
                             {"in_state_locs", "(0,)"},
                             {"remain_locs", "(1,)"}},
                            branch, 1);
  const Binding bindings[] = {{"p", {4, 1}, {0.1, 0.2, 0, 0.5}}, {"w", {1}, {0.5}}, {"s", {1}, {0.9}}};
  const std::string paths[] = {"loop/0/loop/1/m", "loop/0/loop/2/y", "loop/0/loop/2/k"};
  const Graph graph = cantFail(retaining(loop, {"p", "s"}, paths));
  const std::vector<Doubles> heads = values(graph, bindings);
  ASSERT_EQ(heads.size(), 6u);
  EXPECT_EQ(heads[3], heads[1]);
  EXPECT_EQ((std::vector<bool>{heads[3][0] != 0, heads[3][1] != 0, heads[3][2] != 0, heads[3][3] != 0}),
            (std::vector<bool>{true, true, false, true}));
  // The gradient of the state behind step 2 goes through m of step 3.
  EXPECT_EQ(heads[4], (Doubles{0, 0, 0.5, 0}));
  EXPECT_EQ(heads[5], (Doubles{0, 0, 1.5, 0}));
  // MXNet's is both branches, and the choice.
  const Inference ofLoop = inferredOf(graph, bindings);
  const Graph both = cantFail(lowerTo(testContext(), graph, kMxnetTarget, &ofLoop));
  EXPECT_FALSE(hasShapelessZeros(both));
  const std::vector<Doubles> chosen = values(both, bindings);
  ASSERT_EQ(chosen.size(), heads.size());
  for (size_t h = 0; h < heads.size(); ++h) expectNear(chosen[h], heads[h]);
  // Alone, and taken or not; in the branches of MXNet shapes have to be known.
  const Graph alone = cantFail(retaining(branch, {"w"}, std::string("loop/1/m")));
  for (double s : {0.9, 0.2}) {
    const Binding three[] = {{"s", {1}, {s}}, {"w", {1}, {0.5}}, {"p", {1}, {0}}};
    EXPECT_EQ(values(alone, three).back(), (Doubles{s > 0.5 ? 1. : 0.}));
    const Inference known = inferredOf(alone, three);
    for (const Target *target : {&kPrimitivesTarget, &kMxnetTarget})
      EXPECT_EQ(values(cantFail(lowerTo(testContext(), alone, *target, &known)), three).back(),
                (Doubles{s > 0.5 ? 1. : 0.}));
    EXPECT_FALSE(hasShapelessZeros(cantFail(lowerTo(testContext(), alone, kMxnetTarget, &known))));
  }
}

// No gradient passes the branch, whose shape the zeros have: it yields one output more, and saves nothing.
TEST(RetainInside, A_14_NL_02_ABranchBesideThePath) {
  const Graph branch = around("_cond", {"s"},
                              {{"num_args", "4"},
                               {"num_outputs", "1"},
                               {"cond_input_locs", "(0,)"},
                               {"then_input_locs", "(0,)"},
                               {"else_input_locs", "(0,)"}},
                              {testing::body("c = _greater_scalar(s) {scalar=0.5}"), testing::body("y = sin(s)"),
                               testing::body("k = square(s); y = cos(k)")},
                              1);
  GraphBuilder builder(testContext(), branch);
  const Value q = builder.addVariable("q", Attrs());
  const NodeId product =
      cantFail(builder.add(*testContext().ops.find("elemwise_mul"), {branch.heads()[0], q}, {"product", Attrs()}));
  const Graph graph = cantFail(std::move(builder).freeze({Value{product}}, {})).graph;
  const Graph made = cantFail(retaining(graph, {"q"}, std::string("loop/2/k")));
  for (double s : {0.9, 0.2}) {
    const Binding bindings[] = {{"s", {1}, {s}}, {"q", {1}, {2}}};
    const Inference known = inferredOf(made, bindings);
    const Graph lowered = cantFail(lowerTo(testContext(), made, kMxnetTarget, &known));
    EXPECT_FALSE(hasShapelessZeros(lowered));
    const std::vector<Doubles> heads = values(lowered, bindings);
    ASSERT_EQ(heads.size(), 3u);
    expectNear(heads[1], {s > 0.5 ? std::sin(s) : std::cos(s * s)});
    EXPECT_EQ(heads[2], (Doubles{0}));
  }
}

// Where the choice is known, the branch that is not taken is gone, and with it what determined the shape there.
TEST(RetainInside, CF_09_AKnownChoice) {
  for (StringRef value : {"0", "1"}) {
    const Graph branch = around("_cond", {"s"},
                                {{"num_args", "4"},
                                 {"num_outputs", "1"},
                                 {"cond_input_locs", "()"},
                                 {"then_input_locs", "(0,)"},
                                 {"else_input_locs", "(0,)"}},
                                {testing::body(("c = _full() {shape=(1,), value=" + value + "}").str()),
                                 testing::body("k = square(s); y = sin(k)"), testing::body("m = exp(s); y = cos(m)")},
                                1);
    const Binding bindings[] = {{"s", {2}, {0.5, 0.25}}};
    const std::string paths[] = {"loop/1/k", "loop/2/m"};
    const Graph graph = cantFail(retaining(branch, {"s"}, paths));
    const Inference known = inferredOf(graph, bindings);
    UnrollOptions options;
    options.known = &known;
    options.rowOps = builtinRowOps();
    const Unrolled flat = cantFail(inlineCalls(testContext(), graph, options));
    EXPECT_EQ(flat.kept, std::vector<std::string>());
    EXPECT_EQ(values(flat.graph, bindings), values(graph, bindings));
    EXPECT_EQ(values(graph, bindings)[value == "0" ? 2 : 3], (Doubles{0, 0}));
  }
}

// What is retained is of order 1, as other entries that are retained are; the orders above it are what they are
// without.
TEST(RetainInside, NL_01_HigherOrders) {
  const Graph loop = loopFile("cf12");
  const std::string paths[] = {"_foreach0/0/tanh0"};
  const std::vector<Doubles> first = values(cantFail(retaining(loop, {"x", "h", "w"}, paths)), kCf12);
  for (uint32_t order : {2, 3}) {
    const Graph graph = cantFail(retaining(loop, {"x", "h", "w"}, paths, order));
    std::vector<Doubles> heads = values(graph, kCf12);
    ASSERT_TRUE(std::equal(first.begin(), first.end(), heads.begin()));
    EXPECT_EQ(graph.table().gradient->heads[5].kind, GradientTable::HeadKind::Retained);
    EXPECT_EQ(graph.table().gradient->heads[5].order, 1u);
    heads.erase(heads.begin() + 5);
    EXPECT_EQ(heads, values(gradientOf(loop, {"x", "h", "w"}, order).graph, kCf12));
  }
  // Stacks in front of the states, which order 2 reads.
  const Graph powers = onlyHead(loopFile("powers"), 0);
  const Binding bindings[] = {{"x", {1}, {2}}, {"i", {1}, {0}}, {"w", {1}, {3}}};
  const std::string two[] = {"_while_loop0/1/_plusscalar0", "_while_loop0/1/_mul0"};
  const std::vector<Doubles> heads = values(cantFail(retaining(powers, {"w"}, two, 2)), bindings);
  EXPECT_EQ(heads.back(), (Doubles{36}));  // x·w³
}

}  // namespace
}  // namespace gradc::testing
