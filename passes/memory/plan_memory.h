// A static memory plan: byte offsets of every entry in one arena, from lifetimes over the schedule
// (passes/order/schedule.h).
//
// Three stages, each usable by itself: lifetimes (first and last step an entry's bytes are needed, in-place pairs
// merged), bound (largest sum of live bytes at any step: no plan of this schedule can be smaller), placement (offsets).
// Variables and heads belong to the caller and are not in the arena. Values are placed first, then workspaces of
// kernels in the space left free, and those that a later node reads after all values. All sizes are rounded up to 64
// bytes.
#pragma once

#include "passes/inference/infer.h"
#include "passes/memory/node_groups.h"
#include "passes/order/requests.h"
#include "passes/order/schedule.h"

namespace gradc {

inline constexpr int64_t kPlanAlignment = 64;

/// Offsets below zero are the reasons why an entry has no place in the arena.
inline constexpr int64_t kExternal = -1;   // variables, heads, what crosses PlanOptions::steps: the caller's memory
inline constexpr int64_t kUnused = -2;     // nothing reads it, request Null
inline constexpr int64_t kUnplanned = -3;  // unknown shape or dtype
inline constexpr int64_t kInside = -4;  // written and read only within one group of nodes, so never stored as a whole

struct MemoryPlan;

/// What one run of a body needs. The plan is made for the requested heads, which the caller places.
struct BodyPlan {
  Graph graph;
  std::vector<Request> headRequests;
  RequestTable requests;
  std::shared_ptr<const MemoryPlan> plan;
  std::shared_ptr<const Inference> inference;
};

/// The workspace of a node with a flow: what its kernel keeps between steps, then the arena of the body that is
/// running.
struct FlowPlan {
  NodeId node;
  int64_t ownBytes = 0;
  int64_t bytes = 0;
  std::vector<std::shared_ptr<const BodyPlan>> bodies;  // equal ones are planned once
};
/// Null if there is none, because the node computes nothing or something about it is unknown.
const FlowPlan *findFlowPlan(const std::vector<FlowPlan> &plans, NodeId n);

struct PlanOptions {
  bool allowInplace = true;
  /// The order in which nodes run; by default id order.
  Schedule schedule = {};
  /// Plans only these steps, such as the backward part (MEM-14): values that other steps compute, and those of these
  /// steps that other steps read, are in the caller's memory.
  StepRange steps = {};
  /// The step with which the backward part begins. What it reads of earlier steps stays in place until the end, so that
  /// it can run again (RET-07). By default there is no such part.
  uint32_t backwardBegin = 0xffffffff;
  /// Overrides the workspace bytes that a node's OpDef requests; negative: no override. Null: none is overridden.
  int64_t (*workspaceOf)(const void *user, NodeId node) = nullptr;
  /// The node, later in the schedule, that still reads the node's workspace; invalid if it is free once the node has
  /// run. Null: all are.
  NodeId (*workspaceReader)(const void *user, NodeId node) = nullptr;
  const void *user = nullptr;
  /// Nodes that run as one; null: each runs alone.
  const NodeGroups *groups = nullptr;
  /// Set by planMemory and checkPlan: the flows of the current plan.
  const std::vector<FlowPlan> *flows = nullptr;
};

struct MemoryPlan {
  EntryMap<int64_t> offset;     // into the arena, or one of the constants above
  EntryMap<EntryId> inplaceOf;  // the entry whose bytes this one takes over; invalid: none
  NodeMap<int64_t> workspace;   // offset of the node's scratch, kUnused when it has none
  int64_t plannedBytes = 0;     // size of the arena
  int64_t valueBytes = 0;       // the part of it with values; what follows is only for workspaces
  int64_t boundBytes = 0;       // largest sum of live bytes at any step
  int64_t valueBoundBytes = 0;  // the same without workspaces
  int64_t externalBytes = 0;    // variables and heads
  uint32_t numUnplanned = 0;
  int64_t workspaceBytes = 0;      // the largest workspace
  NodeId peakNode;                 // where the bound is reached
  std::vector<FlowPlan> flows;     // of nodes with a flow, in id order
  std::vector<int64_t> liveBytes;  // by step: bytes in use while its node runs, workspace included
};

/// BadPlan for a schedule that does not fit the graph; TooLarge if sizes or their sum are too large.
llvm::Expected<MemoryPlan> planMemory(Context &context, const Graph &graph, const Inference &inference,
                                      const RequestTable &requests, const PlanOptions &options);

/// Replays the schedule, independently of how the plan was made: no two live entries share bytes except along declared
/// in-place pairs whose other readers are done (MEM-03). BadPlan names the two entries and the node. A plan is valid
/// only for its schedule: under another one values may collide.
llvm::Error checkPlan(const Graph &graph, const Inference &inference, const RequestTable &requests,
                      const MemoryPlan &plan, const PlanOptions &options);

/// The graph with the plan in its table.
Graph annotatePlan(const Graph &graph, const Inference &inference, const MemoryPlan &plan);

}  // namespace gradc
