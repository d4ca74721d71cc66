// The memory planner. Above each expectation is the tape of the arena: +a an entry gets bytes, -a it gives them back,
// a>b entry b takes over the bytes of a. Sizes are distinct, so that a wrong offset cannot agree by luck.
#include "formats/json/graph_table.h"
#include "passes/memory/lifetimes.h"
#include "passes/memory/plan_memory.h"
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"
#include "passes/memory/place_intervals.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

struct Planned {
  TestGraph g;
  Inference inference;
  RequestTable requests;
  PlanOptions options;
  MemoryPlan plan;

  explicit Planned(StringRef text, bool allowInplace = true) : g(text) {
    InferOptions inferOptions;
    inferOptions.unknownDim = UnknownDim::MinusOne;
    inference = cantFail(infer(g.context, g, {}, inferOptions));
    requests = countRequests(g, {});
    options.allowInplace = allowInplace;
    plan = cantFail(planMemory(g.context, g, inference, requests, options));
    EXPECT_EQ(describeError(checkPlan(g, inference, requests, plan, options)), "success");
  }
  int64_t offset(StringRef value) const { return plan.offset[g.graph.entry(g.at(value))]; }
  /// The entry whose bytes `value` takes over, by name; "" for none.
  std::string source(StringRef value) const {
    EntryId e = plan.inplaceOf[g.graph.entry(g.at(value))];
    for (uint32_t n = 0; e.isValid() && n < g.graph.numNodes(); ++n)
      if (g.graph.firstEntry(NodeId(n)) == e) return g.graph.name(NodeId(n)).str();
    return "";
  }
};

// 16 floats are one unit of 64 bytes.
TEST(PlanMemory, ChainOfEqualSizesWithoutInplaceNeedsTwoBlocks) {
  Planned p("x = var {__shape__=(16,)}; a = relu(x); b = relu(a); c = relu(b); d = relu(c); y = sum(d)", false);
  // +a +b -a +c -b +d -c -d
  EXPECT_EQ(p.offset("a"), 0);
  EXPECT_EQ(p.offset("b"), 64);
  EXPECT_EQ(p.offset("c"), 0);
  EXPECT_EQ(p.offset("d"), 64);
  EXPECT_EQ(p.plan.plannedBytes, 128);
  EXPECT_EQ(p.plan.boundBytes, 128);
}

TEST(PlanMemory, MEM_10_ChainOfInplaceReluIsOneBlock) {
  Planned p("x = var {__shape__=(16,)}; a = relu(x); b = relu(a); c = relu(b); d = relu(c); y = sum(d)");
  // +a a>b b>c c>d -d
  for (StringRef name : {"a", "b", "c", "d"}) EXPECT_EQ(p.offset(name), 0) << name.str();
  EXPECT_EQ(p.source("d"), "c");
  EXPECT_EQ(p.plan.plannedBytes, 64);
}

TEST(PlanMemory, MEM_10_SharedValueIsNotOverwritten) {
  Planned p("x = var {__shape__=(2,8)}; a = elemwise_add(x, x); r = relu(a); s = elemwise_add(r, a);"
            "y = elemwise_add(s, s); z = sum(y)");
  // +a +r r>s -a +y -s -y
  EXPECT_NE(p.offset("a"), p.offset("r"));
  EXPECT_EQ(p.source("r"), "");
  EXPECT_EQ(p.source("s"), "r");
  EXPECT_EQ(p.source("y"), "");  // s is read twice by one node
  EXPECT_EQ(p.plan.plannedBytes, 128);
}

TEST(PlanMemory, MEM_04_VariablesAndHeadsBelongToTheCaller) {
  Planned p("x = var {__shape__=(20,)}; a = relu(x); b = relu(a); heads a, b");
  EXPECT_EQ(p.offset("x"), kExternal);
  EXPECT_EQ(p.offset("a"), kExternal);
  EXPECT_EQ(p.offset("b"), kExternal);
  EXPECT_EQ(p.plan.plannedBytes, 0);
  EXPECT_EQ(p.plan.externalBytes, 80 + 128 + 128);  // x as it is, heads rounded up
}

