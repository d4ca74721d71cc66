// The optimizer pass: which nodes it adds, in which order, with which attributes; what it refuses.
#include "passes/optimizer/append_optimizer.h"

#include "formats/json/graph_table.h"
#include "formats/json/reader.h"
#include "formats/json/writer.h"
#include "ir/rules/verify.h"
#include "passes/inference/infer.h"
#include "passes/memory/plan_memory.h"
#include "passes/order/requests.h"
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
            "h_backward = elemwise_mul(t_backward, x)\n"
            "a_weight_update = _scheduled_sgd_update(a_weight, h_backward, learning_rate) ^h\n"
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
  TestGraph g(
      "w = var; w_mom = var; learning_rate = var; p = elemwise_mul(w, w_mom); y = elemwise_mul(p, learning_rate)");
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
  EXPECT_NE(text.find("\"update_of\": [\"list_str\", [\"\", \"c_weight\", \"b_bias\", \"a_weight\"]]"),
            std::string::npos)
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
  EXPECT_EQ(errorOf(appendOptimizer(g.context, g, {})).message, "the graph has no gradients for an optimizer step");
  TestGraph h("w = var; y = exp(w); heads y, w");
  GradcError head = errorOf(appendOptimizer(h.context, gradientsOf(h, {"w"}), {}));
  EXPECT_EQ(head.kind, ErrorKind::UnsupportedOption);
  EXPECT_EQ(head.message, "variable 'w' is a parameter to train, but also a head of the graph");
  TestGraph i("w = var {__lr_mult__=fast}; y = exp(w)");
  GradcError number = errorOf(appendOptimizer(i.context, gradientsOf(i, {"w"}), {}));
  EXPECT_EQ(number.kind, ErrorKind::BadAttribute);
  EXPECT_EQ(number.message, "attribute '__lr_mult__' of variable 'w' is 'fast', expected a number");
}

OptimizerOptions ofKind(size_t kind) {
  OptimizerOptions options;
  options.kind = static_cast<OptimizerKind>(kind);
  return options;
}

// Operators and states of every optimizer, as the operators say themselves.
TEST(AppendOptimizer, EveryOptimizer) {
  const std::pair<StringRef, StringRef> expected[kNumOptimizers] = {
      {"_scheduled_sgd_update", ""},
      {"_scheduled_adam_update", "w_mean w_var "},
      {"_scheduled_nag_mom_update", "w_mom "},
      {"_scheduled_signsgd_update", ""},
      {"_scheduled_signum_update", "w_mom "},
      {"_scheduled_rmsprop_update", "w_n "},
      {"_scheduled_rmspropalex_update", "w_n w_g w_delta "},
      {"_scheduled_adagrad_update", "w_history "},
      {"_scheduled_ftrl_update", "w_z w_n "},
      {"_scheduled_ftml_update", "w_d w_v w_z "},
      {"_scheduled_adamw_update", "w_mean w_var "},
      {"_scheduled_lamb_update_phase2", "w_mean w_var "},
  };
  for (size_t kind = 0; kind < kNumOptimizers; ++kind) {
    OptimizerOptions options = ofKind(kind);
    const OptimizerInfo &info = optimizerInfo(options.kind);
    SCOPED_TRACE(info.name.str());
    TestGraph g("w = var {__shape__=(3,2), __lr_mult__=0.5}; y = exp(w)");
    options.clip = 0.25;
    options.weightDecay = 0.125;
    options.decayRule = DecayRule::All;
    TrainingGraph result = appended(g, {"w"}, options);
    EXPECT_EQ(result.graph.opName(nodeNamed(result.graph, "w_update")), expected[kind].first);
    std::string states;
    for (NodeId state : result.parameters[0].states) states += result.graph.name(state).str() + " ";
    EXPECT_EQ(states, expected[kind].second);
    EXPECT_EQ(result.step.isValid(), info.hasBiasCorrection && options.kind != OptimizerKind::Adam);
    EXPECT_EQ(attrOf(result.graph, "w_update", "rate_factor"), "0.5");
    const StringRef gradientAt = options.kind == OptimizerKind::Lamb ? "w_direction" : "w_update";
    EXPECT_EQ(attrOf(result.graph, gradientAt, options.kind == OptimizerKind::Ftml ? "clip_grad" : "clip_gradient"),
              "0.25");
    EXPECT_EQ(attrOf(result.graph, gradientAt, "wd"), "0.125");
    Inference inference = cantFail(infer(g.context, result.graph, {}, {}));
    EXPECT_EQ(toString(inference.shapeOf(result.graph.entry(result.graph.heads()[1]))), "(3,2)");
  }
}

