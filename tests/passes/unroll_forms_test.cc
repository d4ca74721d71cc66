// What the passes of `gradc opt` make computes what it is made of, in training as in inference: every program of
// testdata/loops, and programs in which the form decides.
#include "tests/support/runs/unrolled.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <gtest/gtest.h>

#include <set>

using namespace llvm;

namespace gradc::testing {
namespace {

struct Program {
  std::string name;
  Graph graph;
  Bindings bindings;
};

/// A file of testdata/loops.
Program file(StringRef name, Bindings bindings) { return {name.str(), loopFile(name), std::move(bindings)}; }

/// Nothing is drawn: in training everything is dropped.
Program droppingAll(StringRef name, Bindings bindings) {
  std::string text = readTestFile(("testdata/loops/" + name + ".json").str());
  constexpr StringRef kHalf = "\"p\": \"0.5\"";
  size_t numChanged = 0;
  for (size_t at; (at = text.find(kHalf)) != std::string::npos; ++numChanged)
    text.replace(at, kHalf.size(), "\"p\": \"1\"");
  EXPECT_EQ(numChanged, 2u);
  return {name.str(), cantFail(readJson(testContext(), text, ReadOptions())).graph, std::move(bindings)};
}

Bindings lstmBindings() {
  return drawn({{"x", {4, 2, 5}},
                {"h", {2, 3}},
                {"c", {2, 3}},
                {"i2h_weight", {12, 5}},
                {"i2h_bias", {12}},
                {"h2h_weight", {12, 3}},
                {"h2h_bias", {12}}});
}

std::vector<Program> files() {
  return {
      file("branch_in_loop", drawn({{"x", {4, 2}}, {"s", {2}}, {"w", {2}}})),
      file("cf03", {{"x", {3}, {0.5, -1, 2}}, {"s", {1}, {0.25}}, {"f", {1}, {1}}}),
      file("cf08", {{"x", {1}, {1}}, {"i", {1}, {1}}}),
      file("cf11", {{"x", {1}, {1}}, {"w", {1}, {2}}, {"n", {3, 1}, {0, 0, 0}}, {"m", {2, 1}, {0, 0}}}),
      file("cf12", {{"x", {2}, {0.5, -0.25}}, {"h", {1}, {0.1}}, {"w", {1}, {0.8}}}),
      file("cond", {{"p", {1}, {1}}, {"a", {1}, {2}}, {"b", {1}, {3}}, {"c", {1}, {5}}}),
      file("curved_cond", {{"p", {1}, {-1}}, {"a", {1}, {2}}, {"b", {1}, {0.5}}}),
      droppingAll("dropout_in_loop", drawn({{"x", {4, 6}}, {"h", {6}}})),
      file("lacking_branch", {{"p", {1}, {0}}, {"a", {2}, {1, 2}}, {"b", {2}, {3, 4}}}),
      file("lstm", lstmBindings()),
      file("lstm_unrolled", lstmBindings()),
      file("norm_in_loop", {{"x", {3, 2, 1}, {1, 3, 5, 9, -2, 4}},
                            {"s", {2, 1}, {0, 0}},
                            {"gamma", {1}, {2}},
                            {"beta", {1}, {1}},
                            {"moving_mean", {1}, {0.5}},
                            {"moving_var", {1}, {1}}}),
      file("only_states", {{"x", {3, 1}, {2, 3, 4}}, {"s", {1}, {7}}}),
      file("powers", {{"x", {1}, {2}}, {"i", {1}, {0.5}}, {"w", {1}, {1.5}}}),
      file("squares", {{"x", {1}, {1.1}}, {"i", {1}, {0.5}}}),
      file("swapped", drawn({{"x", {3, 1}}, {"s", {1}}, {"t", {1}}})),
      file("two_states", drawn({{"x", {3, 2}}, {"z", {3, 2}}, {"s", {2}}, {"t", {2}}, {"w", {2}}})),
      file("while_in_foreach", drawn({{"x", {3, 2}}, {"h", {2}}, {"w", {2}}})),
  };
}

const AttrText kBranches[] = {{"num_args", "4"},
                              {"num_outputs", "1"},
                              {"cond_input_locs", "()"},
                              {"then_input_locs", "(0,)"},
                              {"else_input_locs", "(0,)"}};

/// One of two branches, by a value that does not depend on the inputs: 10 a if it is not 0, else 100 a.
Graph branch(StringRef decision) {
  return around("_cond", {"a"}, kBranches,
                {body(decision), body("t = _mul_scalar(a) {scalar=10}"), body("e = _mul_scalar(a) {scalar=100}")}, 1);
}

/// a is doubled in each step: two in training, one in inference. The counter is a constant.
Graph counted() {
  Context &context = testContext();
  GraphBuilder builder(context);
  const Value zero = {
      cantFail(builder.add(*context.ops.find("_zeros"), {}, {"zero", context.attrs({{"shape", "(1,)"}}), NodeId()}))};
  const Value a = builder.addVariable("a", Attrs());
  const Attrs attrs = context.attrs({{"num_args", "4"},
                                     {"num_outputs", "2"},
                                     {"num_out_data", "0"},
                                     {"max_iterations", "5"},
                                     {"cond_input_locs", "(0,)"},
                                     {"func_input_locs", "(0, 1)"},
                                     {"func_var_locs", "(0, 1)"}});
  const Graph bodies[] = {
      body("o = _ones() {shape=(1,)}; p = _in_training(o); l = _plus_scalar(p) {scalar=1}; c = _lesser(i, l)"),
      body("n = _plus_scalar(i) {scalar=1}; m = _mul_scalar(a) {scalar=2}; heads n, m")};
  const NodeId loop =
      cantFail(builder.add(*context.ops.find("_while_loop"), {zero, a}, {"loop", attrs, NodeId(), bodies}));
  return cantFail(std::move(builder).freeze({Value{loop, 1}}, {})).graph;
}

/// The heads, then what the run leaves in the variables.
std::vector<Doubles> valuesIn(bool isTraining, const Graph &graph, const Bindings &bindings) {
  SessionOptions options;
  options.exec.backend = Backend::Reference;
  options.exec.isTraining = isTraining;
  options.infer.floatAs = DType::Float64;
  Session session = cantFail(Session::create(testContext(), graph, arraysOf(graph, bindings), options));
  cantFail(session.run(0));
  std::vector<Doubles> values;
  for (size_t h = 0; h < graph.heads().size(); ++h)
    if (session.head(h).dtype == DType::Float64) values.push_back(valuesOf<double>(session.head(h)));
  for (const Binding &binding : bindings) {
    const std::vector<NamedArray> bound = arraysOf(graph, Bindings{binding});
    values.push_back(bound.empty() ? binding.values
                                   : valuesOf<double>(session.variable(nodeNamed(graph, binding.name))));
  }
  return values;
}

/// Whether the program computes different values in the two forms.
bool expectSameValues(const Program &program) {
  SCOPED_TRACE(program.name);
  const std::vector<Doubles> training = valuesIn(true, program.graph, program.bindings),
                             inference = valuesIn(false, program.graph, program.bindings);
  const Graph inlined = cantFail(apply(inlineCalls, program.graph, program.bindings)).graph;
  const Graph unrolled = cantFail(apply(unrollLoops, program.graph, program.bindings)).graph;
  const Graph both = cantFail(apply(unrollLoops, inlined, program.bindings)).graph;
  for (const Graph &made : {inlined, unrolled, both}) {
    EXPECT_EQ(valuesIn(true, made, program.bindings), training) << dump(made);
    EXPECT_EQ(valuesIn(false, made, program.bindings), inference) << dump(made);
  }
  return training != inference;
}

TEST(UnrollForms, A_19_RET_08_EveryProgramInBothForms) {
  std::set<std::string> listed, reading;
  for (const Program &program : files()) {
    listed.insert(program.name);
    if (expectSameValues(program)) reading.insert(program.name);
  }
  EXPECT_EQ(reading, (std::set<std::string>{"dropout_in_loop", "norm_in_loop"}));
  std::set<std::string> found;
  std::error_code code;
  for (sys::fs::directory_iterator at("testdata/loops", code), end; at != end && !code; at.increment(code))
    found.insert(sys::path::stem(at->path()).str());
  EXPECT_FALSE(code) << code.message();
  EXPECT_EQ(listed, found);
}

TEST(UnrollForms, RET_08_WhatIsInsideDependsOnTheFormToo) {
  for (const Program &program : files()) {
    bool reads = false;
    for (const KindRef &kind : program.graph.kinds()) reads |= kind->readsForm;
    EXPECT_EQ(reads, program.name == "dropout_in_loop" || program.name == "norm_in_loop") << program.name;
  }
}

TEST(UnrollForms, CF_09_RET_08_TheFormDecidesABranch) {
  const Bindings bindings = {{"a", {2}, {1, 2}}};
  for (StringRef decision : {"o = _ones() {shape=(1,)}; p = _in_training(o)",
                             "o = _ones() {shape=(1,)}; p = Dropout(o) {p=1}; "
                             "q = _rminus_scalar(p) {scalar=1}",
                             "o = _ones() {shape=(1,)}; m = _minus_scalar(o) {scalar=2}; "
                             "r = LeakyReLU(m) {act_type=rrelu, lower_bound=0, upper_bound=0}; p = _in_training(o); "
                             "q = elemwise_add(r, p)"}) {
    const Program program{decision.str(), branch(decision), bindings};
    EXPECT_EQ(valuesIn(true, program.graph, bindings)[0], (Doubles{10, 20})) << decision.str();
    EXPECT_EQ(valuesIn(false, program.graph, bindings)[0], (Doubles{100, 200})) << decision.str();
    EXPECT_TRUE(expectSameValues(program));
  }
  // What is the same in both forms is still decided.
  const Graph constant = branch("o = _ones() {shape=(1,)}; p = LeakyReLU(o) {act_type=elu}");
  EXPECT_EQ(dump(cantFail(apply(inlineCalls, constant, bindings)).graph), "loop/t = _mul_scalar(a)\nheads loop/t\n");
}

TEST(UnrollForms, CF_06_RET_08_TheFormCountsSteps) {
  const Program program{"counted", counted(), {{"a", {1}, {1}}}};
  EXPECT_EQ(valuesIn(true, program.graph, program.bindings)[0], (Doubles{4}));
  EXPECT_EQ(valuesIn(false, program.graph, program.bindings)[0], (Doubles{2}));
  EXPECT_TRUE(expectSameValues(program));
  const Unrolled kept = cantFail(apply(unrollLoops, program.graph, program.bindings));
  EXPECT_EQ(kept.kept, (std::vector<std::string>{"loop 'loop': its number of steps is known only at run time"}));
}

}  // namespace
}  // namespace gradc::testing
