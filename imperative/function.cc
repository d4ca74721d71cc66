// The forward side: run the host's code, then record one call whose values are kept by the context instead of the node.
// Tested by tests/imperative_function_test.cc
#include "imperative/engine.h"
#include "imperative/function_call.h"
#include "imperative/function_op.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace llvm;

namespace gradc {
namespace {

void deleteCall(void *call) { delete static_cast<std::shared_ptr<FunctionCall> *>(call); }

bool tryRetain(TapeNode &node) {
  uint32_t refs = node.refs.load(std::memory_order_relaxed);
  while (refs != 0)
    if (node.refs.compare_exchange_weak(refs, refs + 1, std::memory_order_relaxed)) return true;
  return false;
}

/// A tensor of its own for a saved value, which the host may give another history; an output has that of `node`, if it is not
/// null.
Tensor handOut(const FunctionCall::Saved &saved, TapeNode *node) {
  const TensorImpl &impl = *saved.value.get();
  StoreLock lock(*impl.store);
  if (impl.store->hasEnded()) return saved.value;
  void *const block = impl.store->allocate(sizeof(TensorImpl));
  if (!block) return Tensor();
  retain(impl.storage);
  auto *const own = new (block) TensorImpl{.dtype = impl.dtype,
                                           .tracked = impl.tracked,
                                           .output = impl.output,
                                           .shape = impl.shape,
                                           .rank = impl.rank,
                                           .dims = impl.dims,
                                           .store = impl.store,
                                           .storage = impl.storage,
                                           .producer = impl.producer,
                                           .mark = impl.mark,
                                           .serial = impl.serial};
  if (saved.output >= 0 && node && node->signature->outputs[static_cast<size_t>(saved.output)].isTracked) {
    own->tracked = node->isTrackedByLeaf ? kTracked | kTrackedByLeaf : kTracked;
    own->output = static_cast<uint16_t>(saved.output);
    own->producer = node;
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
      : engine(engine), call(call), request(request), needs(needs), mask(Engine::trackedMask(request.modes)) {}

  Expected<TensorList> run(TensorList outputs) {
    const std::string who = "function '" + call->function->name + "'";
    if (Error error = engine.checkOwn(outputs, "output of " + who)) return error;
    if (Error error = ownHandles(outputs)) return error;
    if (!is_contained(needs, true) || outputs.empty()) return outputs;
    if (Error error = findSignature(outputs)) return error;
    if (!signature->isTracked) return outputs;
    if (Error error = checkSaved(who)) return error;
    return record(outputs);
  }

 private:
  /// Replaces an output that is an input, an earlier output or in use elsewhere by a new tensor over the same memory.
  Error ownHandles(TensorList &outputs) {
    SmallPtrSet<const TensorImpl *, 8> taken;
    for (const Tensor &input : request.inputs) taken.insert(input.get());
    for (Tensor &output : outputs) {
      TensorImpl &impl = *output.get();
      returned.push_back(output);
      if (taken.insert(&impl).second && !impl.tracked && !impl.producer && !impl.mark) continue;
      retain(impl.storage);
      Expected<Tensor> own = engine.makeTensor({impl.shape, impl.dtype}, impl.storage);
      if (!own) return own.takeError();
      output = std::move(*own);
    }
    return Error::success();
  }

  Error findSignature(const TensorList &outputs) {
    SmallVector<uint64_t, 8> key{formWord(request.modes.isTraining, request.inputs.size())};
    for (auto [input, isNeeded] : zip_equal(request.inputs, needs))
      key.push_back(keyWord({input.get()->shape, input.dtype()}, isNeeded));
    SmallVector<KnownOutput, 4> known;
    for (auto [o, output] : enumerate(outputs)) {
      known.push_back({{output.get()->shape, output.dtype()}, !is_contained(call->nonDifferentiable, o)});
      key.push_back(keyWord(known.back().type, known.back().isWanted));
    }
    const std::string numArgs = std::to_string(request.inputs.size()), numOutputs = std::to_string(outputs.size());
    Expected<KindRef> kind = engine.ctx.kind(
        kFunction, engine.ctx.attrs(ArrayRef<AttrText>{{"num_args", numArgs}, {"num_outputs", numOutputs}}),
        call->function->name);
    if (!kind) return kind.takeError();
    Expected<Signature *> found = engine.signatures.find(engine.signatures.kindId(*kind), key, known);
    if (!found) return found.takeError();
    signature = *found;
    return Error::success();
  }

  Error checkSaved(const Twine &who) {
    for (const Tensor &value : call->given) {
      if (!value) continue;
      if (Error error = engine.checkOwn(value, "value saved by " + who)) return error;
      if (value.get()->storage->isInference)
        return Failure(ErrorKind::StaleVersion,
                       Engine::describe(*value.get()) + ", which " + who + " saves, was made in inference mode")
            .note("clone it outside of InferenceScope");
    }
    return Error::success();
  }

  Expected<TensorList> record(TensorList &outputs) {
    const size_t bytes = TapeNode::bytes(request.inputs.size(), 0);
    auto holder = std::make_unique<std::shared_ptr<FunctionCall>>(call);
    Storage *const state = engine.store.foreignStorage(nullptr, 0, deleteCall, holder.get());
    void *const block = state ? engine.store.allocate(bytes) : nullptr;
    SmallVector<FunctionCall::Saved, 2> saved;
    Error failure = block ? snapshot(saved) : Failure(ErrorKind::TooLarge, "no memory to record a function");
    if (failure) {
      if (block) engine.store.freeSized(block, bytes);
      if (state) {
        state->release = nullptr;
        release(state);
      }
      return failure;
    }
    holder.release();
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
      call->text = engine.describe(*node);
    }
    release(node);
    return std::move(outputs);
  }

  /// Saves values with the history and the version that they have now; recognizes inputs and outputs by their handles.
  Error snapshot(SmallVectorImpl<FunctionCall::Saved> &saved) {
    for (const Tensor &value : call->given) {
      saved.emplace_back();
      if (!value) continue;
      TensorImpl &impl = *value.get();
      const auto output = llvm::find(returned, value);
      const bool isOutput = output != returned.end() && !is_contained(request.inputs, value);
      if (isOutput) {
        saved.back().output = static_cast<int32_t>(output - returned.begin());
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
  TensorList returned;  // the handles that `forward` gave
};

}  // namespace

std::shared_ptr<FunctionCall> &functionCallOf(Storage &state) {
  return *static_cast<std::shared_ptr<FunctionCall> *>(state.releaseUser);
}

void releaseSaved(Storage &state) {
  FunctionCall &call = *functionCallOf(state);
  SmallVector<FunctionCall::Saved, 2> saved;
  std::lock_guard guard(call.mutex);
  call.isCleared |= !call.saved.empty();
  call.node = nullptr;
  std::swap(saved, call.saved);
}

Expected<TensorList> Imperative::apply(const std::shared_ptr<const Function> &function, Tensors inputs, CallSite site) {
  if (!function || !function->forward || !function->backward)
    return Failure(ErrorKind::BadCallback, "a function to apply has no forward or no backward");
  const Modes modes = modesOf(*this);
  const auto call = std::make_shared<FunctionCall>();
  call->function = function;
  SmallVector<bool, 4> needs;
  {
    StoreLock lock(engine->store);
    if (Error error = engine->checkOwn(inputs, "input of function '" + function->name + "'")) return error;
    for (const Tensor &input : inputs)
      needs.push_back(isFloating(input.dtype()) && (input.get()->tracked & Engine::trackedMask(modes)) != 0);
  }
  const FunctionContext context(call, needs);
  Expected<TensorList> outputs = [&] {
    NoGradScope quiet(*this);
    return function->forward(context, inputs);
  }();
  if (!outputs) return outputs;
  StoreLock lock(engine->store);
  const CallRequest request{.kind = {}, .inputs = inputs, .modes = modes, .site = site};
  Expected<TensorList> results = FunctionRecorder(*engine, call, request, needs).run(std::move(*outputs));
  call->given.clear();
  return results;
}

void FunctionContext::save(Tensors values) const { call->given.assign(values.begin(), values.end()); }
void FunctionContext::markNonDifferentiable(size_t output) const { call->nonDifferentiable.push_back(output); }
void FunctionContext::setMaterializes(bool isOn) const { call->materializes = isOn; }
bool FunctionContext::needsGradient(size_t input) const { return input < needs.size() && needs[input]; }
std::shared_ptr<void> &FunctionContext::data() const { return call->data; }

Expected<TensorList> FunctionContext::saved() const {
  SmallVector<FunctionCall::Saved, 2> list;
  TapeNode *node = nullptr;
  {
    std::lock_guard guard(call->mutex);
    if (call->isCleared)
      return Failure(ErrorKind::HistoryCleared,
                     "what " + call->text + " saved was released by an earlier backward without `retain`")
          .note("retain on the first call to run another one over the same history");
    list = call->saved;
    if (call->node && tryRetain(*call->node)) node = call->node;
  }
  const auto endNode = make_scope_exit([&] {
    if (node) release(node);
  });
  TensorList values;
  for (auto [i, saved] : enumerate(list)) {
    if (saved.value && saved.value.version() != saved.version)
      return Failure(ErrorKind::StaleVersion, "value " + Twine(i) + " that " + call->text +
                                                  " saved was overwritten: its gradient needs version " +
                                                  Twine(saved.version) + ", it is " + Twine(saved.value.version()));
    values.push_back(saved.value ? handOut(saved, node) : Tensor());
    if (saved.value && !values.back()) return Failure(ErrorKind::TooLarge, "no memory for a saved value");
  }
  return values;
}

}  // namespace gradc