TEST(PlanMemory, MEM_05_IdentityMaySharedWithSeveralReaders) {
  Planned p("x = var {__shape__=(16,)}; a = exp(x); c = _copy(a); r = relu(c); s = elemwise_add(r, a); y = sum(s)");
  // +a a>c +r -c r>s -a -s: r must not write over the bytes a and c share, a is read once more
  EXPECT_EQ(p.source("c"), "a");
  EXPECT_EQ(p.offset("c"), p.offset("a"));
  EXPECT_NE(p.offset("r"), p.offset("a"));
  EXPECT_EQ(p.plan.plannedBytes, 128);
}

TEST(PlanMemory, MEM_04_OneOutputTakesAnInput) {
  Planned p("x = var {__shape__=(16,)}; a = exp(x); b = exp(x); r = test_ratio(a, b); t = dot(r, r:1); y = exp(t)");
  // +a +b a>r +r:1 -b +t -r -r:1 -t
  EXPECT_EQ(p.source("r"), "a");
  EXPECT_EQ(p.source("r:1"), "");
  EXPECT_NE(p.offset("r"), p.offset("r:1"));
}

TEST(PlanMemory, MEM_06_OutputsNobodyReadsHaveNoPlace) {
  Planned p("x = var {__shape__=(48,)}; s = test_split3(x); y = exp(s:1); z = sum(y)");
  EXPECT_EQ(p.offset("s"), kUnused);
  EXPECT_EQ(p.offset("s:1"), 0);
  EXPECT_EQ(p.offset("s:2"), kUnused);
  EXPECT_EQ(p.plan.plannedBytes, 64);
}

TEST(PlanMemory, MEM_06_BlocksAreFilledAgain) {
  // Units: a 3, b 1, c 2.
  Planned p("x = var {__shape__=(2,24)}; w = var {__shape__=(16,)}; v = var {__shape__=(2,16)};"
            "a = exp(x); b = sum(a); k = exp(w); l = sum(k); c = exp(v); d = sum(c);"
            "e = elemwise_add(b, l); f = elemwise_add(e, d)");
  // +a +b -a +k +l -k +c +d -c …
  EXPECT_EQ(p.offset("a"), 0);
  EXPECT_EQ(p.offset("b"), 192);
  EXPECT_EQ(p.offset("k"), 0);
  EXPECT_EQ(p.plan.plannedBytes, p.plan.boundBytes);
}

TEST(PlanMemory, MEM_15_SizesFollowTheType) {
  for (auto [type, bytes] :
       {std::pair{"float64", 512}, {"float32", 256}, {"float16", 128}, {"int8", 64}, {"bool", 64}}) {
    Planned p("x = var {__shape__=(64,), __dtype__=" + std::string(type) +
              "}; a = _copy(x); b = _copy(a); y = _copy(b)");
    EXPECT_EQ(p.plan.plannedBytes, bytes) << type;
  }
}

TEST(PlanMemory, MEM_18_UnknownShapesDoNotPoisonTheRest) {
  TestGraph g(
      "x = var {__shape__=(16,)}; u = var; a = exp(x); b = exp(a); m = exp(u); n = exp(m); y = exp(b); heads y, n");
  InferOptions partial;
  partial.allowUnknown = true;
  Inference inference = cantFail(infer(g.context, g, {}, partial));
  RequestTable requests = countRequests(g, {});
  MemoryPlan plan = cantFail(planMemory(g.context, g, inference, requests, PlanOptions()));
  EXPECT_EQ(plan.offset[g.graph.entry(g.at("m"))], kUnplanned);
  EXPECT_EQ(plan.offset[g.graph.entry(g.at("a"))], 0);
  EXPECT_EQ(plan.plannedBytes, 64);
  EXPECT_EQ(plan.numUnplanned, 2u);  // m and the head n
}

TEST(PlanMemory, MEM_19_SameGraphSamePlan) {
  const char *text =
      "x = var {__shape__=(4,4)}; a = exp(x); b = dot(a, x); c = elemwise_mul(b, a); d = dot(c, b); y = sum(d)";
  Planned first(text), second(text);
  EXPECT_EQ(first.plan.offset.all(), second.plan.offset.all());
}

