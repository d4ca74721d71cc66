// Phases: find the nodes that may have a kernel, settle layouts, make kernels. When a factory refuses a node with
// operands that are not row-major, these operands become plain and layouts are settled again. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#include "runtime/kernels/kernel_set.h"

#include "runtime/kernels/core/threads.h"
#include "runtime/kernels/core/widened_kernel.h"
#include "runtime/kernels/layout_settlement.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

class Selection {
 public:
  Selection(const Graph &graph, const Inference &inference, const RequestTable &requests,
            const KernelSetOptions &options)
      : graph(graph), inference(inference), requests(requests), options(options), rows(graph, nullptr),
        nodes(graph, NodeLayout()),
        settlement(graph, inference, requests, options.movesArguments, options.plainEntries),
        lastLayouts(graph, Layout::Plain), kernels(graph.numNodes()), tapeReader(graph, NodeId()),
        tapeSource(graph, NodeId()) {}

  void run() {
    for (uint32_t id = 0; id < graph.numNodes(); ++id) {
      const NodeId n(id);
      rows[n] = rowOf(n);
      if (options.allowLayouts && !graph.isVariable(n)) nodes[n] = layoutOf(n);
    }
    if (options.keepsTapes) pairTapes();
    do {
      if (options.allowLayouts) settlement.settle(nodes);
    } while (!makeKernels());
  }

  EntryMap<Layout> takeLayouts() { return settlement.take(); }
  std::vector<std::unique_ptr<PreparedKernel>> takeKernels() { return std::move(kernels); }
  std::vector<KernelSet::Tape> takeTapes() {
    std::vector<KernelSet::Tape> tapes;
    for (uint32_t id = 0; id < graph.numNodes(); ++id)
      if (const NodeId reader = tapeReader[NodeId(id)]; reader.isValid() && kernels[id] && kernels[reader.value])
        tapes.push_back({NodeId(id), reader});
    return tapes;
  }

 private:
  bool isKnown(EntryId e) const { return inference.isKnownShape(e) && inference.dtype[e] != DType::Unknown; }
  Dims dims(EntryId e) const { return inference.shapeOf(e).dims(); }
  EntryId output(NodeId n, uint32_t o) const { return EntryId(graph.firstEntry(n).value + o); }

