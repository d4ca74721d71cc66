// The choices of §0: for each its default, its alternatives, and what distinguishes them in the emitted graph.
#include "tests/support/ops/naive.h"
#include "tests/support/runs/requests.h"
#include "tests/support/test_graph.h"
#include "tests/support/tool.h"

#include "passes/gradient/gradient.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;
using Numbers = std::vector<double>;

Expected<GradientResult> build(TestGraph &g, const GradientRequest &request, const GradientOptions &options) {
  return buildGradient(g.context, g, request, options);
}

/// The generated part of a graph with `numHeads` forward heads, or the error.
std::string emitted(TestGraph &g, const GradientRequest &request, const GradientOptions &options) {
  Expected<GradientResult> result = build(g, request, options);
  if (!result) return describeError(result.takeError());
  return dumpFrom(result->graph, g.graph.numNodes(), g.graph.heads().size());
}

Numbers gradients(TestGraph &g, const GradientRequest &request, GradientOptions options, const Bindings &bindings) {
  options.gradientOnly = true;
  Expected<GradientResult> result = build(g, request, options);
  EXPECT_TRUE(bool(result)) << describeError(result.takeError());
  Numbers list;
  for (const Array &array : evaluate(result->graph, bindings))
    list.insert(list.end(), array.values.begin(), array.values.end());
  return list;
}

TEST(GradientPolicies, P_01_WhatStandsForAHeadGradientThatIsNotGiven) {
  TestGraph g("y = exp(x)");
  Inference inference = cantFail(infer(g.context, g, {{{g.at("x").node, {2}}}, {}}, {}));
  GradientOptions options;
  options.inference = &inference;
  const std::string ones =
      "_head_grad_0 = ones_like(y)\ny_backward = elemwise_mul(_head_grad_0, y)\nheads y_backward\n";
  EXPECT_EQ(GradientOptions().headPolicy, HeadPolicy::Ones);
  EXPECT_EQ(emitted(g, wrt(g, {"x"}), options), ones);
  options.headPolicy = HeadPolicy::Scalar;
  EXPECT_EQ(emitted(g, wrt(g, {"x"}), options),
            "[implicit_head] output 'y_output' has shape (2,); an implicit head gradient needs a scalar");
  options.headPolicy = HeadPolicy::Required;
  EXPECT_EQ(emitted(g, wrt(g, {"x"}), options), "[missing_attr] output 1, 'y_output', has no head gradient");
  options.headPolicy = HeadPolicy::Input;
  EXPECT_EQ(emitted(g, wrt(g, {"x"}), options), "_head_grad_0_id = _identity_with_attr_like_rhs(_head_grad_0, y)\n"
                                                "y_backward = elemwise_mul(_head_grad_0_id, y)\nheads y_backward\n");
  Inference scalar = cantFail(infer(g.context, g, {{{g.at("x").node, {1, 1}}}, {}}, {}));
  options.inference = &scalar;
  options.headPolicy = HeadPolicy::Scalar;
  EXPECT_EQ(emitted(g, wrt(g, {"x"}), options), ones);
}

TEST(GradientPolicies, P_02_AnOutputListedTwiceCountsTwiceOrIsRefused) {
  TestGraph g("y = _mul_scalar(x) {scalar=3}");
  GradientRequest request = requestOf(g, {"y", "y"}, {"x"});
  EXPECT_EQ(gradients(g, request, GradientOptions(), {{"x", Array(1.0)}}), Numbers{6});
  GradientOptions strict;
  strict.duplicates = DuplicatePolicy::Strict;
  EXPECT_EQ(emitted(g, request, strict), "[duplicate] the outputs name 'y_output' twice");
  EXPECT_EQ(gradients(g, requestOf(g, {"y"}, {"x"}), strict, {{"x", Array(1.0)}}), Numbers{3});
}

