// Tested by tests/imperative_test.cc
#include "imperative/replay.h"

#include "runtime/failures.h"
#include "runtime/kernels/threads.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

class Replay {
 public:
  Replay(const ReplayRequest &request, bool &hasReleased)
      : request(request), engine(request.engine), plan(request.plan), list(plan.list),
        collected(request.scratch.collected), hasReleased(hasReleased), memory(request.scratch.memory) {
    memory.assign(list.heads.size(), nullptr);
  }
  ~Replay() {
    if (arena) release(arena);
    for (Storage *storage : memory)
      if (storage) release(storage);
    memory.clear();
  }

  Error run() {
    if (Error error = bindSaved()) return error;
    for (auto [i, e] : enumerate(plan.headEntry))
      if (e.isValid()) list.address[e] = request.scratch.heads[i].get()->storage->data;
    if (Error error = bindArena()) return error;
    list.resolve();
    for (const Plan::Draw &draw : plan.draws)
      list.instructions[draw.instruction].call.random = {engine.options.seed, collected.nodes()[draw.node]->draw, 0};
    auto execute = [&]() -> Error {
      Error error = Error::success();
      withThreads(engine.options.threads, [&] { error = executeAll(); });
      return error;
    };
    auto atCall = [&](Failure failure) {
      return std::move(failure).note("while computing the gradient of " + currentCall());
    };
    if (Error error = catching("to run a backward", execute, atCall)) return error;
    return takeResults();
  }

 private:
  Error bindSaved() {
    for (const Plan::Saved &saved : plan.saved) {
      if (saved.firstSlot == saved.lastSlot) return notKept(plan, saved);
      for (uint32_t i = saved.firstSlot; i < saved.lastSlot; ++i) {
        Expected<Storage *> storage = keptValue(engine, collected, plan.slots[i]);
        if (!storage) return storage.takeError();
        if (i == saved.firstSlot) list.address[saved.entry] = (*storage)->data;
      }
    }
    return Error::success();
  }

  Error noMemory(size_t bytes) const {
    return Failure(ErrorKind::TooLarge, "no memory for the " + Twine(bytes) + " bytes of a backward");
  }

  Error bindArena() {
    if (plan.arenaBytes == 0) return Error::success();
    arena = engine.store.allocateStorage(plan.arenaBytes);
    if (!arena) return noMemory(plan.arenaBytes);
    if (arena->data == plan.arena) return Error::success();
    plan.arena = arena->data;
    for (const Plan::Placed &placed : plan.placed) list.address[placed.entry] = arena->data + placed.offset;
    for (const Plan::Workspace &workspace : plan.workspaces)
      list.instructions[workspace.instruction].call.workspace = arena->data + workspace.offset;
    return Error::success();
  }

  /// Memory for the results whose first writer is next.
  Error fetchHeads(uint32_t instruction) {
    for (; nextHead < plan.heads.size() && plan.heads[nextHead].firstWriter <= instruction; ++nextHead) {
      const Plan::HeadMemory &place = plan.heads[nextHead];
      TensorRef &head = list.heads[place.head];
      Storage *const storage = engine.store.allocateStorage(head.bytes());
      if (!storage) return noMemory(head.bytes());
      memory[place.head] = storage;
      head.data = storage->data;
      for (uint32_t i = place.firstOperand; i < place.lastOperand; ++i)
        list.operands[plan.operandsOfHeads[i]].data = storage->data;
    }
    return Error::success();
  }

  void takeSteps(uint32_t first, uint32_t last) {
    for (uint32_t i = first; i < last; ++i) {
      const TensorRef &from = list.operands[list.steps[i].from], &to = list.heads[list.steps[i].head];
      if (const size_t bytes = to.bytes()) std::memcpy(to.data, from.data, bytes);
    }
  }

