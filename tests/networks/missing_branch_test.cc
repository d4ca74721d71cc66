// A `_cond` without its second branch: the file says what is passed on in its place, and the node gets the body that
// yields it.
#include "ops/registry.h"
#include "passes/inference/infer.h"
#include "passes/lowering/lower_to.h"
#include "passes/unroll/unroll.h"
#include "tests/support/runs/loops.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc::testing {
namespace {

std::vector<AttrText> attrsOf(StringRef passed, StringRef numOutputs = "1") {
  return {{"num_args", "6"},
          {"num_outputs", numOutputs},
          {"cond_input_locs", "(0,)"},
          {"then_input_locs", "(1,2)"},
          {"else_input_locs", passed}};
}

// a·b² where p is not 0, else what is passed on.
std::vector<Graph> bodies() { return {body("d = _copy(p)"), body("q = square(b); y = elemwise_mul(a, q)")}; }

Graph lacking() { return around("_cond", {"p", "a", "b"}, attrsOf("(2,)"), bodies(), 1); }

Graph complete() {
  std::vector<Graph> all = bodies();
  all.push_back(body("heads passed"));
  return around("_cond", {"p", "a", "b"}, attrsOf("(2,)"), all, 1);
}

Floats valueOf(const Graph &graph, float p, Backend backend = Backend::Reference) {
  return run(graph, {{"p", floats({1}, {p})}, {"a", floats({2}, {2, 3})}, {"b", floats({2}, {5, 7})}}, backend)[0];
}

std::vector<Binding> at(double p) { return {{"p", {1}, {p}}, {"a", {2}, {2, 3}}, {"b", {2}, {5, 7}}}; }

TEST(MissingBranch, CF_09_PassesItsInputsOn) {
  for (Backend backend : {Backend::Reference, Backend::Auto}) {
    EXPECT_EQ(valueOf(lacking(), 1, backend), (Floats{50, 147}));
    EXPECT_EQ(valueOf(lacking(), 0, backend), (Floats{5, 7}));
  }
  // In another order, and one of them twice.
  const Graph several = around("_cond", {"p", "a", "b"}, attrsOf("(2,1,2)", "3"),
                               {body("d = _copy(p)"), body("q = square(b); y = elemwise_mul(a, q); heads y, q, b")}, 3);
  const std::vector<NamedArray> arrays = {
      {"p", floats({1}, {0})}, {"a", floats({2}, {2, 3})}, {"b", floats({2}, {5, 7})}};
  EXPECT_EQ(run(several, arrays), (Tensors{{5, 7}, {2, 3}, {5, 7}}));
}

TEST(MissingBranch, CF_22_IsABodyOfVariables) {
  const Graph graph = lacking();
  const NodeId loop = nodeNamed(graph, "loop");
  ASSERT_EQ(graph.bodies(loop).size(), 3u);
  const Graph &made = graph.bodies(loop)[2];
  EXPECT_EQ(made.numNodes(), 1u);
  EXPECT_TRUE(made.isVariable(NodeId(0)));
  // A file of two sub-graphs reads as one of three, and is written as that.
  const Graph read = loopFile("lacking_branch");
  EXPECT_EQ(read.bodies(NodeId(3)).size(), 3u);
  EXPECT_EQ(dump(read), dump(graph));
  const std::string text = written(read);
  const Graph again = cantFail(readJson(testContext(), text, ReadOptions())).graph;
  EXPECT_EQ(again, read);
  EXPECT_EQ(written(again), text);
}

TEST(MissingBranch, INF_16_E_29_InferenceGoesThroughIt) {
  const Graph graph = lacking();
  auto inferred = [&](std::vector<ShapeHint> shapes) {
    return infer(testContext(), graph, {std::move(shapes), {}}, {});
  };
  const NodeId a = nodeNamed(graph, "a"), b = nodeNamed(graph, "b");
  const Inference known = cantFail(inferred({{b, {2, 3}}, {nodeNamed(graph, "p"), {1}}}));
  EXPECT_EQ(toString(known.shapeOf(graph.entry(Value{a}))), "(2,3)");
  EXPECT_EQ(toString(known.shapeOf(graph.entry(graph.heads()[0]))), "(2,3)");
  const Graph longer = around("_cond", {"p", "a", "b"}, attrsOf("(2,)"),
                              {body("d = _copy(p)"), body("y = Concat(a, b) {num_args=2, dim=0}")}, 1);
  const std::vector<ShapeHint> hints = {
      {nodeNamed(longer, "p"), {1}}, {nodeNamed(longer, "a"), {1}}, {nodeNamed(longer, "b"), {2}}};
  EXPECT_EQ(describeError(infer(testContext(), longer, {hints, {}}, {})),
            "[control_flow_attr] operator '_cond', node 'loop' (_cond): variable 'in0' of body 2 has shape (2,), but "
            "output 0 has (3,), as determined by the other branch or by a reader");
}

TEST(MissingBranch, CF_09_CF_19_GradientsPassItToo) {
  EXPECT_EQ(run(gradientOf(lacking(), {"a", "b", "p"}), at(1)), (std::vector<Doubles>{{25, 49}, {20, 42}, {0}}));
  EXPECT_EQ(run(gradientOf(lacking(), {"a", "b", "p"}), at(0)), (std::vector<Doubles>{{0, 0}, {1, 1}, {0}}));
  // Squared, so that what is passed on has a second order too.
  const Graph graph = lacking();
  GraphBuilder builder(testContext(), graph);
  const NodeId square =
      cantFail(builder.add(*testContext().ops.find("square"), {graph.heads()[0]}, {"squared", {}, {}}));
  const Graph squared = cantFail(std::move(builder).freeze({Value{square}}, {})).graph;
  for (double p : {1., 0.})
    for (uint32_t order : {1, 2}) {
      EXPECT_EQ(run(gradientOf(lacking(), {"a", "b"}, order), at(p)),
                run(gradientOf(complete(), {"a", "b"}, order), at(p)));
      expectDerivative(squared, at(p), order);
    }
}

TEST(MissingBranch, A_17_CF_09_InliningAndLowering) {
  // A choice that is known.
  Context &context = testContext();
  for (int choice : {0, 1}) {
    GraphBuilder builder(context);
    const NodeId p = cantFail(builder.add(*context.ops.find("_full"), {},
                                          {"p", context.attrs({{"shape", "(1,)"}, {"value", choice ? "1" : "0"}})}));
    const Value a = builder.addVariable("a", Attrs()), b = builder.addVariable("b", Attrs());
    const NodeId n = cantFail(builder.add(*context.ops.find("_cond"), {Value{p}, a, b},
                                          {"loop", context.attrs(attrsOf("(2,)")), NodeId(), bodies()}));
    const Graph graph = cantFail(std::move(builder).freeze({Value{n}}, {})).graph;
    const Inference known = cantFail(infer(context, graph, {{{a.node, {2}}}, {}}, {}));
    UnrollOptions options;
    options.known = &known;
    options.rowOps = builtinRowOps();
    const Unrolled flat = cantFail(inlineCalls(context, graph, options));
    EXPECT_EQ(dump(flat.graph),
              choice ? "loop/q = square(b)\nloop/y = elemwise_mul(a, loop/q)\nheads loop/y\n" : "heads b\n");
  }
  for (const Target *target : {&kPrimitivesTarget, &kMxnetTarget}) {
    InferRequest hints{{{nodeNamed(lacking(), "p"), {1}}, {nodeNamed(lacking(), "a"), {2}}}, {}};
    const Inference known = cantFail(infer(context, lacking(), hints, {}));
    const Graph lowered = cantFail(lowerTo(context, lacking(), *target, &known));
    EXPECT_EQ(valueOf(lowered, 1), (Floats{50, 147}));
    EXPECT_EQ(valueOf(lowered, 0), (Floats{5, 7}));
  }
}

TEST(MissingBranch, BadCounts) {
  auto refused = [](ArrayRef<AttrText> attrs, ArrayRef<Graph> given) { return refusal("_cond", attrs, given); };
  const std::vector<Graph> two = bodies();
  EXPECT_EQ(refused(attrsOf("(2,)"), two), "success");
  EXPECT_EQ(refused(attrsOf("()"), two),
            "[bad_attribute] attribute 'else_input_locs' has 0 elements, expected 1, one for each output, since body 2 "
            "is missing");
  EXPECT_EQ(refused(attrsOf("(2,1)"), two),
            "[bad_attribute] attribute 'else_input_locs' has 2 elements, expected 1, one for each output, since body 2 "
            "is missing");
  EXPECT_EQ(refused(attrsOf("(3,)"), two),
            "[bad_attribute] element 0 of attribute 'else_input_locs' is 3, expected an input of the node, 0 to 3 "
            "exclusive");
  EXPECT_EQ(refused(attrsOf("(-1,)"), two),
            "[bad_attribute] element 0 of attribute 'else_input_locs' is -1, expected an input of the node, 0 to 3 "
            "exclusive");
  EXPECT_EQ(refused(attrsOf("(2,)"), two[0]), "[bad_attribute] operator '_cond' takes more bodies than the 1 given");
  EXPECT_EQ(refused(attrsOf("(2,)"), {}), "[bad_attribute] operator '_cond' takes more bodies than the 0 given");
  EXPECT_EQ(refused(attrsOf("(2,)"), {two[1], two[0]}),
            "[bad_attribute] attribute 'cond_input_locs' has 1 element, expected 2, one for each input of body 0");
  // What a gradient added: the branch that is missing added nothing.
  std::vector<AttrText> saved = attrsOf("(2,)");
  saved.push_back({"__saved__", "(0,1)"});
  EXPECT_EQ(refused(saved, two),
            "[bad_attribute] attribute 'else_input_locs' has 1 element, expected 2, one for each output, since body 2 "
            "is missing");
  saved.back().value = "(0,0)";
  EXPECT_EQ(refused(saved, two), "success");
}

}  // namespace
}  // namespace gradc::testing
