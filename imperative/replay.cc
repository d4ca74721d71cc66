// Tested by tests/imperative/imperative_test.cc
#include "imperative/replay.h"

#include "imperative/host_function.h"
#include "imperative/tape/function_op.h"
#include "ir/graph/effects.h"
#include "ir/rules/run_flow.h"
#include "ir/tensor/half.h"
#include "runtime/executor/failures.h"
#include "runtime/kernels/core/threads.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

template <class T, class Widen> bool anyNaN(const TensorRef &value, Widen widen) {
  return any_of(ArrayRef(value.as<T>(), static_cast<size_t>(value.size())), [&](T x) { return std::isnan(widen(x)); });
}

bool hasNaN(const TensorRef &value) {
  if (!value.data) return false;
  switch (value.dtype) {
    case DType::Float32: return anyNaN<float>(value, [](float x) { return x; });
    case DType::Float64: return anyNaN<double>(value, [](double x) { return x; });
    case DType::Float16: return anyNaN<uint16_t>(value, float16ToFloat);
    case DType::BFloat16: return anyNaN<uint16_t>(value, bfloat16ToFloat);
    default: return false;
  }
}

class Replay {
 public:
  Replay(const ReplayRequest &request, bool &hasReleased)
      : request(request), engine(request.engine), plan(request.plan), list(plan.list),
        collected(request.scratch.collected), hasReleased(hasReleased),
        releases(!request.retains && !request.checksNaN && !plan.hasHostCode &&
                 !(request.host && request.host->keepsValues())),
        memory(request.scratch.memory), readValues(request.scratch.host.values), missing(request.scratch.host.missing) {
    memory.assign(list.heads.size(), nullptr);
    request.scratch.results.resize(plan.results.size());
  }
  ~Replay() {
    if (arena) release(arena);
    for (Storage *storage : memory)
      if (storage) release(storage);
    memory.clear();
    for (; nextSaved < readValues.size(); ++nextSaved) release(readValues[nextSaved].storage);
    readValues.clear();
    missing.clear();
  }

  Error run() {
    if (Error error = bindSaved()) return error;
    for (auto [i, e] : enumerate(plan.headEntry))
      if (e.isValid()) list.address[e] = request.scratch.heads[i].get()->storage->data;
    if (Error error = bindArena()) return error;
    list.resolve();
    for (const Plan::OfCall &draw : plan.draws)
      list.needExtras(list.instructions[draw.instruction]).random = {engine.options.seed,
                                                                     collected.nodes()[draw.node]->draw, 0};
    for (const Plan::OfCall &call : plan.hostCalls)
      list.needExtras(list.instructions[call.instruction]).state = objectOf(collected.nodes()[call.node]->state);
    for (const Plan::Stop &stop : plan.stops) {
      if (Error error = executeUpTo(stop.instruction)) return error;
      if (Error error = stop.tap == Plan::kNone ? runFunction(stop.instruction) : runTap(stop)) return error;
      if (!stop.empty.isValid()) current = stop.instruction + 1;
    }
    if (Error error = executeUpTo(static_cast<uint32_t>(list.instructions.size()))) return error;
    if (Error error = fetchHeads(Plan::kNone)) return error;
    takeSteps(list.firstFinalStep, static_cast<uint32_t>(list.steps.size()));
    if (Error error = afterInstruction(static_cast<uint32_t>(list.instructions.size()))) return error;
    return takeResults();
  }

 private:
  Error bindSaved() {
    for (const Plan::Saved &saved : plan.saved) {
      Expected<Storage *> storage = savedValue(engine.signatures, collected, plan, saved);
      if (!storage) return storage.takeError();
      list.address[saved.entry] = (*storage)->data;
      if (request.host) retainValue(**storage);
    }
    return Error::success();
  }

  /// Retains a value, because code of the host may release what the instructions are going to read.
  void retainValue(Storage &storage) {
    readValues.push_back({&storage, storage.version.load(std::memory_order_relaxed)});
    retain(&storage);
  }