  void releaseValues(uint32_t instruction) {
    for (; nextSaved < plan.saved.size() && plan.saved[nextSaved].lastReader <= instruction; ++nextSaved)
      for (uint32_t i = plan.saved[nextSaved].firstSlot; i < plan.saved[nextSaved].lastSlot; ++i) {
        Kept &kept = collected.nodes()[plan.slots[i].node]->kept()[plan.slots[i].kept];
        if (kept.storage) release(std::exchange(kept.storage, nullptr));
        hasReleased = true;
      }
  }

  Error executeAll() {
    for (current = 0; current < list.instructions.size(); ++current) {
      Instruction &instruction = list.instructions[current];
      if (Error error = fetchHeads(current)) return error;
      if (instruction.fast) instruction.fast->run(instruction.call);
      else instruction.kernel(instruction.call);
      takeSteps(instruction.firstStep, instruction.lastStep);
      if (!request.retains) releaseValues(current);
    }
    if (Error error = fetchHeads(Plan::kNone)) return error;
    takeSteps(list.firstFinalStep, static_cast<uint32_t>(list.steps.size()));
    return Error::success();
  }

  std::string currentCall() const {
    if (current >= list.instructions.size()) return "what the tape recorded";
    const uint32_t call = plan.callOf[plan.split.source[list.instructions[current].node.value].node.value];
    return call == Plan::kNone ? "what the tape recorded" : engine.describe(*collected.nodes()[call]);
  }

  Error takeResults() {
    std::vector<Tensor> &results = request.scratch.results;
    for (auto [i, head] : enumerate(plan.results)) {
      results.emplace_back();
      if (head == Plan::kNone) continue;
      Expected<Tensor> tensor =
          engine.makeTensor(request.scratch.request.types[i], std::exchange(memory[head], nullptr));
      if (!tensor) return tensor.takeError();
      results.back() = std::move(*tensor);
    }
    return Error::success();
  }

  const ReplayRequest &request;
  Engine &engine;
  Plan &plan;
  InstructionList &list;
  const Collected &collected;
  bool &hasReleased;
  Storage *arena = nullptr;
  std::vector<Storage *> &memory;  // by head
  uint32_t nextHead = 0, nextSaved = 0, current = 0;
};

}  // namespace

Error notKept(const Plan &plan, const Plan::Saved &saved) {
  return Failure(ErrorKind::Internal,
                 "a gradient reads '" + plan.combined.listedName(saved.value) + "', which no call of the tape keeps");
}

Expected<Storage *> keptValue(Engine &engine, const Collected &collected, Plan::Slot slot) {
  TapeNode &node = *collected.nodes()[slot.node];
  const Kept kept = node.kept()[slot.kept];
  const KeptOperand operand = node.signature->kept[slot.kept];
  auto name = [&]() -> std::string {
    const NodeKind &kind = *node.signature->handle;
    if (node.signature->isInput(operand)) {
      const Edge &edge = node.edges()[operand];
      const bool isNamed = edge.kind() == Edge::Kind::Leaf || edge.kind() == Edge::Kind::Named;
      const std::string own = isNamed && edge.bits ? edge.mark()->name : "";
      return "input '" + inputName(kind, operand) + "'" + (own.empty() ? "" : ", '" + own + "',");
    }
    return "output '" + outputName(kind, operand - node.signature->numInputs()) + "'";
  };
  if (!kept.storage)
    return Failure(ErrorKind::HistoryCleared,
                   name() + " of " + engine.describe(node) + " was released by an earlier backward without `retain`")
        .note("retain on the first call to run another one over the same history");
  const uint32_t version = kept.storage->version.load(std::memory_order_relaxed);
  if (version == kept.version) return kept.storage;
  const std::string writer = kept.storage->writerKind == Storage::kNoWriter
                                 ? "the host"
                                 : engine.describeCall(kept.storage->writerCall, kept.storage->writerKind);
  return Failure(ErrorKind::StaleVersion, name() + " of " + engine.describe(node) +
                                              " was overwritten: its gradient needs version " + Twine(kept.version) +
                                              ", it is " + Twine(version) + ", written by " + writer);
}

Error replay(const ReplayRequest &request, bool &hasReleased) { return Replay(request, hasReleased).run(); }

}  // namespace gradc
