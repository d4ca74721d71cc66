// One sweep over the nodes; nodes that a rule emits are processed on a stack of open decompositions. Tested by
// tests/passes/lowering/lower_to_test.cc, tests/passes/lowering/lower_mxnet_test.cc
#include "passes/lowering/lower_to.h"

#include "ir/base/dense_map.h"
#include "passes/lowering/emitted_entries.h"
#include "passes/lowering/lowering_errors.h"
#include "passes/lowering/restated_attrs.h"
#include "passes/lowering/write_order.h"
#include "passes/rewrite/body_map.h"
#include "passes/rewrite/inherited_attrs.h"
#include "passes/rewrite/rewriter.h"

#include "ir/base/error.h"
#include "ir/base/out_of_memory.h"
#include "ir/graph/bodies.h"
#include "ir/graph/body_flow.h"
#include "ir/op/hidden_keys.h"
#include "ir/rules/grad_rule.h"
#include "ops/control/rebody.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/Sequence.h"

using namespace llvm;

namespace gradc {
namespace {

struct LoweredBody {
  Graph graph;
  std::vector<uint32_t> was;  // by input: the input of the body that it was
};
// Each body is lowered once, however many nodes have it; when needs are listed, once for each operator that they are
// listed for.
using LoweredBodies = BodyMap<LoweredBody, const Inference *, const OpDef *>;

class Lowering {
 public:
  Lowering(Context &ctx, const Graph &graph, const Target &target, const Inference *known, LoweredBodies &bodies,
           bool isBody = false)
      : ctx(ctx), graph(graph), target(target), known(known), isBody(isBody), bodies(bodies), rewriter(ctx, graph),
        builder(rewriter.builder()), entries(builder, known ? &graph : nullptr, known), isRead(graph.numEntries()),
        at(graph, NodeId()), endangered(graph), names(graph, 0) {
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      for (Value v : graph.inputs(NodeId(n))) isRead.set(graph.entry(v).value);
    for (Value head : graph.heads()) isRead.set(graph.entry(head).value);
    isWaitedFor = waitedForNodes(graph);
  }

  Error visitAll() {
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      if (Error error = visit(NodeId(n))) return error;
    return Error::success();
  }

  /// The operator of the node visited last, where `visitAll` stopped.
  const OpDef *currentOp() const { return graph.op(current); }

  Expected<Rewritten> finish() && { return std::move(rewriter).finish(); }

  /// From now on, operators that cannot be lowered are noted in `list`, and their nodes stay.
  void noteNeeds(std::map<const OpDef *, OperatorNeeds> &list) { needs = &list; }

 private:
  // A node that is being replaced, and the nodes emitted by its rule that are still to be visited.
  struct Level {
    NodeId node;
    uint32_t next, last;
    size_t firstMade;  // into `made`
    SmallVector<Value, 4> outputs;
  };

  Error visit(NodeId n) {
    current = n;
    Expected<KindRef> kind = withLoweredBodies(graph.kindHandle(n), n);
    if (!kind) return kind.takeError();
    const bool isOther = *kind != graph.kindHandle(n);
    const KindId id = isOther ? builder.kindId(*kind) : graph.kindId(n);
    if (graph.isVariable(n) || (isKept(id, forwardOf(n)) && hasOutputs(builder.kind(id), [&](uint32_t o) {
                                  return isRead[graph.firstEntry(n).value + o];
                                }))) {
      at[n] = isOther ? rewriter.copy(n, *kind) : rewriter.copy(n);
      entries.add(at[n], n);
      return Error::success();
    }
    made.clear();
    order.clear();
    const uint32_t first = builder.numNodes();
    at[n] = rewriter.draft(n);
    if (isOther) builder.setKind(at[n], id);
    entries.add(at[n], n);
    SmallVector<bool, 4> wanted;
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o) wanted.push_back(isRead[graph.firstEntry(n).value + o]);
    if (Error error = open(at[n], forwardOf(n), wanted)) return error;
    if (Error error = drain()) return error;
    SmallVector<Value, 4> outputs;
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o)
      outputs.push_back(entries.place(Value{at[n], static_cast<uint16_t>(o)}));
    order.addTo(builder, made);
    keepWritesOf(n, outputs);
    ArrayRef<NodeId> deps = graph.controlDeps(n);
    const bool hasForward = forwardOf(n).isValid();
    SmallVector<NodeId, 16> waiting(made);
    if (!deps.empty() && !hasForward) addWaitingCopies(waiting);
    nameNodes(outputs, first);
    // A gradient operator waits for its forward node, which in a body may be needed by nothing else.
    const bool isUselessWait = isBody && hasForward && graph.kind(deps[0]).mutated.isEmpty();
    if (!isUselessWait) return rewriter.replace(n, outputs, made, waiting), Error::success();
    rewriter.replace(n, outputs, {});
    for (NodeId dep : deps.drop_front())
      if (const NodeId earlier = rewriter(dep); earlier.isValid())
        for (NodeId node : made) builder.addControlDep(node, earlier);
    return Error::success();
  }

