// The plan checker refuses plans that are broken by hand (MEM-03).
#include "passes/memory/plan_memory.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

struct Broken {
  TestGraph g;
  Inference inference;
  RequestTable requests;
  PlanOptions options;
  MemoryPlan plan;

  explicit Broken(StringRef text) : g(text) {
    inference = cantFail(infer(g.context, g, {}, {}));
    requests = countRequests(g, {});
    plan = cantFail(planMemory(g.context, g, inference, requests, options));
    EXPECT_EQ(check(), "success");
  }
  int64_t &offset(StringRef value) { return plan.offset[g.graph.entry(g.at(value))]; }
  EntryId entry(StringRef value) { return g.graph.entry(g.at(value)); }
  std::string check() { return describeError(checkPlan(g, inference, requests, plan, options)); }
};

const char *const kTwoLive = "x = var {__shape__=(16,)}; a = exp(x); b = exp(x); c = dot(a, b); d = exp(c); y = exp(d)";

TEST(CheckPlan, MEM_03_TwoLiveEntriesShareBytes) {
  Broken p(kTwoLive);
  p.offset("b") = p.offset("a");
  EXPECT_EQ(p.check(),
            "[bad_plan] at node 'b' (exp): output 'b_output' takes bytes [0, 64), where entry 1 is still live");
}

TEST(CheckPlan, MEM_03_PartialOverlap) {
  Broken p("x = var {__shape__=(2,16)}; w = var {__shape__=(16,)}; a = exp(x); b = exp(w); c = broadcast_add(a, b);"
           "y = exp(c)");
  p.offset("a") = 0;
  p.offset("b") = 64;
  EXPECT_EQ(p.check(),
            "[bad_plan] at node 'b' (exp): output 'b_output' takes bytes [64, 128), where entry 1 is still live");
}

TEST(CheckPlan, OutsideTheArenaOrMisaligned) {
  Broken p(kTwoLive);
  p.offset("a") = p.plan.plannedBytes;
  EXPECT_EQ(p.check(),
            "[bad_plan] at node 'a' (exp): output 'a_output' at offset 192 is misaligned or outside the arena");
  Broken q(kTwoLive);
  q.offset("a") += 4;
  EXPECT_EQ(q.check(),
            "[bad_plan] at node 'a' (exp): output 'a_output' at offset 4 is misaligned or outside the arena");
}

TEST(CheckPlan, EntryThatIsReadHasNoPlace) {
  Broken p(kTwoLive);
  p.offset("a") = kUnused;
  EXPECT_EQ(p.check(), "[bad_plan] at node 'a' (exp): output 'a_output' is read, but has no place");
}

// The reason that an entry gives for having no place has to be true of it.
TEST(CheckPlan, MEM_03_NotExternalNotUnplanned) {
  Broken p(kTwoLive);
  p.offset("a") = kExternal;
  EXPECT_EQ(p.check(), "[bad_plan] at node 'a' (exp): output 'a_output' is marked external, but is not a head");
  p.offset("a") = kUnplanned;
  EXPECT_EQ(p.check(), "[bad_plan] at node 'a' (exp): output 'a_output' is marked unplanned, but its size is known");
  p.offset("a") = kInside;
  EXPECT_EQ(p.check(), "[bad_plan] at node 'a' (exp): output 'a_output' is marked inside a group, but is in none");
  p.offset("a") = -5;
  EXPECT_EQ(p.check(), "[bad_plan] at node 'a' (exp): output 'a_output' has the invalid offset -5");
}

TEST(CheckPlan, MEM_04_TakingOverAnInputThatIsReadAgain) {
  Broken p("x = var {__shape__=(16,)}; a = exp(x); r = relu(a); s = elemwise_add(r, a); y = exp(s)");
  p.offset("r") = p.offset("a");
  p.plan.inplaceOf[p.entry("r")] = p.entry("a");
  EXPECT_EQ(p.check(), "[bad_plan] at node 'r' (relu): output 'r_output' overwrites entry 1, which is read again");
}

