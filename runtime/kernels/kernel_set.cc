// Phases: find the nodes that may have a kernel, tie and settle layouts, make kernels; when a factory refuses a node
// whose operands were to lie channels-last, the node leaves and layouts are settled again.
// Tested by tests/fast_kernels_test.cc
#include "runtime/kernels/kernel_set.h"

#include "runtime/kernels/table.h"
#include "runtime/kernels/threads.h"

using namespace llvm;

namespace gradc {
namespace {

/// oneDNN is quick on channels-last images of whole vectors of channels; of other images it pads its own copies.
constexpr int64_t kVector = 16;

class Selection {
 public:
  Selection(const Graph &graph, const Inference &inference, const RequestTable &requests,
            const KernelSetOptions &options)
      : graph(graph), inference(inference), requests(requests), options(options), rows(graph, nullptr),
        layouts(graph, Layout::Plain), parent(graph, EntryId()), kernels(graph.numNodes()) {}

  void run() {
    for (uint32_t id = 0; id < graph.numNodes(); ++id) rows[NodeId(id)] = rowOf(NodeId(id));
    do {
      if (options.allowLayouts) settleLayouts();
    } while (!makeKernels());
  }

  EntryMap<Layout> takeLayouts() { return std::move(layouts); }
  std::vector<std::unique_ptr<PreparedKernel>> takeKernels() { return std::move(kernels); }

 private:
  enum class Fate : uint8_t { Open, Wanted, Plain };  // the stronger one wins

  bool isKnown(EntryId e) const {
    return graph.context().isFullyKnown(inference.shape[e]) && inference.dtype[e] != DType::Unknown;
  }
  Dims dims(EntryId e) const { return graph.context().shape(inference.shape[e]).dims(); }
  EntryId output(NodeId n, uint32_t o) const { return EntryId(graph.firstEntry(n).value + o); }

  const FastKernelRow *rowOf(NodeId n) const {
    if (graph.isVariable(n)) return nullptr;
    const OpDef &op = *graph.op(n);
    if (!op.kernel) return nullptr;
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

  bool isImage(EntryId e) const {
    return isKnown(e) && inference.dtype[e] == DType::Float32 && dims(e).size() == 4;
  }
  /// Both layouts are the same bytes.
  bool isOnePixel(EntryId e) const { return dims(e)[2] * dims(e)[3] == 1; }

  EntryId find(EntryId e) {
    while (parent[e].isValid()) {
      if (parent[parent[e]].isValid()) parent[e] = parent[parent[e]];
      e = parent[e];
    }
    return e;
  }
  void tie(EntryId a, EntryId b) {
    a = find(a), b = find(b);
    if (a == b) return;
    parent[b] = a;
    fate[a] = std::max(fate[a], fate[b]);
  }
  void mark(EntryId e, Fate wish) {
    Fate &at = fate[find(e)];
    at = std::max(at, wish);
  }

  /// Calls visit(entry) for the images a node reads or writes.
  template <class F> void forImages(NodeId n, F visit) const {
    const NodeKind &kind = graph.kind(n);
    ArrayRef<Value> inputs = graph.inputs(n);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!kind.isIgnored(i) && isImage(graph.entry(inputs[i]))) visit(graph.entry(inputs[i]));
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o)
      if (requests.request[output(n, o)] != Request::Null && isImage(output(n, o))) visit(output(n, o));
  }

  void settleLayouts() {
    parent = EntryMap<EntryId>(graph, EntryId());
    fate = EntryMap<Fate>(graph, Fate::Open);
    for (Value head : graph.heads()) mark(graph.entry(head), Fate::Plain);
    for (uint32_t id = 0; id < graph.numNodes(); ++id) {
      if (graph.isVariable(NodeId(id))) mark(graph.firstEntry(NodeId(id)), Fate::Plain);
      else constrain(NodeId(id));
    }
    for (uint32_t e = 0; e < graph.numEntries(); ++e) {
      const bool isLast = isImage(EntryId(e)) && fate[find(EntryId(e))] == Fate::Wanted;
      layouts[EntryId(e)] = isLast ? Layout::ChannelsLast : Layout::Plain;
    }
  }