  const FastKernelRow *rowOf(NodeId n) const {
    if (graph.isVariable(n)) return nullptr;
    const OpDef &op = *graph.op(n);
    const FastKernelRow *row = findFastKernel(op);
    if (!row) return nullptr;
    bool isWanted = false;
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o) {
      isWanted |= requests.request[output(n, o)] != Request::Null;
      if (!isKnown(output(n, o))) return nullptr;
    }
    for (Value v : graph.inputs(n))
      if (!isKnown(graph.entry(v))) return nullptr;
    return isWanted ? row : nullptr;
  }

  NodeLayout layoutOf(NodeId n) {
    if (hasHalf(graph, inference, n)) return NodeLayout();
    const FastKernelRow *row = rows[n];
    if (!row) return {referenceRole(*graph.op(n)), {}, false};
    const bool suitsTiles = row->filters.suitTiles && row->filters.suitTiles(siteOf(n));
    return {row->role, row->filters, suitsTiles};
  }

  // A gradient node has a control dependency on its forward node. The first gradient node gets the tape and may
  // overwrite it.
  void pairTapes() {
    for (uint32_t id = 0; id < graph.numNodes(); ++id) {
      const NodeId n(id);
      if (!rows[n] || !rows[n]->tape.fit || graph.controlDeps(n).empty()) continue;
      const NodeId forward = graph.controlDeps(n)[0];
      // A float32 kernel keeps gates that do not match values rounded to 16 bits.
      if (hasHalf(graph, inference, n) || hasHalf(graph, inference, forward)) continue;
      if (!rows[forward] || rows[forward]->name != rows[n]->tape.forward || tapeReader[forward].isValid()) continue;
      if (!rows[n]->tape.fit(graph.kind(forward), graph.inputs(forward), graph.inputs(n))) continue;
      tapeReader[forward] = n;
      tapeSource[n] = forward;
    }
  }

  void addOperand(EntryId e) {
    Dims shape = isKnown(e) ? dims(e) : Dims();
    operands.push_back({nullptr, inference.dtype[e], shape, settlement.layout(e)});
  }

  /// Views into columns of this object, valid until the next call.
  KernelSite siteOf(NodeId n) {
    operands.clear();
    requested.clear();
    ArrayRef<Value> inputs = graph.inputs(n);
    for (Value v : inputs) addOperand(graph.entry(v));
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o) {
      addOperand(output(n, o));
      requested.push_back(requests.request[output(n, o)] == Request::Null ? Request::Null : Request::Write);
    }
    KernelSite site;
    site.kind = &graph.kind(n);
    site.in = ArrayRef(operands).take_front(inputs.size());
    site.out = ArrayRef(operands).drop_front(inputs.size());
    site.requests = requested;
    site.isTraining = options.forms.empty() ? options.isTraining : options.forms[n.value].isTraining;
    site.threads = options.threads;
    site.keepsTape = tapeReader[n].isValid();
    site.hasTape = tapeSource[n].isValid() && kernels[tapeSource[n].value];
    return site;
  }

  std::unique_ptr<PreparedKernel> make(NodeId n) {
    const KernelSite site = siteOf(n);
    for (const TensorRef &operand : operands)
      if (operand.size() == 0) return nullptr;
    const Widening widening(*site.kind, site.in, site.out, requested);
    if (!widening.isNeeded()) return rows[n]->make(site);
    std::unique_ptr<WidenedKernel> kernel = WidenedKernel::create(site, widening, rows[n]->make);
    return kernel && kernel->isFast() ? std::move(kernel) : nullptr;
  }

  /// Whether an operand's layout has changed since kernels were last made.
  bool hasMoved(NodeId n) const {
    auto isOther = [&](EntryId e) { return settlement.layout(e) != lastLayouts[e]; };
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o)
      if (isOther(output(n, o))) return true;
    return llvm::any_of(graph.inputs(n), [&](Value v) { return isOther(graph.entry(v)); });
  }

  /// False if layouts have to be settled again, with fewer nodes. Keeps kernels whose operands have not changed.
  bool makeKernels() {
    bool isSettled = true;
    for (uint32_t id = 0; id < graph.numNodes(); ++id) {
      NodeId n(id);
      if (!rows[n] || (kernels[id] && !hasMoved(n))) continue;
      kernels[id] = make(n);
      if (kernels[id]) continue;
      if (settlement.touchesMoved(n)) isSettled = false;
      else rows[n] = nullptr;
      nodes[n] = NodeLayout();
    }
    for (uint32_t e = 0; e < graph.numEntries() && !isSettled; ++e)
      lastLayouts[EntryId(e)] = settlement.layout(EntryId(e));
    return isSettled;
  }

  const Graph &graph;
  const Inference &inference;
  const RequestTable &requests;
  const KernelSetOptions &options;
  NodeMap<const FastKernelRow *> rows;  // null: reference
  NodeMap<NodeLayout> nodes;
  LayoutSettlement settlement;
  EntryMap<Layout> lastLayouts;
  std::vector<std::unique_ptr<PreparedKernel>> kernels;
  std::vector<TensorRef> operands;
  std::vector<Request> requested;
  NodeMap<NodeId> tapeReader, tapeSource;  // by forward node, by gradient node; invalid: none
};

}  // namespace

KernelSet KernelSet::create(const Graph &graph, const Inference &inference, const RequestTable &requests,
                            const KernelSetOptions &options) {
  Selection selection(graph, inference, requests, options);
  withThreads(options.threads, [&] { selection.run(); });
  KernelSet set;
  set.layouts = selection.takeLayouts();
  set.kept = selection.takeTapes();
  set.kernels = selection.takeKernels();
  return set;
}

uint32_t KernelSet::numKernels() const {
  uint32_t count = 0;
  for (const std::unique_ptr<PreparedKernel> &kernel : kernels) count += kernel != nullptr;
  return count;
}

uint32_t KernelSet::numEntries(Layout layout) const {
  return static_cast<uint32_t>(llvm::count(layouts.all(), layout));
}

int64_t KernelSet::planWorkspace(const void *user, NodeId n) {
  const PreparedKernel *kernel = static_cast<const KernelSet *>(user)->kernel(n);
  return kernel ? static_cast<int64_t>(kernel->workspaceBytes()) : -1;
}

NodeId KernelSet::planReader(const void *user, NodeId n) {
  ArrayRef<Tape> tapes = static_cast<const KernelSet *>(user)->tapes();
  const Tape *tape = llvm::lower_bound(tapes, n, [](const Tape &t, NodeId forward) { return t.forward < forward; });
  return tape != tapes.end() && tape->forward == n ? tape->backward : NodeId();
}

}  // namespace gradc
