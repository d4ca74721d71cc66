// The inference pass over whole graphs: partial shapes, hints, conflicts, gradient graphs (§20).
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

// Shapes of the named values after inference with unknown parts allowed; or the error.
std::string shapesOf(StringRef text, std::vector<StringRef> names) {
  TestGraph g(text);
  InferOptions options;
  options.allowUnknown = true;
  options.unknownDim = UnknownDim::Zero;
  Expected<Inference> inference = infer(g.context, g, {}, options);
  if (!inference) return describeError(inference.takeError());
  std::string list;
  for (StringRef name : names)
    list += (list.empty() ? "" : " ") + toString(inference->shapeOf(g.graph.entry(g.at(name))));
  return list;
}

TEST(Infer, INF_04_PartialShapesFlowBothWays) {
  EXPECT_EQ(shapesOf("a = var {__shape__=(0,10)}; b = var {__shape__=(12,0)}; y = elemwise_add(a, b)", {"a", "b", "y"}),
            "(12,10) (12,10) (12,10)");
  EXPECT_EQ(shapesOf("a = var {__shape__=(0,10)}; c = var {__shape__=(5,0)};"
                     "d = FullyConnected(a, w, b) {num_hidden=21}; y = elemwise_add(d, c)",
                     {"a", "c", "w", "b"}),
            "(5,10) (5,21) (21,10) (21,)");
  EXPECT_EQ(shapesOf("a = var {__shape__=(0,10)}; b = var {__shape__=(0,5)}; d = var {__shape__=(2,0)};"
                     "c = Concat(a, b) {num_args=2, dim=1}; y = elemwise_add(c, d)",
                     {"a", "b", "d"}),
            "(2,10) (2,5) (2,15)");
  EXPECT_EQ(shapesOf("a = var {__shape__=(0,10,0,0)}; k = var {__shape__=(5,21,32,32)};"
                     "c = Convolution(a, w, b) {kernel=(3,3), pad=(1,1), num_filter=21}; y = elemwise_add(c, k)",
                     {"a", "w"}),
            "(5,10,32,32) (21,10,3,3)");
  EXPECT_EQ(shapesOf("a = var {__shape__=(0,15,0)}; k = var {__shape__=(3,15,2)}; y = elemwise_add(a, k)", {"a"}),
            "(3,15,2)");
  EXPECT_EQ(
      shapesOf("a = var {__shape__=(0,2)}; k = var {__shape__=(3,0)}; s = test_split3(a); y = elemwise_add(s:1, k)",
               {"a", "s:2"}),
      "(9,2) (3,2)");
}

TEST(Infer, INF_01_GoesOnUntilNothingIsGained) {
  // One known shape travels up and down through four sums, whichever comes first in the file.
  EXPECT_EQ(
      shapesOf("e = var {__shape__=(3,4)}; s = elemwise_add(a, b); t = elemwise_add(c, d); u = elemwise_add(b, c);"
               "v = elemwise_add(d, e); heads s, t, u, v",
               {"a", "b", "c", "d"}),
      "(3,4) (3,4) (3,4) (3,4)");
  // Halves of a shape from both ends meet.
  EXPECT_EQ(
      shapesOf("e = var {__shape__=(3,0)}; a = var {__shape__=(0,4)}; s = elemwise_add(a, b); t = elemwise_add(c, d);"
               "u = elemwise_add(b, c); v = elemwise_add(d, e); heads s, t, u, v",
               {"a", "b", "c", "d", "e"}),
      "(3,4) (3,4) (3,4) (3,4) (3,4)");
  // And it ends when nothing can be gained.
  EXPECT_EQ(
      shapesOf("e = var {__shape__=(3,0)}; t = elemwise_add(c, d); v = elemwise_add(d, e); z = exp(q); heads t, v, z",
               {"c", "t", "q"}),
      "(3,?) (3,?) ?");
}

