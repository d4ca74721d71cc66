// The gradient graph call by call, over the values of the tape with their history: what it computes is recorded in turn, so
// every order is the same as the first. Tested by tests/imperative_order_test.cc
#include "imperative/replay.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

class RecordedReplay {
 public:
  explicit RecordedReplay(const ReplayRequest &request)
      : request(request), engine(request.engine), plan(request.plan), graph(plan.combined),
        collected(request.collected), values(graph.numEntries()) {}

  Expected<std::vector<Tensor>> run() {
    for (auto [i, saved] : enumerate(plan.saved)) savedOf[graph.entry(saved.value).value] = static_cast<uint32_t>(i);
    for (auto [i, value] : enumerate(plan.headValue))
      if (value.isValid()) values[graph.entry(value).value] = request.heads[i];
    for (uint32_t n = plan.numForwardNodes; n < graph.numNodes(); ++n)
      if (!graph.isVariable(NodeId(n)))
        if (Error error = call(NodeId(n))) return error;
    return takeResults();
  }

 private:
  Error call(NodeId n) {
    SmallVector<Tensor, 8> inputs;
    for (Value v : graph.inputs(n)) {
      Expected<Tensor> tensor = valueOf(v);
      if (!tensor) return tensor.takeError();
      inputs.push_back(std::move(*tensor));
    }
    const uint32_t origin = plan.callOf[n.value];
    const TapeNode *const forward = origin == Plan::kNone ? nullptr : collected.nodes()[origin];
    CallRequest call{engine.signatures.kindId(graph.kindHandle(n)), inputs, {}};
    call.modes.recording = Recording::On;
    call.modes.isTraining = forward && forward->signature->isTraining;
    SmallVector<OperandType, 4> types;
    const Inference &known = plan.list.inference;
    const Graph &backward = plan.split.backward;
    const EntryId first = backward.firstEntry(plan.split.newId[n.value]);
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o) {
      const EntryId e(first.value + o);
      const std::optional<ShapeId> shape = engine.store.shapes.intern(known.shapeOf(e).dims());
      types.push_back({*shape, known.dtype[e]});
    }
    call.known = types;
    if (graph.kind(n).op->flags.isRandom && forward) call.draw = forward->draw;
    if (graph.kind(n).op->flags.isBackward && !graph.controlDeps(n).empty()) call.forward = nodeOf(graph.controlDeps(n)[0]);
    SmallVector<Tensor, 4> outputs(graph.kind(n).numVisible);
    if (Error error = engine.call(call, outputs)) return error;
    for (auto [o, output] : enumerate(outputs)) values[graph.firstEntry(n).value + o] = std::move(output);
    return Error::success();
  }

  /// The call that a node of the combined graph was, or was replayed as.
  TapeNode *nodeOf(NodeId n) const {
    if (n.value < plan.numForwardNodes)
      return plan.callOf[n.value] == Plan::kNone ? nullptr : collected.nodes()[plan.callOf[n.value]];
    const Tensor &output = values[graph.firstEntry(n).value];
    return output ? output.get()->producer : nullptr;
  }

  Expected<Tensor> valueOf(Value v) {
    Tensor &value = values[graph.entry(v).value];
    if (!value && v.node.value < plan.numForwardNodes) {
      Expected<Tensor> made = forwardValue(v);
      if (!made) return made.takeError();
      value = std::move(*made);
    }
    return value;
  }

  /// A value of the tape, with contents where it has them, and its history.
  Expected<Tensor> forwardValue(Value v) {
    const uint32_t call = plan.callOf[v.node.value];
    TapeNode *const producer = graph.isVariable(v.node) || call == Plan::kNone ? nullptr : collected.nodes()[call];
    const auto at = savedOf.find(graph.entry(v).value);
    Storage *storage = nullptr;
    const Edge *edge = nullptr;
    if (at != savedOf.end()) {
      const Plan::Saved &saved = plan.saved[at->second];
      if (saved.firstSlot == saved.lastSlot) return Failure(ErrorKind::Internal, "a gradient reads a value that no call keeps");
      for (uint32_t i = saved.firstSlot; i < saved.lastSlot; ++i) {
        Expected<Storage *> kept = keptValue(engine, collected, plan.slots[i]);
        if (!kept) return kept.takeError();
        storage = *kept;
      }
      TapeNode &keeper = *collected.nodes()[plan.slots[saved.firstSlot].node];
      const KeptOperand operand = keeper.signature->kept[plan.slots[saved.firstSlot].kept];
      if (keeper.signature->isInput(operand)) edge = &keeper.edges()[operand];
      retain(storage);
    }
    Expected<Tensor> tensor = engine.makeTensor(typeOf(v), storage, !storage);
    if (!tensor) return tensor.takeError();
    TensorImpl &impl = *tensor->get();
    if (producer) {
      if (!producer->signature->outputs[v.index].isTracked) return tensor;
      retain(producer);
      impl.producer = producer;
      impl.output = v.index;
      impl.tracked = producer->isTrackedByLeaf ? kTracked | kTrackedByLeaf : kTracked;
    } else if (const uint32_t leaf = plan.leafOf[v.node.value]; leaf != Plan::kNone) {
      impl.mark = collected.leaves()[leaf];
      retain(impl.mark);
      impl.tracked = impl.mark->isMarked ? impl.mark->isByLeaf ? kTracked | kTrackedByLeaf : kTracked : 0;
    } else if (edge && edge->kind() == Edge::Kind::Named) {
      impl.mark = edge->mark();
      retain(impl.mark);
    } else if (edge && edge->kind() == Edge::Kind::Other) {
      impl.serial = edge->bits >> 2;
    }
    return tensor;
  }

  OperandType typeOf(Value v) {
    const Inference &known = plan.list.inference;
    for (const std::vector<CrossingValue> *list : {&plan.split.saved, &plan.split.shapesOnly})
      for (const CrossingValue &crossing : *list)
        if (crossing.entry == v) {
          const EntryId e = plan.split.backward.firstEntry(crossing.variable);
          return {*engine.store.shapes.intern(known.shapeOf(e).dims()), known.dtype[e]};
        }
    llvm_unreachable("a forward value that no generated node lists");
  }

  /// No result is memory that the caller gave, or that of another result.
  Expected<std::vector<Tensor>> takeResults() {
    std::vector<Tensor> results(plan.results.size());
    for (auto [i, head] : enumerate(plan.results)) {
      if (head == Plan::kNone) continue;
      Expected<Tensor> result = valueOf(graph.heads()[plan.numForwardHeads + head]);
      if (!result) return result.takeError();
      const auto isShared = [&](const Tensor &other) { return other && other.get()->storage == result->get()->storage; };
      if (any_of(request.heads, isShared) || any_of(ArrayRef(results).take_front(i), isShared)) {
        const KindRef copy = cantFail(engine.ctx.kind(*engine.ctx.ops.wellKnown.copy, Attrs()));
        CallRequest call{engine.signatures.kindId(copy), {*result}, {}};
        call.modes.recording = Recording::On;
        Tensor own;
        if (Error error = engine.call(call, own)) return error;
        *result = std::move(own);
      }
      results[i] = std::move(*result);
    }
    return results;
  }

  const ReplayRequest &request;
  Engine &engine;
  Plan &plan;
  const Graph &graph;
  const Collected &collected;
  std::vector<Tensor> values;            // by entry of the combined graph
  DenseMap<uint32_t, uint32_t> savedOf;  // entry → position in Plan::saved
};

}  // namespace

Expected<std::vector<Tensor>> replayRecorded(const ReplayRequest &request) { return RecordedReplay(request).run(); }

}  // namespace gradc