TEST(PlanMemory, MEM_01_PlanAsGraphAttributes) {
  Planned p("x = var {__shape__=(20,)}; a = tanh(x); b = exp(a); y = elemwise_add(b, b)");
  GraphAttrs attrs = graphAttrsOf(annotatePlan(p.g, p.inference, p.plan));
  EXPECT_EQ(attrs["plan"].kind, GraphAttr::Kind::ListShape);
  EXPECT_EQ(attrs["plan"].shapes,
            (std::vector<std::vector<int64_t>>{{kExternal, 80}, {0, 80}, {0, 80}, {kExternal, 80}}));
  EXPECT_EQ(attrs["planned_bytes"], GraphAttr::ofSize(128));
  EXPECT_EQ(attrs["bound_bytes"], GraphAttr::ofSize(128));
  EXPECT_EQ(p.source("b"), "a");
  EXPECT_EQ(p.plan.numUnplanned, 0u);
}

TEST(PlanMemory, MEM_14_ASK_12_LiveBytesOfEveryNode) {
  Planned p("x = var {__shape__=(16,)}; a = exp(x); b = tile(a) {reps=3}; c = sum(a); y = elemwise_add(b, b); "
            "z = exp(c); heads y, z",
            false);
  std::vector<int64_t> live;
  for (StringRef name : {"x", "a", "b", "y", "c", "z"}) live.push_back(p.plan.liveBytes[p.g.at(name).node.value]);
  // +a +b -b(y) +c -a -c
  EXPECT_EQ(live, (std::vector<int64_t>{0, 64, 64 + 192, 64 + 192, 64 + 64, 64}));
  EXPECT_EQ(p.plan.boundBytes, 256);
  EXPECT_EQ(p.plan.peakNode, p.g.at("b").node);
  EXPECT_EQ(p.plan.externalBytes, 64 + 192 + 64);
}

TEST(PlanMemory, MEM_14_ThePlanOfTheBackwardPartAlone) {
  Planned p("x = var {__shape__=(16,)}; w = var {__shape__=(16,)}; a = exp(x); b = tanh(a); y = elemwise_mul(b, w); "
            "z = exp(y); q = relu(z); heads q");
  PlanOptions options = p.options;
  options.steps.begin = p.g.at("y").node.value;
  MemoryPlan plan = cantFail(planMemory(p.g.context, p.g, p.inference, p.requests, options));
  EXPECT_EQ(describeError(checkPlan(p.g, p.inference, p.requests, plan, options)), "success");
  for (StringRef name : {"a", "b"}) EXPECT_EQ(plan.offset[p.g.graph.entry(p.g.at(name))], kExternal) << name.str();
  EXPECT_EQ(plan.externalBytes, p.plan.externalBytes + 2 * 64);
  // y may not take over b, which is the caller's now; both parts together take as much as the larger.
  EXPECT_FALSE(plan.inplaceOf[p.g.graph.entry(p.g.at("y"))].isValid());
  EXPECT_EQ(plan.plannedBytes, 64);
  EXPECT_EQ(plan.liveBytes[p.g.at("a").node.value], 0);
}

TEST(PlanMemory, RET_07_WhatTheBackwardPartReadsStays) {
  Planned p("x = var {__shape__=(16,)}; a = exp(x); b = tanh(a); c = exp(b); d = elemwise_mul(c, b); r = relu(d);"
            "s = elemwise_add(r, a); y = sum(s)");
  // +a +b +c c>d d>r r>s
  EXPECT_EQ(p.source("d"), "c");
  EXPECT_EQ(p.plan.plannedBytes, 3 * 64);
  PlanOptions options = p.options;
  options.backwardBegin = p.g.at("d").node.value;
  // The first node's scratch is read by d, as a tape is.
  options.workspaceOf = [](const void *, NodeId n) -> int64_t { return n.value == 1 ? 64 : 0; };
  options.workspaceReader = [](const void *, NodeId n) { return n.value == 1 ? NodeId(4) : NodeId(); };
  const MemoryPlan plan = cantFail(planMemory(p.g.context, p.g, p.inference, p.requests, options));
  EXPECT_EQ(describeError(checkPlan(p.g, p.inference, p.requests, plan, options)), "success");
  // +a +b +c +d d>r r>s
  auto offset = [&](StringRef value) { return plan.offset[p.g.graph.entry(p.g.at(value))]; };
  for (StringRef kept : {"a", "b", "c"})
    for (StringRef later : {"d", "r", "s"}) EXPECT_NE(offset(kept), offset(later)) << kept.str() << later.str();
  EXPECT_EQ(offset("s"), offset("d"));
  EXPECT_EQ(plan.plannedBytes, (4 + 1) * 64);
  EXPECT_EQ(plan.liveBytes[p.g.at("s").node.value], (4 + 1) * 64);
  // The other plan lets d overwrite c, and r the scratch.
  EXPECT_EQ(describeError(checkPlan(p.g, p.inference, p.requests, p.plan, options)).substr(0, 10), "[bad_plan]");
}

