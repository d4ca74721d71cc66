// Forward runs the host's code and records one call whose values are kept by the context instead of the node.
// Tested by tests/imperative/imperative_function_test.cc
#include "imperative/host_function.h"

#include "imperative/call.h"
#include "imperative/engine.h"
#include "imperative/tape/function_op.h"
#include "runtime/executor/failures.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

void releaseCall(void *self) {
  const std::shared_ptr<FunctionCall> last = std::move(*static_cast<std::shared_ptr<FunctionCall> *>(self));
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
        return Failure(ErrorKind::StaleVersion,
                       describe(*value.get()) + ", which function '" + name + "' saves, was made in inference mode")
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

/// Whether a value of one shape can be summed down to the other: axes that are missing or have one element are summed
/// over.
bool sumsDownTo(Dims from, Dims to) {
  if (to.size() > from.size()) return false;
  const Dims last = from.take_back(to.size());
  return all_of(zip_equal(last, to),
                [](const auto &pair) { return std::get<0>(pair) == std::get<1>(pair) || std::get<1>(pair) == 1; });
}

/// Brings the gradients that a backward returned into the form that the tape needs.
class Results {
 public:
  Results(Engine &engine, const TapeNode &node, bool isRecording)
      : engine(engine), node(node), recording(isRecording ? Recording::On : Recording::Off) {}

  Error run(MutableArrayRef<Tensor> given, ArrayRef<bool> wanted, MutableArrayRef<Tensor> results) {
    const size_t number = node.signature->numInputs();
    while (given.size() > number && !given.back()) given = given.drop_back();
    if (given.size() != number)
      return Failure(ErrorKind::GradCount, who() + " returned " + Twine(given.size()) + " gradients, expected " +
                                               Twine(number) + ", one per input");
    for (size_t i = 0; i < number; ++i) {
      if (!given[i] || !wanted[i]) continue;
      Expected<Tensor> fitting = fit(given[i], i);
      if (!fitting) return fitting.takeError();
      results[i] = std::move(*fitting);
    }
    return Error::success();
  }

 private:
  std::string who() const { return "function '" + node.signature->handle->spelling.str() + "'"; }
  std::string which(size_t i) const { return "gradient " + std::to_string(i) + " that " + who() + " returned "; }

  Expected<Tensor> fit(const Tensor &gradient, size_t i) {
    const TensorImpl &impl = *gradient.get();
    const OperandType type = node.signature->inputs[i];
    if (impl.store != &engine.store)
      return Failure(ErrorKind::ForeignEntry, which(i) + "belongs to another Imperative");
    if (impl.dtype != type.dtype)
      return Failure(ErrorKind::HeadDType,
                     which(i) + "has type " + dtypeName(impl.dtype) + ", expected " + dtypeName(type.dtype));
    if (impl.shape == type.shape) return gradient;
    const ShapeRef shape = engine.store.shapes[type.shape];
    const OpDef *const sumLike = engine.ctx.ops.find("_sum_like");
    if (!sumLike || !sumsDownTo(impl.shapeDims(), shape.dims()))
      return Failure(ErrorKind::GradShape, which(i) + "has shape " + toString(ShapeRef(impl.shapeDims())) +
                                               ", expected " + toString(shape) + " of input " + Twine(i));
    Expected<Tensor> like = engine.makeTensor(type, nullptr, true);
    if (!like) return like.takeError();
    const Tensor operands[] = {gradient, std::move(*like)};
    Tensor sum;
    KindRow *const kind = engine.kindOf(*sumLike, engine.sumLikeKind);
    if (Error error = runCall(engine, {kind, operands, {recording}, node.site()}, sum)) return error;
    return sum;
  }

  Engine &engine;
  const TapeNode &node;
  const Recording recording;
};

Expected<Tensor> zerosOf(Engine &engine, OperandType type) {
  Expected<Tensor> zeros = engine.makeTensor(type, nullptr);
  if (zeros && zeros->ref().bytes()) std::memset(zeros->ref().data, 0, zeros->ref().bytes());
  return zeros;
}

/// Records what a function that is only once differentiable has computed, as a call without a gradient that reads the
/// operands of the function and of its gradient.
Error recordOnce(Engine &engine, const TapeNode &node, ArrayRef<Tensor> gradients, MutableArrayRef<Tensor> results) {
  std::vector<uint64_t> &key = engine.callKey;
  key.assign({0});
  for (const Tensor &gradient : gradients)
    if (gradient)
      if (Error error = engine.makeMarks(gradient, kTracked)) return error;
  Pooled<KnownOutput> known{PoolAllocator<KnownOutput>(engine.store)};
  Pooled<Edge> edges{PoolAllocator<Edge>(engine.store)};
  key.reserve(1 + gradients.size() + node.numEdges + results.size());  // nothing may fail while edges are held
  known.reserve(results.size());
  edges.reserve(gradients.size() + node.numEdges);
  bool isTracked = false, isByLeaf = false;
  for (const Tensor &gradient : gradients) {
    if (!gradient) continue;
    TensorImpl &impl = *gradient.get();
    key.push_back(keyWord({impl.shape, impl.dtype}, impl.tracked != 0));
    edges.push_back(edgeOf(impl, kTracked));
    isByLeaf |= (impl.tracked & kTrackedByLeaf) != 0;
    isTracked |= impl.tracked != 0;
  }
  for (auto [edge, type] : zip_equal(const_cast<TapeNode &>(node).edges(), node.signature->inputs)) {
    key.push_back(keyWord(type, edge.isTracked() && edge.bits));
    retain(edge);
    edges.push_back(edge);
    isTracked |= edge.isTracked() && edge.bits;
  }
  isByLeaf |= node.isTrackedByLeaf;
  key[0] = formWord(false, edges.size());
  for (const Tensor &result : results) {
    if (!result) continue;
    known.push_back({{result.get()->shape, result.dtype()}});
    key.push_back(keyWord(known.back().type, true));
  }
  auto releaseEdges = [&] {
    for (const Edge &edge : edges) release(edge);
  };
  if (known.empty() || !isTracked) return releaseEdges(), Error::success();
  Expected<KindRow *> kind =
      engine.functionKind(kOnceFunction, node.signature->handle->spelling, edges.size(), known.size());
  if (!kind) return releaseEdges(), kind.takeError();
  Expected<Signature *> signature = engine.signatures.find(**kind, key, known);
  if (!signature) return releaseEdges(), signature.takeError();
  void *const block = engine.store.allocate(TapeNode::bytes(edges.size(), 0));
  if (!block) return releaseEdges(), Failure(ErrorKind::TooLarge, "no memory to record a function");
  retain(*signature);
  TapeNode *const once = new (block) TapeNode{.numEdges = static_cast<uint32_t>(edges.size()),
                                              .numKept = 0,
                                              .line = node.line,
                                              .file = node.file,
                                              .signature = *signature,
                                              .call = ++engine.numCalls,
                                              .store = &engine.store,
                                              .origin = makeOrigin(node)};
  once->isTrackedByLeaf = isByLeaf;
  llvm::copy(edges, once->edges().begin());
  uint16_t output = 0;
  for (Tensor &result : results) {
    if (!result) continue;
    // A new tensor: the host may still refer to what it returned.
    TensorImpl &was = *result.get();
    retain(was.storage);
    Expected<Tensor> own = engine.makeTensor({was.shape, was.dtype}, was.storage);
    if (!own) return release(once), own.takeError();
    TensorImpl &impl = *own->get();
    retain(once);
    impl.producer = once;
    impl.output = output++;
    impl.tracked = isByLeaf ? kTracked | kTrackedByLeaf : kTracked;
    result = std::move(*own);
  }
  release(once);
  return Error::success();
}

}  // namespace

