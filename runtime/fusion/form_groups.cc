// Phases: list the nodes that run; take out batch norms with the nodes that follow them, and their gradients with the
// node before; cut the rest into stretches of nodes that work on the same number of elements; cut these where no
// operand connects the nodes before with those after; decide which entries are not stored and which may share memory.
// Tested by tests/runtime/fusion_test.cc
#include "runtime/fusion/form_groups.h"

#include "runtime/executor/instruction_list.h"
#include "runtime/fusion/element_group.h"
#include "runtime/fusion/norm_group.h"
#include "runtime/kernels/table.h"

#include "ops/elementwise/activation.h"
#include "ops/normalization/batch_norm.h"
#include "passes/order/requests.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr size_t kCacheBytes = size_t{24} << 10;  // of the L1 cache, for the pieces of all operands of a group

class Formation {
 public:
  explicit Formation(const FusionRequest &request)
      : request(request), graph(request.graph), requests(request.requests), headCount(graph, 0) {}

  Fusion run() {
    for (Value head : graph.heads()) ++headCount[graph.entry(head)];
    std::vector<NodeId> running;
    for (uint32_t step = 0; step < graph.numNodes(); ++step) {
      const NodeId n = request.schedule.nodeAt(step);
      if (!graph.isVariable(n) && !hasNothingToDo(graph, requests, request.inference, n)) running.push_back(n);
    }
    for (size_t i = 0; i < running.size();) {
      const ArrayRef<NodeId> left = ArrayRef(running).drop_front(i);
      size_t taken = addNormGroup(left);
      if (taken == 0) taken = addNormGradientGroup(left);
      if (taken == 0) addToStretch(running[i]);
      i += std::max<size_t>(taken, 1);
    }
    endStretch();
    llvm::sort(fusion.memory.inside);
    llvm::stable_sort(fusion.memory.pairs, [](const GroupPair &a, const GroupPair &b) { return a.output < b.output; });
    return std::move(fusion);
  }

 private:
  // ---- batch norm

  /// Adds the group that begins with the first of these nodes, if there is one. Returns its number of nodes.
  size_t addNormGroup(ArrayRef<NodeId> nodes) {
    const NodeId norm = nodes[0];
    if (!request.options.norms || nodes.size() < 2 || rowName(norm) != "BatchNorm") return 0;
    const EntryId x = graph.entry(graph.inputs(norm)[0]);
    fast::NormTail tail;
    size_t taken = 1, addend = 0;
    if (passesOn(norm, nodes[1]) && isSumOfTwo(nodes[1])) {
      addend = graph.entry(graph.inputs(nodes[1])[0]) == output(norm, 0) ? 1 : 0;
      tail.hasAddend = true;
      taken = 2;
    }
    if (taken < nodes.size() && passesOn(nodes[taken - 1], nodes[taken]) && isRelu(nodes[taken])) {
      tail.hasRelu = true;
      ++taken;
    }
    const ArrayRef<NodeId> members = nodes.take_front(taken);
    if (taken == 1 || !isAlike(members, x)) return 0;
    std::unique_ptr<GroupKernel> kernel = normGroupKernel(siteOf(norm), tail, addend);
    if (!kernel) return 0;
    SmallVector<EntryId, 2> sources = {x};
    if (tail.hasAddend) sources.push_back(graph.entry(graph.inputs(nodes[1])[addend]));
    addNorm(members, output(members.back(), 0), sources, std::move(kernel));
    return taken;
  }

  /// Adds the gradient of a relu and that of the batch norm before it, if these are the first two nodes.
  size_t addNormGradientGroup(ArrayRef<NodeId> nodes) {
    if (!request.options.norms || nodes.size() < 2 || rowName(nodes[1]) != "_backward_BatchNorm") return 0;
    const ArrayRef<NodeId> members = nodes.take_front(2);
    const NodeId relu = nodes[0], norm = nodes[1];
    const EntryId x = graph.entry(graph.inputs(norm)[3]);
    if (graph.isVariable(relu) || !isReluGradient(relu) || !passesOn(relu, norm) || !isAlike(members, x)) return 0;
    if (graph.entry(graph.inputs(norm)[0]) != output(relu, 0) || !isReluOfNorm(relu, norm)) return 0;
    std::unique_ptr<GroupKernel> kernel = normGradientGroupKernel(siteOf(norm));
    if (!kernel) return 0;
    addNorm(members, output(norm, 0), {graph.entry(graph.inputs(relu)[0]), x}, std::move(kernel));
    return 2;
  }