TEST(PlanMemory, MEM_16_ABlockStartsWithAnEntryThatTakesOverNothing) {
  Planned p("x = var {__shape__=(2,8)}; a = exp(x); f = Flatten(a); r = relu(f); s = elemwise_add(r, r); t = sum(s)");
  Lifetimes lifetimes = cantFail(computeLifetimes(p.g, p.inference, p.requests, p.options));
  for (const Interval &interval : lifetimes.intervals) {
    if (!interval.root.isValid()) continue;
    EXPECT_FALSE(lifetimes.inplaceOf[interval.root].isValid());
    for (uint32_t e = 0; e < p.g.graph.numEntries(); ++e) {
      const uint32_t block = lifetimes.intervalOf[EntryId(e)];
      if (block == Lifetimes::kNoInterval || &lifetimes.intervals[block] != &interval) continue;
      EXPECT_GE(e, interval.root.value) << "the root is the first entry of the block";
      int64_t count = *numElements(p.inference.shapeOf(EntryId(e)).dims());
      EXPECT_LE(count * dtypeBytes(p.inference.dtype[EntryId(e)]), interval.bytes);
    }
  }
  EXPECT_EQ(lifetimes.intervals[lifetimes.intervalOf[p.g.graph.entry(p.g.at("r"))]].root, p.g.graph.entry(p.g.at("a")));
}

TEST(PlanMemory, EmptyEntriesTakeNoBytes) {
  Planned p("x = var {__shape__=(0,4), __dtype__=float32}; a = exp(x); b = dot(a, a) {transpose_a=True}; y = sum(b)");
  EXPECT_GE(p.offset("a"), 0);
  EXPECT_EQ(p.plan.plannedBytes, 64);  // b alone
}

TEST(PlanMemory, MEM_20_BetweenTheLargestNodeAndTheSumOfAll) {
  TestGraph g("x = var {__shape__=(3,1,8,8)}; c = Convolution(x, w, b) {kernel=(3,3), num_filter=4}; r = relu(c);"
              "p = Pooling(r) {kernel=(2,2), stride=(2,2)}; f = FullyConnected(p, fw, fb) {num_hidden=10};"
              "s = SoftmaxOutput(f, label)");
  Graph graph = gradientOf(g.context, g, {"w", "b", "fw", "fb"}, 1).graph;
  Inference inference = cantFail(infer(g.context, graph, {}, {}));
  RequestTable requests = countRequests(graph, {});
  MemoryPlan plan = cantFail(planMemory(g.context, graph, inference, requests, PlanOptions()));
  EXPECT_EQ(describeError(checkPlan(graph, inference, requests, plan, PlanOptions())), "success");
  int64_t all = 0, largest = 0;
  for (uint32_t e = 0; e < graph.numEntries(); ++e) {
    if (plan.offset[EntryId(e)] < 0) continue;
    int64_t bytes = 4 * *numElements(inference.shapeOf(EntryId(e)).dims());
    all += (bytes + 63) / 64 * 64;
    largest = std::max(largest, bytes);
  }
  EXPECT_GE(plan.plannedBytes, plan.boundBytes);
  EXPECT_GE(plan.boundBytes, largest);
  EXPECT_LE(plan.plannedBytes, all + plan.workspaceBytes);
  EXPECT_LT(plan.valueBytes, all);  // something is shared
}