TEST(GradientPolicies, P_03_AVariableListedTwiceIsFilledTwiceOrIsRefused) {
  TestGraph g("y = elemwise_mul(x, x)");
  EXPECT_EQ(emitted(g, wrt(g, {"x", "x"}), GradientOptions()), "_head_grad_0 = ones_like(y)\n"
                                                               "y_backward = _backward_mul(_head_grad_0, x, x) ^y\n"
                                                               "x_sum_grad = add_n(y_backward, y_backward:1)\n"
                                                               "x_sum_grad_1_copy = _copy(x_sum_grad)\n"
                                                               "heads x_sum_grad, x_sum_grad_1_copy\n");
  GradientOptions strict;
  strict.duplicates = DuplicatePolicy::Strict;
  EXPECT_EQ(emitted(g, wrt(g, {"x", "x"}), strict), "[duplicate] the gradient of 'x' is requested twice");
  EXPECT_EQ(gradients(g, wrt(g, {"x"}), strict, {{"x", Array(3.0)}}), Numbers{6});
}

TEST(GradientPolicies, P_04_ASK_15_AVariableNoOutputReads) {
  TestGraph g("x = var; w = var; y = exp(x); z = exp(w); heads y, z");
  GradientRequest request = requestOf(g, {"y"}, {"w", "x"});
  GradientOptions options;
  EXPECT_EQ(emitted(g, request, options),
            "[unreachable] x number 1, 'w', is not reached from any output that is differentiated");
  const std::string backward = "_head_grad_0 = ones_like(y)\ny_backward = elemwise_mul(_head_grad_0, y)\n";
  options.unused = UnusedPolicy::None;
  EXPECT_EQ(emitted(g, request, options), backward + "heads y_backward\n");
  options.unused = UnusedPolicy::Zeros;
  EXPECT_EQ(emitted(g, request, options),
            "w_zero_grad = zeros_like(w)\n" + backward + "heads w_zero_grad, y_backward\n");
}

// A stopped path gives zeros under both policies; a path of control dependencies alone is no path by default.
TEST(GradientPolicies, P_05_StoppedPathsAndControlDependencies) {
  TestGraph g("a = exp(w); b = BlockGrad(v); s = elemwise_add(b, x); y = exp(s) ^a");
  auto statusOf = [&](StringRef x, ControlOnlyPolicy policy) {
    GradientOptions options;
    options.controlOnly = policy;
    options.unused = UnusedPolicy::None;
    GradientResult result = cantFail(build(g, wrt(g, {x}), options));
    const SlotStatus status = result.wrt[0].status;
    EXPECT_EQ(countOps(result.graph, "zeros_like"), status == SlotStatus::Grad ? 1u : 0u);
    return status;
  };
  EXPECT_EQ(statusOf("v", ControlOnlyPolicy::Unused), SlotStatus::Grad);
  EXPECT_EQ(statusOf("w", ControlOnlyPolicy::Unused), SlotStatus::None);
  EXPECT_EQ(statusOf("v", ControlOnlyPolicy::Zeros), SlotStatus::Grad);
  EXPECT_EQ(statusOf("w", ControlOnlyPolicy::Zeros), SlotStatus::Grad);
}

TEST(GradientPolicies, P_06_OperatorsWithoutGradientBesideThePath) {
  TestGraph g("p = test_part(w); q = ?mystery(v); s = elemwise_add(p, x); y = elemwise_add(s, q)");
  GradientOptions options;
  EXPECT_EQ(emitted(g, wrt(g, {"x"}), options), "_head_grad_0 = ones_like(y)\nheads _head_grad_0\n");
  options.reach = ReachPolicy::WholeGraph;
  EXPECT_EQ(emitted(g, wrt(g, {"x"}), options),
            "[unknown_op] the gradient pass cannot handle node 'q': the operator 'mystery' is unknown");
  // Nothing off the path is emitted where all of it can be differentiated.
  TestGraph whole("a = exp(w); y = elemwise_sub(a, x)");
  EXPECT_EQ(emitted(whole, wrt(whole, {"x"}), options), emitted(whole, wrt(whole, {"x"}), GradientOptions()));
}

