// Loops unrolled, branches chosen and calls inlined: the values of the result are those of the loop, to the bit, and
// its origins, dependencies, writes and table are kept.
#include "ir/graph/body_flow.h"
#include "ir/graph/graph_builder.h"
#include "tests/support/runs/unrolled.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace llvm;

namespace gradc::testing {
namespace {

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

// The gradient unrolled is the gradient run, to the bit. The gradient of the unrolled graph adds in the order of its
// own where a step reads a value twice.
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
        SCOPED_TRACE(file.name.str() + ", order " + std::to_string(order) + ", head " + std::to_string(h));
        ASSERT_EQ(found[h].size(), expected[h].size());
        double scale = 0;
        for (double value : expected[h]) scale = std::max(scale, std::abs(value));
        for (size_t i = 0; i < found[h].size(); ++i) EXPECT_NEAR(found[h][i], expected[h][i], 1e-12 * scale);
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

// Unrolling must not hide that running the loop is an error.
TEST(Unroll, CF_06_ALoopThatMustEndAndDoesNotIsKept) {
  Context &context = testContext();
  auto loopOf = [&](StringRef mostSteps) {
    GraphBuilder builder(context);
    const AttrText shape[] = {{"shape", "(1,)"}};
    const Value i{cantFail(builder.add(*context.ops.find("_zeros"), {}, {"i", context.attrs(shape)}))};
    const Graph bodies[] = {body("c = _lesser_scalar(i) {scalar=3}"), body("n = _plus_scalar(i) {scalar=1}")};
    const Attrs attrs = context.attrs({{"num_args", "3"},
                                       {"num_outputs", "1"},
                                       {"num_out_data", "0"},
                                       {"max_iterations", mostSteps},
                                       {"cond_input_locs", "[0]"},
                                       {"func_input_locs", "[0]"},
                                       {"func_var_locs", "[0]"},
                                       {"__must_end__", "True"}});
    const NodeId n = cantFail(builder.add(*context.ops.find("_while_loop"), {i}, {"loop", attrs, NodeId(), bodies}));
    return cantFail(std::move(builder).freeze({Value{n}}, {})).graph;
  };
  const Bindings none;
  EXPECT_EQ(run(unrolled(loopOf("3"), none), none), (std::vector<Doubles>{{3}}));
  const Unrolled kept = cantFail(apply(unrollLoops, loopOf("2"), none));
  EXPECT_EQ(kept.kept, std::vector<std::string>{"loop 'loop': its condition still holds after 2 steps"});
  EXPECT_EQ(dump(kept.graph), dump(loopOf("2")));
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

// A body overwrites its variables in every step, and later nodes read the last version.
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

// In the gradient of a step a call is there for the shape of what it yields: without the call, nothing is overwritten
// either.
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

// Stacked, values without axes are a vector, whose rows have no axis in the gradient, nor in the gradients of that.
TEST(Unroll, CF_01_CF_19_StacksOfValuesWithoutAxes) {
  const Bindings bindings = {{"x", {3, 2}, {0.5, -0.25, 1, 0.75, -0.5, 0.125}}, {"s", {}, {0.75}}};
  const Bindings ofRows = {{"x", {2, 3, 1}, bindings[0].values}, bindings[1]};
  const std::vector<AttrText> attrs = {{"num_args", "3"},        {"num_outputs", "2"},      {"num_out_data", "1"},
                                       {"in_data_locs", "(0,)"}, {"in_state_locs", "(1,)"}, {"remain_locs", "()"}};
  const Graph step = body("e = sum(x); p = reshape_like(e, s); q = elemwise_mul(p, s); n = sin(q); heads n, n");
  const Graph plain = around("_foreach", {"x", "s"}, attrs, step, 2);
  const std::pair<Graph, Bindings> loops[] = {
      {plain, bindings},
      {around("_scan", {"x", "s"}, scanAttrs(true, false), step, 2), bindings},
      {around("_foreach", {"x", "s"}, attrs, plain, 2), ofRows},
  };
  for (const auto &[loop, values] : loops)
    for (uint32_t order : {1, 2, 3}) {
      expectDerivative(loop, values, order);
      const Graph gradient = gradientOf(loop, values, order);
      const std::vector<Doubles> expected = runReading(gradient, values, "s"),
                                 found = runReading(unrolled(gradient, values), values, "s");
      ASSERT_EQ(found.size(), expected.size());
      for (size_t h = 0; h < found.size(); ++h)
        for (size_t i = 0; i < found[h].size(); ++i) EXPECT_NEAR(found[h][i], expected[h][i], 1e-12) << h;
    }
  // Rows of steps that do not run have no values, and sums of such stacks none for them.
  const Graph bounded =
      around("_while_loop", {"s"},
             {{"num_args", "3"},
              {"num_outputs", "2"},
              {"num_out_data", "1"},
              {"max_iterations", "5"},
              {"cond_input_locs", "(0,)"},
              {"func_input_locs", "(0,)"},
              {"func_var_locs", "(0,)"}},
             {body("c = _lesser_scalar(s) {scalar=2}"), body("n = exp(s); m = sin(n); heads m, n")}, 2);
  for (uint32_t order : {1, 2, 3}) expectDerivative(bounded, {{"s", {}, {0.25}}}, order);
}

}  // namespace
}  // namespace gradc::testing
