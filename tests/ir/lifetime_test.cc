// What graphs keep alive and what they leave behind, in one thread and in several (A-18). Run under the address
// sanitizer for uses after free and for leaks, under the thread sanitizer (`./dev test --tsan lifetime`) for races.
#include "formats/json/reader.h"
#include "ir/graph/graph_builder.h"
#include "passes/gradient/gradient.h"
#include "passes/gradient/higher_order/higher_order.h"
#include "passes/inference/infer.h"
#include "passes/memory/plan_memory.h"
#include "passes/order/order_mutation.h"
#include "passes/order/requests.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>

#include <malloc.h>
#include <memory>
#include <thread>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

/// A network, read from text, whose names, attributes, shapes, bodies and unknown operator occur in no other round. It
/// ends in a loop over the rows.
std::string networkOf(uint64_t round) {
  // $ is the number of the round.
  StringRef text = R"js({"nodes": [
    {"op": "null", "name": "x$", "attrs": {"__shape__": "(2,$)"}, "inputs": []},
    {"op": "null", "name": "w", "inputs": []},
    {"op": "null", "name": "b", "inputs": []},
    {"op": "FullyConnected", "name": "fc$", "attrs": {"num_hidden": "3", "__tag__": "$"},
     "inputs": [[0, 0, 0], [1, 0, 0], [2, 0, 0]]},
    {"op": "relu", "name": "r$", "inputs": [[3, 0, 0]], "subgraphs": [{"nodes": [
      {"op": "null", "name": "i$", "inputs": []},
      {"op": "vendor$", "name": "j", "attrs": {"k": "$"}, "inputs": [[0, 0, 0]]}],
      "arg_nodes": [0], "heads": [[1, 0, 0]]}]},
    {"op": "null", "name": "s$", "attrs": {"__shape__": "(3,)"}, "inputs": []},
    {"op": "_foreach", "name": "loop$", "attrs": {"num_args": "3", "num_outputs": "2", "num_out_data": "1",
      "in_data_locs": "(0,)", "in_state_locs": "(1,)", "remain_locs": "()", "__tag__": "loop $"},
     "inputs": [[4, 0, 0], [5, 0, 0]], "subgraphs": [{"nodes": [
      {"op": "null", "name": "row$", "inputs": []},
      {"op": "null", "name": "state$", "inputs": []},
      {"op": "elemwise_mul", "name": "step$", "inputs": [[0, 0, 0], [1, 0, 0]]}],
      "arg_nodes": [0, 1], "heads": [[2, 0, 0], [2, 0, 0]]}]}],
    "arg_nodes": [0, 1, 2, 5], "heads": [[6, 0, 0], [6, 1, 0]]})js";
  SmallVector<StringRef, 16> parts;
  text.split(parts, '$');
  return join(parts, std::to_string(round + 1));
}

/// Reads, differentiates twice, orders, infers, plans; what is left is text.
std::string compile(Context &context, uint64_t round) {
  const LoadedGraph loaded = cantFail(readJson(context, networkOf(round), ReadOptions()));
  GradientRequest request;
  request.wrt = allTargets(loaded.graph, nullptr).targets;
  const GradientResult gradient = cantFail(buildGradientOfOrder(context, loaded.graph, request, GradientOptions(), 2));
  const Graph graph = cantFail(orderMutations(context, gradient.graph, OverwrittenPolicy::Save)).graph;
  const Inference inference = cantFail(infer(context, graph, {}, {}));
  const MemoryPlan plan = cantFail(planMemory(context, graph, inference, countRequests(graph, {}), PlanOptions()));
  return written(annotate(graph, inference)) + std::to_string(plan.plannedBytes);
}

bool isEmpty(const Context &context) { return context.usage() == Context::Usage(); }

TEST(Lifetime, A_18_GraphsOutliveTheirContext) {
  auto context = std::make_unique<TestContext>();
  LoadedGraph loaded = cantFail(readJson(*context, networkOf(7), ReadOptions()));
  const std::string before = written(loaded.graph);
  Graph body = loaded.graph.bodies(nodeNamed(loaded.graph, "r8"))[0];
  context.reset();
  EXPECT_EQ(written(loaded.graph), before);
  loaded.graph = Graph();
  EXPECT_EQ(body.opName(NodeId(1)), "vendor8");
  EXPECT_EQ(body.attrs(NodeId(1)).get("k"), StringRef("8"));
}