// What hangs on a cut or a constant alone is under the y like anything else.
TEST(GradientPolicies, P_06_TheWholeGraphIsAllThatLiesUnderTheY) {
  TestGraph g("p = test_part(w); c = ones_like(v); q = test_part(c); y = elemwise_add(p, x); z = exp(q); heads y, z");
  GradientOptions options;
  options.reach = ReachPolicy::WholeGraph;
  GradientRequest cut = requestOf(g, {"y"}, {"x"});
  cut.noGrad = {g.at("w")};
  EXPECT_EQ(emitted(g, cut, options).substr(0, 63), "[not_differentiable] operator 'test_part' of node 'p' has no gr");
  EXPECT_EQ(emitted(g, requestOf(g, {"z"}, {"v"}), options).substr(0, 63),
            "[not_differentiable] operator 'test_part' of node 'q' has no gr");
  // A stopped entry passes nothing on.
  cut.stop = {g.at("p")};
  EXPECT_EQ(emitted(g, cut, options), "_head_grad_0 = ones_like(y)\nheads _head_grad_0\n");
}

TEST(GradientPolicies, HO_08_AConstantYLeavesEveryXUnused) {
  TestGraph g("c = _ones() {shape=(2,)}; y = exp(c); z = exp(x); heads y, z");
  const GradientRequest request = requestOf(g, {"y"}, {"x"});
  auto statusUnder = [&](UnusedPolicy policy) {
    GradientOptions options;
    options.unused = policy;
    return cantFail(build(g, request, options)).wrt[0].status;
  };
  EXPECT_EQ(statusUnder(UnusedPolicy::None), SlotStatus::None);
  EXPECT_EQ(statusUnder(UnusedPolicy::Zeros), SlotStatus::Zeros);
  EXPECT_EQ(emitted(g, request, GradientOptions()).substr(0, 16), "[no_live_output]");
}

TEST(GradientPolicies, P_08_WhichSumsAreChains) {
  auto chains = [](int n, uint32_t cap, ChainPolicy chain, NamingStyle naming) {
    std::string text = "x = var; t1 = relu(x);";
    for (int i = 2; i <= n; ++i) {
      std::string k = std::to_string(i), previous = (i == 2 ? "t" : "u") + std::to_string(i - 1);
      text += "t" + k + " = relu(x); u" + k + " = elemwise_add(" + previous + ", t" + k + ");";
    }
    TestGraph g(text);
    GradientOptions options;
    options.sumCap = cap;
    options.chain = chain;
    options.naming = naming;
    GradientResult result = cantFail(build(g, wrt(g, {"x"}), options));
    EXPECT_EQ(countOps(result.graph, "add_n") + result.stats.numChains, 1u);
    EXPECT_EQ(countOps(result.graph, "_grad_add"), result.stats.numChains * static_cast<size_t>(n - 1));
    return result.stats.numChains == 1;
  };
  using enum ChainPolicy;
  EXPECT_EQ(GradientOptions().sumCap, 8u);
  EXPECT_EQ(GradientOptions().chain, FromCap);
  for (int n : {2, 3, 4, 5, 8, 9}) {
    EXPECT_EQ(chains(n, 4, FromCap, NamingStyle::Unique), n >= 4) << n;
    EXPECT_EQ(chains(n, 4, UpToCap, NamingStyle::Unique), n <= 4) << n;
    EXPECT_FALSE(chains(n, 1, UpToCap, NamingStyle::Unique)) << n;
    EXPECT_FALSE(chains(n, 2, FromCap, NamingStyle::Nnvm)) << n;
  }
}