TEST(Infer, INF_11_TheForwardPartIsTakenAsGiven) {
  TestGraph g("a = FullyConnected(x, w) {num_hidden=3, no_bias=True}; y = tanh(a)");
  Inference forward = cantFail(infer(g.context, g, {{{g.at("x").node, {2, 5}}}, {}}, {}));
  Graph graph = gradientOf(g.context, g, {"x", "w"}, 1).graph;
  InferOptions options;
  options.forward = &forward;
  // Hints for the forward part are not looked at: what is given is kept.
  Inference whole = cantFail(infer(g.context, graph, {{{g.at("x").node, {7, 7}}}, {}}, options));
  for (uint32_t e = 0; e < g.graph.numEntries(); ++e) {
    EXPECT_EQ(whole.shape[EntryId(e)], forward.shape[EntryId(e)]);
    EXPECT_EQ(whole.dtype[EntryId(e)], forward.dtype[EntryId(e)]);
  }
  EXPECT_EQ(whole.shapeOf(graph.entry(graph.heads()[2])).dims(), Dims({3, 5}));
  Inference fresh = cantFail(infer(g.context, graph, {{{g.at("x").node, {2, 5}}}, {}}, {}));
  for (uint32_t e = 0; e < graph.numEntries(); ++e) EXPECT_EQ(whole.shape[EntryId(e)], fresh.shape[EntryId(e)]);
}

TEST(Infer, INF_11_D_23_OnlyLaterEntriesAreCountedAndRefined) {
  // Nothing is known of q, which the later part has no part in; y's shape is known to the later part alone.
  TestGraph g("p = exp(q); y = exp(x); heads p, y");
  InferOptions options;
  options.allowUnknown = true;
  Inference forward = cantFail(infer(g.context, g, {}, options));
  EXPECT_EQ(forward.numUnknownShapes, 4u);
  GraphBuilder builder(g.context, g.graph);
  Value k = builder.addVariable("k", Attrs());
  NodeId z = cantFail(builder.add(*g.context.ops.find("elemwise_add"), {g.at("y"), k}, {"z", Attrs(), NodeId()}));
  Graph graph = cantFail(std::move(builder).freeze({g.graph.heads()[0], g.graph.heads()[1], Value{z}}, {})).graph;
  options.forward = &forward;
  Inference later = cantFail(infer(g.context, graph, {{{nodeNamed(graph, "k"), {4}}}, {}}, options));
  EXPECT_EQ(later.numUnknownShapes, 0u);
  EXPECT_EQ(later.shapeOf(graph.entry(graph.heads()[2])).dims(), Dims({4}));
  EXPECT_EQ(later.shape[graph.entry(graph.heads()[1])], kUnknownShape);
  options.allowUnknown = false;
  EXPECT_EQ(describeError(infer(g.context, graph, {{{nodeNamed(graph, "k"), {4}}}, {}}, options)), "success");
}

TEST(Infer, INF_03_ZeroOrMinusOneForUnknown) {
  TestGraph g("a = var {__shape__=(0,3)}; b = var {__shape__=(-1,3)}; heads a, b");
  auto shapes = [&](UnknownDim convention) {
    InferOptions options;
    options.allowUnknown = true;
    options.unknownDim = convention;
    Inference inference = cantFail(infer(g.context, g, {}, options));
    return toString(inference.shapeOf(EntryId(0))) + toString(inference.shapeOf(EntryId(1)));
  };
  EXPECT_EQ(shapes(UnknownDim::Zero), "(?,3)(?,3)");
  EXPECT_EQ(shapes(UnknownDim::MinusOne), "(0,3)(?,3)");
}

TEST(Infer, INF_06_E_53_HintsOfAttributes) {
  EXPECT_EQ(shapesOf("a = var {__shape__=oops}; y = exp(a)", {}),
            "[bad_hint] variable 'a': attribute '__shape__' is \"oops\", expected a tuple of int");
  EXPECT_EQ(shapesOf("a = var {__dtype__=colour}; y = exp(a)", {}),
            "[bad_hint] variable 'a': attribute '__dtype__' is \"colour\", expected a type name or code");
  TestGraph g("a = var {__shape__=(2,3)}; y = exp(a)");
  InferRequest request;
  request.shapes.push_back({g.at("a").node, {2, 4}});
  EXPECT_EQ(describeError(infer(g.context, g, request, {})),
            "[bad_hint] variable 'a': attribute '__shape__' is \"(2,3)\", but the given shape is (2,4)");
}

TEST(Infer, INF_06_HintsUnify) {
  TestGraph g("a = var {__shape__=(0,3), __dtype__=1}; y = exp(a)");
  InferRequest request;
  request.shapes.push_back({g.at("a").node, {2, kUnknownDim}});
  Inference inference = cantFail(infer(g.context, g, request, {}));
  EXPECT_EQ(toString(inference.shapeOf(g.graph.entry(g.at("y")))), "(2,3)");
  EXPECT_EQ(inference.dtype[g.graph.entry(g.at("y"))], DType::Float64);
}

