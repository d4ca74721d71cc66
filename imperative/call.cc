// One call: look up its signature, take memory, run the kernel, record. Nothing is changed before the kernel has run.
// Tested by tests/imperative/imperative_test.cc
#include "imperative/call.h"

#include "ir/graph/effects.h"
#include "runtime/executor/bindings.h"
#include "runtime/executor/failures.h"
#include "runtime/kernels/core/threads.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

/// The memory of one call's outputs and of their tensors, taken before the kernel runs so that nothing fails after it.
class Outputs {
 public:
  Outputs(Engine &engine, size_t number) : store(engine.store), list(engine.outputs) { list.resize(number); }
  ~Outputs() {
    for (const Engine::Output &output : list) {
      if (output.storage) release(output.storage);
      if (output.tensor) store.freeSized(output.tensor, sizeof(TensorImpl));
    }
    list.clear();
  }
  Storage *&operator[](size_t i) { return list[i].storage; }
  Storage *take(size_t i) { return std::exchange(list[i].storage, nullptr); }
  bool allocateTensor(size_t i) { return (list[i].tensor = store.allocate(sizeof(TensorImpl))) != nullptr; }
  void *takeTensor(size_t i) { return std::exchange(list[i].tensor, nullptr); }

 private:
  Store &store;
  std::vector<Engine::Output> &list;
};

class Caller {
 public:
  Caller(Engine &engine, const CallRequest &request)
      : engine(engine), request(request), mask(Engine::trackedMask(request.modes)), copies(engine.copies) {}
  ~Caller() {
    for (auto [input, copy] : copies) release(copy);
    copies.clear();
  }

  Error run(MutableArrayRef<Tensor> results) {
    if (Error error = findSignature()) return error;
    if (Error error = checkWrites()) return error;
    if (signature->isTracked)
      if (Error error = checkKept()) return error;
    Outputs memory(engine, signature->outputs.size());
    if (Error error = takeMemory(memory, results.size())) return error;
    const bool isRecorded = signature->isTracked || isDerived();
    if (signature->isTracked)
      if (Error error = copyOverwritten()) return error;
    if (isRecorded)
      if (Error error = engine.makeMarks(request.inputs, mask)) return error;
    TapeNode *node = nullptr;
    if (isRecorded && !(node = allocateNode())) return noMemory(TapeNode::bytes(numInputs(), numKept()));
    draw = signature->isRandom ? request.draw ? request.draw : engine.numDraws + 1 : 0;
    if (!signature->isEmpty) {
      if (Error error = compute(memory)) {
        countFailedWrites(memory);
        if (node) engine.store.freeSized(node, TapeNode::bytes(numInputs(), numKept()));
        return error;
      }
    }
    commit(memory, node, results);
    return Error::success();
  }

 private:
  size_t numInputs() const { return request.inputs.size(); }
  size_t numKept() const { return signature->kept.size(); }
  TensorImpl &input(size_t i) const { return *request.inputs[i].get(); }

  Error findSignature() {
    if (Error error = engine.checkOwn(request.kind)) return error;
    std::vector<uint64_t> &key = engine.callKey;
    key.clear();
    key.push_back(formWord(request.modes.isTraining, numInputs()));
    for (const Tensor &tensor : request.inputs) {
      const TensorImpl *const impl = tensor.get();
      if (!impl || impl->store != &engine.store)
        return engine.checkOwn(request.inputs, "input of '" + request.kind->kind->spelling + "'");
      key.push_back(keyWord({impl->shape, impl->dtype}, (impl->tracked & mask) != 0));
    }
    // The output types of a fused backward operator may depend only on its forward node.
    for (const KnownOutput &output : request.known) key.push_back(keyWord(output));
    Expected<Signature *> found = engine.signatures.find(*request.kind, key, request.known);
    if (!found) return found.takeError();
    signature = *found;
    return Error::success();
  }

