// One sweep over each copy of a graph, in id order. Bodies are nested at most kMaxBodyNesting deep.
// Tested by tests/passes/unroll_test.cc
#include "passes/unroll/expansion.h"

#include "passes/order/order_mutation.h"
#include "passes/rewrite/inherited_attrs.h"
#include "passes/unroll/unroll_loop.h"

#include "ir/base/error.h"
#include "ir/base/number.h"
#include "ir/graph/effects.h"

using namespace llvm;

namespace gradc {
namespace {

// Whether the versions of a variable are made in id order, and read only by nodes after the one that makes them. Where
// no input has a number, id order decides.
bool writesAreOrdered(const Graph &graph, const BitVector &isNumbered) {
  if (llvm::none_of(graph.kinds(), [](const KindRef &kind) { return !kind->mutated.isEmpty(); })) return true;
  DenseMap<uint32_t, uint32_t> latest;
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    const NodeKind &kind = graph.kind(NodeId(n));
    ArrayRef<Value> inputs = graph.inputs(NodeId(n));
    for (size_t i = 0; i < inputs.size(); ++i)
      if (graph.isVariable(inputs[i].node) && !kind.isMutated(i) &&
          inputs[i].version > latest.lookup(inputs[i].node.value))
        return false;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (kind.isMutated(i) && std::max<uint32_t>(inputs[i].version, 1) != ++latest[inputs[i].node.value] &&
          isNumbered[inputs[i].node.value])
        return false;
  }
  return true;
}

uint64_t countWrites(const Graph &graph) {
  uint64_t count = 0;
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    for (size_t i = 0; i < graph.inputs(NodeId(n)).size(); ++i) count += graph.kind(NodeId(n)).isMutated(i);
  return count;
}

}  // namespace

Expansion::Expansion(Pass &pass, const Graph &graph, std::string path)
    : pass(pass), rewriter(pass.context, graph), names(graph), path(std::move(path)) {
  const bool hasWrites = llvm::any_of(graph.kinds(), [](const KindRef &kind) { return !kind->mutated.isEmpty(); });
  countsWrites = hasWrites && llvm::any_of(graph.kinds(), [](const KindRef &kind) { return kind->flow; });
}

Expected<Graph> Expansion::run(const Inference *inference) {
  Scope scope{rewriter, inference, ""};
  for (uint32_t n = 0; n < scope.graph().numNodes(); ++n)
    if (Error error = visit(scope, NodeId(n))) return error;
  const Graph before = scope.graph();
  Expected<Rewritten> made = std::move(rewriter).finish();
  if (!made) return made.takeError();
  if (!countsWrites) {
    newId = std::move(made->newId);
    return made->graph;
  }
  // If versions are not renumbered, no loop that overwrites something is unrolled.
  uint64_t numWanted = factsOf(before).hasOrderedWrites ? 0 : countWrites(before);
  for (auto [variable, count] : latest) numWanted += count;
  if (countWrites(made->graph) != numWanted) {
    pass.kept.push_back(path + "all: after expansion, no output would depend on some node that overwrites a variable");
    return before;
  }
  // A node that waited for a write only through its loop may have no edge to the write now.
  Expected<OrderedGraph> ordered = orderMutations(pass.context, made->graph, OverwrittenPolicy::Save);
  if (!ordered) return ordered.takeError();
  newId = std::move(made->newId);
  for (NodeId &id : newId)
    if (id.isValid()) id = ordered->newId[id.value];
  return ordered->graph;
}

const Expansion::Facts &Expansion::factsOf(const Graph &graph) {
  auto [at, isNew] = facts.try_emplace(&graph.columns());
  if (!isNew) return at->second;
  pass.alive.push_back(graph);
  Facts &found = at->second;
  found.isRead.resize(graph.numEntries());
  found.isWaited.resize(graph.numNodes());
  found.isNumbered.resize(graph.numNodes());
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    for (Value v : graph.inputs(NodeId(n))) {
      found.isRead.set(graph.entry(v).value);
      if (v.version) found.isNumbered.set(v.node.value);
    }
    for (NodeId dep : graph.controlDeps(NodeId(n))) found.isWaited.set(dep.value);
  }
  for (Value head : graph.heads()) found.isRead.set(graph.entry(head).value);
  found.hasOrderedWrites = writesAreOrdered(graph, found.isNumbered);
  found.hasInherited = hasInheritedAttrs(graph);
  return found;
}

