// Each allocation of each entry fails, once and for all: an error every time, nothing left behind, and the same result
// as before when there is memory again. What runs is in allocation_run_test.cc.
#include "formats/blocks/graph/graph_of_blocks.h"
#include "formats/json/reader.h"
#include "ir/base/out_of_memory.h"
#include "ir/rules/verify.h"
#include "passes/gradient/gradient.h"
#include "passes/gradient/higher_order/higher_order.h"
#include "passes/gradient/higher_order/mark_inside.h"
#include "passes/inference/infer.h"
#include "passes/lowering/lower_to.h"
#include "passes/memory/lifetimes.h"
#include "passes/memory/plan_memory.h"
#include "passes/optimizer/append_optimizer.h"
#include "passes/order/order_mutation.h"
#include "passes/order/split_gradient.h"
#include "passes/targets/target.h"
#include "runtime/arrays/npz_reader.h"
#include "runtime/arrays/npz_writer.h"
#include "tests/support/blocks/block_programs.h"
#include "tests/support/runs/fail_each.h"
#include "tests/support/test_graph.h"
#include "tests/support/tool.h"

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

// Batch norm has auxiliary states, dropout draws, `h` is read twice.
constexpr StringRef kNet =
    "data = var {__shape__=(4,2)}; h = FullyConnected(data, fc1_weight, fc1_bias) {num_hidden=8};"
    "n = BatchNorm(h, bn_gamma, bn_beta, bn_mean, bn_var) {fix_gamma=False}; r = Activation(n) {act_type=relu};"
    "d = Dropout(r) {p=0.25}; s = elemwise_add(d, h); o = FullyConnected(s, fc2_weight, fc2_bias) {num_hidden=3};"
    "y = SoftmaxOutput(o, label)";

struct Compiled {
  Graph graph;
  Inference inference;
  RequestTable requests;
  MemoryPlan plan;
};

Compiled compiled(Context &context, const Graph &forward) {
  GradientRequest request;
  request.wrt = allTargets(forward, nullptr).targets;
  Compiled done;
  done.graph = must(buildGradient(context, forward, request, GradientOptions())).graph;
  done.inference = must(infer(context, done.graph, {}, {}));
  done.requests = countRequests(done.graph, {});
  done.plan = must(planMemory(context, done.graph, done.inference, done.requests, PlanOptions()));
  return done;
}

// ---- compiling

class Allocation : public ::testing::Test {
 protected:
  TestGraph g{kNet};
};

TEST_F(Allocation, ReadingAGraph) {
  std::vector<std::string> texts;
  const Compiled done = compiled(g.context, g);
  texts.push_back(written(annotatePlan(annotate(done.graph, done.inference), done.inference, done.plan)));
  for (const char *file : {"everything", "old", "shuffled"})
    texts.push_back(readText(std::string("testdata/json/") + file + ".json"));
  for (const std::string &text : texts) {
    TestContext context;
    failEach([&]() -> Expected<std::string> {
      Expected<LoadedGraph> loaded = failingHeap.during([&] { return readJson(context, text, ReadOptions()); });
      if (!loaded) return loaded.takeError();
      return written(loaded->graph);
    });
    EXPECT_EQ(context.usage(), Context::Usage());
  }
}

TEST_F(Allocation, Differentiating) {
  GradientRequest request;
  request.wrt = allTargets(g, nullptr).targets;
  for (uint32_t order : {1u, 2u}) {
    TestGraph smooth("h = FullyConnected(data, w, b) {num_hidden=8}; t = tanh(h); s = elemwise_mul(t, h); y = sum(s)");
    TestGraph &graph = order == 1 ? g : smooth;
    request.wrt = allTargets(graph, nullptr).targets;
    failEach([&]() -> Expected<std::string> {
      Expected<GradientResult> result = failingHeap.during(
          [&] { return buildGradientOfOrder(graph.context, graph, request, GradientOptions(), order); });
      if (!result) return result.takeError();
      return written(result->graph);
    });
  }
}