TEST(Infer, INF_06_E_52_ShapesInTheOrderOfArguments) {
  TestGraph g("a = var {__shape__=(0,3)}; b = var; m = var; v = var; y = BatchNorm(a, b, b, m, v) {fix_gamma=False}");
  const InferRequest request = cantFail(shapesInOrder(g, {DimsBuffer{2, kUnknownDim}, DimsBuffer{3}}));
  ASSERT_EQ(request.shapes.size(), 2u);
  EXPECT_EQ(request.shapes[1].variable, g.at("b").node);
  const Inference inference = cantFail(infer(g.context, g, request, {}));
  EXPECT_EQ(toString(inference.shapeOf(g.graph.entry(g.at("y")))), "(2,3)");
  EXPECT_TRUE(cantFail(shapesInOrder(g, {})).shapes.empty());
  // Moving statistics are no arguments.
  EXPECT_EQ(describeError(shapesInOrder(g, {DimsBuffer{2, 3}, DimsBuffer{3}, DimsBuffer{3}}).takeError()),
            "[too_many_hints] 3 shapes for 2 arguments of the graph");
}

TEST(Infer, INF_07_E_50_ConflictsNameOperatorAndNode) {
  std::string error = shapesOf("a = var {__shape__=(2,3)}; b = var {__shape__=(2,4)}; y = elemwise_add(a, b)", {});
  EXPECT_EQ(error.substr(0, 62), "[infer_conflict] operator 'elemwise_add', node 'y' (elemwise_a");
  EXPECT_NE(error.find("(2,3)"), std::string::npos);
  EXPECT_NE(error.find("(2,4)"), std::string::npos);
  TestGraph g("a = var {__dtype__=float32}; b = var {__dtype__=float64}; y = elemwise_add(a, b)");
  InferOptions options;
  options.allowUnknown = true;
  EXPECT_EQ(describeError(infer(g.context, g, {}, options)).substr(0, 40), "[infer_conflict] operator 'elemwise_add'");
}

// Both places refine a shape that was unknown; neither is more precise than the other.
TEST(Infer, INF_07_OneValueInTwoPlaces) {
  const std::string error = shapesOf("w = var {__shape__=(3,2)}; g = var; y = _scheduled_sgd_update(w, g, g)", {});
  EXPECT_EQ(error.substr(0, 52), "[infer_conflict] operator '_scheduled_sgd_update', n") << error;
}

// The default type of x makes y float16, and y tells the type of h: h has no default of its own.
TEST(Infer, INF_05_VariablesBesideAnUnknownTypeWait) {
  TestGraph g("x = var {__shape__=(3,)}; h = var; y = amp_cast(x) {dtype=float16};"
              "z = _identity_with_attr_like_rhs(h, y); heads z");
  Inference inference = cantFail(infer(g.context, g, {}, {}));
  EXPECT_EQ(inference.dtype[g.graph.entry(g.at("x"))], DType::Float32);
  EXPECT_EQ(inference.dtype[g.graph.entry(g.at("h"))], DType::Float16);
}

// x is read beside the head gradient of u, and that of c beside c: neither may wait for the other.
TEST(Infer, INF_07_HeadGradientsTakeTheTypesOfTheirOutputs) {
  TestGraph g("u = sin(x); c = amp_cast(x) {dtype=float16}; h = _identity_with_attr_like_rhs(hu, u);"
              "k = _identity_with_attr_like_rhs(hc, c); b = _backward_sin(h, x); heads c, b, k");
  InferOptions options;
  options.allowUnknown = true;
  const Inference inference = cantFail(infer(g.context, g, InferRequest(), options));
  auto type = [&](StringRef name) { return inference.dtype[g.graph.entry(g.at(name))]; };
  EXPECT_EQ(type("x"), DType::Float32);
  EXPECT_EQ(type("hu"), DType::Float32);
  EXPECT_EQ(type("hc"), DType::Float16);
}

TEST(Infer, INF_08_INF_09_GradientGraphsTakeTheForwardShapes) {
  TestGraph g("x = var {__shape__=(6,2)}; s = test_split3(x); y = exp(s:1)");
  Graph graph = gradientOf(g.context, g, {"x"}, 1).graph;
  Inference inference = cantFail(infer(g.context, graph, {}, {}));
  for (uint32_t n = 3; n < graph.numNodes(); ++n)
    EXPECT_EQ(toString(inference.shapeOf(graph.firstEntry(NodeId(n)))),
              graph.op(NodeId(n))->flags.isBackward ? "(6,2)" : "(2,2)");
}