TEST(PlanMemory, WorkspacesCountAndAreFreeAfterTheirNode) {
  TestGraph g("x = var {__shape__=(16,)}; a = exp(x); b = exp(a); y = exp(b)");
  PlanOptions options;
  options.workspaceOf = [](const void *, NodeId n) -> int64_t { return n.value == 2 ? 100 : 0; };
  options.allowInplace = false;
  Inference inference = cantFail(infer(g.context, g, {}, {}));
  RequestTable requests = countRequests(g, {});
  MemoryPlan plan = cantFail(planMemory(g.context, g, inference, requests, options));
  // +a +ws +b -ws -a -b
  EXPECT_EQ(plan.plannedBytes, 64 + 128 + 64);
  EXPECT_EQ(plan.peakNode, NodeId(2));
  EXPECT_GE(plan.workspace[NodeId(2)], 0);
  EXPECT_EQ(plan.workspace[NodeId(1)], kUnused);
  EXPECT_EQ(describeError(checkPlan(g, inference, requests, plan, options)), "success");
}

TEST(PlanMemory, MEM_03_WhatDoesNotRunHasNoWorkspace) {
  TestGraph g("x = var {__shape__=(16,)}; z = var {__shape__=(0,)}; a = exp(x); b = exp(z); heads a, b");
  PlanOptions options;
  options.workspaceOf = [](const void *, NodeId) -> int64_t { return 100; };
  InferOptions zerosAreKnown;
  zerosAreKnown.unknownDim = UnknownDim::MinusOne;
  Inference inference = cantFail(infer(g.context, g, {}, zerosAreKnown));
  RequestTable requests = countRequests(g, {});
  MemoryPlan plan = cantFail(planMemory(g.context, g, inference, requests, options));
  EXPECT_GE(plan.workspace[g.at("a").node], 0);
  EXPECT_EQ(plan.workspace[g.at("b").node], kUnused) << "nothing of b has an element";
  EXPECT_EQ(describeError(checkPlan(g, inference, requests, plan, options)), "success");
}

TEST(PlanMemory, WorkspacesOfUnknownShapesAreLeftOut) {
  TestGraph g("y = FullyConnected(x, w, b) {num_hidden=3}");
  InferOptions partial;
  partial.allowUnknown = true;
  Inference inference = cantFail(infer(g.context, g, {}, partial));
  RequestTable requests = countRequests(g, {});
  MemoryPlan plan = cantFail(planMemory(g.context, g, inference, requests, PlanOptions()));
  EXPECT_EQ(plan.workspaceBytes, 0);
  EXPECT_EQ(describeError(checkPlan(g, inference, requests, plan, PlanOptions())), "success");
}

TEST(PlanMemory, NothingPeaksInAnEmptyArena) {
  TestGraph g("x = var {__shape__=(4,)}; heads x");
  Inference inference = cantFail(infer(g.context, g, {}, {}));
  EXPECT_FALSE(cantFail(planMemory(g.context, g, inference, countRequests(g, {}), PlanOptions())).peakNode.isValid());
}

// 2^15 tensors of 2^48 bytes each are 2^63 bytes: no sum of a plan may wrap around.
TEST(PlanMemory, SumsOfBytesThatDoNotFitAreRefused) {
  std::string text, heads;
  for (int i = 0; i < 1 << 15; ++i) {
    const std::string name = "v" + std::to_string(i);
    text += name + " = var {__shape__=(70368744177664,)}; ";
    heads += (i ? ", " : "") + name;
  }
  TestGraph g(text + "heads " + heads);
  Inference inference = cantFail(infer(g.context, g, {}, {}));
  EXPECT_EQ(describeError(planMemory(g.context, g, inference, countRequests(g, {}), PlanOptions())),
            "[too_large] the tensors of the graph up to variable 'v16384' have more than 2^62 bytes together, which "
            "no memory plan can hold");
}

TEST(PlanMemory, AWorkspaceThatDoesNotFitIsRefused) {
  TestGraph g("x = var {__shape__=(16,)}; a = exp(x); y = exp(a)");
  PlanOptions options;
  options.workspaceOf = [](const void *, NodeId n) -> int64_t { return n.value == 1 ? kMaxTensorBytes + 1 : 0; };
  Inference inference = cantFail(infer(g.context, g, {}, {}));
  EXPECT_EQ(describeError(planMemory(g.context, g, inference, countRequests(g, {}), options)),
            "[too_large] operator 'exp', node 'a' (exp): its workspace would be larger than 2^48 bytes");
}