TEST(GradientPolicies, P_09_WholeNumbersOnThePath) {
  TestGraph g("x = var; i = Cast(x) {dtype=int32}; f = Cast(i) {dtype=float32}; y = exp(f)");
  Inference inference = cantFail(infer(g.context, g, {{{g.at("x").node, {2}}}, {}}, {}));
  GradientOptions options;
  options.inference = &inference;
  EXPECT_EQ(emitted(g, wrt(g, {"x"}), options), "x_zero_grad = zeros_like(x)\nheads x_zero_grad\n");
  EXPECT_EQ(emitted(g, wrt(g, {"i"}), options),
            "[not_requires_grad] x number 1, 'i_output', has type int32 and carries no gradient");
  options.integers = IntegerPolicy::Permissive;
  EXPECT_EQ(countOps(cantFail(build(g, wrt(g, {"x"}), options)).graph, "_backward_cast"), 2u);
  EXPECT_NE(emitted(g, wrt(g, {"i"}), options).substr(0, 1), "[");
}

TEST(GradientPolicies, P_09_AnOutputOfWholeNumbersGivesNothingToOthers) {
  TestGraph g("x = var; i = Cast(x) {dtype=int32}; y = square(x); heads i, y");
  Inference inference = cantFail(infer(g.context, g, {{{g.at("x").node, {1}}}, {}}, {}));
  GradientOptions options;
  options.inference = &inference;
  EXPECT_EQ(gradients(g, requestOf(g, {"i", "y"}, {"x"}), options, {{"x", Array(Numbers{2.5})}}), Numbers{5});
}

// AGG-02: otherwise a value that gets only zeros would get their sum, which no longer counts as a zero.
TEST(GradientPolicies, ZERO_04_AGG_02_OfZerosAloneOneIsKept) {
  TestGraph g("p = test_part(w); a = ones_like(p); b = zeros_like(p); y = elemwise_add(a, b)");
  GradientOptions options;
  options.zeroTerms = ZeroPolicy::Keep;
  EXPECT_EQ(emitted(g, wrt(g, {"w"}), options), "w_zero_grad = zeros_like(w)\nheads w_zero_grad\n");
  EXPECT_EQ(cantFail(build(g, wrt(g, {"p"}), options)).stats.numSums, 0u);
}

// What the emitted graph holds does not depend on branches no x feeds.
TEST(GradientPolicies, P_10_NothingOffThePathIsEmitted) {
  const StringRef path = "a = exp(x); b = tanh(a); c = relu(w);";
  TestGraph alone((path + "y = elemwise_add(b, c)").str());
  TestGraph branched(
      (path + "d = sqrt(v); e = sigmoid(d); f = elemwise_mul(e, c); k = elemwise_add(b, c); y = elemwise_add(k, f)")
          .str());
  const std::string expected = "_head_grad_0 = ones_like(y)\n"
                               "b_backward = _backward_tanh(_head_grad_0, b) ^b\n"
                               "a_backward = elemwise_mul(b_backward, a)\n"
                               "heads a_backward\n";
  EXPECT_EQ(emitted(alone, wrt(alone, {"x"}), GradientOptions()), expected);
  EXPECT_EQ(emitted(branched, wrt(branched, {"x"}), GradientOptions()), expected);
  GradientResult result = cantFail(build(branched, wrt(branched, {"x"}), GradientOptions()));
  EXPECT_EQ(result.stats.numGenerated, 3u) << "nothing was made and thrown away";
}

// ---- the same on the command line

class PolicyFlags : public ::testing::Test {
 protected:
  /// `show` of what `grad FLAGS` emits, or the first line of its refusal.
  std::string shown(StringRef nodes, StringRef heads, StringRef flags) {
    folder.write("m.json", ("{\"nodes\": [" + nodes + "], \"arg_nodes\": [], \"heads\": [" + heads + "]}").str());
    ToolResult result = folder.run(("grad m.json -o g.json " + flags).str());
    if (result.code) return StringRef(result.err).split("error: ").second.split('\n').first.str();
    return folder.run("show g.json").out;
  }
  static std::string variable(StringRef name) {
    return ("{\"op\": \"null\", \"name\": \"" + name + "\", \"inputs\": []}").str();
  }
  static bool has(StringRef text, StringRef part) { return text.contains(part); }

  ScratchFolder folder;
};