  // `waiting` are to get the dependencies of the node that they replace. A gradient operator without a forward node
  // would take the first of them for one: a copy of what it reads waits in its place. One that reads nothing has
  // nothing to wait for.
  void addWaitingCopies(SmallVectorImpl<NodeId> &waiting) {
    waiting.clear();
    for (NodeId emitted : std::exchange(made, {})) {
      const bool takesForward = builder.kind(emitted).op->flags.isBackward && !entries.forward(emitted).isValid();
      if (takesForward && !builder.inputs(emitted).empty()) {
        const NodeId copy = builder.addKind(*ctx.ops.wellKnown.copy, builder.inputs(emitted)[0], NodeId());
        builder.setInput(emitted, 0, Value{copy});
        made.push_back(copy);
        waiting.push_back(copy);
      }
      made.push_back(emitted);
      if (!takesForward) waiting.push_back(emitted);
    }
  }

  void keepWritesOf(NodeId n, SmallVectorImpl<Value> &outputs) {
    SmallVector<NodeId, 4> dropped;
    auto addEndangered = [&](NodeId old) {
      if (endangered.mayLoseReaders.empty() || !endangered.mayLoseReaders[old.value] || graph.isVariable(old)) return;
      if (const NodeId now = rewriter(old); now.isValid()) dropped.push_back(now);
    };
    for (Value v : graph.inputs(n)) addEndangered(v.node);
    if (made.empty()) for_each(graph.controlDeps(n), addEndangered);
    SmallVector<Value *, 4> read, alwaysRead;
    for (uint32_t o = 0, e = graph.firstEntry(n).value; o < outputs.size(); ++o, ++e) {
      if (!outputs[o].isValid() || !isRead[e]) continue;
      read.push_back(&outputs[o]);
      if (!endangered.isAlwaysRead.empty() && endangered.isAlwaysRead[e]) alwaysRead.push_back(&outputs[o]);
    }
    keepWrites(builder, order, {made, alwaysRead.empty() ? read : alwaysRead, isWaitedFor[n.value]}, dropped);
  }

  // The forward node of a gradient operator in the builder: its copy, or its draft if it was replaced.
  NodeId forwardOf(NodeId n) const {
    const bool isFused = graph.op(n)->flags.isBackward && !graph.controlDeps(n).empty();
    return isFused ? at[graph.controlDeps(n)[0]] : NodeId();
  }

  // A gradient operator depends on its forward node: if that is replaced, the gradient operator is decomposed too
  // (INF-08).
  bool isKept(KindId id, NodeId forward) {
    const NodeKind &kind = builder.kind(id);
    if (kind.op->flags.isOpaque) return true;
    if (forward.isValid() && entries.isReplaced(forward)) return false;
    if (id.value >= answers.size()) answers.resize(id.value + 1, Answer::Unknown);
    Answer &answer = answers[id.value];
    if (answer == Answer::Unknown) answer = targetHas(kind) ? Answer::Has : Answer::Lacks;
    return answer == Answer::Has;
  }

  bool targetHas(const NodeKind &kind) const {
    return target.has(kind) && (!isBody || !target.hasInBodies || target.hasInBodies(kind));
  }

  // Whether the target's operator has all outputs that are read.
  bool hasOutputs(const NodeKind &kind, function_ref<bool(uint32_t)> isRead) const {
    if (!target.numOutputs || kind.op->flags.isOpaque) return true;
    for (uint32_t o = target.numOutputs(kind); o < kind.numOutputs; ++o)
      if (isRead(o)) return false;
    return true;
  }

