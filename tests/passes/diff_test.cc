// Structural comparison (settled: "Structurally equal").
#include "tools/diff/diff.h"

#include "ir/graph/graph_builder.h"
#include "ops/registry.h"

#include "gtest/gtest.h"

using namespace llvm;

namespace gradc {
namespace {

class Diff : public ::testing::Test {
 protected:
  Diff() { registerBuiltinOps(context.ops); }

  /// fc = FullyConnected(x, w, b) {attrs}, under the given operator spelling and names.
  struct Layer {
    StringRef name = "fc";
    StringRef weight = "w";
    std::vector<AttrText> attrs = {{"num_hidden", "4"}};
    bool swapsInputs = false;
    bool hasActivation = false;
    StringRef activation = "relu";
  };

  Graph build(const Layer &layer) {
    GraphBuilder builder(context);
    Value x = builder.addVariable("x", Attrs());
    Value w = builder.addVariable(layer.weight, Attrs());
    Value b = builder.addVariable("b", Attrs());
    if (layer.swapsInputs) std::swap(w, b);
    Attrs attrs = context.attrs(ArrayRef<AttrText>(layer.attrs));
    NodeId fc = cantFail(builder.add(*context.ops.find("FullyConnected"), {x, w, b}, {layer.name, attrs, NodeId()}));
    if (layer.hasActivation) {
      AttrText text{"act_type", layer.activation};
      fc = cantFail(builder.add(*context.ops.find("Activation"), {Value{fc}},
                                {"act", context.attrs(ArrayRef<AttrText>(text)), NodeId()}));
    }
    return cantFail(std::move(builder).freeze({Value{fc}}, {})).graph;
  }

  std::vector<std::string> texts(const Layer &left, const Layer &right, const DiffOptions &options) {
    std::vector<std::string> list;
    for (const Difference &difference : diffGraphs(build(left), build(right), options).differences)
      list.push_back(difference.text);
    return list;
  }
  std::vector<std::string> texts(const Layer &left, const Layer &right) { return texts(left, right, DiffOptions()); }

