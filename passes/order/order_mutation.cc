// Plans from the sorted accesses what must wait and what must be saved, then copies the graph with that added.
// Tested by tests/passes/order_mutation_test.cc
#include "passes/order/order_mutation.h"

#include "passes/order/variable_accesses.h"
#include "passes/rewrite/body_map.h"
#include "passes/rewrite/rewriter.h"

#include "ir/base/dense_map.h"
#include "ir/base/error.h"
#include "ir/base/out_of_memory.h"
#include "ir/graph/bodies.h"
#include "ir/graph/body_flow.h"
#include "ir/rules/verify.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

struct Dependency {
  NodeId later, earlier;
};

/// Version `version` of `variable`, saved for `readers` before `overwriter` writes the next.
struct SavedCopy {
  NodeId variable;
  uint32_t version;
  NodeId maker;  // the node that wrote the version; invalid: it comes from outside
  VariableAccess overwriter;
  std::vector<VariableAccess> readers;
};

/// Which reads of an overwritten version are served by a copy; the write waits for the others. A read is late when its
/// node runs after the one that overwrites.
enum class Saved : uint8_t { LateGenerated, Late, LateGeneratedAndForward };

/// What the versions of one graph require.
struct OrderPlan {
  std::vector<Dependency> dependencies;
  std::vector<SavedCopy> copies;
  uint32_t numForwardReads = 0;  // reads of overwritten versions by forward nodes
};

/// Walks the accesses of each variable in the order of their versions.
class OrderPlanner {
 public:
  OrderPlanner(const Graph &graph, Saved saved, const Schedule &schedule)
      : graph(graph), saved(saved), schedule(schedule) {}

  OrderPlan run(ArrayRef<VariableAccess> rows) {
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i == 0 || rows[i].variable != rows[i - 1].variable) {
        maker = NodeId();
        reads.clear();
      }
      if (rows[i].isWrite) {
        write(rows[i]);
        continue;
      }
      wait(rows[i].node, maker);
      reads.push_back(rows[i]);
    }
    return std::move(plan);
  }

 private:
  void wait(NodeId later, NodeId earlier) {
    if (earlier.isValid() && later != earlier) plan.dependencies.push_back({later, earlier});
  }

  bool isSaved(const VariableAccess &read, const VariableAccess &overwriter) const {
    const bool isLate = schedule.stepOf(read.node) > schedule.stepOf(overwriter.node);
    const bool isGenerated = graph.origin(read.node).isValid();
    // A step would find what one before it wrote; other operators read all before they write.
    if (read.node == overwriter.node) return graph.kind(read.node).flow != nullptr;
    if (saved == Saved::Late) return isLate;
    return isGenerated ? isLate : saved == Saved::LateGeneratedAndForward;
  }

  void write(const VariableAccess &row) {
    if (reads.empty()) wait(row.node, maker);
    std::vector<VariableAccess> served;
    for (const VariableAccess &read : reads) {
      plan.numForwardReads += !graph.origin(read.node).isValid();
      if (isSaved(read, row)) served.push_back(read);
      else wait(row.node, read.node);
    }
    if (!served.empty()) plan.copies.push_back({row.variable, served.front().version, maker, row, std::move(served)});
    reads.clear();
    maker = row.node;
  }

  const Graph &graph;
  const Saved saved;
  const Schedule &schedule;
  NodeId maker;                       // of the current version
  std::vector<VariableAccess> reads;  // of the current version
  OrderPlan plan;
};

