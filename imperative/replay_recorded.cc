// Replays the gradient graph call by call, on the values of the tape with their history. The calls are recorded in
// turn, so every order works like the first. Tested by tests/imperative/imperative_order_test.cc
#include "imperative/replay_recorded.h"

#include "imperative/call.h"
#include "imperative/host_function.h"
#include "imperative/tape/function_op.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

class RecordedReplay {
 public:
  explicit RecordedReplay(const ReplayRequest &request)
      : request(request), engine(request.engine), plan(request.plan), source(*plan.source), graph(source.combined),
        collected(request.scratch.collected), scratch(request.scratch.recorded), values(scratch.values),
        origins(scratch.origins), versions(scratch.versions) {
    values.resize(graph.numEntries());
    origins.resize(collected.nodes().size(), nullptr);
    scratch.isDelivered.resize(plan.results.size());
    request.scratch.results.resize(plan.results.size());
  }
  ~RecordedReplay() {
    for (Origin *origin : origins)
      if (origin) release(origin);
    values.clear();
    scratch.inputs.clear();
    scratch.outputs.clear();
    origins.clear();
    versions.clear();
    scratch.isDelivered.clear();
    scratch.taken.clear();
  }

  Error run() {
    if (!source.calls) {
      source.calls = listCalls(engine.ctx, engine.signatures, engine.store.shapes, engine.signatureOptions(), plan);
      engine.plans.grow(plan, source.calls->heapBytes());
    }
    for (auto [i, value] : enumerate(source.headValue)) {
      if (!value.isValid()) continue;
      if (Error error = engine.makeMarks(request.scratch.heads[i], kTracked)) return error;
      // Code of the host may run a backward that gives the head gradient other memory.
      Expected<Tensor> head = engine.snapshot(*request.scratch.heads[i].get(), kTracked);
      if (!head) return head.takeError();
      values[graph.entry(value).value] = std::move(*head);
    }
    for (const PlanSource::ForwardValue &value : source.calls->forward) {
      Expected<Tensor> tensor = forwardValue(value);
      if (!tensor) return tensor.takeError();
      versions.push_back(value.saved == Plan::kNone ? 0 : tensor->version());
      values[graph.entry(value.value).value] = std::move(*tensor);
    }
    for (const auto &[entry, type] : source.calls->shapesOnly) {
      Expected<Tensor> tensor = engine.makeTensor(type, nullptr, true);
      if (!tensor) return tensor.takeError();
      values[entry] = std::move(*tensor);
    }
    for (auto [c, recorded] : enumerate(source.calls->calls)) {
      if (Error error = call(recorded)) return error;
      if (Error error = check(recorded)) return error;
      if (Error error = checkVersions(static_cast<uint32_t>(c))) return error;
    }
    return takeResults();
  }

 private:
  Error call(const PlanSource::Call &recorded) {
    const NodeKind &kind = graph.kind(recorded.node);
    std::vector<Tensor> &inputs = scratch.inputs, &outputs = scratch.outputs;
    inputs.clear();
    outputs.assign(kind.numOutputs, Tensor());
    for (uint32_t i = recorded.firstInput; i < recorded.lastInput; ++i)
      inputs.push_back(values[source.calls->inputs[i]]);
    if (isMissing(recorded, inputs)) return Error::success();
    if (recorded.tap != Plan::kNone)
      return tap(recorded.tap, values[graph.firstEntry(recorded.node).value] = inputs[0]);
    if (kind.op == &kFunctionGradient) return function(recorded, inputs);
    if (Error error = materialize(recorded, inputs)) return error;
    CallRequest call{recorded.kind, inputs, {Recording::On}};
    call.keepsDerived = true;
    if (recorded.call != Plan::kNone) {
      const TapeNode &forward = *collected.nodes()[recorded.call];
      Origin *&origin = origins[recorded.call];
      if (!origin) origin = makeOrigin(forward);
      call.origin = origin;
      call.site = forward.site();
      call.modes.isTraining = forward.signature->isTraining;
      call.state = request.host ? request.host->stateOf(recorded.call) : forward.state;
      if (kind.draws || kind.drawsInBodies) call.draw = forward.draw;
    }
    call.known = ArrayRef(source.calls->outputs).slice(recorded.firstType, kind.numOutputs);
    if (recorded.forwardNode.isValid()) call.forward = nodeOf(recorded.forwardNode);
    if (Error error = runCall(engine, call, outputs)) return error;
    const uint32_t first = graph.firstEntry(recorded.node).value;
    for (size_t o = 0; o < outputs.size(); ++o)
      if (outputs[o]) values[first + o] = std::move(outputs[o]);
    return Error::success();
  }