  void constrain(NodeId n) {
    const LayoutRole role = rows[n] ? rows[n]->role : LayoutRole::Plain;
    EntryId first;
    forImages(n, [&](EntryId e) {
      if (role == LayoutRole::Plain) {
        if (!isOnePixel(e)) mark(e, Fate::Plain);
        return;
      }
      if (role == LayoutRole::Own) return mark(e, dims(e)[1] % kVector ? Fate::Plain : Fate::Wanted);
      if (first.isValid()) tie(first, e);
      first = e;
    });
  }

  void addOperand(EntryId e) {
    Dims shape = isKnown(e) ? dims(e) : Dims();
    operands.push_back({nullptr, inference.dtype[e], shape});
    operandLayouts.push_back(layouts[e]);
  }

  std::unique_ptr<PreparedKernel> make(NodeId n) {
    operands.clear();
    operandLayouts.clear();
    wishes.clear();
    ArrayRef<Value> inputs = graph.inputs(n);
    for (Value v : inputs) addOperand(graph.entry(v));
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o) {
      addOperand(output(n, o));
      wishes.push_back(requests.request[output(n, o)] == Request::Null ? Request::Null : Request::Write);
    }
    for (const TensorRef &operand : operands)
      if (operand.size() == 0) return nullptr;
    KernelSite site;
    site.kind = &graph.kind(n);
    site.in = ArrayRef(operands).take_front(inputs.size());
    site.out = ArrayRef(operands).drop_front(inputs.size());
    site.inLayout = ArrayRef(operandLayouts).take_front(inputs.size());
    site.outLayout = ArrayRef(operandLayouts).drop_front(inputs.size());
    site.requests = wishes;
    site.isTraining = options.isTraining;
    site.threads = options.threads;
    return rows[n]->make(site);
  }

  bool touchesChannelsLast(NodeId n) const {
    bool touches = false;
    forImages(n, [&](EntryId e) { touches |= layouts[e] == Layout::ChannelsLast && !isOnePixel(e); });
    return touches;
  }

  /// False when layouts have to be settled again, with fewer nodes.
  bool makeKernels() {
    bool isSettled = true;
    for (uint32_t id = 0; id < graph.numNodes(); ++id) {
      NodeId n(id);
      if (!rows[n]) continue;
      kernels[id] = make(n);
      if (kernels[id]) continue;
      rows[n] = nullptr;
      isSettled &= !touchesChannelsLast(n);
    }
    return isSettled;
  }

  const Graph &graph;
  const Inference &inference;
  const RequestTable &requests;
  const KernelSetOptions &options;
  NodeMap<const FastKernelRow *> rows;  // null: reference
  EntryMap<Layout> layouts;
  EntryMap<EntryId> parent;             // union-find of entries of one layout
  EntryMap<Fate> fate;                  // by root
  std::vector<std::unique_ptr<PreparedKernel>> kernels;
  std::vector<TensorRef> operands;
  std::vector<Layout> operandLayouts;
  std::vector<Request> wishes;
};

}  // namespace

KernelSet KernelSet::create(const Graph &graph, const Inference &inference, const RequestTable &requests,
                            const KernelSetOptions &options) {
  ThreadScope scope(options.threads);
  Selection selection(graph, inference, requests, options);
  selection.run();
  KernelSet set;
  set.layouts = selection.takeLayouts();
  set.kernels = selection.takeKernels();
  return set;
}

uint32_t KernelSet::numKernels() const {
  uint32_t count = 0;
  for (const std::unique_ptr<PreparedKernel> &kernel : kernels) count += kernel != nullptr;
  return count;
}

uint32_t KernelSet::numChannelsLast() const {
  uint32_t count = 0;
  for (Layout layout : layouts.all()) count += layout == Layout::ChannelsLast;
  return count;
}

int64_t KernelSet::planWorkspace(const void *user, NodeId n) {
  const PreparedKernel *kernel = static_cast<const KernelSet *>(user)->kernel(n);
  return kernel ? static_cast<int64_t>(kernel->workspaceBytes()) : -1;
}

}  // namespace gradc
