// The inference pass: hints and the shapes and types that a file carries.
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include "formats/json/graph_table.h"
#include "ir/graph/graph_builder.h"
#include "passes/inference/infer.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

TEST(InferHints, DTypesDefaultToFloat32AndAreReplacedTogether) {
  TestGraph g(
      "a = var {__shape__=(2,)}; i = var {__shape__=(2,), __dtype__=int32}; y = exp(a); z = _copy(i); heads y, z");
  Inference plain = cantFail(infer(g.context, g, {}, {}));
  EXPECT_EQ(plain.dtype[g.graph.entry(g.at("y"))], DType::Float32);
  InferOptions options;
  options.floatAs = DType::Float64;
  Inference wide = cantFail(infer(g.context, g, {}, options));
  EXPECT_EQ(wide.dtype[g.graph.entry(g.at("y"))], DType::Float64);
  EXPECT_EQ(wide.dtype[g.graph.entry(g.at("z"))], DType::Int32);
}

TEST(InferHints, CLI_04_AnnotationServesAsHints) {
  TestGraph g("a = var; i = var {__dtype__=int32}; y = exp(a); z = _copy(i); heads y, z");
  InferRequest request;
  request.shapes = {{g.at("a").node, {2, 0}}, {g.at("i").node, {}}};
  Inference first = cantFail(infer(g.context, g, request, {}));
  Graph annotated = annotate(g, first);
  Inference again = cantFail(infer(g.context, annotated, {}, {}));
  EXPECT_EQ(again.shape.all(), first.shape.all());
  EXPECT_EQ(again.dtype.all(), first.dtype.all());
}

// Without `shape_known` the list is one of NNVM: before 2.0 it spells what is unknown as 0 and as an empty list.
TEST(InferHints, CLI_04_INF_03_AnnotationsOfNnvm) {
  TestGraph g("a = var; b = var; c = var; heads a, b, c");
  GraphAttrs attrs = graphAttrsOf(g.graph);
  attrs["shape"] = GraphAttr::ofShapes({{}, {0, 3}, {2, 3}});
  const Graph annotated = withGraphAttrs(g.graph, std::move(attrs));
  auto shapes = [&](const Graph &graph, UnknownDim convention) {
    InferOptions options;
    options.allowUnknown = true;
    options.unknownDim = convention;
    const Inference found = cantFail(infer(g.context, graph, {}, options));
    std::string text;
    for (uint32_t e = 0; e < 3; ++e) text += toString(found.shapeOf(EntryId(e)));
    return text;
  };
  EXPECT_EQ(shapes(annotated, UnknownDim::Auto), "?(?,3)(2,3)");
  EXPECT_EQ(shapes(annotated, UnknownDim::MinusOne), "()(0,3)(2,3)");
  // gradc's own: an empty dimension is 0.
  GraphAttrs own = graphAttrsOf(annotated);
  own["shape_known"] = GraphAttr::ofInts({0, 1, 1});
  EXPECT_EQ(shapes(withGraphAttrs(g.graph, std::move(own)), UnknownDim::Auto), "?(0,3)(2,3)");
}

TEST(InferHints, CLI_04_AnnotationServesWhereHintsLeaveAVariableOpen) {
  TestGraph g("x = var; w = var {__dtype__=float64}; a = exp(x); b = exp(w); heads a, b");
  InferRequest whole{{{g.at("x").node, {2, 3}}, {g.at("w").node, {4}}}, {{g.at("x").node, DType::Float16}}};
  const Graph annotated = annotate(g, cantFail(infer(g.context, g, whole, {})));
  const InferRequest part{{{g.at("x").node, {5, 3}}}, {}};
  Inference found = cantFail(infer(g.context, annotated, part, {}));
  auto shape = [&](StringRef name) { return toString(found.shapeOf(annotated.entry(g.at(name)))); };
  EXPECT_EQ(shape("a"), "(5,3)") << "a hint takes precedence";
  EXPECT_EQ(shape("b"), "(4,)");
  EXPECT_EQ(found.dtype[annotated.entry(g.at("a"))], DType::Float16) << "types are not what the hint is about";
  EXPECT_EQ(found.dtype[annotated.entry(g.at("b"))], DType::Float64);
}

