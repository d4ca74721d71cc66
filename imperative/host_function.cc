// The forward side: run the host's code, then record one call whose values are kept by the context instead of the node.
// Tested by tests/imperative/imperative_function_test.cc
#include "imperative/engine.h"
#include "imperative/tape/function_call.h"
#include "imperative/tape/function_op.h"
#include "runtime/executor/failures.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"

using namespace llvm;

namespace gradc {
namespace {

void releaseCall(void *self) {
  const std::shared_ptr<FunctionCall> last = std::move(*static_cast<std::shared_ptr<FunctionCall> *>(self));
}

bool tryRetain(TapeNode &node) {
  uint32_t refs = node.refs.load(std::memory_order_relaxed);
  while (refs != 0)
    if (node.refs.compare_exchange_weak(refs, refs + 1, std::memory_order_relaxed)) return true;
  return false;
}

/// A tensor of its own for a saved value, which the host may give another history; an output has that of `node`, if it
/// is not null.
Tensor handOut(const FunctionCall::Saved &saved, TapeNode *node) {
  const TensorImpl &impl = *saved.value.get();
  const StoreView view(*impl.store);
  if (impl.store->hasEnded()) return saved.value;
  void *const block = impl.store->allocate(sizeof(TensorImpl));
  if (!block) return Tensor();
  retain(impl.storage);
  TapeShapes::hold(impl.dims);
  auto *const own = new (block) TensorImpl{.dtype = impl.dtype,
                                           .tracked = impl.tracked,
                                           .output = impl.output,
                                           .shape = impl.shape,
                                           .rank = impl.rank,
                                           .isDerived = impl.isDerived,
                                           .dims = impl.dims,
                                           .store = impl.store,
                                           .storage = impl.storage,
                                           .producer = impl.producer,
                                           .mark = impl.mark};
  if (saved.output >= 0 && node && node->signature->outputs[static_cast<size_t>(saved.output)].isTracked) {
    own->tracked = node->isTrackedByLeaf ? kTracked | kTrackedByLeaf : kTracked;
    own->output = static_cast<uint16_t>(saved.output);
    own->producer = node;
    own->isDerived = 0;
  }
  if (own->producer) retain(own->producer);
  if (own->mark) retain(own->mark);
  return Tensor::adopt(own);
}

/// Makes the results of `forward` tensors of the tape.
class FunctionRecorder {
 public:
  FunctionRecorder(Engine &engine, const std::shared_ptr<FunctionCall> &call, const CallRequest &request,
                   ArrayRef<bool> needs)
      : engine(engine), call(call), request(request), needs(needs), mask(Engine::trackedMask(request.modes)),
        returned(PoolAllocator<Tensor>(engine.store)) {}

  Error run(TensorList &outputs) {
    if (Error error = engine.checkOwn(outputs, "output of function '" + StringRef(call->function->name) + "'"))
      return error;
    if (Error error = ownHandles(outputs)) return error;
    if (!is_contained(needs, true) || outputs.empty()) return Error::success();
    if (Error error = findSignature(outputs)) return error;
    if (!signature->isTracked) return Error::success();
    if (Error error = checkSaved()) return error;
    return record(outputs);
  }

 private:
  /// Replaces an output that is an input, an earlier output or in use elsewhere by a new tensor over the same memory.
  Error ownHandles(TensorList &outputs) {
    DenseMap<const TensorImpl *, int64_t> &outputOf = engine.outputOf;
    outputOf.clear();
    for (const Tensor &input : request.inputs) outputOf[input.get()] = -1;
    returned.assign(outputs.begin(), outputs.end());
    for (auto [o, output] : enumerate(outputs)) {
      TensorImpl &impl = *output.get();
      const bool isNew = outputOf.try_emplace(&impl, static_cast<int64_t>(o)).second;
      if (isNew && !impl.tracked && !impl.producer && !impl.mark) continue;
      retain(impl.storage);
      Expected<Tensor> own = engine.makeTensor({impl.shape, impl.dtype}, impl.storage);
      if (!own) return own.takeError();
      output = std::move(*own);
    }
    return Error::success();
  }