TEST(AppendOptimizer, LambTakesTwoOperatorsAndTwoNorms) {
  TestGraph g("w = var; y = exp(w)");
  TrainingGraph result = appended(g, {"w"}, ofKind(static_cast<size_t>(OptimizerKind::Lamb)));
  EXPECT_EQ(dumpFrom(result.graph, nodeNamed(result.graph, "y_backward").value, 0),
            "y_backward = elemwise_mul(_head_grad_0, y)\n"
            "w_direction = _scheduled_lamb_update_phase1(w, y_backward, w_mean@1, w_var@1, step_number)\n"
            "w_norm_square = square(w)\n"
            "w_norm_sum = sum(w_norm_square)\n"
            "w_norm = sqrt(w_norm_sum)\n"
            "w_direction_norm_square = square(w_direction)\n"
            "w_direction_norm_sum = sum(w_direction_norm_square)\n"
            "w_direction_norm = sqrt(w_direction_norm_sum)\n"
            "w_update = _scheduled_lamb_update_phase2(w, w_direction, w_norm, w_direction_norm, learning_rate) ^y\n"
            "heads y, w_update\n");
  EXPECT_EQ(attrOf(result.graph, "w_direction", "wd"), "0") << "which MXNet wants to be given";
}

TEST(AppendOptimizer, AttributesThatTheOperatorHas) {
  TestGraph g("w = var; y = exp(w)");
  OptimizerOptions options = ofKind(static_cast<size_t>(OptimizerKind::RmsProp));
  EXPECT_EQ(attrOf(appended(g, {"w"}, options).graph, "w_update", "gamma1"), "0.9") << "MXNet's optimizer sets that";
  options.attrs = {{"gamma1", "0.75"}, {"clip_weights", "2"}};
  options.epsilon = 0.5;
  Graph graph = appended(g, {"w"}, options).graph;
  EXPECT_EQ(attrOf(graph, "w_update", "gamma1"), "0.75");
  EXPECT_EQ(attrOf(graph, "w_update", "clip_weights"), "2");
  EXPECT_EQ(attrOf(graph, "w_update", "epsilon"), "0.5");
  options = ofKind(static_cast<size_t>(OptimizerKind::Lamb));
  options.attrs = {{"bias_correction", "False"}, {"upper_bound", "10"}};
  graph = appended(g, {"w"}, options).graph;
  EXPECT_EQ(attrOf(graph, "w_direction", "bias_correction"), "False");
  EXPECT_EQ(attrOf(graph, "w_update", "bias_correction"), "none");
  EXPECT_EQ(attrOf(graph, "w_update", "upper_bound"), "10");
}

TEST(AppendOptimizer, E_13_AttributesThatItDoesNotHave) {
  TestGraph g("w = var; y = exp(w)");
  auto refusal = [&](OptimizerKind kind, const char *key, const char *value) {
    OptimizerOptions options = ofKind(static_cast<size_t>(kind));
    options.attrs = {{key, value}};
    return errorOf(appendOptimizer(g.context, gradientsOf(g, {"w"}), options));
  };
  EXPECT_EQ(refusal(OptimizerKind::RmsProp, "gamma2", "1").message,
            "optimizer 'rmsprop' has no attribute 'gamma2', expected gamma1, epsilon or clip_weights");
  EXPECT_EQ(refusal(OptimizerKind::Ftrl, "wd", "1").message,
            "optimizer 'ftrl' has no attribute 'wd', expected lamda1 or beta")
      << "weights have decays of their own";
  EXPECT_EQ(refusal(OptimizerKind::SignSgd, "beta", "1").message,
            "optimizer 'signsgd' has no attribute 'beta'; it has none of its own");
  EXPECT_EQ(refusal(OptimizerKind::Ftrl, "beta", "much").kind, ErrorKind::BadAttribute);
}

TEST(AppendOptimizer, E_13_FixedRatesWhereTheStepCounts) {
  TestGraph g("w = var; y = exp(w)");
  for (OptimizerKind kind : {OptimizerKind::Ftml, OptimizerKind::AdamW, OptimizerKind::Lamb}) {
    OptimizerOptions options = ofKind(static_cast<size_t>(kind));
    options.fixedRate = 0.5;
    EXPECT_EQ(errorOf(appendOptimizer(g.context, gradientsOf(g, {"w"}), options)).message,
              ("the rate of '" + optimizerInfo(kind).name +
               "' cannot be fixed: a step depends on the number of steps taken before")
                  .str());
  }
  for (OptimizerKind kind : {OptimizerKind::Nag, OptimizerKind::SignSgd, OptimizerKind::Signum, OptimizerKind::RmsProp,
                             OptimizerKind::RmsPropAlex, OptimizerKind::AdaGrad, OptimizerKind::Ftrl}) {
    OptimizerOptions options = ofKind(static_cast<size_t>(kind));
    options.fixedRate = 0.5;
    Graph graph = appended(g, {"w"}, options).graph;
    const OptimizerRecipe &recipe = *g.context.ops.wellKnown.optimizers.*optimizerInfo(kind).recipe;
    EXPECT_EQ(graph.op(nodeNamed(graph, "w_update")), recipe.steps[0].fixed);
    EXPECT_EQ(attrOf(graph, "w_update", "lr"), "0.5");
  }
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
