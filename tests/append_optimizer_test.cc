// The optimizer pass: which nodes it adds, in which order, with which attributes; what it refuses.
#include "passes/append_optimizer.h"

#include "formats/json/graph_table.h"
#include "formats/json/reader.h"
#include "formats/json/writer.h"
#include "ir/verify.h"
#include "passes/infer.h"
#include "passes/memory/plan_memory.h"
#include "passes/requests.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

// x · a_weight + b_bias, then a second layer, under a loss.
constexpr StringRef kNet =
    "x = var; a_weight = var; b_bias = var; c_weight = var; h = elemwise_mul(x, a_weight); s = elemwise_add(h, b_bias);"
    "t = tanh(s); y = elemwise_mul(t, c_weight)";

Graph gradientsOf(TestGraph &g, ArrayRef<StringRef> names) {
  GradientRequest request;
  for (StringRef name : names) request.wrt.push_back({g.at(name), Request::Write});
  return cantFail(buildGradient(g.context, g, request, {})).graph;
}

TrainingGraph appended(TestGraph &g, ArrayRef<StringRef> names, const OptimizerOptions &options) {
  TrainingGraph result = cantFail(appendOptimizer(g.context, gradientsOf(g, names), options));
  EXPECT_EQ(describeError(verifyGraph(result.graph, 20)), "success");
  return result;
}

std::string attrOf(const Graph &graph, StringRef node, StringRef key) {
  return graph.attrs(nodeNamed(graph, node)).get(key).value_or("none").str();
}

TEST(AppendOptimizer, PlainStepsWithTheRateAsAVariable) {
  TestGraph g(kNet);
  TrainingGraph result = appended(g, {"a_weight", "c_weight"}, {});
  EXPECT_EQ(dumpFrom(result.graph, nodeNamed(g, "y").value + 1, 0),
            "_head_grad_0 = ones_like(y)\n"
            "y_backward = _backward_mul(_head_grad_0, t, c_weight) ^y\n"
            "c_weight_update = _scheduled_sgd_update(c_weight, y_backward:1, learning_rate) ^y ^y_backward\n"
            "t_backward = _backward_tanh(y_backward, t) ^t\n"
            "h_backward = _backward_mul(t_backward, x, a_weight) ^h\n"
            "a_weight_update = _scheduled_sgd_update(a_weight, h_backward:1, learning_rate) ^h ^h_backward\n"
            "heads y, c_weight_update, a_weight_update\n")
      << "a step follows its gradient, and waits for every reader of its parameter";
  EXPECT_EQ(result.graph.name(result.rate), "learning_rate");
  EXPECT_EQ(result.numForwardHeads, 1u);
  ASSERT_EQ(result.parameters.size(), 2u);
  EXPECT_EQ(result.graph.name(result.parameters[0].variable), "a_weight");
  EXPECT_EQ(result.parameters[0].head, 2u);
  EXPECT_EQ(result.parameters[1].head, 1u);
}

TEST(AppendOptimizer, StatesAreVariablesThatStartFromZero) {
  TestGraph g(kNet);
  OptimizerOptions options;
  options.momentum = 0.9;
  TrainingGraph sgd = appended(g, {"a_weight"}, options);
  ASSERT_EQ(sgd.parameters[0].states.size(), 1u);
  EXPECT_EQ(sgd.graph.name(sgd.parameters[0].states[0]), "a_weight_mom");
  EXPECT_EQ(attrOf(sgd.graph, "a_weight_mom", "__init__"), "[\"zero\", {}]");
  EXPECT_EQ(listInputs(sgd.graph).aux, sgd.parameters[0].states) << "what a step overwrites is an auxiliary state";
  options.kind = OptimizerKind::Adam;
  TrainingGraph adam = appended(g, {"a_weight"}, options);
  ASSERT_EQ(adam.parameters[0].states.size(), 2u);
  EXPECT_EQ(adam.graph.name(adam.parameters[0].states[0]), "a_weight_mean");
  EXPECT_EQ(adam.graph.name(adam.parameters[0].states[1]), "a_weight_var");
}

TEST(AppendOptimizer, WeightDecayFollowsTheNameOrTheAttribute) {
  TestGraph g("a_weight = var; b_bias = var; c_gamma = var; d = var {__wd_mult__=0.5}; e_weight = var {__wd_mult__=0};"
              "y = add_n(a_weight, b_bias, c_gamma, d, e_weight) {num_args=5}");
  const StringRef all[] = {"a_weight", "b_bias", "c_gamma", "d", "e_weight"};
  OptimizerOptions options;
  options.weightDecay = 0.25;
  auto decays = [&] {
    std::string text;
    Graph graph = appended(g, all, options).graph;
    for (StringRef name : all) text += attrOf(graph, (name + "_update").str(), "wd") + " ";
    return text;
  };
  EXPECT_EQ(decays(), "0.25 0 0.25 0.125 0 ");
  options.decayRule = DecayRule::All;
  EXPECT_EQ(decays(), "0.25 0.25 0.25 0.125 0 ");
}

TEST(AppendOptimizer, RatesPerVariable) {
  TestGraph g("w = var {__lr_mult__=0.1}; y = exp(w)");
  EXPECT_EQ(attrOf(appended(g, {"w"}, {}).graph, "w_update", "rate_factor"), "0.1");
  OptimizerOptions fixed;
  fixed.fixedRate = 0.5;
  Graph graph = appended(g, {"w"}, fixed).graph;
  EXPECT_EQ(attrOf(graph, "w_update", "lr"), "0.05");
  EXPECT_EQ(graph.opName(nodeNamed(graph, "w_update")), "sgd_update");
}