TEST(Infer, INF_08_HiddenHeadsTakeTheForwardType) {
  TestGraph g("x = var {__shape__=(1,1,4,4)}; y = Pooling(x) {kernel=(2,2)}");
  Graph graph = gradientOf(g.context, g, {"x"}, 1).graph;
  Inference inference = cantFail(infer(g.context, graph, {}, {}));
  EXPECT_EQ(inference.numUnknownDTypes, 0u);
  EXPECT_EQ(inference.numUnknownShapes, 0u);
}

// A gradient node that follows `forward` though its rule makes no such operator, or none of that shape.
Expected<Inference> withBackwardNode(TestGraph &g, StringRef op, StringRef forward, std::vector<Value> inputs,
                                     std::initializer_list<AttrText> attrs = {}) {
  GraphBuilder builder(g.context, g.graph);
  const Attrs list = attrs.size() ? g.context.attrs(ArrayRef<AttrText>(attrs.begin(), attrs.size())) : Attrs();
  NodeId n = cantFail(builder.add(*g.context.ops.find(op), inputs, {"wrong", list, NodeId()}));
  builder.addControlDep(n, g.at(forward).node);
  Graph graph = cantFail(std::move(builder).freeze({g.graph.heads()[0], Value{n}}, {})).graph;
  return infer(g.context, graph, {}, {});
}

TEST(Infer, INF_08_E_56_BackwardNodeOfAnotherOperator) {
  TestGraph g("x = var {__shape__=(6,)}; y = elemwise_mul(x, x)");
  EXPECT_EQ(describeError(withBackwardNode(g, "_backward_copy", "y", {g.at("x")})),
            "[backward_match] node 'wrong' (_backward_copy) has node 'y' (elemwise_mul) as its forward node, whose "
            "gradient has no such operator");
}

TEST(Infer, INF_08_E_55_BackwardNodeOfAnotherShape) {
  TestGraph g("x = var {__shape__=(6,)}; w = var {__shape__=(5,)}; y = test_square(x); z = exp(w); heads y, z");
  EXPECT_EQ(describeError(withBackwardNode(g, "_backward_test_square", "y", {g.at("z"), g.at("z"), g.at("z")})),
            "[backward_attr] node 'wrong' (_backward_test_square) has shape (5,), its forward node has (6,)");
}

TEST(Infer, INF_08_E_55_BackwardNodeOfAnotherType) {
  TestGraph g("x = var {__shape__=(6,), __dtype__=float32}; w = var {__shape__=(6,), __dtype__=float64};"
              "y = test_square(x); z = exp(w); heads y, z");
  EXPECT_EQ(describeError(withBackwardNode(g, "_backward_test_square", "y", {g.at("z"), g.at("z"), g.at("z")})),
            "[backward_attr] node 'wrong' (_backward_test_square) has type float64, its forward node has float32");
}

// Whatever a backward node reads of its forward node has its shape, the operands as well as the head gradient.
TEST(Infer, INF_08_E_55_OperandOfAnotherShape) {
  TestGraph g("x = var {__shape__=(6,)}; w = var {__shape__=(5,)}; y = elemwise_mul(x, x); z = exp(w); heads y, z");
  EXPECT_EQ(describeError(withBackwardNode(g, "_backward_mul", "y", {g.at("y"), g.at("x"), g.at("z")})),
            "[backward_attr] node 'wrong' (_backward_mul) has shape (5,), its forward node has (6,)");
}

// Also where the forward node learns its shape after the backward node has all it needs.
TEST(Infer, INF_08_E_55_ForwardNodeThatLearnsItsShapeLater) {
  TestGraph g("w = var {__shape__=(5,)}; v = var {__shape__=(3,)}; dy = exp(v); y = Cast(x) {dtype=float32};"
              "heads y, dy, w");
  GraphBuilder builder(g.context, g.graph);
  NodeId n = cantFail(builder.add(*g.context.ops.find("_backward_cast"), {g.at("dy")},
                                  {"wrong", g.context.attrs({AttrText{"dtype", "float32"}}), NodeId()}));
  builder.addControlDep(n, g.at("y").node);
  Value sum{
      cantFail(builder.add(*g.context.ops.find("elemwise_add"), {g.at("y"), g.at("w")}, {"sum", Attrs(), NodeId()}))};
  Graph graph = cantFail(std::move(builder).freeze({Value{n}, sum}, {})).graph;
  EXPECT_EQ(describeError(infer(g.context, graph, {}, {})),
            "[backward_attr] node 'wrong' (_backward_cast) has shape (3,), its forward node has (5,)");
}