  /// Outside of `withThreads`: code of the host runs on the thread that requested the gradients.
  Error runTap(const Plan::Stop &stop) {
    const bool isEmpty = stop.empty.isValid();
    if (Error error = isEmpty ? fetchHeads(stop.instruction) : executeUpTo(stop.instruction + 1)) return error;
    const NodeId node = isEmpty ? stop.empty : list.instructions[stop.instruction].node;
    if (isMissing(node, 0)) return Error::success();
    const HostScratch::Tap &tap = request.scratch.host.taps[stop.tap];
    if (tap.before) {
      const TensorRef out =
          isEmpty ? list.tensor(list.graph.firstEntry(node)) : list.call(list.instructions[stop.instruction]).out[0];
      Expected<Tensor> gradient = copyOf(out);
      if (!gradient) return gradient.takeError();
      const Tensor before = *gradient;
      if (Error error = request.host->runHooks(stop.tap, *gradient)) return error;
      const bool isChanged = *gradient != before || before.version() != 0;  // a hook may write into what it sees
      if (out.bytes() && isChanged) std::memcpy(out.data, gradient->ref().data, out.bytes());
      if (Error error = isEmpty ? Error::success() : afterTap(stop.instruction)) return error;
    }
    if (tap.result == Plan::kNone) return Error::success();
    if (Error error = takeResult(tap.result)) return error;
    deliver(engine, *request.marks[tap.result], std::move(request.scratch.results[tap.result]), false);
    return request.host->runHooksAfter(tap);
  }

  /// What follows an instruction whose output has changed.
  Error afterTap(uint32_t i) {
    takeSteps(list.instructions[i].firstStep, list.instructions[i].lastStep);
    return check(i);
  }

  Expected<Tensor> copyOf(const TensorRef &value) {
    Expected<Tensor> tensor = engine.makeTensor({*engine.store.shapes.intern(value.shape), value.dtype}, nullptr);
    if (tensor && value.bytes()) std::memcpy(tensor->ref().data, value.data, value.bytes());
    return tensor;
  }

  Error runFunction(uint32_t i) {
    if (Error error = fetchHeads(i)) return error;
    const Instruction &instruction = list.instructions[i];
    if (!takeAsMissing(instruction)) {
      const KernelCall call = list.call(instruction);
      const uint32_t n = callOf(instruction.node);
      const Signature &function = *collected.nodes()[n]->signature;
      Pooled<Tensor> gradients(function.outputs.size(), pool()), results(function.numInputs(), pool());
      for (auto [k, output] : enumerate(arrivingOutputs(*call.kind))) {
        if (isMissing(list.graph.inputs(instruction.node)[k])) continue;
        Expected<Tensor> gradient = copyOf(call.in[k]);
        if (!gradient) return gradient.takeError();
        gradients[static_cast<size_t>(output)] = std::move(*gradient);
      }
      const std::shared_ptr<bool[]> wanted = engine.makeFlags(call.requests.size());
      for (auto [o, requested] : enumerate(call.requests)) wanted[o] = requested != Request::Null;
      if (Error error = runBackward(*request.host, n, MutableArrayRef(gradients.data(), gradients.size()), wanted,
                                    MutableArrayRef(results.data(), results.size())))
        return error;
      for (auto [o, out] : enumerate(call.out)) {
        if (!wanted[o] || !out.bytes()) continue;
        if (results[o]) std::memcpy(out.data, results[o].ref().data, out.bytes());
        else miss(instruction, o);
      }
    }
    takeSteps(instruction.firstStep, instruction.lastStep);
    if (Error error = check(i)) return error;
    return afterInstruction(i);
  }

  // ---- gradients that functions did not give: the entries hold zeros, and gradients computed only from them are
  // missing too

  bool isMissing(NodeId n, uint32_t output) const {
    return !missing.empty() && missing[list.graph.firstEntry(n).value + output];
  }
  bool isMissing(Value v) const { return isMissing(v.node, v.index); }

  void miss(const Instruction &instruction, size_t output) {
    missing.resize(list.graph.numEntries());
    missing.set(list.graph.firstEntry(instruction.node).value + static_cast<uint32_t>(output));
    const KernelCall call = list.call(instruction);
    const TensorRef &out = call.out[output];
    if (out.data && out.bytes() && call.wants(output)) std::memset(out.data, 0, out.bytes());
  }

  bool takeAsMissing(const Instruction &instruction) {
    if (missing.empty()) return false;
    bool hasMissing = false;
    for (Value v : list.graph.inputs(instruction.node)) {
      if (!plan.isGradient[list.graph.entry(v).value]) continue;
      if (!isMissing(v)) return false;
      hasMissing = true;
    }
    if (!hasMissing) return false;
    for (size_t o = 0; o < instruction.kind->numOutputs; ++o) miss(instruction, o);
    return true;
  }

  uint32_t callOf(NodeId n) const { return plan.callOf[n.value]; }
  PoolAllocator<Tensor> pool() const { return PoolAllocator<Tensor>(engine.store); }