  using Texts = std::vector<std::string>;
  Context context;
};

TEST_F(Diff, EqualGraphsHaveNoDifference) { EXPECT_EQ(texts({}, {}), Texts()); }

TEST_F(Diff, DefaultsAreFilledIn) {
  Layer spelled;
  spelled.attrs = {{"num_hidden", "4"}, {"no_bias", "false"}, {"flatten", "1"}};
  EXPECT_EQ(texts({}, spelled), Texts());
}

TEST_F(Diff, AttributesCompareInCanonicalSpelling) {
  Layer other;
  other.attrs = {{"num_hidden", "5"}};
  EXPECT_EQ(texts({}, other),
            Texts{"node 'fc' (FullyConnected): attribute 'num_hidden' is '4' on the left, '5' on the right"});
}

TEST_F(Diff, HiddenAttributesCompareAsText) {
  Layer left, right;
  left.attrs = {{"num_hidden", "4"}, {"__lr_mult__", "2"}, {"__same__", "a"}};
  right.attrs = {{"num_hidden", "4"}, {"__same__", "b"}, {"__wd_mult__", "0"}};
  EXPECT_EQ(texts(left, right),
            (Texts{"node 'fc' (FullyConnected): attribute '__lr_mult__' is '2' on the left, absent on the right",
                   "node 'fc' (FullyConnected): attribute '__same__' is 'a' on the left, 'b' on the right",
                   "node 'fc' (FullyConnected): attribute '__wd_mult__' is '0' on the right, absent on the left"}));
}

TEST_F(Diff, NamesCountUnlessIgnored) {
  Layer renamed;
  renamed.name = "dense";
  renamed.weight = "kernel";
  EXPECT_EQ(texts({}, renamed), (Texts{"node 'fc' (FullyConnected) on the left is called 'dense' on the right",
                                       "variable 'w' on the left is called 'kernel' on the right"}));
  DiffOptions ignoring;
  ignoring.ignoreNames = true;
  EXPECT_EQ(texts({}, renamed, ignoring), Texts());
}

TEST_F(Diff, SwappedInputsAreSeenByName) {
  Layer swapped;
  swapped.swapsInputs = true;
  EXPECT_EQ(texts({}, swapped), (Texts{"variable 'w' on the left is called 'b' on the right",
                                       "variable 'b' on the left is called 'w' on the right"}));
}

TEST_F(Diff, AnInsertedNodeIsOneDifference) {
  Layer longer;
  longer.hasActivation = true;
  EXPECT_EQ(texts({}, longer), Texts{"node 'fc' (FullyConnected) on the left, node 'act' (Activation) on the right"});
}

TEST_F(Diff, SharingDiffers) {
  auto sum = [&](bool isShared) {
    GraphBuilder builder(context);
    Value x = builder.addVariable("x", Attrs());
    Value y = isShared ? x : builder.addVariable("x", Attrs());
    NodeId node = cantFail(builder.add(*context.ops.find("elemwise_add"), {x, y}, {"s", Attrs(), NodeId()}));
    return cantFail(std::move(builder).freeze({Value{node}}, {})).graph;
  };
  DiffResult result = diffGraphs(sum(true), sum(false), DiffOptions());
  ASSERT_EQ(result.numDifferences, 1u);
  EXPECT_NE(result.differences[0].text.find("input 1"), std::string::npos) << result.differences[0].text;
}

TEST_F(Diff, AliasesAreOneOperator) {
  auto graph = [&](StringRef spelling) {
    const OpDef *op = context.ops.find("elemwise_add");
    GraphBuilder builder(context);
    Value x = builder.addVariable("x", Attrs());
    KindRef kind = cantFail(context.kind(*op, Attrs(), spelling));
    NodeId node = builder.addKind(kind, {x, x}, NodeId());
    return cantFail(std::move(builder).freeze({Value{node}}, {})).graph;
  };
  ArrayRef<StringRef> aliases = context.ops.find("elemwise_add")->aliases;
  ASSERT_FALSE(aliases.empty());
  EXPECT_EQ(diffGraphs(graph("elemwise_add"), graph(aliases[0]), DiffOptions()).numDifferences, 0u);
}

TEST_F(Diff, UnknownOperatorsDifferInTheirOutputs) {
  auto build = [&](uint32_t numOutputs) {
    GraphBuilder builder(context);
    const Value x = builder.addVariable("x", Attrs());
    const KindId kind = builder.kindId(cantFail(context.opaqueKind("odd", Attrs(), numOutputs)));
    const NodeId n = builder.addKind(kind, {x}, NodeId());
    builder.setName(n, "y", "");
    return cantFail(std::move(builder).freeze({Value{n}}, {})).graph;
  };
  EXPECT_EQ(diffGraphs(build(2), build(2), {}).numDifferences, 0u);
  const DiffResult result = diffGraphs(build(1), build(2), {});
  ASSERT_EQ(result.differences.size(), 1u);
  EXPECT_EQ(result.differences[0].text, "node 'y' (odd): number of outputs: 1 on the left, 2 on the right");
}

TEST_F(Diff, CountsBeyondTheLimit) {
  Layer renamed;
  renamed.name = "dense";
  renamed.weight = "kernel";
  DiffOptions one;
  one.limit = 1;
  DiffResult result = diffGraphs(build({}), build(renamed), one);
  EXPECT_EQ(result.differences.size(), 1u);
  EXPECT_EQ(result.numDifferences, 2u);
}

TEST_F(Diff, DeepChainsNeedNoStack) {
  auto chain = [&] {
    GraphBuilder builder(context);
    Value at = builder.addVariable("x", Attrs());
    KindRef kind = cantFail(context.kind(*context.ops.find("tanh"), Attrs()));
    for (int i = 0; i < 200000; ++i) at = Value{builder.addKind(kind, {at}, NodeId())};
    return cantFail(std::move(builder).freeze({at}, {})).graph;
  };
  EXPECT_EQ(diffGraphs(chain(), chain(), DiffOptions()).numDifferences, 0u);
}

}  // namespace
}  // namespace gradc