TEST(CheckPlan, MEM_05_TakingOverBytesAnIdentityStillReads) {
  Broken p("x = var {__shape__=(16,)}; a = exp(x); c = _copy(a); r = relu(c); s = elemwise_add(r, a); y = exp(s)");
  p.offset("r") = p.offset("c");
  p.plan.inplaceOf[p.entry("r")] = p.entry("c");
  EXPECT_EQ(p.check(), "[bad_plan] at node 'r' (relu): output 'r_output' overwrites entry 1, which is read again");
}

TEST(CheckPlan, TakingOverBytesThatLieElsewhere) {
  Broken p("x = var {__shape__=(16,)}; a = exp(x); r = relu(a); y = exp(r)");
  p.plan.plannedBytes = 128;
  p.offset("r") = 64;
  EXPECT_EQ(p.check(), "[bad_plan] at node 'r' (relu): output 'r_output' takes over entry 1, which is not there");
}

TEST(CheckPlan, TakingOverAnUndeclaredInput) {
  Broken p("x = var {__shape__=(4,4)}; a = exp(x); b = dot(a, x); y = exp(b)");
  p.offset("b") = p.offset("a");
  p.plan.inplaceOf[p.entry("b")] = p.entry("a");
  EXPECT_EQ(p.check(),
            "[bad_plan] at node 'b' (dot): output 'b_output' takes over an input the operator does not let it take");
}

TEST(CheckPlan, MEM_03_TwoOutputsTakeOverOneInput) {
  Broken p("x = var {__shape__=(48,)}; a = exp(x); s = test_split3(a); t = elemwise_add(s, s:1); y = exp(t)");
  p.offset("s:1") = p.offset("s");
  EXPECT_NE(p.check().find("[bad_plan] at node 's' (test_split3)"), std::string::npos);
}

TEST(CheckPlan, WorkspaceOverALiveEntry) {
  Broken p(kTwoLive);
  p.options.workspaceOf = [](const void *, NodeId n) -> int64_t { return n.value == 2 ? 64 : 0; };
  EXPECT_EQ(p.check(),
            "[bad_plan] at node 'b' (exp): the workspace of 64 bytes at offset -2 is misaligned or outside the arena");
  p.plan.workspace[NodeId(2)] = p.plan.plannedBytes - 32;
  EXPECT_EQ(p.check(),
            "[bad_plan] at node 'b' (exp): the workspace of 64 bytes at offset 160 is misaligned or outside the arena");
  p.plan.workspace[NodeId(2)] = p.offset("a");
  EXPECT_EQ(p.check(), "[bad_plan] at node 'b' (exp): the workspace takes bytes [0, 64), where entry 1 is still live");
}

// a = exp(x) leaves its workspace to d = exp(c).
TEST(CheckPlan, MEM_03_AKeptWorkspaceIsLiveUntilItIsRead) {
  Broken p(kTwoLive);
  p.options.workspaceOf = [](const void *, NodeId n) -> int64_t { return n.value == 1 || n.value == 4 ? 64 : 0; };
  p.options.workspaceReader = [](const void *, NodeId n) { return n.value == 1 ? NodeId(4) : NodeId(); };
  p.plan = cantFail(planMemory(p.g.context, p.g, p.inference, p.requests, p.options));
  EXPECT_EQ(p.check(), "success");
  const int64_t kept = p.plan.workspace[NodeId(1)];
  const std::string range = "[" + std::to_string(kept) + ", " + std::to_string(kept + 64) + ")";
  const std::string owner = "where the workspace of node 'a' (exp) is still live";
  const MemoryPlan sound = p.plan;
  p.offset("c") = kept;
  EXPECT_EQ(p.check(), "[bad_plan] at node 'c' (dot): output 'c_output' takes bytes [192, 196), " + owner);
  p.plan = sound;
  p.plan.workspace[NodeId(4)] = kept;
  EXPECT_EQ(p.check(), "[bad_plan] at node 'd' (exp): the workspace takes bytes " + range + ", " + owner);
  p.options.workspaceReader = [](const void *, NodeId n) { return n.value == 1 ? NodeId(3) : NodeId(); };
  EXPECT_EQ(p.check(), "success") << "read by c, it is free for d";
  p.options.workspaceReader = [](const void *, NodeId n) { return n.value == 4 ? NodeId(1) : NodeId(); };
  EXPECT_EQ(p.check(), "[bad_plan] at node 'd' (exp): the workspace is read before its node runs");
}

}  // namespace
}  // namespace gradc
