// The independent judge of memory plans: replays the schedule byte range by byte range and shares nothing with the
// planner but the plan itself (MEM-03).
//
// Live ranges are kept by offset. Writing an output must hit only bytes no live entry owns, except the bytes of the input
// it takes over along a declared pair: then nobody may read that input, or anything sharing its bytes, again, unless the
// pair is an identity. Tested by tests/check_plan_test.cc
#include "passes/plan_memory.h"

#include "ir/error.h"
#include "ir/tensor.h"

#include "llvm/ADT/SmallVector.h"

#include <map>

using namespace llvm;

namespace gradc {
namespace {

struct Range {
  int64_t end;
  SmallVector<EntryId, 2> owners;  // live entries with exactly these bytes
};

class PlanReplay {
 public:
  PlanReplay(const Graph &graph, const Inference &inference, const RequestTable &requests, const MemoryPlan &plan,
             const PlanOptions &options)
      : graph(graph), inference(inference), requests(requests), plan(plan), options(options), pending(requests.reads) {}

  Error run() {
    for (uint32_t n = 0; n < graph.numNodes(); ++n) {
      NodeId id(n);
      if (graph.isVariable(id)) continue;
      for (uint32_t o = 0; o < graph.numOutputs(id); ++o)
        if (Error error = write(id, o)) return error;
      if (Error error = checkWorkspace(id)) return error;
      release(id);
    }
    return Error::success();
  }

 private:
  int64_t bytesOf(EntryId e) const {
    ShapeRef shape = graph.context().shape(inference.shape[e]);
    if (!shape.isFullyKnown()) return 0;
    return numElements(shape.dims()).value_or(0) * dtypeBytes(inference.dtype[e]);
  }

  std::string nameOf(NodeId n, uint32_t output) const {
    return "'" + graph.listedName(Value{n, static_cast<uint16_t>(output)}) + "'";
  }

  Error bad(NodeId n, const Twine &message) const {
    return Failure(ErrorKind::BadPlan, "at " + graph.describe(n) + ": " + message).at(n);
  }

  Error write(NodeId n, uint32_t output) {
    EntryId e(graph.firstEntry(n).value + output);
    int64_t begin = plan.offset[e], bytes = bytesOf(e);
    if (begin < 0) {
      bool mustLive = requests.request[e] != Request::Null && begin == kUnused;
      return mustLive ? bad(n, "output " + nameOf(n, output) + " is read, but has no place") : Error::success();
    }
    if (begin % kPlanAlignment || begin + bytes > plan.plannedBytes)
      return bad(n, "output " + nameOf(n, output) + " at offset " + Twine(begin) + " is misaligned or outside the arena");
    if (bytes <= 0) return Error::success();
    EntryId source = plan.inplaceOf[e];
    if (source.isValid()) return share(n, output, e, source);
    if (Error error = checkFree(n, begin, begin + bytes, "output " + nameOf(n, output))) return error;
    live[begin] = Range{begin + bytes, {e}};
    return Error::success();
  }

  Error checkFree(NodeId n, int64_t begin, int64_t end, const Twine &what) const {
    auto next = live.lower_bound(begin);
    if (next != live.begin() && std::prev(next)->second.end > begin) --next;
    if (next == live.end() || next->first >= end) return Error::success();
    return bad(n, what + " takes bytes [" + Twine(begin) + ", " + Twine(end) + "), where entry " +
                      Twine(next->second.owners[0].value) + " is still live");
  }