  Error checkWrites() {
    for (uint32_t i : signature->mutated)
      if (Error error = engine.checkWritable(input(i), request.modes, false)) return error;
    if (request.into.empty()) return Error::success();
    if (request.into.size() != signature->numVisible)
      return Failure(ErrorKind::Arity, "operator '" + signature->handle->spelling + "' has " +
                                           Twine(signature->numVisible) + " outputs, got " +
                                           Twine(request.into.size()) + " tensors for them");
    if (Error error = engine.checkOwn(request.into, "output of '" + signature->handle->spelling + "'")) return error;
    for (size_t o = 0; o < request.into.size(); ++o) {
      const TensorImpl &to = *request.into[o].get();
      const OperandType type = signature->outputs[o].type;
      if (to.shape != type.shape || to.dtype != type.dtype)
        return Failure(ErrorKind::BindingMismatch, "output " + Twine(o) + " of '" + signature->handle->spelling +
                                                       "': expected " +
                                                       describeTensor(engine.store.shapes[type.shape], type.dtype) +
                                                       ", got " + describeTensor(ShapeRef(to.shapeDims()), to.dtype));
      // A marked leaf gets no history, whether or not it counts in these modes.
      Modes modes = request.modes;
      if (signature->isTracked && signature->outputs[o].isTracked && !to.producer) modes.recording = Recording::On;
      if (Error error = engine.checkWritable(to, modes, true)) return error;
      for (size_t k = 0; k < o; ++k)
        if (overlap(*to.storage, *request.into[k].get()->storage))
          return Failure(ErrorKind::BufferAlias, "outputs " + Twine(k) + " and " + Twine(o) + " of '" +
                                                     signature->handle->spelling + "' would share memory");
    }
    return Error::success();
  }

  /// Whether the result is to be known as what a backward made of untracked values. The call is recorded, too, but for
  /// graphs.
  bool isDerived() const {
    return request.keepsDerived && !signature->isRandom && !signature->isHostCode && !hasEffects(*signature->handle);
  }

  Error checkKept() {
    for (KeptOperand operand : signature->kept) {
      if (!signature->isInput(operand)) break;
      const TensorImpl &kept = input(operand);
      if (kept.storage && kept.storage->isInference)
        return Failure(ErrorKind::StaleVersion, describe(kept) + ", which the gradient of '" +
                                                    signature->handle->spelling +
                                                    "' needs, was made in inference mode: clone it outside");
    }
    return Error::success();
  }

  Error noMemory(size_t bytes) const {
    return Failure(ErrorKind::TooLarge,
                   "no memory for the " + Twine(bytes) + " bytes of '" + signature->handle->spelling + "'");
  }

  /// Whether the kernel may write output `o` over the inputs that share its memory.
  bool mayWriteOver(const Storage &target, size_t o) const {
    for (size_t i = 0; i < numInputs(); ++i) {
      if (signature->handle->isIgnored(i) || !overlap(*input(i).storage, target)) continue;
      const bool isPair = any_of(signature->handle->op->inplace,
                                 [&](const InplacePair &pair) { return pair.input == i && pair.output == o; });
      if (!isPair || input(i).storage != &target) return false;
    }
    return true;
  }

  Error takeMemory(Outputs &memory, size_t numResults) {
    for (size_t o = 0; o < signature->outputs.size(); ++o) {
      const Signature::Output &output = signature->outputs[o];
      const bool isInto = o < request.into.size();
      if (isInto && output.sharedInput < 0 && mayWriteOver(*request.into[o].get()->storage, o)) {
        memory[o] = request.into[o].get()->storage;
        retain(memory[o]);
      } else if (output.sharedInput >= 0 && request.into.size() <= 1) {
        memory[o] = input(output.sharedInput).storage;
        retain(memory[o]);
      } else if (output.hasMemory) {
        memory[o] = engine.store.allocateStorage(output.bytes);
        if (!memory[o]) return noMemory(output.bytes);
        memory[o]->isInference = request.modes.isInference;
        // The input may be the target of another output.
        if (output.sharedInput >= 0 && output.bytes)
          std::memcpy(memory[o]->data, input(output.sharedInput).storage->data, output.bytes);
      }
      if (o < numResults && output.hasMemory && !memory.allocateTensor(o)) return noMemory(sizeof(TensorImpl));
    }
    return engine.growWorkspace(signature->workspaceBytes);
  }

  /// Copies inputs that the gradient reads and that are targets, too: the call is recorded as if it ran out of place.
  Error copyOverwritten() {
    if (request.into.empty()) return Error::success();
    for (KeptOperand operand : signature->kept) {
      if (!signature->isInput(operand)) break;
      Storage *const kept = input(operand).storage;
      if (!kept || keptStorage(kept) != kept ||
          none_of(request.into, [&](const Tensor &target) { return overlap(*target.get()->storage, *kept); }))
        continue;
      copies.reserve(copies.size() + 1);
      Storage *const copy = engine.store.allocateStorage(kept->bytes);
      if (!copy) return noMemory(kept->bytes);
      std::memcpy(copy->data, kept->data, kept->bytes);
      copies.push_back({kept, copy});
    }
    return Error::success();
  }