  /// Whether the relu of the first gradient read the output of the batch norm of the second, and that output can be
  /// recomputed: the batch norm and its gradient have the same operands, including beta, which the gradient does not
  /// read.
  bool isReluOfNorm(NodeId reluGradient, NodeId normGradient) {
    const NodeId relu = graph.inputs(reluGradient)[1].node;
    if (graph.isVariable(relu) || !isRelu(relu)) return false;
    const Value y = graph.inputs(relu)[0];
    if (graph.isVariable(y.node) || y.index != 0 || rowName(y.node) != "BatchNorm") return false;
    const BatchNormAttrs attrs = batchNormAttrs(graph.kind(y.node)), given = batchNormAttrs(graph.kind(normGradient));
    if (attrs.axis != given.axis || attrs.fixGamma != given.fixGamma) return false;
    const ArrayRef<Value> in = graph.inputs(y.node), saved = graph.inputs(normGradient);
    if (saved[1] != Value{y.node, 1, 0} || saved[2] != Value{y.node, 2, 0}) return false;
    return saved.slice(3, 3) == in.take_front(3) && isKeptUntil(in[2].node, normGradient);
  }

  /// Whether `n` is a variable that no node before `reader` overwrites.
  bool isKeptUntil(NodeId n, NodeId reader) {
    if (!graph.isVariable(n)) return false;
    if (firstWrite.empty()) {
      firstWrite.assign(graph.numNodes(), Schedule::kNoStep);
      for (uint32_t step = graph.numNodes(); step-- > 0;) {
        const NodeId writer = request.schedule.nodeAt(step);
        const ArrayRef<Value> inputs = graph.inputs(writer);
        for (size_t i = 0; i < inputs.size(); ++i)
          if (graph.kind(writer).isMutated(i)) firstWrite[inputs[i].node.value] = step;
      }
    }
    return request.schedule.stepOf(reader) < firstWrite[n.value];
  }

  void addNorm(ArrayRef<NodeId> members, EntryId result, ArrayRef<EntryId> sources,
               std::unique_ptr<GroupKernel> kernel) {
    endStretch();
    for (NodeId n : members.drop_back()) fusion.memory.inside.push_back(output(n, 0));
    if (isWanted(result) && !isHead(result))
      for (EntryId source : sources) fusion.memory.pairs.push_back({result, source});
    addGroup(members, std::move(kernel));
  }

  /// The operator's name if it is built in and runs on a fast kernel.
  StringRef rowName(NodeId n) const {
    if (!request.kernels.kernel(n) || hasHalf(graph, request.inference, n)) return "";
    return findFastKernel(*graph.op(n))->name;
  }
  bool isRelu(NodeId n) const {
    const StringRef name = rowName(n);
    return name == "relu" || (name == "Activation" && activationType(graph.kind(n)) == ActType::Relu);
  }
  bool isReluGradient(NodeId n) const {
    const StringRef name = rowName(n);
    return name == "_backward_relu" ||
           (name == "_backward_Activation" && activationType(graph.kind(n)) == ActType::Relu);
  }
  bool isSumOfTwo(NodeId n) const {
    const StringRef name = rowName(n);
    return graph.inputs(n).size() == 2 &&
           (name == "elemwise_add" || name == "_grad_add" || name == "add_n" || name == "broadcast_add");
  }

  /// Whether `next` is the only reader of output 0 of `n`, and reads it once.
  bool passesOn(NodeId n, NodeId next) const {
    const EntryId e = output(n, 0);
    if (!isWanted(e) || isHead(e) || requests.reads[e] != 1 || hasHeadSteps(n)) return false;
    return is_contained(map_range(graph.inputs(next), [&](Value v) { return graph.entry(v); }), e);
  }

  /// Whether `x` is large enough, and output 0 of each member and the operands of its element-wise members have the
  /// shape, type and layout of `x`.
  bool isAlike(ArrayRef<NodeId> members, EntryId x) const {
    const Inference &inference = request.inference;
    if (inference.elements(x) < request.options.minElements) return false;
    auto isLikeX = [&](EntryId e) {
      // Settlement gives such operands one layout, except images of one pixel, whose bytes are the same in each.
      return inference.shape[e] == inference.shape[x] && inference.dtype[e] == inference.dtype[x] &&
             request.kernels.layout(e) == request.kernels.layout(x);
    };
    return all_of(members, [&](NodeId n) {
      if (!isLikeX(output(n, 0))) return false;
      if (rowName(n).ends_with("BatchNorm")) return true;
      return all_of(graph.inputs(n), [&](Value v) { return isLikeX(graph.entry(v)); });
    });
  }

