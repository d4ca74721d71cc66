// What a gradient request may not say (§23).
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include "ir/base/error.h"
#include "ir/graph/graph_builder.h"
#include "passes/gradient/gradient.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

std::string errorOf(TestGraph &g, const GradientRequest &request, const GradientOptions &options) {
  return describeError(buildGradient(g.context, g, request, options));
}

TEST(GradientErrors, E_02_V_27_NoGradientOnThePath) {
  TestGraph g("p = test_part(x); y = elemwise_add(p, w)");
  Expected<GradientResult> result = buildGradient(g.context, g, wrt(g, {"x"}), GradientOptions());
  ASSERT_FALSE(bool(result));
  handleAllErrors(result.takeError(), [&](const GradcError &info) {
    EXPECT_EQ(info.kind, ErrorKind::NotDifferentiable);
    EXPECT_EQ(info.place.node, g.at("p").node);
    ASSERT_EQ(info.notes.size(), 1u);
    EXPECT_EQ(info.notes[0].text, "stop the gradient there, or request other variables");
    EXPECT_EQ(info.notes[0].remedy, Remedy::StopGradient);
    EXPECT_EQ(info.notes[0].subject, "p");
  });
}

TEST(GradientErrors, E_32_UnknownOperatorOnThePath) {
  TestGraph g("p = ?mystery(x); y = elemwise_add(p, w)");
  EXPECT_EQ(errorOf(g, wrt(g, {"x"}), GradientOptions()),
            "[unknown_op] the gradient pass cannot handle node 'p': the operator 'mystery' is unknown");
  EXPECT_EQ(errorOf(g, wrt(g, {"w"}), GradientOptions()), "success");
}

TEST(GradientErrors, E_03_ScalarPolicy) {
  TestGraph g("y = exp(x)");
  GradientOptions options;
  options.headPolicy = HeadPolicy::Scalar;
  auto withShape = [&](DimsBuffer dims) {
    InferRequest hints;
    hints.shapes.push_back({g.at("x").node, dims});
    Inference inference = cantFail(infer(g.context, g, hints, {}));
    options.inference = &inference;
    return errorOf(g, wrt(g, {"x"}), options);
  };
  EXPECT_EQ(withShape({2, 3}),
            "[implicit_head] output 'y_output' has shape (2,3); an implicit head gradient needs a scalar");
  EXPECT_EQ(withShape({1, 1}), "success");
  EXPECT_EQ(withShape({}), "success");
  EXPECT_EQ(withShape({0}),
            "[implicit_head] output 'y_output' has shape (0,); an implicit head gradient needs a scalar");
}

TEST(GradientErrors, E_05_NoLiveOutput) {
  TestGraph g("y = test_cast(x) {dtype=int32}; z = exp(x); heads y, z");
  Inference inference = cantFail(infer(g.context, g, {{{g.at("x").node, {2}}}, {}}, {}));
  GradientOptions options;
  options.inference = &inference;
  GradientRequest request = wrt(g, {"x"});
  EXPECT_EQ(errorOf(g, request, options), "success");  // H-10: another y is live
  request.heads = {{g.at("y"), std::nullopt, ""}};
  EXPECT_EQ(errorOf(g, request, options),
            "[no_live_output] no output that is differentiated carries gradient: 'y_output' (int32)");
}

TEST(GradientErrors, E_06_IntegerVariable) {
  TestGraph g("x = var {__dtype__=int32}; f = test_cast(x) {dtype=float32}; y = exp(f)");
  Inference inference = cantFail(infer(g.context, g, {{{g.at("x").node, {2}}}, {}}, {}));
  GradientOptions options;
  options.inference = &inference;
  options.unused = UnusedPolicy::None;  // XS-05: does not excuse it
  EXPECT_EQ(errorOf(g, wrt(g, {"x"}), options),
            "[not_requires_grad] x number 1, 'x', has type int32 and carries no gradient");
}

TEST(GradientErrors, E_05_NamesTheFirstOutputsOnly) {
  TestGraph g("y = exp(x)");
  GradientRequest request = wrt(g, {"x"});
  request.heads.assign(12, {g.at("y"), std::nullopt, ""});
  request.noGrad = {g.at("y")};
  const std::string error = errorOf(g, request, GradientOptions());
  EXPECT_EQ(StringRef(error).count("'y_output' (in the no-gradient set)"), 10u) << error;
  EXPECT_TRUE(StringRef(error).ends_with(" and 2 more")) << error;
}

TEST(GradientErrors, E_07_E_08_NothingAskedFor) {
  TestGraph g("y = exp(x)");
  EXPECT_EQ(errorOf(g, GradientRequest(), GradientOptions()),
            "[empty_xs] no variable to differentiate with respect to (xs): the list is empty");
  GradientRequest request = wrt(g, {"x"});
  request.wrt[0].request = Request::Null;
  EXPECT_EQ(errorOf(g, request, GradientOptions()),
            "[no_inputs] every variable has the request 'null': nothing to differentiate with respect to");
  std::swap(request.wrt, request.retained);
  EXPECT_EQ(errorOf(g, request, GradientOptions()),
            "[no_inputs] every variable has the request 'null': nothing to differentiate with respect to");
  request.wrt = wrt(g, {"x"}).wrt;
  EXPECT_EQ(errorOf(g, request, GradientOptions()), "success");
}

TEST(GradientErrors, E_10_E_11_DuplicatesUnderStrict) {
  TestGraph g("y = exp(x)");
  GradientOptions options;
  options.duplicates = DuplicatePolicy::Strict;
  EXPECT_EQ(errorOf(g, wrt(g, {"x", "x"}), options), "[duplicate] the gradient of 'x' is requested twice");
  GradientRequest request = wrt(g, {"x"});
  request.heads = {{g.at("y"), std::nullopt, ""}, {g.at("y"), std::nullopt, ""}};
  EXPECT_EQ(errorOf(g, request, options), "[duplicate] the outputs name 'y_output' twice");
}