bool Expansion::isRead(const Scope &scope, NodeId n, uint32_t o) {
  return factsOf(scope.graph()).isRead[scope.graph().firstEntry(n).value + o];
}

Error Expansion::checkSize(const Scope &scope, NodeId n) {
  if (rewriter.builder().numNodes() <= pass.options.maxNodes) return Error::success();
  return Failure(ErrorKind::TooLarge, path + "node '" + scope.prefix + scope.graph().name(n) + "': the graph exceeds " +
                                          Twine(pass.options.maxNodes) + " nodes with loops unrolled up to here");
}

void Expansion::noteKept(const Scope &scope, NodeId n, StringRef why) {
  if (!pass.isNoted.insert({&scope.graph().columns(), n.value}).second) return;
  const BodyFlow::Form form = scope.graph().kind(n).flow->form;
  const StringRef title = form == BodyFlow::Form::Loop ? "loop" : form == BodyFlow::Form::Branch ? "branch" : "call";
  pass.kept.push_back((path + title + " '" + scope.prefix + scope.graph().name(n) + "': " + why).str());
}

Error Expansion::visit(Scope &scope, NodeId n) {
  const NodeKind &kind = scope.graph().kind(n);
  if (Error error = checkSize(scope, n)) return error;
  const bool isToExpand = kind.flow && (kind.flow->form == BodyFlow::Form::Loop) == (pass.what == What::Loops);
  if (isToExpand) {
    Expected<bool> isExpanded = expand(scope, n);
    if (!isExpanded) return isExpanded.takeError();
    if (*isExpanded) return Error::success();
  }
  return copy(scope, n);
}

Error Expansion::copy(Scope &scope, NodeId n) {
  if (Error error = makeVersions(scope, n)) return error;
  Expected<KindRef> kind = withExpandedBodies(scope, n);
  if (kind) kind = followingKind(scope, n, *kind);
  if (!kind) return kind.takeError();
  const NodeId node = *kind == scope.graph().kindHandle(n) ? scope.to.copy(n) : scope.to.copy(n, *kind);
  if (countsWrites && factsOf(scope.graph()).hasOrderedWrites) writeLatest(node);
  noteLatest(scope, n);
  waitForEnds(scope, n, node);
  known.add(rewriter.builder(), node, scope.graph(), n, scope.known);
  return Error::success();
}

// Nodes of a body inherit the scope and device of the body's owner (NAME-11).
Expected<KindRef> Expansion::followingKind(const Scope &scope, NodeId n, KindRef kind) {
  if (scope.owner.isEmpty() || scope.graph().isVariable(n) || factsOf(scope.graph()).hasInherited) return kind;
  return withInheritedAttrsOf(pass.context, kind, scope.owner);
}

// A flow identifies the inputs of a body by their order: if expansion changes that order, the old body is kept.
Expected<KindRef> Expansion::withExpandedBodies(const Scope &scope, NodeId n) {
  const KindRef &kind = scope.graph().kindHandle(n);
  if (!kind->flow) return kind;
  return withRewrittenBodies(pass.context, kind, [&](uint32_t b) -> Expected<Graph> {
    const Graph &body = kind->bodies[b];
    const Inference *inference = scope.known ? scope.known->body(n, b) : nullptr;
    Expected<const Graph *> expanded = pass.bodies.find(body, inference, [&]() -> Expected<Graph> {
      Expansion inside(pass, body, path + scope.prefix + bodyStep(scope.graph(), n, b) + " > ");
      Expected<Graph> made = inside.run(inference);
      if (!made) return made;
      auto isSame = [&](NodeId x, NodeId y) { return inside.idAfter(x) == y; };
      const std::vector<NodeId> before = bodyInputs(body), after = bodyInputs(*made);
      if (std::equal(before.begin(), before.end(), after.begin(), after.end(), isSame)) return made;
      pass.kept.push_back(inside.path + "all: after expansion, its inputs would be in another order");
      return body;
    });
    if (!expanded) return expanded.takeError();
    return **expanded;
  });
}

// An overwritten operand is read at the preceding version.
Value Expansion::operandOf(const Scope &scope, NodeId n, size_t i) const {
  Value v = scope.graph().inputs(n)[i];
  if (scope.graph().kind(n).isMutated(i) && v.version > 0) --v.version;
  return scope.to(v);
}

