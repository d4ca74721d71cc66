// Loops unrolled, branches chosen and calls inlined: the values of the result are those of the loop, to the bit, and what
// a graph says besides (names, origins, dependencies, writes, its table) is kept.
#include "passes/unroll.h"

#include "ir/body_flow.h"
#include "ir/grad_rule.h"
#include "ir/graph_builder.h"
#include "ir/inference.h"
#include "ir/kernel.h"
#include "ir/verify.h"
#include "ops/registry.h"
#include "passes/gradient/gradient.h"
#include "runtime/session.h"
#include "tests/support/loops.h"

#include <gtest/gtest.h>

#include <cstring>
#include <ctime>
#include <set>

using namespace llvm;

namespace gradc::testing {
namespace {

using Pass = Expected<Unrolled> (*)(Context &, const Graph &, const UnrollOptions &);

using Bindings = std::vector<Binding>;

/// Values that follow a fixed sequence in (-0.5, 0.5).
Bindings drawn(std::initializer_list<std::pair<StringRef, std::vector<int64_t>>> shapes) {
  Bindings bindings;
  double value = 0.1;
  for (const auto &[name, shape] : shapes) {
    bindings.push_back({name, shape, {}});
    int64_t size = 1;
    for (int64_t dim : shape) size *= dim;
    for (int64_t i = 0; i < size; ++i) bindings.back().values.push_back((value = 3.7 * value * (1 - value)) - 0.5);
  }
  return bindings;
}

struct File {
  StringRef name;
  Bindings bindings;
};
// With numbers of steps that the shapes tell.
const File kFiles[] = {
    {"cf03", {{"x", {3}, {0.5, -1, 2}}, {"s", {1}, {0.25}}, {"f", {1}, {1}}}},
    {"two_states", drawn({{"x", {3, 2}}, {"z", {3, 2}}, {"s", {2}}, {"t", {2}}, {"w", {2}}})},
    {"only_states", {{"x", {3, 1}, {2, 3, 4}}, {"s", {1}, {7}}}},
    {"swapped", drawn({{"x", {3, 1}}, {"s", {1}}, {"t", {1}}})},
    {"cf11", {{"x", {1}, {1}}, {"w", {1}, {2}}, {"n", {3, 1}, {0, 0, 0}}, {"m", {2, 1}, {0, 0}}}},
    {"cf12", {{"x", {2}, {0.5, -0.25}}, {"h", {1}, {0.1}}, {"w", {1}, {0.8}}}},
    {"lstm", drawn({{"x", {4, 2, 5}},
                    {"h", {2, 3}},
                    {"c", {2, 3}},
                    {"i2h_weight", {12, 5}},
                    {"i2h_bias", {12}},
                    {"h2h_weight", {12, 3}},
                    {"h2h_bias", {12}}})},
};

bool hasVariable(const Graph &graph, StringRef name) {
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (graph.isVariable(NodeId(n)) && graph.name(NodeId(n)) == name) return true;
  return false;
}

/// Those that the graph has: what only steps read that are not run is gone with them.
std::vector<NamedArray> arraysOf(const Graph &graph, const Bindings &bindings) {
  std::vector<NamedArray> arrays;
  for (const Binding &binding : bindings)
    if (hasVariable(graph, binding.name))
      arrays.push_back({binding.name.str(), doubles(binding.shape, binding.values)});
  return arrays;
}

Inference inferred(const Graph &graph, const Bindings &bindings) {
  InferRequest hints;
  for (const Binding &binding : bindings)
    hints.shapes.push_back({nodeNamed(graph, binding.name), DimsBuffer(binding.shape.begin(), binding.shape.end())});
  InferOptions options;
  options.allowUnknown = true;
  return cantFail(infer(testContext(), graph, hints, options));
}

Expected<Unrolled> apply(Pass pass, const Graph &graph, const Bindings &bindings, uint32_t maxNodes = 1 << 20) {
  const Inference known = inferred(graph, bindings);
  UnrollOptions options;
  options.known = &known;
  options.rowOps = builtinRowOps();
  options.maxNodes = maxNodes;
  return pass(testContext(), graph, options);
}

size_t countFlows(const Graph &graph) {
  size_t count = 0;
  for (uint32_t n = 0; n < graph.numNodes(); ++n) count += graph.kind(NodeId(n)).flow != nullptr;
  return count;
}

/// The result, which has no loop any more and passes the verifier.
Graph unrolled(const Graph &graph, const Bindings &bindings) {
  const Unrolled made = cantFail(apply(unrollLoops, graph, bindings));
  EXPECT_EQ(describeError(verifyGraph(made.graph, 5)), "success");
  EXPECT_EQ(made.kept, std::vector<std::string>());
  EXPECT_EQ(countFlows(made.graph), 0u);
  return made.graph;
}

std::vector<Doubles> run(const Graph &graph, const Bindings &bindings) {
  SessionOptions options;
  options.exec.backend = Backend::Reference;
  options.infer.floatAs = DType::Float64;
  Session session = cantFail(Session::create(testContext(), graph, arraysOf(graph, bindings), options));
  cantFail(session.run(0));
  std::vector<Doubles> heads;
  for (size_t i = 0; i < graph.heads().size(); ++i) {
    const TensorRef head = session.head(i);
    if (head.dtype == DType::Float64) heads.push_back(valuesOf<double>(head));
  }
  return heads;
}

Graph gradientOf(const Graph &graph, const Bindings &bindings, uint32_t order = 1) {
  GradientRequest request;
  for (const Binding &binding : bindings) request.wrt.push_back({Value{nodeNamed(graph, binding.name)}});
  GradientOptions options;
  options.headPolicy = HeadPolicy::Ones;
  return cantFail(buildGradientOfOrder(testContext(), graph, request, options, order)).graph;
}

TEST(Unroll, A_19_StepsAreNamedBehindTheirLoop) {
  EXPECT_EQ(dump(unrolled(loopFile("cf03"), kFiles[0].bindings)),
            "_foreach0_rows0 = SliceChannel(x)\n"
            "_foreach0[0]/_mulscalar0 = _mul_scalar(_foreach0_rows0)\n"
            "_foreach0[0]/_plus0 = elemwise_add(_foreach0[0]/_mulscalar0, s)\n"
            "_foreach0[0]/_plus1 = elemwise_add(_foreach0[0]/_plus0, f)\n"
            "_foreach0[1]/_mulscalar0 = _mul_scalar(_foreach0_rows0:1)\n"
            "_foreach0[0]/identity0 = _copy(_foreach0[0]/_plus1)\n"
            "_foreach0[1]/_plus0 = elemwise_add(_foreach0[1]/_mulscalar0, _foreach0[0]/identity0)\n"
            "_foreach0[1]/_plus1 = elemwise_add(_foreach0[1]/_plus0, f)\n"
            "_foreach0[2]/_mulscalar0 = _mul_scalar(_foreach0_rows0:2)\n"
            "_foreach0[1]/identity0 = _copy(_foreach0[1]/_plus1)\n"
            "_foreach0[2]/_plus0 = elemwise_add(_foreach0[2]/_mulscalar0, _foreach0[1]/identity0)\n"
            "_foreach0[2]/_plus1 = elemwise_add(_foreach0[2]/_plus0, f)\n"
            "_foreach0_output0 = stack(_foreach0[0]/_plus1, _foreach0[1]/_plus1, _foreach0[2]/_plus1)\n"
            "_foreach0[2]/identity0 = _copy(_foreach0[2]/_plus1)\n"
            "heads _foreach0_output0, _foreach0[2]/identity0\n");
}

TEST(Unroll, A_19_ValuesAreThoseOfTheLoop) {
  for (const File &file : kFiles) {
    const Graph loop = loopFile(file.name);
    EXPECT_EQ(run(unrolled(loop, file.bindings), file.bindings), run(loop, file.bindings)) << file.name.str();
  }
}

// The gradient unrolled is the gradient run, to the bit. The gradient of the unrolled graph adds in the order of its own
// where a step reads a value twice.
TEST(Unroll, A_19_CF_19_GradientsOfBothAreOne) {
  for (const File &file : kFiles)
    for (uint32_t order : {1, 2}) {
      const Graph loop = loopFile(file.name), gradient = gradientOf(loop, file.bindings, order);
      const std::vector<Doubles> expected = run(gradient, file.bindings);
      EXPECT_EQ(run(unrolled(gradient, file.bindings), file.bindings), expected)
          << file.name.str() << ", order " << order;
      const std::vector<Doubles> found =
          run(gradientOf(unrolled(loop, file.bindings), file.bindings, order), file.bindings);
      ASSERT_EQ(found.size(), expected.size()) << file.name.str();
      for (size_t h = 0; h < found.size(); ++h) {
        ASSERT_EQ(found[h].size(), expected[h].size()) << file.name.str();
        for (size_t i = 0; i < found[h].size(); ++i)
          EXPECT_NEAR(found[h][i], expected[h][i], 1e-12 * std::max(1.0, std::abs(expected[h][i])))
              << file.name.str() << ", order " << order << ", head " << h;
      }
    }
}

// One sum per variable, in the order of the steps from the last one on: equal bits.
TEST(Unroll, A_19_EqualBitsWhereTheOrderOfSumsIsTheSame) {
  for (StringRef name : {"cf03", "cf12", "only_states"}) {
    const File &file = *llvm::find_if(kFiles, [&](const File &f) { return f.name == name; });
    const Graph loop = loopFile(name);
    EXPECT_EQ(run(gradientOf(unrolled(loop, file.bindings), file.bindings), file.bindings),
              run(gradientOf(loop, file.bindings), file.bindings))
        << name.str();
  }
}

TEST(Unroll, CF_11_StepsOfStepsAndTheirOrigins) {
  const Bindings &bindings = kFiles[4].bindings;
  const Graph gradient = gradientOf(loopFile("cf11"), bindings), made = unrolled(gradient, bindings);
  size_t numGenerated = 0;
  for (uint32_t n = 0; n < gradient.numNodes(); ++n) numGenerated += gradient.origin(NodeId(n)).isValid();
  ASSERT_GE(numGenerated, 3u);
  numGenerated = 0;
  for (uint32_t n = 0; n < made.numNodes(); ++n)
    if (NodeId origin = made.origin(NodeId(n)); origin.isValid()) {
      ++numGenerated;
      EXPECT_FALSE(made.origin(origin).isValid()) << "the user's node";
    }
  EXPECT_GT(numGenerated, 20u);
  std::string names = dump(made);
  EXPECT_NE(names.find("\n_foreach1[1]/_foreach0[2]/_mul0 = "), std::string::npos) << names;
}

// A condition that known values decide, and one that a variable decides.
TEST(Unroll, CF_06_WhileLoopsWhoseConditionIsKnown) {
  const std::vector<AttrText> attrs = {{"num_args", "5"},          {"num_outputs", "3"},
                                       {"num_out_data", "1"},      {"max_iterations", "5"},
                                       {"cond_input_locs", "[0]"}, {"func_input_locs", "[1, 2, 0]"},
                                       {"func_var_locs", "[0, 2]"}};
  Context &context = testContext();
  auto make = [&](bool isKnown) {
    GraphBuilder builder(context);
    const Value x = builder.addVariable("x", Attrs()), w = builder.addVariable("w", Attrs());
    const AttrText shape[] = {{"shape", "(1,)"}};
    const Value i = isKnown ? Value{cantFail(builder.add(*context.ops.find("_zeros"), {}, {"i", context.attrs(shape)}))}
                            : builder.addVariable("i", Attrs());
    const Graph bodies[] = {body("c = _lesser_scalar(i) {scalar=3}"),
                            body("y = elemwise_mul(x, w); n = _plus_scalar(i) {scalar=1}; heads x, y, n")};
    const NodeId n = cantFail(
        builder.add(*context.ops.find("_while_loop"), {i, x, w}, {"loop", context.attrs(attrs), NodeId(), bodies}));
    return cantFail(std::move(builder).freeze({Value{n}, Value{n, 1}, Value{n, 2}}, {})).graph;
  };
  const Bindings bindings = {{"x", {1}, {2}}, {"w", {1}, {3}}};
  const Graph graph = make(true), flat = unrolled(graph, bindings);
  EXPECT_EQ(run(flat, bindings), (std::vector<Doubles>{{2, 6, 18, 0, 0}, {54}, {3}}));
  EXPECT_EQ(run(flat, bindings), run(graph, bindings));
  // The gradient runs as many steps as the loop did, which is a known value then.
  const Graph gradient = gradientOf(graph, bindings);
  EXPECT_EQ(run(unrolled(gradient, bindings), bindings), run(gradient, bindings));
  const Unrolled kept = cantFail(apply(unrollLoops, make(false), bindings));
  EXPECT_EQ(kept.kept, std::vector<std::string>{"loop 'loop': its number of steps is known only at run time"});
  EXPECT_EQ(dump(kept.graph), dump(make(false)));
}

TEST(Unroll, CF_09_BranchesWhoseChoiceIsKnown) {
  Context &context = testContext();
  const std::vector<AttrText> attrs = {{"num_args", "6"},
                                       {"num_outputs", "1"},
                                       {"cond_input_locs", "[0]"},
                                       {"then_input_locs", "[1, 2]"},
                                       {"else_input_locs", "[1]"}};
  for (StringRef value : {"0", "2"}) {
    GraphBuilder builder(context);
    const AttrText full[] = {{"shape", "(1,)"}, {"value", value}};
    const Value p{cantFail(builder.add(*context.ops.find("_full"), {}, {"p", context.attrs(full)}))};
    const Value a = builder.addVariable("a", Attrs()), b = builder.addVariable("b", Attrs());
    const Graph bodies[] = {body("c = _greater_scalar(p) {scalar=1}"), body("y = elemwise_mul(a, b)"),
                            body("y = exp(a)")};
    const NodeId n = cantFail(
        builder.add(*context.ops.find("_cond"), {p, a, b}, {"choice", context.attrs(attrs), NodeId(), bodies}));
    const Graph graph = cantFail(std::move(builder).freeze({Value{n}}, {})).graph;
    const Bindings bindings = {{"a", {2}, {2, 3}}, {"b", {2}, {5, 7}}};
    const Unrolled made = cantFail(apply(inlineCalls, graph, bindings));
    EXPECT_EQ(dump(made.graph),
              value == "0" ? "choice/y = exp(a)\nheads choice/y\n" : "choice/y = elemwise_mul(a, b)\nheads choice/y\n");
  }
  // Whatever type decides.
  for (StringRef type : {"float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8",
                         "uint16", "uint32", "uint64", "bool"})
    for (StringRef value : {"0", "1"}) {
      GraphBuilder builder(context);
      const AttrText full[] = {{"shape", "(1,)"}, {"value", value}};
      const Value p{cantFail(builder.add(*context.ops.find("_full"), {}, {"p", context.attrs(full)}))};
      const Value a = builder.addVariable("a", Attrs()), b = builder.addVariable("b", Attrs());
      const Graph bodies[] = {body(("c = Cast(p) {dtype=" + type + "}").str()), body("y = elemwise_mul(a, b)"),
                              body("y = exp(a)")};
      const NodeId n = cantFail(
          builder.add(*context.ops.find("_cond"), {p, a, b}, {"choice", context.attrs(attrs), NodeId(), bodies}));
      const Graph graph = cantFail(std::move(builder).freeze({Value{n}}, {})).graph;
      const Unrolled made = cantFail(apply(inlineCalls, graph, {{"a", {2}, {2, 3}}, {"b", {2}, {5, 7}}}));
      EXPECT_EQ(dump(made.graph), value == "0" ? "choice/y = exp(a)\nheads choice/y\n"
                                               : "choice/y = elemwise_mul(a, b)\nheads choice/y\n")
          << type.str();
    }
  // The file's own predicate is a variable.
  const Unrolled kept = cantFail(apply(inlineCalls, loopFile("cond"), {{"p", {1}, {1}}}));
  ASSERT_EQ(kept.kept.size(), 1u);
  EXPECT_EQ(kept.kept[0], "branch '_cond0': the branch taken is known only at run time");
}

TEST(Unroll, A_19_CallsAreInlinedAtAnyDepth) {
  const std::vector<AttrText> attrs = {{"num_args", "2"}, {"num_outputs", "1"}};
  Graph deep = body("y = elemwise_mul(s, x)");
  for (size_t level = 0; level < 60; ++level) deep = around("_call", {"s", "x"}, attrs, deep, 1);
  const Unrolled made = cantFail(apply(inlineCalls, deep, {}));
  std::string name = "y";
  for (size_t level = 0; level < 60; ++level) name = "loop/" + name;
  EXPECT_EQ(dump(made.graph), name + " = elemwise_mul(s, x)\nheads " + name + "\n");
  // In the body of a loop that stays.
  const Graph inner = around("_call", {"s", "x"}, attrs, body("y = elemwise_mul(s, x)"), 1);
  const Graph loop = around(
      "_scan", {"x", "s"},
      {{"num_args", "2"}, {"num_data", "1"}, {"num_states", "1"}, {"num_out_data", "0"}, {"input_locs", "(1, 0)"}},
      inner, 1);
  const Unrolled kept = cantFail(apply(inlineCalls, loop, {}));
  ASSERT_EQ(countFlows(kept.graph), 1u);
  EXPECT_EQ(dump(kept.graph.bodies(kept.graph.heads()[0].node)[0]), "loop/y = elemwise_mul(s, x)\nheads loop/y\n");
  // 2^30 places.
  const Graph shared = callsTwice(body("y = elemwise_mul(s, x)"), 30);
  EXPECT_EQ(errorOf(apply(inlineCalls, shared, {}, 10000)).kind, ErrorKind::TooLarge);
}

// What a body overwrites it overwrites in every step, and what comes after reads the last version.
TEST(Unroll, MUT_06_StepsMoveTheStatisticsInTurn) {
  const Graph graph = loopFile("norm_in_loop");
  const Bindings bindings = {
      {"x", {3, 2, 1}, {1, 3, 5, 9, -2, 4}}, {"s", {2, 1}, {0, 0}},   {"gamma", {1}, {2}}, {"beta", {1}, {1}},
      {"moving_mean", {1}, {0.5}},           {"moving_var", {1}, {1}}};
  const Graph flat = unrolled(graph, bindings);
  auto train = [&](const Graph &g) {
    SessionOptions options;
    options.exec.backend = Backend::Reference;
    options.exec.isTraining = true;
    options.infer.floatAs = DType::Float64;
    Session session = cantFail(Session::create(testContext(), g, arraysOf(g, bindings), options));
    cantFail(session.run(0));
    std::vector<Doubles> values;
    for (StringRef name : {"moving_mean", "moving_var"})
      values.push_back(valuesOf<double>(session.variable(nodeNamed(g, name))));
    for (size_t h = 0; h < g.heads().size(); ++h) values.push_back(valuesOf<double>(session.head(h)));
    return values;
  };
  EXPECT_EQ(train(flat), train(graph));
  std::vector<uint32_t> versions;
  for (uint32_t n = 0; n < flat.numNodes(); ++n)
    for (size_t i = 0; i < flat.inputs(NodeId(n)).size(); ++i)
      if (flat.kind(NodeId(n)).isMutated(i)) versions.push_back(flat.inputs(NodeId(n))[i].version);
  EXPECT_EQ(versions, (std::vector<uint32_t>{1, 1, 2, 2, 3, 3}));
}

TEST(Unroll, CF_05_CF_06_StepsThatAreNotRun) {
  Context &context = testContext();
  const Graph step = body("n = elemwise_add(s, x); heads n, n");
  for (bool isReverse : {false, true})
    for (StringRef count : {"0", "2", "3", "5"}) {
      GraphBuilder builder(context);
      const AttrText full[] = {{"shape", "(1,)"}, {"dtype", "int64"}, {"value", count}};
      const Value k{cantFail(builder.add(*context.ops.find("_full"), {}, {"k", context.attrs(full)}))};
      const Value x = builder.addVariable("x", Attrs()), s = builder.addVariable("s", Attrs());
      const AttrText attrs[] = {{"num_args", "3"},
                                {"num_data", "1"},
                                {"num_states", "1"},
                                {"num_out_data", "1"},
                                {"has_steps", "True"},
                                {"input_locs", "(1, 0)"},
                                {"reverse", isReverse ? "True" : "False"}};
      const NodeId n =
          cantFail(builder.add(*context.ops.find("_scan"), {k, x, s}, {"loop", context.attrs(attrs), NodeId(), step}));
      const Graph graph = cantFail(std::move(builder).freeze({Value{n}, Value{n, 1}}, {})).graph;
      const Bindings bindings = {{"x", {3}, {1, 20, 300}}, {"s", {1}, {0.5}}};
      if (count != "5") {
        EXPECT_EQ(run(unrolled(graph, bindings), bindings), run(graph, bindings)) << count.str();
        continue;
      }
      // Running it is an error.
      const Unrolled kept = cantFail(apply(unrollLoops, graph, bindings));
      EXPECT_EQ(kept.kept,
                std::vector<std::string>{
                    "loop 'loop': the requested number of steps is 5, expected 0 to 3 (the number of rows)"});
    }
}

// In the gradient of a step a call is there for the shape of what it yields: without the call, nothing is overwritten either.
TEST(Unroll, MUT_06_ACallForItsShapeOverwritesNothing) {
  Context &context = testContext();
  GraphBuilder builder(context);
  SmallVector<Value, 5> given;
  for (StringRef name : {"x", "g", "b", "m", "v"}) given.push_back(builder.addVariable(name, Attrs()));
  const NodeId call = cantFail(builder.add(*context.ops.find("_call"), given,
                                           {"call", context.attrs({{"num_args", "5"}, {"num_outputs", "1"}}), NodeId(),
                                            body("y = BatchNorm(x, g, b, m, v) {fix_gamma=False}")}));
  const NodeId last = cantFail(builder.add(*context.ops.find("sin"), Value{call}, {"last", Attrs()}));
  const Graph step = cantFail(std::move(builder).freeze({Value{last}}, {})).graph;
  const Graph graph =
      around("_scan", {"x", "g", "b", "m", "v"},
             {{"num_args", "5"}, {"num_data", "1"}, {"num_states", "0"}, {"num_out_data", "1"}}, step, 1);
  const Bindings bindings = {
      {"x", {2, 2, 1}, {0.5, 1, 2, -1}}, {"g", {1}, {1.5}}, {"b", {1}, {0.25}}, {"m", {1}, {0.5}}, {"v", {1}, {2}}};
  const Graph gradient = gradientOf(graph, {bindings[0], bindings[1]});
  Graph flat = gradient;
  for (Pass pass : {inlineCalls, unrollLoops, inlineCalls}) {
    const Unrolled made = cantFail(apply(pass, flat, bindings));
    EXPECT_EQ(made.kept, std::vector<std::string>());
    flat = made.graph;
  }
  EXPECT_EQ(countFlows(flat), 0u);
  EXPECT_EQ(run(flat, bindings), run(gradient, bindings));
  const Graph afterLoop =
      cantFail(apply(inlineCalls, cantFail(apply(unrollLoops, gradient, bindings)).graph, bindings)).graph;
  EXPECT_EQ(countFlows(afterLoop), 0u);
  EXPECT_EQ(run(afterLoop, bindings), run(gradient, bindings));
}

// Two inputs of a body may have one name: the order that the call gives them in is not that of the body.
TEST(Unroll, A_19_InputsOfOneNameInABody) {
  Context &context = testContext();
  GraphBuilder builder(context);
  const Value r = builder.addVariable("x", Attrs()), s = builder.addVariable("x", Attrs());
  const NodeId call =
      cantFail(builder.add(*context.ops.find("_call"), {r, s},
                           {"call", context.attrs({{"num_args", "2"}, {"num_outputs", "1"}, {"input_locs", "(1, 0)"}}),
                            NodeId(), body("d = elemwise_sub(a, b)")}));
  const Graph step = cantFail(std::move(builder).freeze({Value{call}, Value{call}}, {})).graph;
  const Graph graph =
      around("_scan", {"rows", "start"},
             {{"num_args", "2"}, {"num_data", "1"}, {"num_states", "1"}, {"num_out_data", "1"}}, step, 2);
  const Bindings bindings = {{"rows", {2, 1}, {1, 10}}, {"start", {1}, {100}}};
  const Unrolled made = cantFail(inlineCalls(context, graph, UnrollOptions()));
  EXPECT_EQ(runReading(made.graph, bindings, "start"), (std::vector<Doubles>{{99, 89}, {89}, {100}}));
  EXPECT_EQ(made.kept, (std::vector<std::string>{
                           "node 'loop' > body > all: after expansion, its inputs would be in another order"}));
}

// The names of bodies, behind that of their node, may be those of other nodes, of another body, or equal.
TEST(Unroll, NAME_09_A_19_NamesThatAreTaken) {
  auto names = [](const Graph &graph) {
    std::vector<std::string> found;
    for (uint32_t n = 0; n < graph.numNodes(); ++n) found.push_back(graph.name(NodeId(n)).str());
    return found;
  };
  auto expectDistinct = [&](const Graph &graph, StringRef expected) {
    const std::vector<std::string> found = names(graph);
    EXPECT_EQ(std::set<std::string>(found.begin(), found.end()).size(), found.size());
    EXPECT_TRUE(is_contained(found, expected)) << expected.str() << " is not in " << dump(graph);
  };
  Context &context = testContext();
  // A step that yields one of its inputs, beside variables with the names of what unrolling makes.
  const Graph step = body("y = exp(s); z = sin(y); heads y, r, z");
  GraphBuilder builder(context);
  const Value rows = builder.addVariable("rows", Attrs()), state = builder.addVariable("loop[1]/y", Attrs()),
              split = builder.addVariable("loop_rows0", Attrs());
  const Value loop = {cantFail(builder.add(*context.ops.find("_scan"), {rows, state},
                                           {"loop",
                                            context.attrs({{"num_args", "2"},
                                                           {"num_data", "1"},
                                                           {"num_states", "1"},
                                                           {"num_out_data", "2"},
                                                           {"input_locs", "(1, 0)"}}),
                                            NodeId(), step}))};
  const Value sum = {
      cantFail(builder.add(*context.ops.find("broadcast_add"), {Value{loop.node, 2, 0}, split}, {"loop_output0"}))};
  const Graph graph = cantFail(std::move(builder).freeze({loop, Value{loop.node, 1, 0}, sum}, {})).graph;
  const Graph flat = unrolled(graph, {{"rows", {2, 1}, {}}, {"loop[1]/y", {1}, {}}, {"loop_rows0", {1}, {}}});
  expectDistinct(flat, "loop[1]/y_1");
  expectDistinct(flat, "loop_rows0_1");
  expectDistinct(flat, "loop_output0_1");
  // Names of a body that are equal, or taken by the caller; those of the caller stay.
  const Graph twice = body("a = exp(x); b = sin(a); heads a, b");
  GraphBuilder outer(context);
  const Value x = outer.addVariable("call/a", Attrs());
  const Value call = {
      cantFail(outer.add(*context.ops.find("_call"), x,
                         {"call", context.attrs({{"num_args", "1"}, {"num_outputs", "2"}}), NodeId(), twice}))};
  const Value last = {
      cantFail(outer.add(*context.ops.find("elemwise_add"), {call, Value{call.node, 1, 0}}, {"call/a_1"}))};
  const Graph inlined =
      cantFail(inlineCalls(context, cantFail(std::move(outer).freeze({last}, {})).graph, UnrollOptions())).graph;
  EXPECT_EQ(dump(inlined), "call/a_2 = exp(call/a)\ncall/b = sin(call/a_2)\n"
                           "call/a_1 = elemwise_add(call/a_2, call/b)\nheads call/a_1\n");
}

// A host's kernel that leaves an error, or throws: what it would compute is not known, and the graph stays as it is.
TEST(Unroll, A_10_KernelsThatFailTellNothing) {
  static bool fails, throws;
  static const OpDef op = [] {
    OpDef op;
    op.name = "test_deciding";
    op.inputs = {"data"};
    op.shape = shapes::same;
    op.kernel = [](const KernelCall &call) {
      if (throws) throw KernelError{"the host refuses"};
      if (fails) {
        *call.failure = Failure(ErrorKind::Io, "the host refuses");
        return;
      }
      std::memcpy(call.out[0].data, call.in[0].data, call.out[0].bytes());
    };
    return op;
  }();
  Context &context = testContext();
  if (!context.ops.find("test_deciding")) cantFail(context.ops.add(op));
  const Graph graph =
      around("_cond", {"a"},
             {{"num_args", "4"},
              {"num_outputs", "1"},
              {"cond_input_locs", "()"},
              {"then_input_locs", "(0,)"},
              {"else_input_locs", "(0,)"}},
             {body("o = _ones() {shape=(1,)}; p = test_deciding(o)"), body("t = exp(a)"), body("e = sin(a)")}, 1);
  for (int outcome = 0; outcome < 3; ++outcome) {
    fails = outcome == 1, throws = outcome == 2;
    const Unrolled made = cantFail(apply(inlineCalls, graph, {{"a", {2}, {}}}));
    EXPECT_EQ(countFlows(made.graph), outcome ? 1u : 0u);
    const std::vector<std::string> why = {"branch 'loop': the branch taken is known only at run time"};
    EXPECT_EQ(made.kept, outcome ? why : std::vector<std::string>());
  }
}

TEST(Unroll, WhatStaysSaysWhy) {
  const Graph graph = loopFile("cf03");
  auto reason = [&](const Bindings &bindings) {
    const Unrolled kept = cantFail(apply(unrollLoops, graph, bindings));
    EXPECT_EQ(dump(kept.graph), dump(graph));
    return kept.kept.empty() ? "" : kept.kept[0];
  };
  EXPECT_EQ(reason({}), "loop '_foreach0': the length of its sliced inputs is not known");
  EXPECT_EQ(reason({{"x", {70000}, {}}}), "loop '_foreach0': it has 70000 rows, and at most 65535 are unrolled");
  const GradcError error = errorOf(apply(unrollLoops, graph, {{"x", {3000}, {}}}, 1000));
  EXPECT_EQ(error.kind, ErrorKind::TooLarge);
  EXPECT_NE(error.message.find("node '_foreach0["), std::string::npos) << error.message;
}

// A loop that a host adds: it raises its first input to a power by repeated multiplication.
struct PowerParams {
  int64_t exponent;
};
constexpr AttrSpec kPowerAttrs[] = {required<&PowerParams::exponent>("exponent", "number of steps").atLeast(0)};

TEST(Unroll, A_19_ALoopOfAHost) {
  static const OpDef op = [] {
    OpDef def;
    def.name = "host_power";
    def.inputs = {"x", "one"};
    def.attrs = kPowerAttrs;
    def.params = paramsOf<PowerParams>();
    def.flow = [](const NodeKind &kind) -> Expected<BodyFlow> {
      FlowBuilder flow(kind, BodyFlow::Form::Loop);
      flow.flow().maxSteps = kind.params<PowerParams>().exponent;
      flow.addOperands(BodyFlow::Operand::Whole, 1);
      flow.addOperands(BodyFlow::Operand::State, 1);
      flow.addBody("bodies", {1, 0});
      flow.addState(1, 0);
      return std::move(flow).finish();
    };
    def.shape = inferFlowShapes;
    def.dtype = inferFlowTypes;
    def.ignored = isUnreadInside;
    def.kernel = runFlow;
    return def;
  }();
  TestContext context;
  cantFail(context.ops.add(op));
  GraphBuilder builder(context);
  const Value x = builder.addVariable("x", Attrs()), one = builder.addVariable("one", Attrs());
  const AttrText attrs[] = {{"exponent", "3"}};
  const Graph step = cantFail(parseGraph(context, "y = elemwise_mul(p, x)"));
  const NodeId n = cantFail(builder.add(op, {x, one}, {"cube", context.attrs(attrs), NodeId(), step}));
  const Graph graph = cantFail(std::move(builder).freeze({Value{n}}, {})).graph;
  const Inference known = cantFail(infer(context, graph, {{{nodeNamed(graph, "x"), {2}}}, {}}, {}));
  UnrollOptions options;
  options.known = &known;
  options.rowOps = builtinRowOps();
  EXPECT_EQ(dump(cantFail(unrollLoops(context, graph, options)).graph), "cube[0]/y = elemwise_mul(one, x)\n"
                                                                        "cube[1]/y = elemwise_mul(cube[0]/y, x)\n"
                                                                        "cube[2]/y = elemwise_mul(cube[1]/y, x)\n"
                                                                        "heads cube[2]/y\n");
}

TEST(Unroll, A_19_LinearInTheNumberOfSteps) {
  const Graph graph = loopFile("cf12");
  auto seconds = [&](int64_t steps) {
    double best = 1e9;
    for (int turn = 0; turn < 3; ++turn) {
      const std::clock_t start = std::clock();
      const Unrolled made = cantFail(apply(unrollLoops, graph, {{"x", {steps}, {}}, {"h", {1}, {}}, {"w", {1}, {}}}));
      best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
      EXPECT_EQ(made.graph.numNodes(), 3 + 1 + 4 * static_cast<size_t>(steps) + 1);
    }
    return best;
  };
  const double few = seconds(4000), many = seconds(16000);
  EXPECT_LT(many, 10 * few) << few << " s, then " << many << " s";
}

}  // namespace
}  // namespace gradc::testing