TEST(Infer, IR_19_E_56_BackwardNodeWithOtherAttributes) {
  TestGraph g("x = var {__shape__=(2,3)}; y = tile(x) {reps=(2,1)}");
  EXPECT_EQ(describeError(withBackwardNode(g, "_backward_tile", "y", {g.at("y")}, {{"reps", "(1,2)"}})),
            "[backward_match] node 'wrong' (_backward_tile) has reps=(1, 2), "
            "the gradient of node 'y' (tile) has reps=(2, 1)");
  EXPECT_EQ(
      describeError(withBackwardNode(g, "_backward_tile", "y", {g.at("y")}, {{"reps", "[2, 1]"}, {"note", "mine"}})),
      "success")
      << "other spellings and attributes that the operator does not declare are no difference";
}

TEST(Infer, IR_19_E_56_BackwardNodeOfAnOperatorWithoutGradient) {
  TestGraph g("x = var {__shape__=(2,3)}; y = ones_like(x)");
  EXPECT_EQ(describeError(withBackwardNode(g, "_backward_tile", "y", {g.at("y")}, {{"reps", "(1,2)"}})),
            "[backward_match] node 'wrong' (_backward_tile) has node 'y' (ones_like) as its forward node, "
            "whose gradient has no such operator");
}

TEST(Infer, E_50_MoreBytesThanATensorMayHave) {
  TestGraph g("x = var {__shape__=(35184372088833,), __dtype__=float64}; y = exp(x)");
  EXPECT_EQ(
      describeError(infer(g.context, g, {}, {})),
      "[infer_conflict] variable 'x': output 0 has shape (35184372088833,) of float64, expected at most 2^48 bytes");
  TestGraph fits("x = var {__shape__=(35184372088832,), __dtype__=float64}; y = exp(x)");
  EXPECT_EQ(describeError(infer(fits.context, fits, {}, {})), "success");
}

TEST(Infer, E_50_ShapesThatNoTensorCanHave) {
  TestGraph g("x = var {__shape__=(4294967296,4294967296)}; y = exp(x)");
  EXPECT_EQ(describeError(infer(g.context, g, {}, {})),
            "[infer_conflict] variable 'x' is given the shape (4294967296,4294967296), expected dimensions from 0 "
            "and at most 2^48 elements");
  TestGraph negative("x = var {__shape__=(2,-5)}; y = exp(x)");
  EXPECT_EQ(
      describeError(infer(negative.context, negative, {}, {})),
      "[infer_conflict] variable 'x' is given the shape (2,-5), expected dimensions from 0 and at most 2^48 elements");
  TestGraph hinted("y = exp(x)");
  InferRequest request;
  request.shapes.push_back({hinted.at("x").node, {-7}});
  EXPECT_EQ(
      describeError(infer(hinted.context, hinted, request, {})),
      "[infer_conflict] variable 'x' is given the shape (-7,), expected dimensions from 0 and at most 2^48 elements");
  // An annotation, as `infer` writes it.
  GraphAttrs attrs = graphAttrsOf(hinted.graph);
  attrs["shape"] = GraphAttr::ofShapes({{-7}, {-7}});
  EXPECT_EQ(
      describeError(infer(hinted.context, withGraphAttrs(hinted.graph, std::move(attrs)), {}, {})),
      "[infer_conflict] variable 'x' is given the shape (-7,), expected dimensions from 0 and at most 2^48 elements");
}

// Each adds a dimension; without a bound the time would be the square of their number.
TEST(Infer, E_50_TooManyDimensions) {
  auto chainOf = [](int length) {
    std::string text = "x = var; y0 = exp(x)";
    for (int i = 1; i <= length; ++i)
      text += ("; y" + Twine(i) + " = expand_dims(y" + Twine(i - 1) + ") {axis=0}").str();
    return text;
  };
  TestGraph fits(chainOf(64));
  InferRequest scalar;
  scalar.shapes.push_back({fits.at("x").node, {}});
  const Inference known = cantFail(infer(fits.context, fits, scalar, {}));
  EXPECT_EQ(known.shapeOf(fits.graph.entry(fits.graph.heads()[0])).rank(), 64u);
  TestGraph deep(chainOf(10000));
  scalar.shapes = {{deep.at("x").node, {}}};
  EXPECT_EQ(describeError(infer(deep.context, deep, scalar, {})),
            "[infer_conflict] operator 'expand_dims', node 'y65' (expand_dims): output 0 would have the shape (65 "
            "dimensions, more than 64), expected dimensions from 0 and at most 2^48 elements");
}