TEST(InferHints, CLI_04_AnnotatedTypesServeWhereHintsLeaveAVariableOpen) {
  TestGraph g("w = var; i = var; z = var; a = take(w, i); b = exp(z); c = elemwise_add(a, b)");
  auto node = [&](StringRef name) { return g.at(name).node; };
  const InferRequest whole{{}, {{node("w"), DType::Float64}, {node("i"), DType::Int32}, {node("z"), DType::Float64}}};
  InferOptions options;
  options.allowUnknown = true;
  const Graph annotated = annotate(g, cantFail(infer(g.context, g, whole, options)));
  auto typesWith = [&](std::vector<DTypeHint> hints) {
    const Inference found = cantFail(infer(g.context, annotated, {{}, std::move(hints)}, options));
    std::string text;
    for (StringRef name : {"w", "i", "z"}) text += dtypeName(found.dtype[annotated.entry(g.at(name))]).str() + " ";
    return text;
  };
  EXPECT_EQ(typesWith({}), "float64 int32 float64 ");
  EXPECT_EQ(typesWith({{node("i"), DType::Int64}}), "float64 int64 float64 ");
  EXPECT_EQ(typesWith({{node("z"), DType::Float32}}), "float32 int32 float32 ") << "a hint takes precedence";
}

TEST(InferHints, INF_06_E_53_HintsOfOneVariableAreUnified) {
  TestGraph g("x = var; y = exp(x)");
  auto found = [&](DimsBuffer first, DimsBuffer second) {
    const NodeId x = g.at("x").node;
    Expected<Inference> result = infer(g.context, g, {{{x, std::move(first)}, {x, std::move(second)}}, {}}, {});
    return result ? toString(result->shapeOf(g.graph.entry(g.at("y")))) : describeError(result.takeError());
  };
  EXPECT_EQ(found({2, kUnknownDim}, {kUnknownDim, 3}), "(2,3)");
  EXPECT_EQ(found({2, 3}, {2, 4}), "[bad_hint] variable 'x' is given the shapes (2,3) and (2,4)");
}

TEST(InferHints, E_53_HintsForWhatIsNoVariable) {
  TestGraph g("x = var; y = exp(x)");
  auto found = [&](NodeId n) {
    const std::string shape = describeError(infer(g.context, g, {{{n, {2}}}, {}}, {}).takeError());
    const std::string type = describeError(infer(g.context, g, {{}, {{n, DType::Float64}}}, {}).takeError());
    EXPECT_EQ(StringRef(shape).split("shape").second, StringRef(type).split("type").second);
    return shape;
  };
  EXPECT_EQ(found(g.at("y").node), "[bad_hint] a shape is given for node 'y' (exp), which is not a variable");
  for (NodeId n : {NodeId(2), NodeId(1000000000), NodeId()})
    EXPECT_EQ(found(n), "[bad_hint] a shape is given for a node that the graph does not have");
}

// A state as large as the batch the file was annotated for says nothing about a run with another batch.
TEST(InferHints, CLI_04_AnnotationThatContradictsTheHintsIsLeftOut) {
  TestGraph g("x = var; s = var; w = var; y = dot(x, w); z = elemwise_add(y, y); t = test_split3(s); "
              "u = dot(t, z) {transpose_a=True}");
  InferRequest whole{{{g.at("x").node, {2, 3}}, {g.at("w").node, {3, 4}}, {g.at("s").node, {6, 5}}}, {}};
  const Graph annotated = annotate(g, cantFail(infer(g.context, g, whole, {})));
  const InferRequest part{{{g.at("x").node, {7, 3}}, {g.at("w").node, {3, 4}}}, {}};
  InferOptions options;
  options.allowUnknown = true;
  Expected<Inference> found = infer(g.context, annotated, part, options);
  ASSERT_TRUE(bool(found)) << describeError(found.takeError());
  EXPECT_EQ(toString(found->shapeOf(annotated.entry(g.at("z")))), "(7,4)");
  EXPECT_FALSE(found->isKnownShape(annotated.entry(g.at("s"))));
}

}  // namespace
}  // namespace gradc