  Error check(uint32_t i) const {
    if (!request.checksNaN) return Error::success();
    const KernelCall call = list.call(list.instructions[i]);
    const uint32_t n = callOf(list.instructions[i].node);
    for (auto [o, out] : enumerate(call.out))
      if (call.wants(o))
        if (Error error = checkNaN(*call.kind, n == Plan::kNone ? nullptr : collected.nodes()[n], o, out)) return error;
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
    plan.places.move(list, arena->data);
    return Error::success();
  }

  /// Takes memory for the results whose first writer is next.
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

  /// Releases values after their last reader, once it is checked that code of the host has not overwritten them.
  Error afterInstruction(uint32_t instruction) {
    for (; nextSaved < plan.saved.size() && plan.saved[nextSaved].lastReader <= instruction; ++nextSaved) {
      const Plan::Saved &saved = plan.saved[nextSaved];
      if (request.host) {
        const HostScratch::ReadValue value = readValues[nextSaved];
        if (value.storage->version.load(std::memory_order_relaxed) != value.version)
          return overwrittenByHook(collected, plan, saved);
        release(value.storage);
      }
      if (!releases) continue;
      for (uint32_t i = saved.firstSlot; i < saved.lastSlot; ++i) {
        Kept &kept = collected.nodes()[plan.slots[i].node]->kept()[plan.slots[i].kept];
        if (kept.storage) releaseKept(std::exchange(kept.storage, nullptr));
        hasReleased = true;
      }
    }
    return Error::success();
  }

  Error executeUpTo(uint32_t end) {
    if (current == end) return Error::success();
    auto execute = [&]() -> Error {
      Error error = Error::success();
      withThreads(engine.options.threads, [&] {
        const StoreLoan loan(engine.store);
        error = executeAll(end);
      });
      return error;
    };
    Error error = catching("to run a backward", execute, [&](Failure failure) {
      return std::move(failure).note("while computing the gradient of " + currentCall());
    });
    if (error) consumeError(plan.failure.take());  // a kernel may leave one error and throw another
    return error;
  }

  Error executeAll(uint32_t end) {
    KernelCall call = list.anyCall();
    for (; current < end; ++current) {
      const Instruction &instruction = list.instructions[current];
      if (Error error = fetchHeads(current)) return error;
      if (!takeAsMissing(instruction)) {
        if (instruction.extras == Instruction::kNone) {
          list.fill(instruction, call);
          instruction.run(call);
        } else {
          instruction.run(list.call(instruction));
        }
        if (plan.failure.hasFailed()) return plan.failure.take();
      }
      takeSteps(instruction.firstStep, instruction.lastStep);
      if (Error error = check(current)) return error;
      if (Error error = afterInstruction(current)) return error;
    }
    return Error::success();
  }

  std::string currentCall() const {
    if (current >= list.instructions.size()) return "what the tape recorded";
    const uint32_t call = callOf(list.instructions[current].node);
    return call == Plan::kNone ? "what the tape recorded" : describe(*collected.nodes()[call]);
  }

  Error takeResult(size_t i) {
    const uint32_t head = plan.results[i];
    Expected<Tensor> tensor = engine.makeTensor(request.scratch.request.types[i], std::exchange(memory[head], nullptr));
    if (!tensor) return tensor.takeError();
    request.scratch.results[i] = std::move(*tensor);
    return Error::success();
  }

  Error takeResults() {
    for (auto [i, head] : enumerate(plan.results)) {
      if (head == Plan::kNone || !memory[head]) continue;
      if (!missing.empty() && isMissing(list.graph.heads()[head])) continue;
      if (Error error = takeResult(i)) return error;
    }
    return Error::success();
  }

  const ReplayRequest &request;
  Engine &engine;
  Plan &plan;
  InstructionList &list;
  const Collected &collected;
  bool &hasReleased;
  const bool releases;  // values right after their last reader
  Storage *arena = nullptr;
  std::vector<Storage *> &memory;                   // by head
  std::vector<HostScratch::ReadValue> &readValues;  // parallel to the saved values, while code of the host runs
  BitVector &missing;                               // by entry; empty: none
  uint32_t nextHead = 0, nextSaved = 0, current = 0;
};

}  // namespace

Error checkNaN(const NodeKind &kind, const TapeNode *call, size_t output, const TensorRef &value) {
  if (isShortOutput(kind, static_cast<uint32_t>(output))) return Error::success();  // rows that nothing wrote
  if (!hasNaN(value)) return Error::success();
  return Failure(ErrorKind::NotANumber,
                 "output " + Twine(output) + " of '" + kind.op->name + "' has a NaN" +
                     (call ? ": it computes the gradient of " + describeFully(*call) : std::string()));
}

Error replay(const ReplayRequest &request, bool &hasReleased) { return Replay(request, hasReleased).run(); }

}  // namespace gradc
