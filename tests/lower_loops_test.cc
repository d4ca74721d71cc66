// Loops, branches and calls in the operators of a target: bodies are lowered, a `_foreach` is a `_scan` of the primitives, a
// call is what it calls, and the attributes follow where lowering changed what a body is given.
#include "ir/bodies.h"
#include "ir/body_flow.h"
#include "ir/graph_builder.h"
#include "ir/verify.h"
#include "passes/gradient/gradient.h"
#include "passes/targets/lower_to.h"
#include "runtime/session.h"
#include "tests/support/small_ops.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace llvm;

namespace gradc::testing {
namespace {

using Doubles = std::vector<double>;

struct File {
  StringRef name;
  std::vector<std::pair<StringRef, Doubles>> vectors;  // each of its own length
  std::vector<StringRef> wrt;
};
const File kFiles[] = {
    {"cf03", {{"x", {0.5, -1, 2}}, {"s", {0.25}}, {"f", {1}}}, {"x", "s", "f"}},
    {"cf12", {{"x", {0.5, -0.25}}, {"h", {0.1}}, {"w", {0.8}}}, {"x", "h", "w"}},
    {"powers", {{"x", {2}}, {"i", {0.5}}, {"w", {1.5}}}, {"x", "w"}},
    {"squares", {{"x", {1.1}}, {"i", {0.5}}}, {"x"}},
    {"cond", {{"p", {1}}, {"a", {2}}, {"b", {3}}, {"c", {5}}}, {"a", "b", "c"}},
    {"cond", {{"p", {-1}}, {"a", {2}}, {"b", {3}}, {"c", {5}}}, {"a", "b", "c"}},
};

std::vector<Doubles> run(const Graph &graph, const File &file) {
  SessionOptions options;
  options.exec.backend = Backend::Reference;
  options.infer.floatAs = DType::Float64;
  std::vector<NamedArray> arrays;
  for (const auto &[name, values] : file.vectors)
    arrays.push_back({name.str(), doubles({static_cast<int64_t>(values.size())}, values)});
  Session session = cantFail(Session::create(testContext(), graph, std::move(arrays), options));
  cantFail(session.run(0));
  std::vector<Doubles> heads;
  for (size_t i = 0; i < graph.heads().size(); ++i) heads.push_back(valuesOf<double>(session.head(i)));
  return heads;
}

void expectPrimitives(const Graph &graph) {
  for (const NestedGraph &nested : nestedGraphs(graph))
    for (const KindRef &kind : nested.graph.kinds())
      EXPECT_TRUE(kind->isVariable() || kind->op->primitive) << kind->op->name.str();
}

TEST(LowerLoops, A_17_A_19_GradientsOfLoopsInPrimitives) {
  for (const File &file : kFiles)
    for (uint32_t order : {1, 2}) {
      const Graph loop = cantFail(readJson(testContext(), readTestFile(("testdata/loops/" + file.name + ".json").str()),
                                           ReadOptions()))
                             .graph;
      GradientRequest request;
      for (StringRef name : file.wrt) request.wrt.push_back({Value{nodeNamed(loop, name)}});
      GradientOptions options;
      options.headPolicy = HeadPolicy::Ones;
      const Graph graph = cantFail(buildGradientOfOrder(testContext(), loop, request, options, order)).graph;
      const Graph lowered = cantFail(lowerTo(testContext(), graph, kPrimitivesTarget, nullptr));
      EXPECT_EQ(describeError(verifyGraph(lowered, 5)), "success");
      expectPrimitives(lowered);
      const std::vector<Doubles> expected = run(graph, file), found = run(lowered, file);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t h = 0; h < found.size(); ++h) {
        ASSERT_EQ(found[h].size(), expected[h].size());
        for (size_t i = 0; i < found[h].size(); ++i)
          EXPECT_NEAR(found[h][i], expected[h][i], 1e-12 * std::max(1.0, std::abs(expected[h][i])))
              << file.name.str() << ", order " << order << ", head " << h;
      }
    }
}

Graph body(StringRef text) { return cantFail(parseGraph(testContext(), text)); }
Graph around(StringRef op, ArrayRef<StringRef> inputs, ArrayRef<AttrText> attrs, const Graph &inner, size_t numHeads) {
  Context &context = testContext();
  GraphBuilder builder(context);
  SmallVector<Value, 8> operands, heads;
  for (StringRef name : inputs) operands.push_back(builder.addVariable(name, Attrs()));
  const NodeId n =
      cantFail(builder.add(*context.ops.find(op), operands, {"loop", context.attrs(attrs), NodeId(), inner}));
  for (size_t i = 0; i < numHeads; ++i) heads.push_back(Value{n, static_cast<uint16_t>(i), 0});
  return cantFail(std::move(builder).freeze(heads, {})).graph;
}

TEST(LowerLoops, A_17_ACallIsWhatItCalls) {
  const Graph inner = around("_call", {"p", "q"}, {{"num_args", "2"}, {"num_outputs", "1"}, {"input_locs", "(1, 0)"}},
                             body("y = elemwise_sub(b, a)"), 1);
  const Graph graph = around("_call", {"a", "b"}, {{"num_args", "2"}, {"num_outputs", "2"}},
                             body("y = elemwise_sub(p, q); heads y, q"), 2);
  EXPECT_EQ(dump(cantFail(lowerTo(testContext(), inner, kMxnetTarget, nullptr))),
            "loop = elemwise_sub(q, p)\nheads loop\n");
  EXPECT_EQ(dump(cantFail(lowerTo(testContext(), graph, kMxnetTarget, nullptr))),
            "loop = elemwise_sub(a, b)\nheads loop, b\n");
}

// A call in a body reads what it is given in another order, so the body comes to its inputs in that order once it is inlined.
TEST(LowerLoops, A_17_AttributesFollowTheInputsOfABody) {
  const Graph call = around("_call", {"s", "r"}, {{"num_args", "2"}, {"num_outputs", "1"}, {"input_locs", "(1, 0)"}},
                            body("t = _mul_scalar(x) {scalar=3}; y = elemwise_sub(t, z)"), 1);
  const File file{"", {{"x", {1, 2, 4}}, {"s", {0.5}}}, {}};
  const Graph scan = around(
      "_scan", {"x", "s"},
      {{"num_args", "2"}, {"num_data", "1"}, {"num_states", "1"}, {"num_out_data", "0"}, {"input_locs", "(1, 0)"}},
      call, 1);
  const Graph lowered = cantFail(lowerTo(testContext(), scan, kPrimitivesTarget, nullptr));
  expectPrimitives(lowered);
  const Graph &inside = lowered.bodies(lowered.heads()[0].node)[0];
  EXPECT_EQ(inside.name(bodyInputs(inside)[0]), "r");
  EXPECT_EQ(run(lowered, file), run(scan, file));
  EXPECT_EQ(run(scan, file), (std::vector<Doubles>{{3 * 4 - (3 * 2 - (3 * 1 - 0.5))}}));
  const Graph loop = around("_foreach", {"x", "s"},
                            {{"num_args", "3"},
                             {"num_outputs", "1"},
                             {"num_out_data", "0"},
                             {"in_data_locs", "[1]"},
                             {"in_state_locs", "[0]"},
                             {"remain_locs", "[]"}},
                            call, 1);
  EXPECT_EQ(run(cantFail(lowerTo(testContext(), loop, kPrimitivesTarget, nullptr)), file), run(scan, file));
  const Graph mxnet = cantFail(lowerTo(testContext(), loop, kMxnetTarget, nullptr));
  EXPECT_EQ(mxnet.opName(mxnet.heads()[0].node), "_foreach");
  EXPECT_EQ(run(mxnet, file), run(scan, file));
}

}  // namespace
}  // namespace gradc::testing