TEST(Infer, E_51_SparseStorageIsRefused) {
  TestGraph g("w = var {__shape__=(4,4), __storage_type__=2}; x = var {__shape__=(4,4)}; y = dot(x, w)");
  EXPECT_EQ(describeError(infer(g.context, g, {}, {})),
            "[storage] operator 'dot', node 'y' (dot): input 1, 'w', has storage csr, expected dense");
  TestGraph dense("w = var {__shape__=(4,4), __storage_type__=0}; y = exp(w)");
  EXPECT_EQ(describeError(infer(dense.context, dense, {}, {})), "success");
  // The graph attribute says the same of variables that have no such attribute.
  TestGraph annotated("w = var {__shape__=(4,4)}; y = exp(w)");
  auto inferWith = [](TestGraph &graph, std::vector<int64_t> codes) {
    GraphAttrs attrs = graphAttrsOf(graph);
    attrs["storage_type"] = GraphAttr::ofInts(std::move(codes));
    return describeError(infer(graph.context, withGraphAttrs(graph, std::move(attrs)), {}, {}));
  };
  EXPECT_EQ(inferWith(annotated, {1, 0}),
            "[storage] operator 'exp', node 'y' (exp): input 0, 'w', has storage row_sparse, expected dense");
  for (int64_t code : {-2, -1, 0, 3}) EXPECT_EQ(inferWith(annotated, {code, 2}), "success");
  EXPECT_EQ(inferWith(dense, {1, 0}), "success");
}

TEST(Infer, E_58_NamesWhatIsUnknown) {
  TestGraph g("a = var {__shape__=(2,-1)}; y = exp(a)");
  EXPECT_EQ(describeError(infer(g.context, g, {}, {})),
            "[infer_missing] shape of variable 'a' is known only as (2,?) after inference");
  TestGraph opaque("a = var {__shape__=(2,3)}; m = ?mystery(a); y = exp(m)");
  EXPECT_EQ(describeError(infer(opaque.context, opaque, {}, {})).substr(0, 69),
            "[unknown_op] inference cannot handle node 'm' (mystery): the operator");
}

TEST(Infer, INF_13_E_58_OperatorsThatSayNothingOfAnAttribute) {
  TestGraph shapeless("a = var {__shape__=(2,3)}; m = test_shapeless(a); y = exp(m); z = exp(a); heads y, z");
  EXPECT_EQ(describeError(infer(shapeless.context, shapeless, {}, {})),
            "[infer_missing] shape of node 'm' (test_shapeless) is known only as ? after inference of operator "
            "'test_shapeless'");
  TestGraph typeless("a = var {__shape__=(2,3)}; m = test_typeless(a); y = exp(m); z = exp(a); heads y, z");
  EXPECT_EQ(describeError(infer(typeless.context, typeless, {}, {})),
            "[infer_missing] dtype of node 'm' (test_typeless) is unknown after inference of operator 'test_typeless'");
  // What does not hang on it is inferred all the same.
  InferOptions options;
  options.allowUnknown = true;
  Inference partial = cantFail(infer(shapeless.context, shapeless, {}, options));
  EXPECT_EQ(partial.numUnknownShapes, 2u);
  EXPECT_EQ(toString(partial.shapeOf(shapeless.graph.entry(shapeless.at("z")))), "(2,3)");
}

// What the backward node reads is known at once, the forward node's shape only from what follows.
TEST(Infer, INF_08_E_55_ForwardShapesKnownLater) {
  TestGraph g("x = var {__shape__=(6,)}; dy = var {__shape__=(2,)}; z = var {__shape__=(6,)}; y = Reshape(x);"
              "w = exp(dy); s = elemwise_add(y, z); heads s, w");
  GraphBuilder builder(g.context, g.graph);
  NodeId n = cantFail(builder.add(*g.context.ops.find("_backward_reshape"), g.at("dy"), {"wrong", Attrs(), NodeId()}));
  builder.addControlDep(n, g.at("y").node);
  Graph graph = cantFail(std::move(builder).freeze({Value{n}, g.graph.heads()[0]}, {})).graph;
  ASSERT_LT(nodeNamed(graph, "wrong").value, nodeNamed(graph, "s").value) << "visited before y is known";
  EXPECT_EQ(describeError(infer(g.context, graph, {}, {})),
            "[backward_attr] node 'wrong' (_backward_reshape) has shape (2,), its forward node has (6,)");
}

}  // namespace
}  // namespace gradc