  Storage *keptStorage(Storage *input) const {
    const auto at = find_if(copies, [&](const auto &pair) { return pair.first == input; });
    return at == copies.end() ? input : at->second;
  }

  Error compute(Outputs &memory) {
    Signature &s = *signature;
    for (size_t i = 0; i < numInputs(); ++i) s.operands[i].data = input(i).storage ? input(i).storage->data : nullptr;
    for (size_t o = 0; o < s.outputs.size(); ++o)
      s.operands[numInputs() + o].data = memory[o] ? memory[o]->data : nullptr;
    s.call.workspace = s.workspaceBytes ? engine.workspace->data : nullptr;
    if (s.handle->flow) s.call.bodies = s.bodies.at(static_cast<char *>(s.call.workspace), engine.failure.address());
    s.call.random = {engine.options.seed, draw, 0};
    s.call.state = objectOf(request.state);
    s.call.failure = engine.failure.address();
    auto body = [&]() -> Error {
      if (!s.fast) s.handle->op->kernel(s.call);
      else
        withThreads(engine.options.threads, [&] {
          const StoreLoan loan(engine.store);
          s.fast->run(s.call);
        });
      return engine.failure.hasFailed() ? engine.failure.take() : Error::success();
    };
    Error error = catching("to run the operator", body, [&](Failure failure) {
      return std::move(failure).note("while running operator '" + s.handle->spelling + "'");
    });
    if (error) consumeError(engine.failure.take());  // a kernel may leave one error and throw another
    return error;
  }

  /// A kernel that fails may have written some of what it was to overwrite: values that are kept there are stale.
  void countFailedWrites(Outputs &memory) {
    if (request.into.empty() && signature->mutated.empty()) return;
    ++engine.numCalls;
    for (size_t o = 0; o < request.into.size(); ++o)
      if (Storage *const target = request.into[o].get()->storage; memory[o] == target)
        target->countWrite(request.kind->number, engine.numCalls);
    for (uint32_t i : signature->mutated) input(i).storage->countWrite(request.kind->number, engine.numCalls);
  }

  TapeNode *allocateNode() {
    return static_cast<TapeNode *>(engine.store.allocate(TapeNode::bytes(numInputs(), numKept())));
  }

  /// Records inputs with the versions that the call read, outputs with those that it left.
  void record(void *block, Outputs &memory) {
    TapeNode *const node = new (block) TapeNode{.numEdges = static_cast<uint32_t>(numInputs()),
                                                .numKept = static_cast<uint32_t>(numKept()),
                                                .isInto = !request.into.empty(),
                                                .line = request.site.line,
                                                .file = request.site.file,
                                                .signature = signature,
                                                .call = engine.numCalls,
                                                .draw = draw,
                                                .store = &engine.store,
                                                .forward = request.forward,
                                                .state = request.state,
                                                .origin = request.origin};
    retain(signature);
    if (node->state) retain(node->state);
    if (node->forward) retain(node->forward);
    if (node->origin) retain(node->origin);
    Edge *edge = node->edges().begin();
    for (const Tensor &tensor : request.inputs) {
      TensorImpl &impl = *tensor.get();
      if ((impl.tracked & mask) && (impl.tracked & kTrackedByLeaf)) node->isTrackedByLeaf = true;
      *edge++ = edgeOf(impl, mask);
    }
    Kept *kept = node->kept().begin();
    for (KeptOperand operand : signature->kept) {
      const bool isInput = signature->isInput(operand);
      Storage *const storage = isInput ? keptStorage(input(operand).storage) : memory[operand - signature->numInputs()];
      if (storage) keep(storage);
      // Writes to targets are counted next.
      const bool isTarget = !isInput && operand - signature->numInputs() < request.into.size();
      *kept++ = {storage, storage ? storage->version.load(std::memory_order_relaxed) + isTarget : 0};
    }
  }

  void commit(Outputs &memory, TapeNode *node, MutableArrayRef<Tensor> results) {
    ++engine.numCalls;
    if (draw > engine.numDraws) engine.numDraws = draw;
    if (!request.into.empty()) replaceByTargets(memory);
    if (node) record(node, memory);
    for (const Tensor &target : request.into) target.get()->storage->countWrite(request.kind->number, engine.numCalls);
    for (uint32_t i : signature->mutated) input(i).storage->countWrite(request.kind->number, engine.numCalls);
    for (size_t o = 0; o < request.into.size(); ++o) setHistory(*request.into[o].get(), o, node);
    for (size_t o = 0; o < results.size(); ++o) results[o] = newTensor(memory, o, node);
    if (node) dropReference(node);
  }