// Every version of the result is made here, so none of them wraps.
Error Expansion::makeVersions(Scope &scope, NodeId n) {
  for (Value v : numberedWrites(scope, n))
    if (const NodeId variable = scope.to(v.node); ++latest[variable.value] > kMaxIndex)
      return Failure(ErrorKind::TooLarge, path + "node '" + scope.prefix + scope.graph().name(n) + "' makes version " +
                                              Twine(latest[variable.value]) + " of variable '" +
                                              rewriter.builder().name(variable) +
                                              "' with loops unrolled, but the largest possible is " + Twine(kMaxIndex));
  noteVersions(scope, n);
  return Error::success();
}

// What n overwrites, if versions are renumbered.
SmallVector<Value, 2> Expansion::numberedWrites(const Scope &scope, NodeId n) {
  const NodeKind &kind = scope.graph().kind(n);
  SmallVector<Value, 2> writes;
  if (!countsWrites || kind.mutated.isEmpty() || !factsOf(scope.graph()).hasOrderedWrites) return writes;
  for (auto [i, v] : enumerate(scope.graph().inputs(n)))
    if (kind.isMutated(i)) writes.push_back(v);
  return writes;
}

// The n-th write of a variable in the graph may be a later one in the result.
void Expansion::noteVersions(Scope &scope, NodeId n) {
  for (Value v : numberedWrites(scope, n))
    scope.to.setVersion(v.node, std::max<uint32_t>(v.version, 1), latest[scope.to(v.node).value]);
}

// If no input states a version of a variable, node order decides: from here on, reads see what n wrote.
void Expansion::noteLatest(Scope &scope, NodeId n) {
  for (Value v : numberedWrites(scope, n))
    if (!factsOf(scope.graph()).isNumbered[v.node.value])
      scope.to.setVersion(v.node, 0, latest[scope.to(v.node).value]);
}

// Sets the versions of overwritten inputs, which a file may leave at 0.
void Expansion::writeLatest(NodeId node) {
  GraphBuilder &builder = rewriter.builder();
  for (size_t i = 0; i < builder.inputs(node).size(); ++i) {
    if (!builder.kind(node).isMutated(i)) continue;
    const Value v = builder.inputs(node)[i];
    builder.setInput(node, i, Value{v.node, v.index, static_cast<uint16_t>(latest.lookup(v.node.value))});
    // The preceding version must be written first, even if nothing reads the outputs of its writer.
    NodeId &last = lastWriter[v.node.value];
    if (last.isValid() && last != node) builder.addControlDep(node, last);
    last = node;
  }
}

void Expansion::waitForEnds(Scope &scope, NodeId n, ArrayRef<NodeId> nodes) {
  if (scope.ends.empty()) return;
  for (NodeId dep : scope.graph().controlDeps(n))
    if (auto known = scope.ends.find(dep.value); known != scope.ends.end())
      for (NodeId node : nodes)
        for (NodeId end : known->second)
          if (end != scope.to(dep)) rewriter.builder().addControlDep(node, end);
}