  // Bodies are nested at most kMaxBodyNesting deep. Shapes inside them are known only if n is a node of the graph.
  Expected<KindRef> withLoweredBodies(const KindRef &handle, NodeId n) {
    const NodeKind &kind = *handle;
    if (kind.bodies.empty()) return handle;
    SmallVector<Graph, 2> lowered;
    std::vector<std::vector<uint32_t>> was;
    bool isInOrder = true;
    for (uint32_t b = 0; b < kind.bodies.size(); ++b) {
      Expected<const LoweredBody *> body =
          lowerBody(kind.bodies[b], known && n.isValid() ? known->body(n, b) : nullptr);
      if (!body) return withinBody(body.takeError(), graph, current, b);
      lowered.push_back((*body)->graph);
      was.push_back((*body)->was);
      isInOrder &= kind.bodies[b].numNodes() && was.back() == inOrder(bodyInputs(kind.bodies[b]).size());
    }
    if (!kind.flow || isInOrder) return ctx.kindLike(kind, kind.attrs, lowered);
    // A flow identifies the inputs of a body by their order.
    Expected<KindRef> moved = withBodies(ctx, kind, lowered, was);
    if (moved && !*moved)
      return Failure(ErrorKind::UnsupportedOption, "the bodies of " + graph.describe(current) +
                                                       " cannot keep their inputs when lowered to " + target.title)
          .at(current);
    return moved;
  }

  static std::vector<uint32_t> inOrder(size_t count) {
    auto numbers = seq<uint32_t>(0, static_cast<uint32_t>(count));
    return {numbers.begin(), numbers.end()};
  }

  Expected<const LoweredBody *> lowerBody(const Graph &body, const Inference *inference) {
    const OpDef *const op = needs ? listedFor() : nullptr;
    return bodies.find(body, inference, op, [&] { return makeBody(body, inference, op); });
  }

  Expected<LoweredBody> makeBody(const Graph &body, const Inference *inference, const OpDef *op) {
    // Not on the stack, of which each level of nesting takes a part.
    const auto inside = std::make_unique<Lowering>(ctx, body, target, inference, bodies, true);
    inside->needs = needs;
    inside->around = op;
    if (Error error = inside->visitAll()) return error;
    Expected<Rewritten> lowered = std::move(*inside).finish();
    if (!lowered) return lowered.takeError();
    LoweredBody made{lowered->graph, {}};
    std::vector<uint32_t> position(made.graph.numNodes());
    const std::vector<NodeId> before = bodyInputs(body);
    for (uint32_t i = 0; i < before.size(); ++i)
      if (const NodeId to = lowered->newId[before[i].value]; to.isValid()) position[to.value] = i;
    for (NodeId input : bodyInputs(made.graph)) made.was.push_back(position[input.value]);
    return made;
  }

  const TargetRow *rowOf(StringRef op) const {
    for (ArrayRef<TargetRow> rows : {isBody ? target.rowsInBodies : ArrayRef<TargetRow>(), target.rows})
      if (auto row = llvm::find_if(rows, [&](const TargetRow &r) { return r.op == op; }); row != rows.end()) return row;
    return nullptr;
  }

  /// Begins to replace a node of the builder.
  Error open(NodeId node, NodeId forward, ArrayRef<bool> wanted) {
    const OpDef &op = *builder.kind(node).op;
    if (levels.size() == kMaxDecompositions) return endlessDecomposition(site(), op);
    if (builder.numNodes() - at[current].value > kMaxDecomposedNodes) return hugeDecomposition(site());
    Level level{node, builder.numNodes(), 0, made.size(), {}};
    const TargetRow *row = rowOf(op.name);
    if (row)
      if (Error error = apply(row->rule, forward, wanted, level)) return unsupported(std::move(error), node);
    if (level.outputs.empty()) {
      if (!op.decompose) return unsupported(lackingOperator(site(), op), node);
      if (Error error = apply(op.decompose, forward, wanted, level)) return unsupported(std::move(error), node);
    }
    for (size_t o = 0; o < wanted.size(); ++o)
      if (wanted[o] && !(o < level.outputs.size() && level.outputs[o].isValid()))
        return unsupported(unansweredOutput(site(), op, o), node);
    level.last = builder.numNodes();
    entries.addUpTo(level.last);
    for (uint32_t m = level.next; m < level.last; ++m)
      for (Value v : builder.inputs(NodeId(m))) entries.setRead(v);
    for (Value v : level.outputs)
      if (v.isValid()) entries.setRead(v);
    for (NodeId earlier : order.waitedFor())
      if (earlier.value >= level.next) entries.setRead(Value{earlier});
    levels.push_back(std::move(level));
    return Error::success();
  }