TEST(AppendOptimizer, A_14_FixedRatesUseMxnetsOperatorsAlone) {
  TestGraph g(kNet);
  OptimizerOptions options;
  options.fixedRate = 0.1;
  options.momentum = 0.9;
  options.clip = 2;
  TrainingGraph sgd = appended(g, {"a_weight"}, options);
  EXPECT_FALSE(sgd.rate.isValid());
  EXPECT_EQ(countOps(sgd.graph, "sgd_mom_update"), 1u);
  EXPECT_EQ(attrOf(sgd.graph, "a_weight_update", "clip_gradient"), "2");
  EXPECT_EQ(attrOf(sgd.graph, "a_weight_mom", "__storage_type__"), "0") << "MXNet does not infer it";
  options.kind = OptimizerKind::Adam;
  EXPECT_EQ(countOps(appended(g, {"a_weight"}, options).graph, "adam_update"), 1u);
}

TEST(AppendOptimizer, NAME_09_TakenNamesGetACounter) {
  TestGraph g("w = var; w_mom = var; learning_rate = var; p = elemwise_mul(w, w_mom); y = elemwise_mul(p, learning_rate)");
  OptimizerOptions options;
  options.momentum = 0.5;
  TrainingGraph result = appended(g, {"w"}, options);
  EXPECT_EQ(result.graph.name(result.parameters[0].states[0]), "w_mom_1");
  EXPECT_EQ(result.graph.name(result.rate), "learning_rate_1");
}

TEST(AppendOptimizer, RoundTripsAsJson) {
  TestGraph g(kNet);
  OptimizerOptions options;
  options.momentum = 0.9;
  Graph graph = appended(g, {"a_weight", "b_bias", "c_weight"}, options).graph;
  std::string text, again;
  raw_string_ostream os(text), second(again);
  writeJson(os, graph);
  EXPECT_NE(text.find("\"update_of\": [\"list_str\", [\"\", \"c_weight\", \"b_bias\", \"a_weight\"]]"), std::string::npos)
      << text;
  TestContext context;
  Expected<LoadedGraph> read = readJson(context, text, ReadOptions());
  ASSERT_TRUE(bool(read)) << describeError(read.takeError());
  GraphAttrs attrs = graphAttrsOf(read->graph);
  attrs.erase("mxnet_version");  // a reader stamps files without one
  writeJson(second, withGraphAttrs(read->graph, attrs));
  EXPECT_EQ(text, again) << "no attribute is taken for one of old files";
}

TEST(AppendOptimizer, GradientsGiveTheirMemoryBackAtOnce) {
  // Twelve layers of 100 elements: were gradients kept to the end, twelve of them would be alive at once.
  std::string text = "x0 = var {__shape__=(100,)};";
  std::vector<std::string> names;
  for (int i = 0; i < 12; ++i) {
    names.push_back("w" + std::to_string(i));
    text += "x" + std::to_string(i + 1) + " = elemwise_add(x" + std::to_string(i) + ", " + names.back() + ");";
    text += names.back() + "s = square(" + names.back() + ");";
  }
  text += "y = add_n(x12, w0s, w1s, w2s, w3s, w4s, w5s, w6s, w7s, w8s, w9s, w10s, w11s) {num_args=13}";
  TestGraph g(text);
  std::vector<StringRef> all(names.begin(), names.end());
  TrainingGraph result = appended(g, all, {});
  Inference inference = cantFail(infer(g.context, result.graph, {}, {}));
  RequestTable requests = countRequests(result.graph, {});
  MemoryPlan plan = cantFail(planMemory(g.context, result.graph, inference, requests, {}));
  EXPECT_EQ(describeError(checkPlan(result.graph, inference, requests, plan, {})), "success");
  EXPECT_LE(plan.plannedBytes, 17 * 448);
}

TEST(AppendOptimizer, E_13_Refusals) {
  TestGraph g(kNet);
  EXPECT_EQ(errorOf(appendOptimizer(g.context, g, {})).message, "the graph has no gradients to take a step along");
  TestGraph h("w = var; y = exp(w); heads y, w");
  GradcError head = errorOf(appendOptimizer(h.context, gradientsOf(h, {"w"}), {}));
  EXPECT_EQ(head.kind, ErrorKind::UnsupportedOption);
  EXPECT_EQ(head.message, "variable 'w' is to be trained and is a head of the graph itself");
  TestGraph i("w = var {__lr_mult__=fast}; y = exp(w)");
  GradcError number = errorOf(appendOptimizer(i.context, gradientsOf(i, {"w"}), {}));
  EXPECT_EQ(number.kind, ErrorKind::BadAttribute);
  EXPECT_EQ(number.message, "attribute '__lr_mult__' of variable 'w' is 'fast', expected a number");
}

TEST(AppendOptimizer, AdamsBiasCorrection) {
  OptimizerOptions options;
  EXPECT_EQ(rateCorrection(options, 3), 1);
  options.kind = OptimizerKind::Adam;
  options.beta1 = 0.5;
  options.beta2 = 0.75;
  EXPECT_NEAR(rateCorrection(options, 1), 1, 1e-15);
  EXPECT_NEAR(rateCorrection(options, 2), std::sqrt(0.4375) / 0.75, 1e-15);
}

}  // namespace
}  // namespace gradc