TEST(Lifetime, A_18_TheLastGraphFreesEverything) {
  TestContext context;
  Graph kept = cantFail(readJson(context, networkOf(1), ReadOptions())).graph;
  const Context::Usage usage = context.usage();
  EXPECT_EQ(usage.bodies, 2u);
  EXPECT_EQ(usage.opaqueOps, 1u);
  EXPECT_EQ(usage.attrLists, 5u) << "of x, s, fc, the loop and the node in the first body";
  compile(context, 1);
  compile(context, 2);
  EXPECT_EQ(context.usage(), usage) << "what other graphs referred to is gone, what this one refers to is shared";
  kept = Graph();
  EXPECT_TRUE(isEmpty(context));
}

TEST(Lifetime, A_18_EqualThingsOfTwoContextsAreEqual) {
  TestContext one, two;
  const Graph graph = cantFail(readJson(one, networkOf(3), ReadOptions())).graph;
  const Graph same = cantFail(readJson(two, networkOf(3), ReadOptions())).graph;
  EXPECT_TRUE(graph == same);
  EXPECT_FALSE(graph == cantFail(readJson(two, networkOf(4), ReadOptions())).graph);
}

// A long-lived process: with fresh names, attributes, shapes and bodies in each round, the heap does not grow.
TEST(Lifetime, A_18_RoundsLeaveTheHeapAsItWas) {
  if (mallinfo2().uordblks == 0) GTEST_SKIP() << "a sanitizer has the heap";
  TestContext context;
  // On a thread of its own: what malloc keeps at hand for a thread counts as used until the thread ends.
  auto heapAfter = [&, round = uint64_t{0}](uint64_t rounds) mutable {
    std::thread([&] {
      while (round < rounds) compile(context, round++);
    }).join();
    return mallinfo2().uordblks;
  };
  const size_t early = heapAfter(1000), late = heapAfter(100000);
  EXPECT_TRUE(isEmpty(context));
  EXPECT_LE(late, early + early / 100) << early << " bytes after 1,000 rounds, " << late << " after 100,000";
}

TEST(Lifetime, A_18_ThreadsCompileInOneContext) {
  constexpr uint64_t kThreads = 4, kRounds = 200;
  TestContext alone, shared;
  std::vector<std::vector<std::string>> results(kThreads);
  std::vector<std::thread> threads;
  for (std::vector<std::string> &result : results)
    threads.emplace_back([&] {
      // All go through the same rounds, so that they meet over equal attribute lists, kinds and bodies.
      for (uint64_t round = 0; round < kRounds; ++round) result.push_back(compile(shared, round));
    });
  for (std::thread &thread : threads) thread.join();
  EXPECT_TRUE(isEmpty(shared));
  for (uint64_t round = 0; round < kRounds; ++round)
    for (const std::vector<std::string> &result : results) ASSERT_EQ(result[round], compile(alone, round)) << round;
}

// Threads read one graph, and drop their handles to it, while others compile.
TEST(Lifetime, A_18_ThreadsReadOneGraph) {
  TestContext context;
  for (uint64_t round = 0; round < 50; ++round) {
    Graph graph = cantFail(readJson(context, networkOf(round), ReadOptions())).graph;
    std::vector<std::thread> threads;
    std::vector<std::string> texts(4);
    for (std::string &text : texts)
      threads.emplace_back([&text, &context, mine = graph]() mutable {
        const Inference inference = cantFail(infer(context, mine, {}, {}));
        text = written(annotate(mine, inference));
        mine = Graph();
      });
    graph = Graph();
    for (std::thread &thread : threads) thread.join();
    for (const std::string &text : texts) EXPECT_EQ(text, texts[0]);
    EXPECT_TRUE(isEmpty(context));
  }
}

}  // namespace
}  // namespace gradc