Expected<TensorList> runForward(Engine &engine, const std::shared_ptr<const Function> &function, Tensors inputs,
                                CallSite site) {
  if (!function || !function->forward || !function->backward)
    return Failure(ErrorKind::BadCallback, "a function to apply has no forward or no backward");
  const Modes modes = modesOf(engine.owner);
  std::shared_ptr<FunctionCall> call;
  std::shared_ptr<bool[]> needs;
  auto prepare = [&]() -> Error {
    if (Error error = engine.checkOwn(inputs, "input of function '" + StringRef(function->name) + "'")) return error;
    call = std::allocate_shared<FunctionCall>(PoolAllocator<FunctionCall>(engine.store), engine.store, function,
                                              inputs.size());
    needs = engine.makeFlags(inputs.size());
    for (auto [i, input] : enumerate(inputs))
      needs[i] = engine.signatureOptions().carriesGradient(input.dtype()) &&
                 (input.get()->tracked & Engine::trackedMask(modes)) != 0;
    return Error::success();
  };
  if (Error error = entering(engine.store, "to call a function", prepare)) return error;
  const auto endCall = make_scope_exit([&] {
    call->isForward = false;
    call->given.clear();
  });
  Expected<TensorList> outputs = [&] {
    NoGradScope quiet(engine.owner);
    return function->forward(FunctionContext(call, needs), inputs);
  }();
  auto record = [&]() -> Error {
    const CallRequest request{.kind = nullptr, .inputs = inputs, .modes = modes, .site = site};
    return FunctionRecorder(engine, call, request, ArrayRef(needs.get(), inputs.size())).run(*outputs);
  };
  if (outputs)
    if (Error error = entering(engine.store, "to record a function", record)) return error;
  return outputs;
}

Error runBackward(HostRun &host, size_t number, MutableArrayRef<Tensor> gradients,
                  const std::shared_ptr<const bool[]> &wanted, MutableArrayRef<Tensor> results) {
  Engine &engine = host.engine;
  const TapeNode &node = host.nodeOf(number);
  const std::shared_ptr<FunctionCall> call = functionCallOf(*host.stateOf(number));
  if (call->materializes)
    for (auto [gradient, output] : zip_equal(gradients, node.signature->outputs)) {
      if (gradient) continue;
      Expected<Tensor> zeros = zerosOf(engine, output.type);
      if (!zeros) return zeros.takeError();
      gradient = std::move(*zeros);
    }
  const bool isRecorded = host.isRecording && !call->function->isOnceDifferentiable;
  std::optional<Expected<TensorList>> given;
  {
    HostRun::Inside inside(host, isRecorded);
    given.emplace(call->function->backward(FunctionContext(call, wanted), gradients));
  }
  if (!*given) return given->takeError();
  if (Error error = Results(engine, node, isRecorded).run(**given, ArrayRef(wanted.get(), results.size()), results))
    return error;
  return host.isRecording && !isRecorded ? recordOnce(engine, node, gradients, results) : Error::success();
}

}  // namespace gradc