  Error findSignature(const TensorList &outputs) {
    std::vector<uint64_t> &key = engine.callKey;
    key.assign({formWord(request.modes.isTraining, request.inputs.size())});
    for (auto [input, isNeeded] : zip_equal(request.inputs, needs))
      key.push_back(keyWord({input.get()->shape, input.dtype()}, isNeeded));
    Pooled<KnownOutput> known{PoolAllocator<KnownOutput>(engine.store)};
    for (const Tensor &output : outputs) known.push_back({{output.get()->shape, output.dtype()}});
    for (size_t o : call->nonDifferentiable)
      if (o < known.size()) known[o].isWanted = false;
    for (const KnownOutput &output : known) key.push_back(keyWord(output));
    Expected<KindRow *> kind =
        engine.functionKind(kFunction, call->function->name, request.inputs.size(), outputs.size());
    if (!kind) return kind.takeError();
    Expected<Signature *> found = engine.signatures.find(**kind, key, known);
    if (!found) return found.takeError();
    signature = *found;
    return Error::success();
  }

  Error checkSaved() {
    const StringRef name = call->function->name;
    for (const Tensor &value : call->given) {
      if (!value) continue;
      if (Error error = engine.checkOwn(value, "value saved by function '" + name + "'")) return error;
      if (value.get()->storage->isInference)
        return Failure(ErrorKind::StaleVersion, Engine::describe(*value.get()) + ", which function '" + name +
                                                    "' saves, was made in inference mode")
            .note("clone it outside of InferenceScope");
    }
    return Error::success();
  }

  Error record(TensorList &outputs) {
    Pooled<FunctionCall::Saved> saved{PoolAllocator<FunctionCall::Saved>(engine.store)};
    if (Error error = snapshot(saved)) return error;
    if (Error error = engine.makeMarks(request.inputs, mask)) return error;
    const size_t bytes = TapeNode::bytes(request.inputs.size(), 0);
    Storage *const state = engine.store.foreignStorage(nullptr, 0, releaseCall, &call->self);
    void *const block = state ? engine.store.allocate(bytes) : nullptr;
    if (!block) {
      if (state) release(state);
      return Failure(ErrorKind::TooLarge, "no memory to record a function");
    }
    call->self = call;
    retain(signature);
    TapeNode *const node = new (block) TapeNode{.numEdges = static_cast<uint32_t>(request.inputs.size()),
                                                .numKept = 0,
                                                .isFunction = true,
                                                .line = request.site.line,
                                                .file = request.site.file,
                                                .signature = signature,
                                                .call = ++engine.numCalls,
                                                .store = &engine.store,
                                                .state = state};
    for (auto [tensor, edge] : zip_equal(request.inputs, node->edges())) {
      TensorImpl &impl = *tensor.get();
      if ((impl.tracked & mask) && (impl.tracked & kTrackedByLeaf)) node->isTrackedByLeaf = true;
      edge = edgeOf(impl, mask);
    }
    for (auto [o, output] : enumerate(outputs)) {
      if (!signature->outputs[o].isTracked) continue;
      TensorImpl &impl = *output.get();
      retain(node);
      impl.producer = node;
      impl.output = static_cast<uint16_t>(o);
      impl.tracked = node->isTrackedByLeaf ? kTracked | kTrackedByLeaf : kTracked;
    }
    {
      std::lock_guard guard(call->mutex);
      call->saved = std::move(saved);
      call->node = node;
      call->number = node->call;
    }
    release(node);
    return Error::success();
  }

  /// Saves values with the history and the version that they have now; recognizes inputs and outputs by their handles.
  Error snapshot(Pooled<FunctionCall::Saved> &saved) {
    saved.reserve(call->given.size());
    for (const Tensor &value : call->given) {
      saved.emplace_back();
      if (!value) continue;
      TensorImpl &impl = *value.get();
      const auto output = engine.outputOf.find(&impl);
      const bool isOutput = output != engine.outputOf.end() && output->second >= 0;
      if (isOutput) {
        saved.back().output = static_cast<int32_t>(output->second);
        retain(impl.storage);
      }
      Expected<Tensor> copy =
          isOutput ? engine.makeTensor({impl.shape, impl.dtype}, impl.storage) : engine.snapshot(impl, mask);
      if (!copy) return copy.takeError();
      saved.back().version = value.version();
      saved.back().value = std::move(*copy);
    }
    return Error::success();
  }