TEST_F(Allocation, Inferring) {
  const Compiled done = compiled(g.context, g);
  failEach([&]() -> Expected<std::string> {
    Expected<Inference> found = failingHeap.during([&] { return infer(g.context, done.graph, {}, {}); });
    if (!found) return found.takeError();
    return written(annotate(done.graph, *found));
  });
}

TEST_F(Allocation, Planning) {
  const Compiled done = compiled(g.context, g);
  failEach([&]() -> Expected<std::string> {
    Expected<MemoryPlan> plan = failingHeap.during(
        [&] { return planMemory(g.context, done.graph, done.inference, done.requests, PlanOptions()); });
    if (!plan) return plan.takeError();
    return written(annotatePlan(done.graph, done.inference, *plan));
  });
  failEach([&]() -> Expected<std::string> {
    Error error = failingHeap.during(
        [&] { return checkPlan(done.graph, done.inference, done.requests, done.plan, PlanOptions()); });
    if (error) return error;
    return "fits";
  });
}

TEST_F(Allocation, Verifying) {
  const std::string text = readText("testdata/json/everything.json");
  const Graph graph = must(readJson(g.context, text, ReadOptions())).graph;
  failEach([&]() -> Expected<std::string> {
    if (Error error = failingHeap.during([&] { return verifyGraph(graph, 10); })) return error;
    return "sound";
  });
}

TEST_F(Allocation, OrderingMutations) {
  const Compiled done = compiled(g.context, g);
  failEach([&]() -> Expected<std::string> {
    Expected<OrderedGraph> ordered =
        failingHeap.during([&] { return orderMutations(g.context, done.graph, OverwrittenPolicy::Save); });
    if (!ordered) return ordered.takeError();
    return written(ordered->graph);
  });
}

TEST_F(Allocation, Lowering) {
  const Compiled done = compiled(g.context, g);
  for (const Target *target : {&kMxnetTarget, &kPrimitivesTarget})
    failEach([&]() -> Expected<std::string> {
      Expected<Graph> lowered =
          failingHeap.during([&] { return lowerTo(g.context, done.graph, *target, &done.inference); });
      if (!lowered) return lowered.takeError();
      return written(*lowered);
    });
}

TEST_F(Allocation, AppendingAnOptimizer) {
  const Compiled done = compiled(g.context, g);
  failEach([&]() -> Expected<std::string> {
    Expected<TrainingGraph> training =
        failingHeap.during([&] { return appendOptimizer(g.context, done.graph, OptimizerOptions()); });
    if (!training) return training.takeError();
    return written(training->graph);
  });
}

TEST_F(Allocation, SplittingAndMarking) {
  GradientRequest request;
  request.wrt = allTargets(g, nullptr).targets;
  const GradientResult combined = must(buildGradient(g.context, g, request, GradientOptions()));
  failEach([&]() -> Expected<std::string> {
    Expected<SplitGradient> split = failingHeap.during([&] {
      return splitGradient(g.context, combined.graph, combined.stats.numForwardNodes, g.graph.heads().size());
    });
    if (!split) return split.takeError();
    return written(split->backward);
  });
  const Graph loop = must(readJson(g.context, readText("testdata/loops/powers.json"), ReadOptions())).graph;
  const std::vector<NodeInside> nodes = {*must(findInside(loop, "_while_loop0/1/_mul0"))};
  for (auto mark : {stopInside, tapInside})
    failEach([&]() -> Expected<std::string> {
      Expected<Graph> marked = failingHeap.during([&] { return mark(g.context, loop, nodes); });
      if (!marked) return marked.takeError();
      return written(*marked);
    });
}

TEST_F(Allocation, FindingLifetimes) {
  const Compiled done = compiled(g.context, g);
  failEach([&]() -> Expected<std::string> {
    Expected<Lifetimes> lifetimes =
        failingHeap.during([&] { return computeLifetimes(done.graph, done.inference, done.requests, PlanOptions()); });
    if (!lifetimes) return lifetimes.takeError();
    return std::to_string(lifetimes->intervals.size());
  });
}