Expected<bool> Expansion::expand(Scope &scope, NodeId n) {
  const Graph &graph = scope.graph();
  const NodeKind &kind = graph.kind(n);
  const Facts &about = factsOf(graph);
  const bool isOrdered = about.hasOrderedWrites &&
                         llvm::all_of(kind.bodies, [&](const Graph &body) { return factsOf(body).hasOrderedWrites; });
  if (!kind.mutated.isEmpty() && !isOrdered)
    return noteKept(scope, n, "it overwrites a variable, and the writes of its graph or of a body are not in id order"),
           false;
  SmallVector<Value, 8> operands;
  for (size_t i = 0; i < graph.inputs(n).size(); ++i) operands.push_back(operandOf(scope, n, i));
  GraphBuilder &builder = rewriter.builder();
  const uint32_t first = builder.numNodes();
  std::string whyNot;
  struct Written {
    uint32_t variable, version;
    NodeId writer;
  };
  SmallVector<Written, 2> before;  // restored if the attempt fails
  for (size_t i = 0; i < operands.size(); ++i)
    if (const uint32_t variable = operands[i].node.value; kind.isMutated(i))
      before.push_back({variable, latest.lookup(variable), lastWriter.lookup(variable)});
  Expected<SmallVector<Value, 8>> outputs = outputsOf(scope, n, operands, whyNot);
  if (!outputs) return outputs.takeError();
  if (!whyNot.empty()) {
    for (auto [variable, version, writer] : before) latest[variable] = version, lastWriter[variable] = writer;
    noteKept(scope, n, whyNot);
    return false;
  }
  // The node that takes n's place yields an output that is read, preferably a state: readers of a stack may use its
  // rows instead.
  NodeId named;
  SmallVector<NodeId, 4> ends;
  DenseSet<uint32_t> isEnd;
  for (uint32_t o = 0; o < outputs->size(); ++o) {
    const Value v = (*outputs)[o];
    if (!v.isValid() || v.node.value < first) continue;
    if (isRead(scope, n, o) && (!named.isValid() || (rowsOf(Value{named}) && !rowsOf(v)))) named = v.node;
    if (isEnd.insert(v.node.value).second) ends.push_back(v.node);
  }
  std::vector<NodeId> nodes;
  if (!graph.controlDeps(n).empty() || graph.origin(n).isValid())
    for (uint32_t made = first; made < builder.numNodes(); ++made)
      if (NodeId(made) != named) nodes.push_back(NodeId(made));
  if (named.isValid()) nodes.push_back(named);
  if (about.isWaited[n.value]) {
    // A write waits for the one before it (writeLatest): what waits for the last one waits for all.
    for (auto [variable, version, writer] : before)
      if (const NodeId now = lastWriter.lookup(variable); now != writer && isEnd.insert(now.value).second)
        ends.push_back(now);
    scope.ends[n.value] = ends;
  }
  waitForEnds(scope, n, nodes);
  scope.to.replace(n, *outputs, nodes);
  noteVersions(scope, n);
  noteLatest(scope, n);
  return true;
}

Expected<SmallVector<Value, 8>> Expansion::outputsOf(Scope &scope, NodeId n, ArrayRef<Value> operands,
                                                     std::string &whyNot) {
  const BodyFlow &flow = *scope.graph().kind(n).flow;
  switch (flow.form) {
    case BodyFlow::Form::Loop: return unrollLoop(*this, scope, n, operands, whyNot);
    case BodyFlow::Form::Branch: return choose(scope, n, operands, whyNot);
    case BodyFlow::Form::Call: break;
  }
  Expected<SmallVector<Value, 8>> heads =
      copyBody(scope, n, 0, operands, scope.prefix + scope.graph().name(n).str() + "/");
  if (!heads) return heads.takeError();
  SmallVector<Value, 8> outputs(scope.graph().numOutputs(n));
  for (size_t h = 0; h < heads->size(); ++h) outputs[flow.bodies[0].outputOf[h]] = (*heads)[h];
  return outputs;
}

Expected<SmallVector<Value, 8>> Expansion::choose(const Scope &scope, NodeId n, ArrayRef<Value> operands,
                                                  std::string &whyNot) {
  const BodyFlow &flow = *scope.graph().kind(n).flow;
  const std::string prefix = scope.prefix + scope.graph().name(n).str() + "/";
  Expected<SmallVector<Value, 8>> decision = copyBody(scope, n, 0, operands, prefix);
  if (!decision) return decision.takeError();
  SmallVector<Value, 8> outputs(scope.graph().numOutputs(n));
  const std::optional<bool> isFirst = known.truth((*decision)[0]);
  if (!isFirst) return whyNot = "the branch taken is known only at run time", outputs;
  const size_t b = *isFirst ? 1 : 2;
  Expected<SmallVector<Value, 8>> heads = copyBody(scope, n, b, operands, prefix);
  if (!heads) return heads.takeError();
  for (size_t h = 0; h < heads->size(); ++h) outputs[flow.bodies[b].outputOf[h]] = (*heads)[h];
  if (flow.decisionOutput) outputs[*flow.decisionOutput] = emitCount(scope, n, *isFirst, "_choice");
  // Values that the other branch would have saved are read only by its gradient, which does not run. Some zeros take
  // their shape from the other branch.
  for (uint32_t o = 0; o < outputs.size(); ++o)
    if (isRead(scope, n, o) && (!outputs[o].isValid() || rewriter.builder().kind(outputs[o].node).op ==
                                                             pass.context.ops.wellKnown.zerosPlaceholder))
      outputs[o] = emitZeros(scope, n, o, "_output" + Twine(o), whyNot);
  return outputs;
}