  Engine &engine;
  const std::shared_ptr<FunctionCall> &call;
  const CallRequest &request;
  const ArrayRef<bool> needs;
  const uint8_t mask;
  Signature *signature = nullptr;
  Pooled<Tensor> returned;  // the handles that `forward` gave
};

}  // namespace

std::shared_ptr<FunctionCall> &functionCallOf(Storage &state) {
  return *static_cast<std::shared_ptr<FunctionCall> *>(state.releaseUser);
}

void releaseSaved(Storage &state) {
  FunctionCall &call = *functionCallOf(state);
  Pooled<FunctionCall::Saved> saved(call.saved.get_allocator());
  std::lock_guard guard(call.mutex);
  call.isCleared |= !call.saved.empty();
  call.node = nullptr;
  std::swap(saved, call.saved);
}

Expected<TensorList> Imperative::apply(const std::shared_ptr<const Function> &function, Tensors inputs, CallSite site) {
  if (!function || !function->forward || !function->backward)
    return Failure(ErrorKind::BadCallback, "a function to apply has no forward or no backward");
  const Modes modes = modesOf(*this);
  std::shared_ptr<FunctionCall> call;
  std::shared_ptr<bool[]> needs;
  auto prepare = [&]() -> Error {
    if (Error error = engine->checkOwn(inputs, "input of function '" + StringRef(function->name) + "'")) return error;
    call = std::allocate_shared<FunctionCall>(PoolAllocator<FunctionCall>(engine->store), engine->store, function,
                                              inputs.size());
    needs = engine->makeFlags(inputs.size());
    for (auto [i, input] : enumerate(inputs))
      needs[i] = engine->signatureOptions().carriesGradient(input.dtype()) &&
                 (input.get()->tracked & Engine::trackedMask(modes)) != 0;
    return Error::success();
  };
  if (Error error = entering(engine->store, "to call a function", prepare)) return error;
  const auto endCall = make_scope_exit([&] {
    call->isForward = false;
    call->given.clear();
  });
  Expected<TensorList> outputs = [&] {
    NoGradScope quiet(*this);
    return function->forward(FunctionContext(call, needs), inputs);
  }();
  auto record = [&]() -> Error {
    const CallRequest request{.kind = nullptr, .inputs = inputs, .modes = modes, .site = site};
    return FunctionRecorder(*engine, call, request, ArrayRef(needs.get(), inputs.size())).run(*outputs);
  };
  if (outputs)
    if (Error error = entering(engine->store, "to record a function", record)) return error;
  return outputs;
}

// Later it would keep the outputs, which keep the call.
void FunctionContext::save(Tensors values) const {
  if (call->isForward) call->given.assign(values.begin(), values.end());
}
void FunctionContext::markNonDifferentiable(size_t output) const {
  if (call->isForward) call->nonDifferentiable.push_back(output);
}
void FunctionContext::setMaterializes(bool isOn) const { call->materializes = isOn; }
bool FunctionContext::needsGradient(size_t input) const { return input < call->numInputs && needs[input]; }
std::shared_ptr<void> &FunctionContext::data() const { return call->data; }

Expected<TensorList> FunctionContext::saved() const {
  TensorList values;
  for (size_t i = 0;; ++i) {
    FunctionCall::Saved saved;
    TapeNode *node = nullptr;
    {
      std::lock_guard guard(call->mutex);
      if (call->isCleared)
        return Failure(ErrorKind::HistoryCleared,
                       "what " + call->describe() + " saved was released by an earlier backward without `retain`")
            .note("retain on the first call to run another one over the same history");
      if (i == call->saved.size()) return values;
      saved = call->saved[i];
      if (call->node && tryRetain(*call->node)) node = call->node;
    }
    const auto endNode = make_scope_exit([&] {
      if (node) release(node);
    });
    if (saved.value && saved.value.version() != saved.version)
      return Failure(ErrorKind::StaleVersion, "value " + Twine(i) + " that " + call->describe() +
                                                  " saved was overwritten: its gradient needs version " +
                                                  Twine(saved.version) + ", it is " + Twine(saved.value.version()));
    values.push_back(saved.value ? handOut(saved, node) : Tensor());
    if (saved.value && !values.back()) return Failure(ErrorKind::TooLarge, "no memory for a saved value");
  }
}

}  // namespace gradc