  // `level.outputs` stays empty if the rule gives no output.
  Error apply(void (*decompose)(DecomposeRule &), NodeId forward, ArrayRef<bool> wanted, Level &level) {
    DecomposeRule rule(builder, level.node, NodeId());
    if (forward.isValid()) rule.setForward(forward);
    rule.setWanted(wanted);
    rule.setShapes({[](void *self, Value v) { return static_cast<EmittedEntries *>(self)->shape(v); }, &entries});
    rule.setTypes({[](void *self, Value v) { return static_cast<EmittedEntries *>(self)->dtype(v); }, &entries});
    decompose(rule);
    for (auto [node, of] : rule.fusedNodes()) entries.setForward(node, of);
    order.add(rule.waits());
    if (rule.hasFailed())
      return amend(rule.takeFailure(), [&](GradcError &info) {
        info.message = describeLowered(site()) + ": " + info.message;
        info.place.node = current;
      });
    const bool hasAnswer = any_of(seq<size_t>(0, wanted.size()), [&](size_t o) { return rule.output(o).isValid(); });
    for (size_t o = 0; hasAnswer && o < wanted.size(); ++o) level.outputs.push_back(rule.output(o));
    return Error::success();
  }

  Error drain() {
    while (!levels.empty()) {
      Level &level = levels.back();
      if (level.next < level.last) {
        if (Error error = visitEmitted(NodeId(level.next++))) return error;
        continue;
      }
      if (Error error = keepMarks(level)) return error;
      for (size_t o = 0; o < level.outputs.size(); ++o)
        entries.replace(Value{level.node, static_cast<uint16_t>(o)}, level.outputs[o]);
      order.note(level.node, level.firstMade, made.size());
      levels.pop_back();
    }
    return Error::success();
  }

  // Marks of the replaced node about its gradient (ir/op/hidden_keys.h) apply to its outputs, whatever yields them now.
  Error keepMarks(Level &level) {
    SmallVector<AttrText, 2> marks;
    for (StringRef key : {kStopMark, kLoweredFromMark})
      if (std::optional<StringRef> mark = builder.kind(level.node).attrs.get(key)) marks.push_back({key, *mark});
    if (marks.empty()) return Error::success();
    for (Value &output : level.outputs) {
      if (!output.isValid()) continue;
      output = entries.place(output);
      if (!is_contained(ArrayRef<NodeId>(made).drop_front(level.firstMade), output.node)) {
        made.push_back(builder.addKind(*ctx.ops.wellKnown.copy, output, NodeId()));
        output = Value{made.back()};
        entries.addUpTo(builder.numNodes());
      }
      const NodeKind &kind = builder.kind(output.node);
      Expected<KindRef> marked = ctx.kindLike(kind, ctx.withAttrs(kind.attrs, marks), kind.bodies);
      if (!marked) return marked.takeError();
      builder.setKind(output.node, builder.kindId(*marked));
    }
    return Error::success();
  }

  Error visitEmitted(NodeId m) {
    if (!entries.isNeeded(m)) return Error::success();
    for (size_t i = 0, count = builder.inputs(m).size(); i < count; ++i) {
      const Value from = builder.inputs(m)[i], to = entries.place(from);
      if (!to.isValid()) return unansweredOutput(site(), *builder.kind(from.node).op, from.index);
      if (to != from) builder.setInput(m, i, to);
    }
    Expected<KindRef> kind = withLoweredBodies(builder.kindHandle(m), NodeId());
    if (!kind) return kind.takeError();
    if (*kind != builder.kindHandle(m)) builder.setKind(m, builder.kindId(*kind));
    if (!isKept(builder.kindId(m), entries.forward(m)) ||
        !hasOutputs(builder.kind(m), [&](uint32_t o) { return entries.isRead(Value{m, static_cast<uint16_t>(o)}); })) {
      SmallVector<bool, 4> wanted;
      for (uint32_t o = 0; o < builder.numOutputs(m); ++o)
        wanted.push_back(entries.isRead(Value{m, static_cast<uint16_t>(o)}));
      return open(m, entries.forward(m), wanted);
    }
    kind = withInheritedAttrsOf(ctx, *kind, graph.attrs(current));  // NAME-11
    if (!kind) return kind.takeError();
    builder.setKind(m, builder.kindId(*kind));
    order.note(m, made.size(), made.size() + 1);
    made.push_back(m);
    return Error::success();
  }