/// Drops dependencies that the graph already has; the others are ordered by the node that waits.
void dropKnown(const Graph &graph, std::vector<Dependency> &dependencies) {
  llvm::stable_sort(dependencies, [](const Dependency &a, const Dependency &b) { return a.later < b.later; });
  std::vector<NodeId> mark(graph.numNodes());  // the last node found to wait for this one
  size_t kept = 0;
  for (size_t i = 0; i < dependencies.size(); ++i) {
    const Dependency dependency = dependencies[i];
    if (i == 0 || dependencies[i - 1].later != dependency.later) {
      for (Value v : graph.inputs(dependency.later)) mark[v.node.value] = dependency.later;
      for (NodeId dep : graph.controlDeps(dependency.later)) mark[dep.value] = dependency.later;
    }
    if (mark[dependency.earlier.value] == dependency.later) continue;
    mark[dependency.earlier.value] = dependency.later;
    dependencies[kept++] = dependency;
  }
  dependencies.resize(kept);
}

/// The graph with the plan carried out.
class OrderedCopy {
 public:
  OrderedCopy(Context &ctx, const Graph &graph, const OrderPlan &plan)
      : ctx(ctx), graph(graph), plan(plan), rewriter(ctx, graph), names(graph) {}

  Expected<OrderedGraph> run() {
    for (uint32_t n = 0; n < graph.numNodes(); ++n) rewriter.copy(NodeId(n));
    for (const Dependency &dependency : plan.dependencies)
      rewriter.builder().addControlDep(rewriter(dependency.later), rewriter(dependency.earlier));
    for (const SavedCopy &copy : plan.copies) addCopy(copy);
    Expected<Rewritten> rewritten = std::move(rewriter).finish();
    if (!rewritten) return rewritten.takeError();
    OrderedGraph ordered;
    ordered.graph = std::move(rewritten->graph);
    ordered.newId = std::move(rewritten->newId);
    ordered.numDependencies = static_cast<uint32_t>(plan.dependencies.size());
    ordered.numCopies = static_cast<uint32_t>(plan.copies.size());
    return ordered;
  }

 private:
  void addCopy(const SavedCopy &copy) {
    GraphBuilder &builder = rewriter.builder();
    const bool isNumbered = copy.overwriter.spelled != 0;
    const NodeId overwriter = rewriter(copy.overwriter.node);
    Value source{rewriter(copy.variable), 0, static_cast<uint16_t>(isNumbered ? copy.version : 0)};
    NodeId n = builder.addKind(*ctx.ops.wellKnown.copy, {source}, overwriter);
    builder.setName(n, names.take((graph.name(copy.variable) + "_version" + Twine(copy.version)).str()), "");
    if (copy.maker.isValid()) builder.addControlDep(n, rewriter(copy.maker));
    builder.addControlDep(overwriter, n);
    for (const VariableAccess &reader : copy.readers) {
      const NodeKind &kind = graph.kind(reader.node);
      ArrayRef<Value> inputs = graph.inputs(reader.node);
      for (size_t i = 0; i < inputs.size(); ++i)
        if (inputs[i] == Value{copy.variable, 0, reader.spelled} && !kind.isMutated(i) && !kind.isIgnored(i))
          builder.setInput(rewriter(reader.node), i, Value{n});
    }
  }

  Context &ctx;
  const Graph &graph;
  const OrderPlan &plan;
  GraphRewriter rewriter;
  FreeNames names;
};

Failure stale(const Graph &graph, const SavedCopy &copy) {
  const NodeId reader = copy.readers.front().node, user = graph.origin(reader);
  return Failure(ErrorKind::StaleVersion, graph.describe(reader) + " needs version " + Twine(copy.version) + " of " +
                                              graph.describe(copy.variable) + ", which " +
                                              graph.describe(copy.overwriter.node) +
                                              " has already overwritten with version " + Twine(copy.overwriter.version))
      .at(user.isValid() ? user : reader);
}

// A node overwrites what its bodies overwrite.
bool overwritesInside(const NodeKind &kind) { return kind.flow && !kind.mutated.isEmpty(); }