  // ---- No other thread sees the node before the call ends, unless it became the history of a target.
  bool isShared() const { return !request.into.empty(); }
  void addReference(TapeNode *node) const {
    if (isShared()) return retain(node);
    node->refs.store(node->refs.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void dropReference(TapeNode *node) const {
    const uint32_t refs = node->refs.load(std::memory_order_relaxed);
    if (isShared() || refs == 1) return release(node);
    node->refs.store(refs - 1, std::memory_order_relaxed);
  }

  /// Copies outputs that were computed elsewhere to their targets; from then on the targets are the outputs.
  void replaceByTargets(Outputs &memory) {
    for (size_t o = 0; o < request.into.size(); ++o) {
      Storage *const target = request.into[o].get()->storage;
      if (memory[o] != target) {
        if (target->bytes) std::memmove(target->data, memory[o]->data, target->bytes);
        release(memory[o]);
        retain(target);
        memory[o] = target;
      }
    }
  }

  uint8_t trackedBits(size_t o, const TapeNode *node) const {
    if (!node || !signature->outputs[o].isTracked) return 0;
    return node->isTrackedByLeaf ? kTracked | kTrackedByLeaf : kTracked;
  }

  /// Gives a target the history of the call, which happens only while recording.
  void setHistory(TensorImpl &target, size_t o, TapeNode *node) {
    if (mask == 0) return;
    const uint8_t tracked = trackedBits(o, node);
    if (!tracked && !(target.tracked & mask)) return;
    if (tracked) retain(node);
    if (target.producer && target.mark) moveMark(target, o, tracked ? node : nullptr);
    if (target.producer) release(target.producer);
    target.producer = tracked ? node : nullptr;
    target.isDerived = 0;
    target.output = static_cast<uint16_t>(o);
    setTrackedBits(target, tracked);
  }

  /// The retained gradient and the hooks of a target are those of its new value.
  void moveMark(TensorImpl &target, size_t o, TapeNode *node) {
    RetainedMark **at = &target.producer->retained;
    while (*at && (*at)->mark != target.mark) at = &(*at)->next;
    if (!*at) return;
    RetainedMark *const tie = std::exchange(*at, (*at)->next);
    if (node) {
      *tie = {tie->mark, static_cast<uint32_t>(o), node->retained};
      node->retained = tie;
    } else {
      release(tie->mark);
      engine.store.freeSized(tie, sizeof(RetainedMark));
    }
  }

  Tensor newTensor(Outputs &memory, size_t o, TapeNode *node) {
    if (!signature->outputs[o].hasMemory) return Tensor();
    const OperandType type = signature->outputs[o].type;
    const uint8_t tracked = trackedBits(o, node);
    const bool isDerived = node && !signature->isTracked;
    if (tracked || isDerived) addReference(node);
    const Dims dims = signature->operands[signature->numInputs() + o].shape;
    TapeShapes::retain(dims.data());
    return Tensor::adopt(new (memory.takeTensor(o)) TensorImpl{.dtype = type.dtype,
                                                               .tracked = tracked,
                                                               .output = static_cast<uint16_t>(o),
                                                               .shape = type.shape,
                                                               .rank = static_cast<uint32_t>(dims.size()),
                                                               .isDerived = isDerived,
                                                               .dims = dims.data(),
                                                               .store = &engine.store,
                                                               .storage = memory.take(o),
                                                               .producer = tracked || isDerived ? node : nullptr});
  }

  Engine &engine;
  const CallRequest &request;
  const uint8_t mask;
  Signature *signature = nullptr;
  uint64_t draw = 0;
  std::vector<std::pair<Storage *, Storage *>> &copies;  // of storages of inputs
};

}  // namespace

Error runCall(Engine &engine, const CallRequest &request, MutableArrayRef<Tensor> outputs) {
  return catching("to run an operator", [&] {
    return amend(Caller(engine, request).run(outputs), [&](GradcError &error) {
      if (!request.kind || request.kind->store != &engine.store) return;
      std::string text = "in " + describeCall(engine.numCalls + 1, *request.kind->kind);
      if (request.site.file) text += (" at " + Twine(request.site.file) + ":" + Twine(request.site.line)).str();
      error.notes.push_back({std::move(text), {}});
    });
  });
}

}  // namespace gradc