  Error share(NodeId n, uint32_t output, EntryId e, EntryId source) {
    auto range = live.find(plan.offset[source]);
    if (range == live.end() || plan.offset[e] != plan.offset[source] || bytesOf(e) != bytesOf(source))
      return bad(n, "output " + nameOf(n, output) + " takes over entry " + Twine(source.value) +
                        ", which does not lie there");
    const InplacePair *pair = declaredPair(n, output, source);
    if (!pair) return bad(n, "output " + nameOf(n, output) + " takes over an input the operator does not let it take");
    if (!pair->isIdentity)
      for (EntryId owner : range->second.owners) {
        uint32_t now = readsAt(n, owner);
        if (pending[owner] != now || (owner == source && now != 1) || (owner != source && now != 0))
          return bad(n, "output " + nameOf(n, output) + " overwrites entry " + Twine(owner.value) +
                            ", which is read again");
      }
    range->second.owners.push_back(e);
    return Error::success();
  }

  const InplacePair *declaredPair(NodeId n, uint32_t output, EntryId source) const {
    ArrayRef<Value> inputs = graph.inputs(n);
    for (const InplacePair &pair : graph.op(n)->inplace)
      if (pair.output == output && pair.input < inputs.size() && graph.entry(inputs[pair.input]) == source) return &pair;
    return nullptr;
  }

  uint32_t readsAt(NodeId n, EntryId e) const {
    uint32_t count = 0;
    ArrayRef<Value> inputs = graph.inputs(n);
    for (size_t i = 0; i < inputs.size(); ++i) count += graph.entry(inputs[i]) == e && !graph.kind(n).isIgnored(i);
    return count;
  }

  Error checkWorkspace(NodeId n) const {
    if (n.value < options.firstNode) return Error::success();
    int64_t bytes = options.workspaceOf ? options.workspaceOf(options.user, n) : -1;
    if (auto workspace = graph.op(n)->workspace; workspace && bytes < 0) {
      SmallVector<TensorRef, 8> in, out;
      auto describe = [&](EntryId e, SmallVectorImpl<TensorRef> &to) {
        to.push_back({nullptr, inference.dtype[e], graph.context().shape(inference.shape[e]).dims()});
      };
      for (Value v : graph.inputs(n)) describe(graph.entry(v), in);
      for (uint32_t o = 0; o < graph.numOutputs(n); ++o) describe(EntryId(graph.firstEntry(n).value + o), out);
      bytes = static_cast<int64_t>(workspace(graph.kind(n), in, out));
    }
    int64_t begin = plan.workspace[n];
    if (bytes <= 0) return Error::success();
    if (begin < 0 || begin + bytes > plan.plannedBytes)
      return bad(n, "the workspace of " + Twine(bytes) + " bytes has no place in the arena");
    return checkFree(n, begin, begin + bytes, "the workspace");
  }

  // RC-02: one read per position; entries without reads left, and outputs nobody reads, give their bytes back.
  void release(NodeId n) {
    const NodeKind &kind = graph.kind(n);
    ArrayRef<Value> inputs = graph.inputs(n);
    for (size_t i = 0; i < inputs.size(); ++i) {
      EntryId e = graph.entry(inputs[i]);
      if (!kind.isIgnored(i) && --pending[e] == 0) drop(e);
    }
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o) {
      EntryId e(graph.firstEntry(n).value + o);
      if (pending[e] == 0) drop(e);
    }
  }

  void drop(EntryId e) {
    if (plan.offset[e] < 0) return;
    auto range = live.find(plan.offset[e]);
    if (range == live.end()) return;
    SmallVectorImpl<EntryId> &owners = range->second.owners;
    owners.erase(std::remove(owners.begin(), owners.end(), e), owners.end());
    if (owners.empty()) live.erase(range);
  }

  const Graph &graph;
  const Inference &inference;
  const RequestTable &requests;
  const MemoryPlan &plan;
  const PlanOptions &options;
  EntryMap<uint32_t> pending;       // reads still to come
  std::map<int64_t, Range> live;    // by offset
};

}  // namespace

Error checkPlan(const Graph &graph, const Inference &inference, const RequestTable &requests, const MemoryPlan &plan,
                const PlanOptions &options) {
  return PlanReplay(graph, inference, requests, plan, options).run();
}

}  // namespace gradc