Error checkTargets(const Graph &graph, ArrayRef<VariableAccess> rows) {
  for (const VariableAccess &row : rows)
    if (row.isWrite && !graph.isVariable(row.variable))
      return Failure(ErrorKind::BadMutation, graph.describe(row.node) + " overwrites " + graph.describe(row.variable) +
                                                 ", expected a variable there")
          .at(row.node);
  for (uint32_t n = 0; n < graph.numNodes() && !rows.empty(); ++n)
    if (Error error = checkWrittenTwice(graph, NodeId(n))) return error;
  return Error::success();
}

Expected<OrderedGraph> carryOut(Context &ctx, const Graph &graph, OrderPlan plan, OverwrittenPolicy policy) {
  if (!plan.copies.empty() && policy == OverwrittenPolicy::Error)
    return stale(graph, plan.copies.front())
        .remedy(Remedy::SaveOverwritten, "OverwrittenPolicy::Save keeps a copy of what the gradient needs");
  if (!plan.copies.empty() && !ctx.ops.wellKnown.copy)
    return stale(graph, plan.copies.front()).note("no copy operator is configured that could save it");
  dropKnown(graph, plan.dependencies);
  if (!plan.copies.empty() || !plan.dependencies.empty()) return OrderedCopy(ctx, graph, plan).run();
  OrderedGraph same;
  same.graph = graph;
  for (uint32_t n = 0; n < graph.numNodes(); ++n) same.newId.push_back(NodeId(n));
  return same;
}

Expected<OrderedGraph> orderNodes(Context &context, const Graph &graph, OverwrittenPolicy policy) {
  const std::vector<VariableAccess> rows = listAccesses(graph);
  if (Error error = checkTargets(graph, rows)) return error;
  const Schedule byId;  // the graph itself is put in order here, so that its ids are a schedule
  OrderPlan plan = OrderPlanner(graph, Saved::LateGenerated, byId).run(rows);
  const bool canSave = plan.numForwardReads && policy == OverwrittenPolicy::Save && context.ops.wellKnown.copy;
  Expected<OrderedGraph> ordered = carryOut(context, graph, std::move(plan), policy);
  if (ordered || !canSave) return ordered;
  bool isCycle = false;
  Error error = amend(ordered.takeError(), [&](GradcError &info) { isCycle |= info.kind == ErrorKind::Cycle; });
  if (!isCycle) return error;
  consumeError(std::move(error));
  return carryOut(context, graph, OrderPlanner(graph, Saved::LateGeneratedAndForward, byId).run(rows), policy);
}

void explainOrderOfInputs(GradcError &info) {
  info.notes.clear();
  info.notes.push_back(
      {"in that order, the inputs of the body would come in another one, by which its node identifies them: "
       "state the dependency in the body itself"});
}

/// Puts bodies in order, each once. Recursion is as deep as bodies are nested.
class BodyOrder {
 public:
  BodyOrder(Context &ctx, OverwrittenPolicy policy) : ctx(ctx), policy(policy) {}

  /// The graph with the bodies of its nodes in order; ids stay.
  Expected<Graph> run(const Graph &graph) {
    if (llvm::none_of(graph.kinds(), [](const KindRef &kind) { return overwritesInside(*kind); })) return graph;
    return withKinds(ctx, graph, [&](NodeId n) -> Expected<KindRef> {
      const KindRef &kind = graph.kindHandle(n);
      if (!overwritesInside(*kind)) return kind;
      return withRewrittenBodies(ctx, kind, [&](uint32_t b) -> Expected<Graph> {
        const Graph &body = kind->bodies[b];
        Expected<const Graph *> made = ordered.find(body, [&] { return order(body); });
        if (!made) return withinBody(made.takeError(), graph, n, b);
        return **made;
      });
    });
  }

 private:
  Expected<Graph> order(const Graph &body) {
    Expected<Graph> inside = run(body);
    if (!inside) return inside;
    Expected<OrderedGraph> made = orderNodes(ctx, *inside, policy);
    if (!made) return made.takeError();
    // A flow identifies the inputs of a body by their order.
    auto isSame = [&](NodeId x, NodeId y) { return made->newId[x.value] == y; };
    const std::vector<NodeId> before = bodyInputs(body), after = bodyInputs(made->graph);
    if (std::equal(before.begin(), before.end(), after.begin(), after.end(), isSame)) return made->graph;
    if (Error error = amend(checkMutationOrder(*inside), explainOrderOfInputs)) return error;
    return inside;
  }