  /// Views into columns of this object, valid until the next call.
  KernelSite siteOf(NodeId n) {
    const KernelSetOptions &made = request.kernelOptions;
    siteOperands.clear();
    siteRequests.clear();
    auto addOperand = [&](EntryId e) {
      siteOperands.push_back(
          {nullptr, request.inference.dtype[e], request.inference.shapeOf(e).dims(), request.kernels.layout(e)});
    };
    for (Value v : graph.inputs(n)) addOperand(graph.entry(v));
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o) {
      addOperand(output(n, o));
      siteRequests.push_back(isWanted(output(n, o)) ? Request::Write : Request::Null);
    }
    KernelSite site;
    site.kind = &graph.kind(n);
    site.in = ArrayRef(siteOperands).take_front(graph.inputs(n).size());
    site.out = ArrayRef(siteOperands).drop_front(graph.inputs(n).size());
    site.requests = siteRequests;
    site.isTraining = made.forms.empty() ? made.isTraining : made.forms[n.value].isTraining;
    site.threads = made.threads;
    return site;
  }

  // ---- element-wise nodes

  EntryId output(NodeId n, uint32_t o) const { return EntryId(graph.firstEntry(n).value + o); }
  bool isWanted(EntryId e) const { return requests.request[e] != Request::Null; }
  bool isHead(EntryId e) const { return headCount[e] != 0; }
  bool isPart(EntryId e) const { return request.inference.elements(e) == size; }
  uint32_t widthOf(EntryId e) const { return static_cast<uint32_t>(dtypeBytes(request.inference.dtype[e])); }
  size_t numOperands(NodeId n) const { return graph.inputs(n).size() + graph.numOutputs(n); }

  /// Whether the node's kernel can be run on parts of its operands.
  bool takesParts(NodeId n) const {
    if (const PreparedKernel *kernel = request.kernels.kernel(n))
      return kernel->takesParts() && kernel->workspaceBytes() == 0;
    const OpDef &op = *graph.op(n);
    return op.kernel && !op.workspace && referenceRole(op) == LayoutRole::Elements &&
           !hasHalf(graph, request.inference, n);
  }

  /// The number of elements of an element-wise node; 0 for any other.
  int64_t elementsOf(NodeId n) const {
    if (!request.options.elements || !takesParts(n)) return 0;
    int64_t elements = 0;
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o) {
      if (!isWanted(output(n, o))) continue;
      const int64_t found = request.inference.elements(output(n, o));
      if (elements != 0 && found != elements) return 0;
      elements = found;
    }
    ArrayRef<Value> inputs = graph.inputs(n);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int64_t found = request.inference.elements(graph.entry(inputs[i]));
      if (!graph.kind(n).isIgnored(i) && found != elements && found != 1) return 0;
    }
    return elements < request.options.minElements ? 0 : elements;
  }

  /// Whether an output is copied or added to a head right after the node.
  bool hasHeadSteps(NodeId n) const {
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o)
      if (const EntryId e = output(n, o); headCount[e] > 1 || requests.request[e] == Request::Add) return true;
    return false;
  }

  void addToStretch(NodeId n) {
    const int64_t elements = elementsOf(n);
    const size_t operands = numOperands(n);
    const bool fits = stretch.size() < kMaxMembers && stretchOperands + operands <= kMaxOperands;
    if (elements != size || !fits) endStretch();
    if (elements == 0 || operands > kMaxOperands) return;
    size = elements;
    stretch.push_back(n);
    stretchOperands += operands;
    if (hasHeadSteps(n)) endStretch();
  }

  void endStretch() {
    // By member: the last one with an operand that this one is the first to use.
    SmallVector<size_t, kMaxMembers> reach(stretch.size());
    DenseMap<uint32_t, size_t> firstWith;
    for (size_t m = 0; m < stretch.size(); ++m)
      forParts(stretch[m], [&](EntryId e) { reach[firstWith.try_emplace(e.value, m).first->second] = m; });
    size_t begin = 0, end = 0;
    for (size_t m = 0; m < stretch.size(); ++m) {
      end = std::max(end, reach[m]);
      if (end > m) continue;
      if (m > begin) addElementGroup(ArrayRef(stretch).slice(begin, m + 1 - begin));
      begin = end = m + 1;
    }
    stretch.clear();
    stretchOperands = 0;
    size = 0;
  }

  /// Visits the entries of the stretch's size that the node reads, then those that it writes.
  template <class F> void forParts(NodeId n, F visit) const {
    forReads(n, visit);
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o)
      if (isWanted(output(n, o))) visit(output(n, o));
  }
  template <class F> void forReads(NodeId n, F visit) const {
    ArrayRef<Value> inputs = graph.inputs(n);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (const EntryId e = graph.entry(inputs[i]); !graph.kind(n).isIgnored(i) && isPart(e)) visit(e);
  }

  void addElementGroup(ArrayRef<NodeId> members) {
    const Slots slots = placeInside(members);
    ElementGroup group;
    group.size = size;
    group.threads = request.kernelOptions.threads;
    size_t width = slots.width;
    DenseMap<uint32_t, bool> seen;
    auto add = [&](EntryId e) {
      GroupOperand operand;
      operand.width = widthOf(e);
      if (auto at = slots.of.find(e.value); at != slots.of.end()) {
        operand.kind = GroupOperand::Kind::Scratch;
        operand.slot = at->second;
      } else if (isPart(e)) {
        operand.kind = GroupOperand::Kind::Part;
        if (seen.try_emplace(e.value, true).second) width += operand.width;
      }
      group.operands.push_back(operand);
    };
    for (NodeId n : members) {
      for (Value v : graph.inputs(n)) add(graph.entry(v));
      for (uint32_t o = 0; o < graph.numOutputs(n); ++o) add(output(n, o));
    }
    group.piece = pieceOf(width, slots.width);
    for (auto [e, slot] : slots.of) fusion.memory.inside.push_back(EntryId(e));
    addPairs(members, slots);
    addGroup(members, elementGroupKernel(std::move(group)));
  }

  int64_t pieceOf(size_t width, size_t scratchWidth) const {
    auto fitting = [](size_t bytes, size_t perElement) {
      const int64_t elements = static_cast<int64_t>(bytes / std::max<size_t>(perElement, 1));
      return std::clamp(elements / kPieceAlignment * kPieceAlignment, kMinPiece, kMaxPiece);
    };
    const int64_t given = request.options.pieceElements;
    return given == 0 ? fitting(kCacheBytes, width) : std::min(given, fitting(kScratchBytes, scratchWidth));
  }

  /// Places in scratch for the pieces of entries that are not stored.
  struct Slots {
    DenseMap<uint32_t, uint32_t> of;  // by entry
    uint32_t width = 0;               // bytes per element, of all slots
  };

  /// After the last read of its entry, a slot is free for another entry of the same width.
  Slots placeInside(ArrayRef<NodeId> members) const {
    DenseMap<uint32_t, uint32_t> readsLeft;
    for (NodeId n : members) forReads(n, [&](EntryId e) { ++readsLeft[e.value]; });
    Slots slots;
    SmallVector<std::pair<uint32_t, uint32_t>, 8> free;  // width, slot
    for (NodeId n : members) {
      for (uint32_t o = 0; o < graph.numOutputs(n); ++o) {
        const EntryId e = output(n, o);
        if (!isWanted(e) || isHead(e) || readsLeft.lookup(e.value) != requests.reads[e]) continue;
        const uint32_t width = widthOf(e);
        auto at = find_if(free, [&](const auto &f) { return f.first == width; });
        if (at != free.end()) {
          slots.of[e.value] = at->second;
          free.erase(at);
        } else if (slots.width + width <= kMaxScratchWidth) {
          slots.of[e.value] = slots.width;
          slots.width += width;
        }
      }
      forReads(n, [&](EntryId e) {
        if (--readsLeft[e.value] != 0) return;
        if (auto at = slots.of.find(e.value); at != slots.of.end()) free.push_back({widthOf(e), at->second});
      });
    }
    return slots;
  }

  /// An entry that is stored may overwrite one that an earlier member reads.
  void addPairs(ArrayRef<NodeId> members, const Slots &slots) {
    SmallVector<EntryId, 16> before;
    for (NodeId n : members) {
      for (uint32_t o = 0; o < graph.numOutputs(n); ++o) {
        const EntryId e = output(n, o);
        if (!isWanted(e) || isHead(e) || slots.of.contains(e.value)) continue;
        for (EntryId source : before) fusion.memory.pairs.push_back({e, source});
      }
      forReads(n, [&](EntryId e) {
        if (!slots.of.contains(e.value) && !is_contained(before, e)) before.push_back(e);
      });
    }
  }

  void addGroup(ArrayRef<NodeId> members, std::unique_ptr<GroupKernel> kernel) {
    fusion.memory.groups.push_back({request.schedule.stepOf(members.front()), request.schedule.stepOf(members.back())});
    fusion.groups.push_back({members.vec(), std::move(kernel)});
  }

  const FusionRequest &request;
  const Graph &graph;
  const RequestTable &requests;
  EntryMap<uint32_t> headCount;
  SmallVector<NodeId, kMaxMembers> stretch;  // consecutive nodes that work on `size` elements each
  size_t stretchOperands = 0;
  int64_t size = 0;
  std::vector<uint32_t> firstWrite;  // by node: the step that first overwrites it; empty until needed
  std::vector<TensorRef> siteOperands;
  std::vector<Request> siteRequests;
  Fusion fusion;
};

}  // namespace

Fusion formGroups(const FusionRequest &request) { return Formation(request).run(); }

}  // namespace gradc
