// The worklist both shape and dtype inference run on: one forward sweep in id order, then only what is unfinished.
//
// A node is finished when every entry it touches is fully known after a visit; known entries never change, so finished
// nodes are not visited again. An unfinished node is queued again whenever an entry it touches becomes more precise, so
// the whole is linear in nodes + edges (times the rank). Nodes that touch many entries wait until no other node is
// queued, so that refinements that arrive one entry at a time are handled in one visit. Entries a node touches: inputs,
// outputs and, for a fused backward node, the entries of its forward node it takes attributes from.
//
// `Lattice` supplies the element type, isKnown(e), isMorePrecise(a, b), visit(node, in, out) → Error (refines both
// spans), and take(node, to, from) → Error (INF-08: a backward entry takes a forward entry's attribute).
//
// Entries can be tied: each takes what is known of the other. Ties are numbered after the nodes.
#pragma once

#include "passes/inference/backward_link.h"

#include "ir/base/error.h"
#include "ir/graph/tables.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SmallVector.h"

namespace gradc {

template <class Lattice> class Propagation {
 public:
  using Element = typename Lattice::Element;

  Propagation(const Graph &graph, Lattice &lattice, RuleSummaries &summaries, EntryMap<Element> &entries)
      : graph(graph), lattice(lattice), summaries(summaries), entries(entries) {}

  /// Never changes the entries of the first `numNodes` nodes (INF-11).
  void keepFirst(uint32_t numNodes) {
    firstNode = numNodes;
    firstEntry = numNodes < graph.numNodes() ? graph.firstEntry(NodeId(numNodes)).value : graph.numEntries();
  }

  /// States that two entries are equal. If they contradict each other, neither changes.
  void tie(Value variable, Value head) { ties.push_back({variable, head}); }

  /// The forward sweep, then the worklist. A sweep that changed nothing saw every node in its final state.
  llvm::Error run() {
    bool hasChanged = false;
    for (uint32_t n = firstNode; n < graph.numNodes(); ++n) {
      if (graph.isVariable(NodeId(n))) continue;
      if (llvm::Error error = visit(NodeId(n))) return error;
      if (!isFinished) unfinished.push_back(n);
      hasChanged |= !changed.empty();
    }
    for (uint32_t t = 0; t < ties.size(); ++t) {
      visitTie(ties[t]);
      if (!isFinished) unfinished.push_back(graph.numNodes() + t);
      hasChanged |= !changed.empty();
    }
    return hasChanged ? drain() : llvm::Error::success();
  }

  /// Continues after the caller made entries of variables more precise.
  llvm::Error resume() {
    size_t kept = 0;
    for (uint32_t n : unfinished) {
      if (llvm::Error error = visitAny(n)) return error;
      if (!isFinished) unfinished[kept++] = n;
    }
    unfinished.resize(kept);
    readerBegin.clear();
    return drain();
  }

 private:
  llvm::Error drain() {
    if (unfinished.empty()) return llvm::Error::success();
    index();
    // Later nodes first: what the sweep left open usually flows from consumers to producers.
    for (size_t i = unfinished.size(); i-- > 0;) enqueue(unfinished[i]);
    return work();
  }

  // Entry → unfinished nodes that touch it, as CSR over entries.
  void index() {
    if (!readerBegin.empty()) return;
    readerBegin.assign(graph.numEntries() + 1, 0);
    for (uint32_t n : unfinished) forTouched(n, [&](EntryId e) { ++readerBegin[e.value + 1]; });
    for (size_t e = 1; e < readerBegin.size(); ++e) readerBegin[e] += readerBegin[e - 1];
    readers.resize(readerBegin.back());
    std::vector<uint32_t> next(readerBegin.begin(), readerBegin.end() - 1);
    for (uint32_t n : unfinished) forTouched(n, [&](EntryId e) { readers[next[e.value]++] = n; });
    isQueued.resize(graph.numNodes() + static_cast<uint32_t>(ties.size()));
  }

  bool isTie(uint32_t n) const { return n >= graph.numNodes(); }

  template <class F> void forTouched(uint32_t number, F touch) {
    if (isTie(number)) {
      const auto &[variable, head] = ties[number - graph.numNodes()];
      touch(graph.entry(variable));
      return touch(graph.entry(head));
    }
    const NodeId n(number);
    for (Value v : graph.inputs(n)) touch(graph.entry(v));
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o) touch(EntryId(graph.firstEntry(n).value + o));
    if (!graph.kind(n).op->flags.isBackward || graph.controlDeps(n).empty()) return;
    NodeId forward = graph.controlDeps(n)[0];
    for (Value v : graph.inputs(forward)) touch(graph.entry(v));
    for (uint32_t o = 0; o < graph.numOutputs(forward); ++o) touch(EntryId(graph.firstEntry(forward).value + o));
  }

  /// First in, first out keeps neighbouring refinements together; the consumed prefix is cut when it dominates.
  class Queue {
   public:
    bool isEmpty() const { return head == nodes.size(); }
    void push(uint32_t n) { nodes.push_back(n); }
    uint32_t pop() {
      const uint32_t n = nodes[head++];
      if (head == nodes.size() || (head > 4096 && head * 2 > nodes.size())) {
        nodes.erase(nodes.begin(), nodes.begin() + static_cast<ptrdiff_t>(head));
        head = 0;
      }
      return n;
    }

   private:
    std::vector<uint32_t> nodes;
    size_t head = 0;
  };

  bool isWide(NodeId n) const {
    constexpr size_t kWide = 64;
    return graph.inputs(n).size() + graph.numOutputs(n) > kWide;
  }

  void enqueue(uint32_t n) {
    if (isQueued[n]) return;
    isQueued.set(n);
    (!isTie(n) && isWide(NodeId(n)) ? wideQueue : queue).push(n);
  }