  // The node that yields the first output takes over the name.
  void nameNodes(ArrayRef<Value> outputs, uint32_t first) {
    const Value *named = find_if(outputs, [&](Value v) { return v.isValid() && v.node.value >= first; });
    for (NodeId node : made) {
      const bool isNamed = named != outputs.end() && named->node == node;
      builder.setName(node, isNamed ? graph.name(current).str() : names.takeNumbered(graph.name(current)), "");
    }
  }

  LoweredSite site() const { return {graph, current, target}; }

  // The operator of the current node; in a body, that of the outermost node around it.
  const OpDef *listedFor() const { return around ? around : graph.op(current); }

  // Returns the error; when needs are listed, notes it there instead, and the node stays.
  Error unsupported(Error error, NodeId node) {
    if (!needs) return error;
    const OpDef &op = *builder.kind(node).op;
    OperatorNeeds &row = (*needs)[listedFor()];
    handleAllErrors(std::move(error), [&](const GradcError &info) {
      if (info.kind == ErrorKind::UnknownOp) row.operators.insert(&op);
      else row.refusals.insert(info.message);
    });
    entries.addUpTo(builder.numNodes());
    made.push_back(node);
    return Error::success();
  }

  enum class Answer : uint8_t { Unknown, Has, Lacks };

  Context &ctx;
  const Graph &graph;
  const Target &target;
  const Inference *known;  // of the graph; null: nothing is known
  const bool isBody;
  LoweredBodies &bodies;
  GraphRewriter rewriter;
  GraphBuilder &builder;        // the rewriter's
  EmittedEntries entries;       // of the builder
  BitVector isRead;             // by old entry
  NodeMap<NodeId> at;           // by old node: its copy or draft in the builder
  std::vector<Answer> answers;  // by kind
  NodeId current;               // the old node that is being replaced
  SmallVector<Level, 8> levels;
  SmallVector<NodeId, 16> made;       // the nodes that replace it
  EmittedOrder order;                 // of these nodes
  const EndangeredWrites endangered;  // of the graph
  BitVector isWaitedFor;              // waitedForNodes
  FreeNames names;                    // NAME-09
  std::map<const OpDef *, OperatorNeeds> *needs = nullptr;
  const OpDef *around = nullptr;  // in a body, when needs are listed: the operator they are listed for
};

}  // namespace

Expected<Graph> lowerTo(Context &context, const Graph &graph, const Target &target, const Inference *known) {
  return catchingBadAlloc("to lower the graph", [&]() -> Expected<Graph> {
    LoweredBodies bodies;
    Lowering lowering(context, graph, target, known, bodies);
    if (Error error = lowering.visitAll()) return error;
    Expected<Rewritten> lowered = std::move(lowering).finish();
    if (!lowered) return lowered.takeError();
    Expected<Graph> restated = known ? restateShapes(context, graph, *known, *lowered) : lowered->graph;
    if (!restated) return restated;
    Expected<Graph> ordered = orderWrites(context, graph, *restated);
    if (!ordered) return ordered;
    Expected<Graph> named = keepHeadNames(context, graph, *ordered);
    if (!named || !target.adjustTable) return named;
    GraphTable table = named->table();
    target.adjustTable(table);
    return named->withTable(std::move(table));
  });
}

std::map<const OpDef *, OperatorNeeds> needsOf(Context &context, const Graph &graph, const Target &target,
                                               const Inference *known) {
  std::map<const OpDef *, OperatorNeeds> needs;
  LoweredBodies bodies;
  Lowering lowering(context, graph, target, known, bodies);
  lowering.noteNeeds(needs);
  if (Error error = lowering.visitAll())
    handleAllErrors(std::move(error),
                    [&](const GradcError &info) { needs[lowering.currentOp()].refusals.insert(info.message); });
  return needs;
}

}  // namespace gradc