TEST(PlaceIntervals, FindsTheBoundWhereTimeOrderDoesNot) {
  // Steps: 0 1 2 3; in time order the large interval comes last and finds a hole too small.
  const Interval intervals[] = {{0, 0, 128, EntryId(0)}, {0, 3, 64, EntryId(1)}, {1, 3, 192, EntryId(2)}};
  Placement placement = placeIntervals(intervals, 4);
  EXPECT_EQ(liveBound(intervals, 4).bytes, 256);
  EXPECT_EQ(placement.bytes, 256);
}

TEST(PlanMemory, WorkspacesLeaveTheValuesWhereTheyAre) {
  TestGraph g("x = var {__shape__=(16,)}; a = exp(x); b = exp(a); c = exp(b); y = exp(c)");
  PlanOptions options;
  options.allowInplace = false;
  Inference inference = cantFail(infer(g.context, g, {}, {}));
  RequestTable requests = countRequests(g, {});
  MemoryPlan without = cantFail(planMemory(g.context, g, inference, requests, options));
  options.workspaceOf = [](const void *, NodeId n) -> int64_t { return n.value == 4 ? 64 : n.value == 2 ? 1000 : 0; };
  MemoryPlan with = cantFail(planMemory(g.context, g, inference, requests, options));
  for (uint32_t e = 0; e < static_cast<const Graph &>(g).numEntries(); ++e)
    EXPECT_EQ(with.offset[EntryId(e)], without.offset[EntryId(e)]);
  EXPECT_EQ(without.plannedBytes, 128);
  EXPECT_EQ(with.valueBytes, 128);
  EXPECT_EQ(with.valueBoundBytes, 128);
  EXPECT_EQ(with.plannedBytes, 128 + 1024);
  EXPECT_EQ(with.boundBytes, 128 + 1024);
  EXPECT_EQ(with.workspaceBytes, 1024);
  EXPECT_EQ(with.workspace[NodeId(2)], 128);  // a and b take all the rest
  EXPECT_LT(with.workspace[NodeId(4)], 128);  // c is alive, y is the caller's
  EXPECT_EQ(describeError(checkPlan(g, inference, requests, with, options)), "success");
}

TEST(PlanMemory, KeptWorkspacesComeBehindTheValues) {
  TestGraph g("x = var {__shape__=(16,)}; a = exp(x); b = exp(a); c = exp(b); d = exp(c); y = exp(d)");
  PlanOptions options;
  options.allowInplace = false;
  Inference inference = cantFail(infer(g.context, g, {}, {}));
  RequestTable requests = countRequests(g, {});
  const MemoryPlan without = cantFail(planMemory(g.context, g, inference, requests, options));
  options.workspaceOf = [](const void *, NodeId n) -> int64_t { return n.value == 5 ? 256 : n.value < 4 ? 64 : 0; };
  // a leaves its workspace to c, and b to d.
  options.workspaceReader = [](const void *, NodeId n) { return n.value < 3 ? NodeId(n.value + 2) : NodeId(); };
  const MemoryPlan with = cantFail(planMemory(g.context, g, inference, requests, options));
  for (uint32_t e = 0; e < static_cast<const Graph &>(g).numEntries(); ++e)
    EXPECT_EQ(with.offset[EntryId(e)], without.offset[EntryId(e)]);
  EXPECT_EQ(without.plannedBytes, 128);
  EXPECT_EQ(with.workspace[NodeId(1)], 128);
  EXPECT_EQ(with.workspace[NodeId(2)], 192);
  EXPECT_EQ(with.workspace[NodeId(3)], 256);  // both are kept
  EXPECT_EQ(with.workspace[NodeId(5)], 128);  // neither is
  EXPECT_EQ(with.valueBytes, 128);
  EXPECT_EQ(with.liveBytes[2], 64 + 64 + 64 + 64);
  EXPECT_EQ(with.liveBytes[4], 64 + 64 + 64);
  EXPECT_EQ(describeError(checkPlan(g, inference, requests, with, options)), "success");
}

TEST(PlaceIntervals, BoundNamesTheFirstStepThatReachesIt) {
  const Interval intervals[] = {{0, 1, 64, EntryId(0)}, {1, 2, 128, EntryId(1)}, {2, 3, 64, EntryId(2)}};
  LiveBound bound = liveBound(intervals, 4);
  EXPECT_EQ(bound.bytes, 192);
  EXPECT_EQ(bound.step, 1u);
}

}  // namespace
}  // namespace gradc