  void enqueueReaders(EntryId e) {
    for (uint32_t i = readerBegin[e.value]; i < readerBegin[e.value + 1]; ++i) enqueue(readers[i]);
  }

  llvm::Error work() {
    while (!queue.isEmpty() || !wideQueue.isEmpty()) {
      const uint32_t n = (queue.isEmpty() ? wideQueue : queue).pop();
      isQueued.reset(n);
      if (llvm::Error error = visitAny(n)) return error;
      for (EntryId e : changed) enqueueReaders(e);
    }
    return llvm::Error::success();
  }

  llvm::Error visitAny(uint32_t n) {
    if (!isTie(n)) return visit(NodeId(n));
    visitTie(ties[n - graph.numNodes()]);
    return llvm::Error::success();
  }

  void visitTie(const std::pair<Value, Value> &tie) {
    changed.clear();
    isFinished = true;
    const EntryId a = graph.entry(tie.first), b = graph.entry(tie.second);
    Element both = entries[a];
    if (llvm::Error contradiction = lattice.take(tie.second.node, both, entries[b]))
      return llvm::consumeError(std::move(contradiction));
    store(a, both);
    store(b, both);
  }

  llvm::Error visit(NodeId n) {
    const NodeKind &kind = graph.kind(n);
    llvm::ArrayRef<Value> inputs = graph.inputs(n);
    const uint32_t first = graph.firstEntry(n).value, numOutputs = graph.numOutputs(n);
    in.clear();
    for (Value v : inputs) in.push_back(entries[graph.entry(v)]);
    out.assign(&entries[EntryId(first)], &entries[EntryId(first)] + numOutputs);
    changed.clear();
    isFinished = true;
    if (kind.op->flags.isBackward)
      if (llvm::Error error = takeFromForward(n)) return error;
    if (llvm::Error error = lattice.visit(n, in, out)) return error;
    for (size_t i = 0; i < inputs.size(); ++i) store(graph.entry(inputs[i]), in[i]);
    for (uint32_t o = 0; o < numOutputs; ++o) store(EntryId(first + o), out[o]);
    return llvm::Error::success();
  }

  void store(EntryId e, Element value) {
    isFinished &= lattice.isKnown(value);
    if (entries[e] == value || e.value < firstEntry) return;
    // If a node reads an entry twice, the other position may hold an older, less precise copy, or contradict this one.
    // The node's next visit has the same value in both positions and decides.
    if (!lattice.isMorePrecise(value, entries[e])) return void(isFinished = false);
    entries[e] = value;
    changed.push_back(e);
  }

  llvm::Error takeFromForward(NodeId n) {
    if (graph.controlDeps(n).empty()) return llvm::Error::success();
    NodeId forward = graph.controlDeps(n)[0];
    if (graph.isVariable(forward)) return llvm::Error::success();
    const BackwardLink *link = summaries.link(graph.kindHandle(forward), graph.kindHandle(n));
    if (!link) return mismatch(n, forward);
    const uint32_t firstOutput = graph.firstEntry(forward).value;
    llvm::ArrayRef<Value> inputs = graph.inputs(forward);
    for (LinkedEntry entry : link->outputs)
      if (llvm::Error error = take(n, out[entry.position], graph.entry(inputs[entry.of]))) return error;
    for (LinkedEntry entry : link->fromInputs)
      if (llvm::Error error = take(n, in[entry.position], graph.entry(inputs[entry.of]))) return error;
    for (LinkedEntry entry : link->fromOutputs)
      if (llvm::Error error = take(n, in[entry.position], EntryId(firstOutput + entry.of))) return error;
    return llvm::Error::success();
  }

  // An entry of the forward node that is unknown now may be known later.
  llvm::Error take(NodeId n, Element &to, EntryId from) {
    isFinished &= lattice.isKnown(entries[from]);
    return lattice.take(n, to, entries[from]);
  }

  // E-56: another operator, or the right one with other attributes.
  llvm::Error mismatch(NodeId n, NodeId forward) const {
    const RuleSummary &summary = summaries.of(graph.kindHandle(forward));
    if (!summary.failure.empty())
      return Failure(ErrorKind::BackwardMatch,
                     graph.describe(n) + " has " + graph.describe(forward) +
                         " as its forward node, whose gradient cannot be determined: " + summary.failure)
          .at(n)
          .note("this is a mistake in the operator's definition, not in the graph");
    auto link = llvm::find_if(summary.nodes, [&](const BackwardLink &l) { return l.kind->op == graph.op(n); });
    if (link == summary.nodes.end())
      return Failure(ErrorKind::BackwardMatch, graph.describe(n) + " has " + graph.describe(forward) +
                                                   " as its forward node, whose gradient has no such operator")
          .at(n);
    return Failure(ErrorKind::BackwardMatch, graph.describe(n) + " has " + describeParameters(graph.kind(n)) +
                                                 ", the gradient of " + graph.describe(forward) + " has " +
                                                 describeParameters(*link->kind))
        .at(n);
  }

  const Graph &graph;
  Lattice &lattice;
  RuleSummaries &summaries;
  EntryMap<Element> &entries;
  uint32_t firstNode = 0, firstEntry = 0;  // everything before is given
  llvm::SmallVector<Element, 16> in, out;
  llvm::SmallVector<EntryId, 16> changed;
  bool isFinished = true;            // of the last visit
  std::vector<uint32_t> unfinished;  // after the sweep
  std::vector<uint32_t> readerBegin, readers;
  Queue queue, wideQueue;
  llvm::BitVector isQueued;
  std::vector<std::pair<Value, Value>> ties;
};

}  // namespace gradc