  Error tap(uint32_t number, Tensor &gradient) {
    if (Error error = request.host->runHooks(number, gradient)) return error;
    const HostScratch::Tap &tap = request.scratch.host.taps[number];
    if (tap.result == Plan::kNone) return Error::success();
    Tensor own;
    if (Error error = copy(gradient, own)) return error;
    Mark &mark = *request.marks[tap.result];
    if (Error error = addRecorded(engine, mark, own, Tensor::share(mark.grad))) return error;
    deliver(engine, mark, std::move(own), true);
    scratch.isDelivered[tap.result] = true;
    return request.host->runHooksAfter(tap);
  }

  Error function(const PlanSource::Call &recorded, ArrayRef<Tensor> inputs) {
    const Signature &function = *collected.nodes()[recorded.call]->signature;
    const PoolAllocator<Tensor> pool(engine.store);
    Pooled<Tensor> gradients(function.outputs.size(), pool), results(function.numInputs(), pool);
    for (auto [k, output] : enumerate(arrivingOutputs(graph.kind(recorded.node))))
      gradients[static_cast<size_t>(output)] = inputs[k];
    const uint32_t numOutputs = graph.numOutputs(recorded.node), first = graph.firstEntry(recorded.node).value;
    const std::shared_ptr<bool[]> wanted = engine.makeFlags(numOutputs);
    for (uint32_t o = 0; o < numOutputs; ++o) wanted[o] = source.calls->outputs[recorded.firstType + o].isWanted;
    if (Error error = runBackward(*request.host, recorded.call, MutableArrayRef(gradients.data(), gradients.size()),
                                  wanted, MutableArrayRef(results.data(), results.size())))
      return error;
    for (uint32_t o = 0; o < numOutputs; ++o) {
      hasMissing |= wanted[o] && !results[o];
      values[first + o] = std::move(results[o]);
    }
    return Error::success();
  }

  /// Whether a function gave no gradient, and nothing else arrives.
  bool isMissing(const PlanSource::Call &recorded, ArrayRef<Tensor> inputs) const {
    if (!hasMissing) return false;
    bool isAny = false;
    const Graph &backward = source.split.backward;
    const NodeId now = source.split.newId[recorded.node.value];
    for (auto [k, value] : enumerate(inputs)) {
      if (!plan.isGradient[backward.entry(backward.inputs(now)[k]).value]) continue;
      if (value) return false;
      isAny = true;
    }
    return isAny;
  }

  /// Replaces a gradient that is missing beside others by zeros.
  Error materialize(const PlanSource::Call &recorded, MutableArrayRef<Tensor> inputs) {
    if (!hasMissing) return Error::success();
    const Graph &backward = source.split.backward;
    const NodeId now = source.split.newId[recorded.node.value];
    const Inference &known = source.inference;
    for (auto [k, value] : enumerate(inputs)) {
      const EntryId e = backward.entry(backward.inputs(now)[k]);
      if (value || !plan.isGradient[e.value]) continue;
      Expected<Tensor> zeros =
          engine.makeTensor({*engine.store.shapes.intern(known.shapeOf(e).dims()), known.dtype[e]}, nullptr);
      if (!zeros) return zeros.takeError();
      if (zeros->ref().bytes()) std::memset(zeros->ref().data, 0, zeros->ref().bytes());
      value = std::move(*zeros);
    }
    return Error::success();
  }

  Error check(const PlanSource::Call &recorded) const {
    if (!request.checksNaN) return Error::success();
    const uint32_t first = graph.firstEntry(recorded.node).value;
    const TapeNode *const node = recorded.call == Plan::kNone ? nullptr : collected.nodes()[recorded.call];
    for (uint32_t o = 0; o < graph.numOutputs(recorded.node); ++o)
      if (const Tensor &value = values[first + o]; value && value.get()->storage)
        if (Error error = checkNaN(graph.kind(recorded.node), node, o, value.ref())) return error;
    return Error::success();
  }

  /// Checks that code of the host has not overwritten what the calls read.
  Error checkVersions(uint32_t call) {
    const std::vector<PlanSource::ForwardValue> &forward = source.calls->forward;
    if (!request.host) return Error::success();
    for (; nextForward < forward.size() && forward[nextForward].lastReader <= call; ++nextForward) {
      const PlanSource::ForwardValue &value = forward[nextForward];
      if (value.saved != Plan::kNone && values[graph.entry(value.value).value].version() != versions[nextForward])
        return overwrittenByHook(collected, plan, plan.saved[value.saved]);
    }
    return Error::success();
  }