TEST_F(PolicyFlags, P_05_ControlOnly) {
  std::string nodes = variable("w") + R"(,{"op": "exp", "name": "a", "inputs": [[0,0]]},)" + variable("x") +
                      R"(,{"op": "exp", "name": "y", "inputs": [[2,0]], "control_deps": [1]})";
  EXPECT_TRUE(has(shown(nodes, "[3,0]", "--wrt w"), "[unreachable]"));
  EXPECT_TRUE(has(shown(nodes, "[3,0]", "--wrt w --control-only unused"), "[unreachable]"));
  EXPECT_TRUE(has(shown(nodes, "[3,0]", "--wrt w --control-only zeros"), "zeros_like(%1)"));
}

TEST_F(PolicyFlags, P_06_Reach) {
  std::string nodes = variable("w") + "," + variable("x") + R"(,{"op": "mystery", "name": "p", "inputs": [[0,0]]},)" +
                      R"({"op": "elemwise_add", "name": "y", "inputs": [[2,0],[1,0]]})";
  EXPECT_TRUE(has(shown(nodes, "[3,0]", "--wrt x --reach path"), "ones_like"));
  EXPECT_TRUE(has(shown(nodes, "[3,0]", "--wrt x --reach whole-graph"), "[unknown_op]"));
}

TEST_F(PolicyFlags, P_09_Integers) {
  std::string nodes = variable("x") +
                      R"(,{"op": "Cast", "name": "i", "attrs": {"dtype": "int32"}, "inputs": [[0,0]]},)" +
                      R"({"op": "Cast", "name": "y", "attrs": {"dtype": "float32"}, "inputs": [[1,0]]})";
  EXPECT_TRUE(has(shown(nodes, "[2,0]", "--wrt x"), "zeros_like"));
  EXPECT_TRUE(has(shown(nodes, "[2,0]", "--wrt x --integers permissive"), "_backward_cast"));
  EXPECT_TRUE(has(shown(nodes, "[2,0]", "--wrt i --shape x=2"), "[not_requires_grad]"));
}

TEST_F(PolicyFlags, P_08_Chain) {
  std::string nodes = variable("x") + R"(,{"op": "elemwise_mul", "name": "y", "inputs": [[0,0],[0,0]]})";
  EXPECT_TRUE(has(shown(nodes, "[1,0]", "--wrt x"), "add_n"));
  EXPECT_TRUE(has(shown(nodes, "[1,0]", "--wrt x --sum-cap 2"), "_grad_add"));
  EXPECT_TRUE(has(shown(nodes, "[1,0]", "--wrt x --chain up-to-cap"), "_grad_add"));
  EXPECT_TRUE(has(shown(nodes, "[1,0]", "--wrt x --chain up-to-cap --sum-cap 1"), "add_n"));
  EXPECT_TRUE(has(shown(nodes, "[1,0]", "--wrt x --naming nnvm --sum-cap 2"), "\"grad_sum\""));
}

TEST_F(PolicyFlags, P_02_P_03_Strict) {
  std::string nodes = variable("x") + R"(,{"op": "exp", "name": "y", "inputs": [[0,0]]})";
  EXPECT_FALSE(has(shown(nodes, "[1,0]", "--wrt x,x --of y,y"), "[duplicate]"));
  EXPECT_EQ(shown(nodes, "[1,0]", "--wrt x,x --strict"), "the gradient of 'x' is requested twice [duplicate]");
  EXPECT_EQ(shown(nodes, "[1,0]", "--wrt x --of y,y --strict"), "the outputs name 'y_output' twice [duplicate]");
}

