// Every operator against what its definition promises: shapes, gradients of three orders, decompositions, requests,
// in-place pairs, pieces, precision. Samples are in tests/conformance_samples/.
#include "tests/support/conformance.h"

#include "passes/lower_mxnet.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

std::string join(const Problems &problems) {
  std::string text;
  for (const std::string &problem : problems) text += "  " + problem + "\n";
  return text;
}

// The sample and its gradient graphs, up to two orders, with values for every variable.
struct Orders {
  std::vector<Graph> graphs;
  Bindings bindings;

  Orders(Context &ctx, const SampleGraph &sample, uint32_t orders) : graphs{sample.graph}, bindings(sample.bindings) {
    std::vector<std::string> variables = sample.variables;
    for (uint32_t order = 1; order < orders && !variables.empty(); ++order) {
      Expected<NaiveRun> run = NaiveRun::run(graphs.back(), bindings, sample.options);
      if (!run) {
        consumeError(run.takeError());  // the gradient check reports it
        return;
      }
      for (size_t i = 0; i < graphs.back().heads().size(); ++i) {
        Array weights = run->value(graphs.back().heads()[i]);
        for (size_t k = 0; k < weights.values.size(); ++k) weights.values[k] = drawNumber(order, i + 10 * k);
        bindings["p" + std::to_string(order) + "_" + std::to_string(i)] = weights;
      }
      Expected<Graph> next = derivativeGraph(ctx, graphs.back(), variables, order);
      if (!next) {
        consumeError(next.takeError());
        return;
      }
      graphs.push_back(*next);
      llvm::erase_if(variables, [&](const std::string &name) {
        for (NodeId n : listInputs(graphs.back()).args)
          if (graphs.back().name(n) == name) return false;
        return true;
      });
    }
  }
};

class Conformance : public ::testing::TestWithParam<Sample> {
 protected:
  TestContext context;
};

TEST_P(Conformance, INF_Inference) {
  SampleGraph sample(context, GetParam());
  EXPECT_EQ(join(checkInference(sample)), "");
}

TEST_P(Conformance, RUN_03_HO_02_Gradients) {
  SampleGraph sample(context, GetParam());
  EXPECT_EQ(join(checkGradients(context, sample, GetParam().orders)), "");
}

TEST_P(Conformance, HO_01_Decompositions) {
  SampleGraph sample(context, GetParam());
  Orders orders(context, sample, 3);
  for (const Graph &graph : orders.graphs)
    EXPECT_EQ(join(checkDecompositions(context, graph, orders.bindings, sample.options)), "") << dump(graph);
}

TEST_P(Conformance, REQ_03_UnrequestedOutputsAreLeftAlone) {
  SampleGraph sample(context, GetParam());
  Orders orders(context, sample, 3);
  for (const Graph &graph : orders.graphs)
    EXPECT_EQ(join(checkRequests(graph, orders.bindings, sample.options)), "") << dump(graph);
}

TEST_P(Conformance, MEM_04_InplacePairs) {
  SampleGraph sample(context, GetParam());
  Orders orders(context, sample, 3);
  for (const Graph &graph : orders.graphs)
    EXPECT_EQ(join(checkInplace(graph, orders.bindings, sample.options)), "") << dump(graph);
}

TEST_P(Conformance, RUN_03_PiecesAtTheBasePoint) {
  SampleGraph sample(context, GetParam());
  Orders orders(context, sample, 2);
  for (const Graph &graph : orders.graphs)
    EXPECT_EQ(join(checkPieces(graph, orders.bindings, sample.options)), "") << dump(graph);
  // At a kink itself as well.
  for (auto &[name, array] : orders.bindings)
    for (size_t i = 0; i < array.values.size(); i += 2) array.values[i] = 0;
  if (!sample.graph.op(sample.node)->piece) return;
  for (const Graph &graph : orders.graphs)
    EXPECT_EQ(join(checkPieces(graph, orders.bindings, sample.options)), "") << dump(graph);
}

TEST_P(Conformance, A_14_LoweredToMxnet) {
  SampleGraph sample(context, GetParam());
  Orders orders(context, sample, 3);
  for (const Graph &graph : orders.graphs)
    EXPECT_EQ(join(checkLowering(context, graph, orders.bindings, sample.options)), "") << dump(graph);
}

TEST_P(Conformance, RUN_03_SinglePrecision) {
  SampleGraph sample(context, GetParam());
  Orders orders(context, sample, 2);
  for (const Graph &graph : orders.graphs)
    EXPECT_EQ(join(checkPrecision(graph, orders.bindings, sample.options)), "") << dump(graph);
}

std::string sampleName(const ::testing::TestParamInfo<Sample> &info) {
  std::string name = std::string(info.param.op) + "_" + std::to_string(info.index);
  llvm::erase_if(name, [](char c) { return !isAlnum(c) && c != '_'; });
  return name[0] == '_' ? "own" + name : name;
}

INSTANTIATE_TEST_SUITE_P(Samples, Conformance, ::testing::ValuesIn(allSamples()), sampleName);

// An operator with a gradient has samples of its own, or is what samples' gradients are made of.
TEST(ConformanceSamples, EveryDifferentiableOperatorIsSampled) {
  StringSet<> sampled;
  for (const Sample &row : allSamples()) {
    TestContext context;
    sampled.insert(row.op);
    SampleGraph sample(context, row);
    std::vector<Graph> graphs = Orders(context, sample, 4).graphs;
    if (graphs.size() > 1) {
      if (Expected<Graph> lowered = lowerToMxnet(context, graphs[1]))
        graphs.push_back(*lowered);
      else
        consumeError(lowered.takeError());
    }
    for (const Graph &graph : graphs)
      for (uint32_t n = 0; n < graph.numNodes(); ++n)
        if (const OpDef *op = graph.op(NodeId(n))) sampled.insert(op->name);
  }
  TestContext context;
  std::string missing;
  for (const OpDef *op : context.ops.all()) {
    const bool isDifferentiable = (op->gradient || op->decompose) && (op->inputs.names.count || op->inputs.number);
    if (isDifferentiable && !op->name.contains("test_") && !sampled.contains(op->name)) missing += op->name.str() + " ";
  }
  EXPECT_EQ(missing, "");
}

}  // namespace
}  // namespace gradc