// What a node does not overwrite, being there for its shapes alone, its body does not either. Ids are those of the
// body.
Expected<Graph> Expansion::withoutEffectsInside(const Graph &body) {
  Expected<const Graph *> inert = pass.inert.find(body, [&] {
    return withKinds(pass.context, body, [&](NodeId n) -> Expected<KindRef> {
      const KindRef &kind = body.kindHandle(n);
      return kind->isVariable() ? kind : withoutEffects(pass.context, kind);
    });
  });
  if (!inert) return inert.takeError();
  return **inert;
}

Expected<SmallVector<Value, 8>> Expansion::copyBody(const Scope &scope, NodeId n, size_t b, ArrayRef<Value> operands,
                                                    StringRef prefix) {
  const NodeKind &kind = scope.graph().kind(n);
  Expected<Graph> inside = kind.attrs.get(kShapeOnly) ? withoutEffectsInside(kind.bodies[b]) : kind.bodies[b];
  if (!inside) return inside.takeError();
  const Graph &body = *inside;
  const BodyFlow::Body &ports = kind.flow->bodies[b];
  BodyCopy copier(scope.to, body, prefix, names);
  Scope steps{copier, scope.known ? scope.known->body(n, b) : nullptr, prefix.str(), kind.attrs};
  DenseSet<uint32_t> overwritten;  // variables of the body
  for (size_t i = 0; i < ports.inputs.size(); ++i) {
    Value given = operands[ports.operandOf[i]];
    if (kind.isMutated(ports.operandOf[i])) {
      overwritten.insert(ports.inputs[i].value);
      given.version = static_cast<uint16_t>(latest.lookup(given.node.value));
    }
    copier.replace(ports.inputs[i], given, {});
  }
  for (uint32_t m = 0; m < body.numNodes(); ++m)
    if (!body.isVariable(NodeId(m)))
      if (Error error = visit(steps, NodeId(m))) return error;
  SmallVector<Value, 8> heads;
  for (Value head : body.heads()) {  // whatever number a variable has there, it is what the step leaves behind
    heads.push_back(copier(head));
    if (overwritten.contains(head.node.value))
      heads.back().version = static_cast<uint16_t>(latest.lookup(heads.back().node.value));
  }
  for (Value &head : heads)  // a variable may be overwritten again later, but the head is its value in this step
    if (latest.contains(head.node.value) && rewriter.builder().kind(head.node).isVariable())
      head = emit(scope, n, *pass.context.ops.wellKnown.copy, head, "_copy");
  copier.finish();
  return heads;
}

Value Expansion::emit(const Scope &scope, NodeId n, Expected<KindRef> kind, ArrayRef<Value> operands,
                      const Twine &suffix) {
  GraphBuilder &builder = rewriter.builder();
  const KindRef inheriting =
      cantFail(withInheritedAttrsOf(pass.context, cantFail(std::move(kind)), scope.graph().attrs(n)));
  const NodeId node = builder.addKind(inheriting, operands, NodeId());
  builder.setName(node, names.take((scope.prefix + scope.graph().name(n) + suffix).str()), "");
  return Value{node};
}

Value Expansion::emitCount(const Scope &scope, NodeId n, int64_t number, const Twine &suffix) {
  const Value v = emit(scope, n, rowOps().full(pass.context, {1}, DType::Int64, number), {}, suffix);
  known.add(v, number);
  return v;
}

Value Expansion::emitZeros(const Scope &scope, NodeId n, uint32_t output, const Twine &suffix, std::string &whyNot) {
  const EntryId e(scope.graph().firstEntry(n).value + output);
  const DType dtype = scope.known ? scope.known->dtype[e] : DType::Unknown;
  if (dtype == DType::Unknown || !scope.known->isKnownShape(e))
    return whyNot = "the shape of output " + std::to_string(output) + " is not known", Value();
  if (zeroIsUnknown(rewriter.graph()) && is_contained(scope.known->shapeOf(e).dims(), 0))
    return whyNot = "output " + std::to_string(output) +
                    " is empty, and files before mxnet_version 20000 cannot spell an empty constant",
           Value();
  return emit(scope, n, rowOps().full(pass.context, scope.known->shapeOf(e).dims(), dtype, 0), {}, suffix);
}

}  // namespace gradc