  Context &ctx;
  const OverwrittenPolicy policy;
  BodyMap<Graph> ordered;
};

Error checkNodes(const Graph &graph, const Schedule &schedule) {
  const std::vector<VariableAccess> rows = listAccesses(graph);
  if (Error error = checkTargets(graph, rows)) return error;
  OrderPlan plan = OrderPlanner(graph, Saved::Late, schedule).run(rows);
  if (!plan.copies.empty()) return stale(graph, plan.copies.front()).note("orderMutations puts the graph in order");
  for (const Dependency &dependency : plan.dependencies)
    if (schedule.stepOf(dependency.earlier) > schedule.stepOf(dependency.later))
      return Failure(ErrorKind::StaleVersion, graph.describe(dependency.later) + " needs what " +
                                                  graph.describe(dependency.earlier) + " writes, but runs before it")
          .at(dependency.later)
          .note("orderMutations puts the graph in order");
  return Error::success();
}

}  // namespace

Expected<OrderedGraph> orderMutations(Context &context, const Graph &graph, OverwrittenPolicy policy) {
  return catchingBadAlloc("to put mutations in order", [&]() -> Expected<OrderedGraph> {
    Expected<Graph> inside = BodyOrder(context, policy).run(graph);
    if (!inside) return inside.takeError();
    return orderNodes(context, *inside, policy);
  });
}

Error checkMutationOrder(const Graph &graph, const Schedule &schedule) {
  return catchingBadAlloc("to check the order of mutations", [&]() -> Error {
    if (Error error = verifySchedule(graph, schedule)) return error;
    if (Error error = checkNodes(graph, schedule)) return error;
    if (llvm::none_of(graph.kinds(), [](const KindRef &kind) { return overwritesInside(*kind); }))
      return Error::success();
    const std::vector<NestedGraph> list = nestedGraphs(graph);
    for (size_t i = 1; i < list.size(); ++i)
      if (overwritesInside(list[list[i].parent].graph.kind(list[i].owner)))
        if (Error error = checkNodes(list[i].graph, Schedule())) return withinBody(std::move(error), list, i);
    return Error::success();
  });
}

Expected<Frozen> freezeInOrder(GraphBuilder &&builder, const Graph &base, ArrayRef<Value> heads,
                               OverwrittenPolicy policy) {
  Context &context = builder.context();
  NodeId maker, variable;
  for (const VariableAccess &row : listAccesses(builder)) {
    if (row.variable != variable) maker = NodeId();
    variable = row.variable;
    if (row.isWrite) maker = row.node;
    else if (maker.isValid() && row.node.value >= base.numNodes() && row.node != maker)
      builder.addControlDep(row.node, maker);
  }
  Expected<Frozen> frozen = std::move(builder).freeze(heads, {});
  if (!frozen) return frozen;
  Expected<OrderedGraph> ordered = orderMutations(context, frozen->graph, policy);
  if (!ordered)  // the user knows the ids of the builder's base
    return amend(ordered.takeError(), [&](GradcError &info) {
      NodeId &node = info.place.path.empty() ? info.place.node : info.place.path.front().owner;
      if (!node.isValid()) return;
      auto at = llvm::find(frozen->newId, node);
      if (at == frozen->newId.end()) info.place = Place();
      else node = NodeId(static_cast<uint32_t>(at - frozen->newId.begin()));
    });
  for (NodeId &id : frozen->newId)
    if (id.isValid()) id = ordered->newId[id.value];
  frozen->graph = std::move(ordered->graph);
  return frozen;
}

}  // namespace gradc