TEST_F(Allocation, GraphsOfBlocks) {
  BlockProgram program;
  addBlock(program, std::nullopt, {"x", "w", "y"});
  program.find(0, program.intern("y"))->shape = {2};
  program.find(0, program.intern("w"))->dtype = FluidType::Bool;
  addBlock(program, 0, {});
  addOp(program, 1, "exp", {{"X", {"x"}}}, {{"Out", {"y"}}});
  addOp(program, 0, "conditional_block", {{"Cond", {"w"}}}, {{"Out", {"y"}}}, 1);
  failEach([&]() -> Expected<std::string> {
    Expected<BlockGraph> made =
        failingHeap.during([&] { return graphOfBlocks(g.context, program, BlockGraphOptions()); });
    if (!made) return made.takeError();
    return written(made->graph);
  });
}

// What returns no error throws, and the caller may catch: no destructor on the way throws again.
TEST_F(Allocation, WritingAGraph) {
  const Compiled done = compiled(g.context, g);
  const Graph graph = annotatePlan(annotate(done.graph, done.inference), done.inference, done.plan);
  failEach([&]() -> Expected<std::string> {
    return failingHeap.during([&]() -> Expected<std::string> {
      return catchingBadAlloc("to write the graph", [&]() -> Expected<std::string> { return written(graph); });
    });
  });
}

// ---- files of arrays

TEST(AllocationOfArrays, ReadingAndWriting) {
  const std::vector<NamedArray> arrays = {{"w", floats({2, 2}, {1, 2, 3, 4})},
                                          {"an array with a long name", arrayOf<uint8_t>(DType::Bool, {3}, {1, 0, 1})}};
  auto textOf = [](auto write) -> Expected<std::string> {
    std::string text;
    raw_string_ostream os(text);
    if (Error error = failingHeap.during([&] { return write(os); })) return error;
    return text;
  };
  auto archive = [&](ArrayRef<NamedArray> list) { return textOf([=](raw_ostream &os) { return writeNpz(os, list); }); };
  const std::string bytes = must(archive(arrays));
  failEach([&] { return archive(arrays); });
  failEach([&]() -> Expected<std::string> {
    Expected<std::vector<NamedArray>> read = failingHeap.during([&] { return parseNpz(bytes, "x.npz"); });
    if (!read) return read.takeError();
    return archive(*read);
  });
  auto single = [&](const Array &array) { return textOf([&](raw_ostream &os) { return writeNpy(os, array.view()); }); };
  const std::string npy = must(single(arrays[0].array));
  failEach([&]() -> Expected<std::string> {
    Expected<Array> read = failingHeap.during([&] { return parseNpy(npy, "x.npy"); });
    if (!read) return read.takeError();
    return single(*read);
  });
}

// ---- errors

TEST(OutOfMemory, ErrorsAreMadeWithoutMemory) {
  FailingHeap &heap = failingHeap;
  heap.count = 0;
  heap.failsAt = 1;
  heap.failing = Failing::Onward;
  std::vector<Error> errors;
  errors.reserve(64);
  for (int round = 0; round < 3; ++round) {  // what was handled makes room
    for (int i = 0; i < 64; ++i)
      errors.push_back(heap.during([] { return outOfMemory("to do what has a text of more than fifteen letters"); }));
    for (Error &error : errors) EXPECT_EQ(describeError(std::move(error)), "[too_large] out of memory");
    errors.clear();
  }
  heap.failsAt = FailingHeap::kNever;
  EXPECT_EQ(describeError(outOfMemory("to think")), "[too_large] no memory to think");
  auto tooLong = []() -> Error {
    std::vector<int>().reserve(SIZE_MAX);  // std::length_error
    return Error::success();
  };
  EXPECT_EQ(describeError(catchingBadAlloc("to count", tooLong)), "[too_large] no memory to count");
}

}  // namespace
}  // namespace gradc