TEST(GradientErrors, E_15_AskedAndCutUnderStrict) {
  TestGraph g("y = exp(x)");
  GradientRequest request = wrt(g, {"x"});
  request.noGrad = {g.at("x")};
  GradientOptions options;
  options.duplicates = DuplicatePolicy::Strict;
  EXPECT_EQ(errorOf(g, request, options), "[option_conflict] 'x' is requested and also in the no-gradient set");
}

TEST(GradientErrors, E_16_RetainedTwice) {
  TestGraph g("a = exp(x); y = exp(a)");
  GradientRequest request = wrt(g, {"x"});
  request.retained = {{g.at("a"), Request::Write}, {g.at("a"), Request::Write}};
  EXPECT_EQ(errorOf(g, request, GradientOptions()), "[already_marked] intermediate 'a_output' is retained twice");
}

TEST(GradientErrors, E_36_SeedRequired) {
  TestGraph g("y = exp(x); z = exp(y); heads y, z");
  GradientOptions options;
  options.headPolicy = HeadPolicy::Required;
  GradientRequest request = wrt(g, {"x"});
  request.heads = {{g.at("y"), std::nullopt, "dy"}, {g.at("z"), std::nullopt, ""}};
  EXPECT_EQ(errorOf(g, request, options), "[missing_attr] output 2, 'z_output', has no head gradient");
}

TEST(GradientErrors, E_38_SeedOfAnotherShape) {
  TestGraph g("y = exp(x); k = exp(h); heads y, k");
  Inference inference = cantFail(infer(g.context, g, {{{g.at("x").node, {2, 3}}, {g.at("h").node, {3}}}, {}}, {}));
  GradientOptions options;
  options.inference = &inference;
  GradientRequest request = wrt(g, {"x"});
  request.heads = {{g.at("y"), g.at("h"), ""}};
  EXPECT_EQ(errorOf(g, request, options),
            "[head_shape] head gradient 1, 'h', has shape (3,), output 'y_output' has (2,3)");
}

TEST(GradientErrors, E_41_RuleThatForgetsAnInput) {
  TestGraph g("y = test_forgetful(a, b)");
  EXPECT_EQ(errorOf(g, wrt(g, {"a"}), GradientOptions()), "success");
  EXPECT_EQ(
      errorOf(g, wrt(g, {"b"}), GradientOptions()),
      "[bad_gradient_rule] the gradient rule of operator 'test_forgetful' sets no gradient of input 1 of node 'y'");
}

TEST(GradientErrors, E_44_E_48_ValuesTheGraphDoesNotHave) {
  TestGraph g("y = exp(x)");
  GradientRequest request;
  request.wrt = {{Value{NodeId(9)}, Request::Write}};
  EXPECT_EQ(errorOf(g, request, GradientOptions()), "[foreign_entry] the request names node 9, the graph has 2 nodes");
  request.wrt = {{Value{g.at("y").node, 2}, Request::Write}};
  EXPECT_EQ(errorOf(g, request, GradientOptions()),
            "[bad_entry] output 2 of node 'y' (exp) is requested, but the node has 1");
}

// Zeros for `w` are made like `w`, which no operator may read.
TEST(GradientErrors, E_51_SparseValueThatNothingReads) {
  TestGraph g("w = var {__shape__=(2,3), __storage_type__=1}; x = var {__shape__=(2,)}; y = exp(x) ^w; heads y");
  Inference inference = cantFail(infer(g.context, g, {}, {}));
  GradientOptions options;
  options.inference = &inference;
  options.unused = UnusedPolicy::Zeros;
  const std::string refusal = "[storage] the request names 'w', which has storage row_sparse, expected dense";
  EXPECT_EQ(errorOf(g, wrt(g, {"x"}), options), "success");
  EXPECT_EQ(errorOf(g, wrt(g, {"w"}), options), refusal);
  GradientRequest request = wrt(g, {"x"});
  request.retained = {{g.at("w")}};
  EXPECT_EQ(errorOf(g, request, options), refusal);
  request = wrt(g, {"x"});
  request.heads = {{g.at("y"), std::nullopt, ""}, {g.at("w"), std::nullopt, ""}};
  EXPECT_EQ(errorOf(g, request, options), refusal);
  request.heads = {{g.at("y"), g.at("w"), ""}};
  EXPECT_EQ(errorOf(g, request, options), refusal);
}

TEST(GradientErrors, E_42_E_43_BuilderRefusesArityAndCycles) {
  TestContext context;
  GraphBuilder builder(context);
  Value x = builder.addVariable("x", Attrs());
  EXPECT_EQ(describeError(builder.add(*context.ops.find("elemwise_add"), {x}, {"y", Attrs(), NodeId()})).substr(0, 7),
            "[arity]");
  NodeId a = cantFail(builder.add(*context.ops.find("exp"), {x}, {"a", Attrs(), NodeId()}));
  NodeId b = cantFail(builder.add(*context.ops.find("exp"), {Value{a}}, {"b", Attrs(), NodeId()}));
  builder.setInput(a, 0, Value{b});
  std::string error = describeError(std::move(builder).freeze({Value{b}}, {}));
  EXPECT_EQ(error.substr(0, 7), "[cycle]");
  EXPECT_NE(error.find("'a'"), std::string::npos);
  EXPECT_NE(error.find("'b'"), std::string::npos);
}

}  // namespace
}  // namespace gradc