// Every way to name an entry, in every list; what names nothing is refused, with what is close.
TEST_F(PolicyFlags, NG_01_CutsByNameIndexListedNameAndPosition) {
  std::string nodes =
      variable("x") +
      R"(,{"op": "exp", "name": "a", "inputs": [[0,0]]},{"op": "tanh", "name": "b", "inputs": [[0,0]]},)" +
      R"({"op": "elemwise_add", "name": "y", "inputs": [[1,0],[2,0]]})";
  const std::string cut = shown(nodes, "[3,0],[1,0]", "--of y --wrt x --no-grad a");
  EXPECT_FALSE(has(cut, "add_n"));
  for (StringRef entry : {"a:0", "a_output", "@1", "#1", "a,a_output"})
    EXPECT_EQ(shown(nodes, "[3,0],[1,0]", ("--of y --wrt x --no-grad '" + entry + "'").str()), cut) << entry.str();
  EXPECT_EQ(shown(nodes, "[3,0],[1,0]", "--of y --wrt x --no-grad a:1"),
            "node 'a' (exp) has 1 output, counted from 0; 'a:1' asks for output 1 [bad_entry]");
  EXPECT_TRUE(has(shown(nodes, "[3,0],[1,0]", "--of y --wrt x --no-grad c"), "[unknown_name]"));
  EXPECT_EQ(folder.run("grad m.json --no-grad ''").code, 2);
}

// A list of something else than names or entries.
TEST_F(PolicyFlags, E_14_NG_01_MembersOfAnotherType) {
  std::string nodes =
      variable("x") + "," + variable("7") + R"(,{"op": "elemwise_mul", "name": "y", "inputs": [[0,0],[1,0]]})";
  for (StringRef flag : {"--no-grad", "--wrt", "--stop", "--retain", "--of"}) {
    EXPECT_EQ(shown(nodes, "[2,0]", (flag + " 0.5").str()),
              "'0.5' is a number, expected the name of a node or an entry [bad_type]");
    EXPECT_EQ(shown(nodes, "[2,0]", (flag + " '[x]'").str()),
              "'[x]' is the start of a list, expected the name of a node or an entry [bad_type]");
  }
  EXPECT_FALSE(has(shown(nodes, "[2,0]", "--wrt 7"), "[bad_type]")) << "a name that looks like a number is a name";
}

TEST_F(PolicyFlags, XS_06_AllLeavesOutWhatIsCut) {
  std::string nodes =
      variable("x") + "," + variable("w") + R"(,{"op": "elemwise_mul", "name": "y", "inputs": [[0,0],[1,0]]})";
  shown(nodes, "[2,0]", "");
  ToolResult result = folder.run("grad m.json --no-grad w -o g.json");
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(has(result.err, "--wrt all leaves out 'w' (in --no-grad)")) << result.err;
  EXPECT_TRUE(has(folder.read("g.json"), R"("slot_status": ["list_str", ["grad"]])"));
  // If an unused variable is not an error, its slot has a status.
  ASSERT_EQ(folder.run("grad m.json --no-grad w --unused none -o g.json").code, 0);
  EXPECT_TRUE(has(folder.read("g.json"), R"("slot_status": ["list_str", ["grad", "none"]])"));
  EXPECT_TRUE(has(folder.run("grad m.json --no-grad x,w").err, "[no_inputs]"));
}

TEST_F(PolicyFlags, P_01_MisspeltFlagsAndChoices) {
  std::string nodes = variable("x") + R"(,{"op": "exp", "name": "y", "inputs": [[0,0]]})";
  shown(nodes, "[1,0]", "");
  for (auto [typed, meant] : {std::pair<StringRef, StringRef>{"--controll-only", "--control-only"},
                              {"--integer", "--integers"},
                              {"--reech", "--reach"},
                              {"--chains", "--chain"},
                              {"--zero-term", "--zero-terms"},
                              {"--strikt", "--strict"}}) {
    ToolResult result = folder.run(("grad m.json " + typed + " x").str());
    EXPECT_EQ(result.code, 2);
    EXPECT_TRUE(has(result.err, ("did you mean '" + meant + "'").str())) << result.err;
  }
  EXPECT_TRUE(has(folder.run("grad m.json --heads one").err, "takes ones|scalar|input|required, got 'one'"));
}

}  // namespace
}  // namespace gradc