  Error copy(const Tensor &value, Tensor &own) {
    KindRow *const kind = engine.kindOf(*engine.ctx.ops.wellKnown.copy, engine.copyKind);
    CallRequest call{kind, value, {Recording::On}};
    call.keepsDerived = true;
    return runCall(engine, call, own);
  }

  /// The call that a node of the combined graph was, or was replayed as.
  TapeNode *nodeOf(NodeId n) const {
    if (n.value < source.numForwardNodes)
      return source.callOf[n.value] == Plan::kNone ? nullptr : collected.nodes()[source.callOf[n.value]];
    for (uint32_t o = 0, first = graph.firstEntry(n).value; o < graph.numOutputs(n); ++o)
      if (const Tensor &output = values[first + o]; output && output.get()->tracked) return output.get()->producer;
    return nullptr;
  }

  /// A value of the tape, with its contents if they are kept, and its history.
  Expected<Tensor> forwardValue(const PlanSource::ForwardValue &forward) {
    const Value v = forward.value;
    const uint32_t call = source.callOf[v.node.value];
    TapeNode *const producer = graph.isVariable(v.node) || call == Plan::kNone ? nullptr : collected.nodes()[call];
    Storage *storage = nullptr;
    const Edge *edge = nullptr;
    if (forward.saved != Plan::kNone) {
      const Plan::Saved &saved = plan.saved[forward.saved];
      Expected<Storage *> kept = savedValue(engine.signatures, collected, plan, saved);
      if (!kept) return kept.takeError();
      storage = *kept;
      TapeNode &keeper = *collected.nodes()[plan.slots[saved.firstSlot].node];
      const KeptOperand operand = keeper.signature->kept[plan.slots[saved.firstSlot].kept];
      if (keeper.signature->isInput(operand)) edge = &keeper.edges()[operand];
      retain(storage);
    }
    Expected<Tensor> tensor = engine.makeTensor(forward.type, storage, !storage);
    if (!tensor) return tensor.takeError();
    // No gradient depends on a shape: it has no history.
    if (!storage) return tensor;
    TensorImpl &impl = *tensor->get();
    if (producer) {
      if (!producer->signature->outputs[v.index].isTracked) return tensor;
      retain(producer);
      impl.producer = producer;
      impl.output = v.index;
      impl.tracked = producer->isTrackedByLeaf ? kTracked | kTrackedByLeaf : kTracked;
    } else if (const uint32_t leaf = source.leafOf[v.node.value]; leaf != Plan::kNone) {
      impl.mark = collected.leaves()[leaf];
      retain(impl.mark);
      impl.tracked = !impl.mark->isMarked ? 0 : impl.mark->isByLeaf ? kTracked | kTrackedByLeaf : kTracked;
    } else if (edge && edge->kind() == Edge::Kind::Untracked) {
      impl.mark = edge->mark();
      retain(impl.mark);
    } else if (edge && edge->kind() == Edge::Kind::Derived) {
      impl.producer = edge->node();
      retain(impl.producer);
      impl.output = static_cast<uint16_t>(edge->output);
      impl.isDerived = 1;
    }
    return tensor;
  }

  /// No result shares memory with another one, or with what the host or the tape has.
  Error takeResults() {
    std::vector<Tensor> &results = request.scratch.results;
    for (auto [i, head] : enumerate(plan.results)) {
      if (head == Plan::kNone || scratch.isDelivered[i]) continue;
      Tensor result = values[graph.entry(graph.heads()[source.numForwardHeads + head]).value];
      if (!result) continue;
      if (source.calls->isOthers[head] || !scratch.taken.insert(result.get()->storage).second) {
        Tensor own;
        if (Error error = copy(result, own)) return error;
        result = std::move(own);
      }
      results[i] = std::move(result);
    }
    return Error::success();
  }

  const ReplayRequest &request;
  Engine &engine;
  Plan &plan;
  PlanSource &source;
  const Graph &graph;
  const Collected &collected;
  Scratch::Recorded &scratch;
  std::vector<Tensor> &values;
  std::vector<Origin *> &origins;
  std::vector<uint32_t> &versions;
  size_t nextForward = 0;
  bool hasMissing = false;
};

}  // namespace

Error replayRecorded(const ReplayRequest &request) { return RecordedReplay(request).run(); }

}  // namespace gradc
