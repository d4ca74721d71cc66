// Tested by tests/imperative/imperative_test.cc
#include "imperative/imperative.h"

#include "imperative/backward.h"
#include "imperative/call.h"
#include "imperative/engine.h"
#include "imperative/host_function.h"
#include "imperative/plans/recorded_graph.h"

#include "runtime/executor/failures.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

constexpr const char *kToRun = "to run an operator", *kToMark = "to mark a tensor";

/// The tensor, or none.
Tensor orNone(Expected<Tensor> &&tensor) {
  if (tensor) return *tensor;
  consumeError(tensor.takeError());
  return Tensor();
}

/// An object of the host behind TapeNode::state.
struct HostObject {
  std::shared_ptr<void> object;
  Store *store;
};

void releaseObject(void *block) {
  HostObject last = std::move(*static_cast<HostObject *>(block));
  last.object.reset();
  last.store->freeSized(block, sizeof(HostObject));
}

/// Null without memory; then the object is still the caller's.
Storage *storeObject(Store &store, std::shared_ptr<void> &object) {
  void *const block = store.allocate(sizeof(HostObject));
  if (!block) return nullptr;
  Storage *const storage = store.foreignStorage(nullptr, 0, releaseObject, block);
  if (storage) new (block) HostObject{std::move(object), &store};
  else store.freeSized(block, sizeof(HostObject));
  return storage;
}

}  // namespace

Imperative::Imperative(Context &context, const ImperativeOptions &options)
    : engine(std::make_unique<Engine>(*this, context, options)) {}

Imperative::~Imperative() {
  Store &store = engine->store;
  engine.reset();
  store.close();
}

/// E-class of a key that the operator does not have: a file may hold what another program reads, a call does not.
static Error checkKeys(const OpDef &op, StringRef name, ArrayRef<AttrText> attrs) {
  for (const AttrText &attr : attrs) {
    const bool isAnnotation = attr.key.starts_with("__") && attr.key.ends_with("__");
    if (isAnnotation || op.declares(attr.key)) continue;
    Failure failure(ErrorKind::BadAttribute, "operator '" + name + "' has no attribute '" + attr.key + "'");
    const AttrSpec *nearest = nullptr;
    unsigned best = static_cast<unsigned>(1 + attr.key.size() / 4);
    for (const AttrSpec &spec : op.attrs)
      if (const unsigned distance = attr.key.edit_distance(spec.key); distance <= best) {
        nearest = &spec;
        best = distance - (distance != 0);
      }
    if (nearest) return std::move(failure).note("did you mean '" + nearest->key + "'?");
    std::string all;
    for (const AttrSpec &spec : op.attrs) all += (all.empty() ? "" : ", ") + spec.key.str();
    return std::move(failure).note(all.empty() ? "it has none" : "it has " + all);
  }
  return Error::success();
}

Expected<Kind> Imperative::kind(StringRef op, ArrayRef<AttrText> attrs) {
  return entering(engine->store, "to make a kind", [&]() -> Expected<Kind> {
    const OpDef *const def = engine->ctx.ops.find(op);
    if (!def)
      return amend(Failure(ErrorKind::UnknownName, "there is no operator '" + op + "'"), [&](GradcError &error) {
        for (StringRef name : engine->ctx.ops.suggest(op))
          error.notes.push_back({("did you mean '" + name + "'?").str(), {}});
      });
    if (Error error = checkKeys(*def, op, attrs)) return error;
    const Attrs given = engine->ctx.attrs(attrs);
    Expected<KindRef> handle = engine->ctx.kind(*def, given, op);
    if (!handle)
      return amend(handle.takeError(),
                   [&](GradcError &error) { error.message.append(" ").append(describeAttrs(op, op, given)); });
    return Kind(engine->signatures.row(*handle));
  });
}

Expected<Kind> Imperative::kind(const KindRef &handle) {
  return entering(engine->store, "to make a kind",
                  [&]() -> Expected<Kind> { return handle ? Kind(engine->signatures.row(handle)) : Kind(); });
}

Expected<Tensor> Imperative::make(Dims dims, DType dtype) {
  return entering(engine->store, "to make a tensor", [&]() -> Expected<Tensor> {
    Expected<OperandType> type = engine->typeOf(dims, dtype);
    if (!type) return type.takeError();
    Expected<Tensor> tensor = engine->makeTensor(*type, nullptr);
    if (tensor) tensor->get()->storage->isInference = modesOf(*this).isInference;
    return tensor;
  });
}

Expected<Tensor> Imperative::makeForeign(const TensorRef &memory, void (*release)(void *), void *user) {
  return entering(engine->store, "to make a tensor", [&]() -> Expected<Tensor> {
    Expected<OperandType> type = engine->typeOf(memory.shape, memory.dtype);
    if (!type) return type.takeError();
    if (reinterpret_cast<uintptr_t>(memory.data) % dtypeBytes(memory.dtype) != 0)
      return Failure(ErrorKind::BindingMismatch, "the address is not a multiple of the " +
                                                     Twine(dtypeBytes(memory.dtype)) + " bytes of an element");
    if (!memory.data && memory.bytes() != 0)
      return Failure(ErrorKind::BindingMismatch,
                     "the address is null, expected that of " + Twine(memory.bytes()) + " bytes");
    if (!memory.isRowMajorDense()) return Failure(ErrorKind::BindingMismatch, "expected row-major, dense memory");
    Storage *const storage = engine->store.foreignStorage(memory.data, memory.bytes(), release, user);
    if (!storage) return Failure(ErrorKind::TooLarge, "no memory for a tensor");
    gradc::retain(storage);
    Expected<Tensor> tensor = engine->makeTensor(*type, storage);
    if (!tensor) storage->release = nullptr;
    else storage->isInference = modesOf(*this).isInference;
    gradc::release(storage);
    return tensor;
  });
}

Tensor Imperative::uninitialized(Dims dims, DType dtype) { return orNone(make(dims, dtype)); }

Tensor Imperative::copyOf(Dims dims, DType dtype, const void *values, size_t number) {
  Tensor tensor = uninitialized(dims, dtype);
  if (!tensor) return tensor;
  if (static_cast<int64_t>(number) != tensor.size()) return Tensor();
  if (number) std::memcpy(tensor.ref().data, values, tensor.ref().bytes());
  return tensor;
}

Tensor Imperative::zeros(Dims dims, DType dtype) {
  Tensor tensor = uninitialized(dims, dtype);
  if (tensor && tensor.size()) std::memset(tensor.ref().data, 0, tensor.ref().bytes());
  return tensor;
}

Tensor Imperative::detach(const Tensor &x) {
  return orNone(entering(engine->store, "to make a tensor", [&]() -> Expected<Tensor> {
    if (Error error = engine->checkOwn(x, "tensor")) return error;
    Storage *const storage = x.get()->storage;
    retain(storage);
    return engine->makeTensor({x.get()->shape, x.dtype()}, storage);
  }));
}

Error Imperative::setName(const Tensor &x, StringRef name) {
  return entering(engine->store, "for a name", [&]() -> Error {
    if (Error error = engine->checkOwn(x, "tensor")) return error;
    Expected<Mark *> mark = engine->markOf(*x.get());
    if (!mark) return mark.takeError();
    gradc::setName(**mark, name);
    return Error::success();
  });
}

Error Imperative::mark(const Tensor &x, Request request, const Tensor &buffer) {
  return entering(engine->store, kToMark, [&] { return gradc::mark(*engine, x, request, buffer); });
}

bool Imperative::attachGrad(const Tensor &x, Request request) {
  Error error = mark(x, request);
  const bool isDone = !error;
  consumeError(std::move(error));
  return isDone;
}

Error Imperative::requireGrad(const Tensor &x, bool on) {
  return entering(engine->store, kToMark, [&] { return gradc::requireGrad(*engine, x, on); });
}

Error Imperative::retainGrad(const Tensor &x) {
  return entering(engine->store, kToMark, [&] { return gradc::retainGrad(*engine, x); });
}

Error Imperative::dropGrad(const Tensor &x) {
  return entering(engine->store, "to drop a mark", [&] { return gradc::dropGrad(*engine, x); });
}

Error Imperative::setGrad(const Tensor &x, const Tensor &grad) {
  return entering(engine->store, "to set a gradient", [&] { return gradc::setGrad(*engine, x, grad); });
}

Error Imperative::clearGrad(const Tensor &x) {
  return entering(engine->store, "to clear a gradient", [&] { return gradc::clearGrad(*engine, x); });
}

Expected<Tensor> Imperative::call(const Kind &kind, Tensors inputs, CallSite site) {
  const Modes modes = modesOf(*this);
  return entering(engine->store, kToRun, [&]() -> Expected<Tensor> {
    Tensor output;
    if (Error error = runCall(*engine, {kind.get(), inputs, modes, site}, output)) return error;
    return output;
  });
}

/// Returns every visible output.
static Expected<TensorList> callForAll(Engine &engine, const CallRequest &request) {
  if (Error error = engine.checkOwn(request.kind)) return error;
  TensorList outputs(request.kind->kind->numVisible);
  if (Error error = runCall(engine, request, outputs)) return error;
  return outputs;
}

Expected<TensorList> Imperative::callAll(const Kind &kind, Tensors inputs, CallSite site) {
  const Modes modes = modesOf(*this);
  return entering(engine->store, kToRun, [&] { return callForAll(*engine, {kind.get(), inputs, modes, site}); });
}

Expected<TensorList> Imperative::callWith(std::shared_ptr<void> state, const Kind &kind, Tensors inputs,
                                          CallSite site) {
  const Modes modes = modesOf(*this);
  return entering(engine->store, kToRun, [&]() -> Expected<TensorList> {
    CallRequest request{kind.get(), inputs, modes, site};
    request.state = storeObject(engine->store, state);
    if (!request.state) return Failure(ErrorKind::TooLarge, "no memory for the object of a call");
    const auto releasing = make_scope_exit([&] { release(request.state); });
    return callForAll(*engine, request);
  });
}

Error Imperative::callInto(const Kind &kind, Tensors inputs, Tensors outputs, CallSite site) {
  const Modes modes = modesOf(*this);
  return entering(engine->store, kToRun, [&]() -> Error {
    if (Error error = engine->checkOwn(kind.get())) return error;
    if (outputs.empty())
      return Failure(ErrorKind::Arity, "no tensor for the outputs of '" + kind.get()->kind->spelling + "'");
    return runCall(*engine, {kind.get(), inputs, modes, site, outputs}, {});
  });
}

Error Imperative::willWrite(const Tensor &x) {
  const Modes modes = modesOf(*this);
  return entering(engine->store, "to count a write", [&]() -> Error {
    if (Error error = engine->checkOwn(x, "tensor")) return error;
    TensorImpl &impl = *x.get();
    if (Error error = engine->checkWritable(impl, modes, false)) return error;
    impl.storage->countWrite(Storage::kNoWriter, engine->numCalls);
    return Error::success();
  });
}

Expected<Graph> Imperative::graphOf(Tensors ys) {
  return entering(engine->store, "to make a graph", [&]() -> Expected<Graph> {
    if (Error error = engine->checkOwn(ys, "y")) return error;
    SmallVector<TapeValue, 4> values;
    for (const Tensor &y : ys) {
      values.push_back(TapeValue::of(*y.get()));
      if (!values.back().isTracked())
        return Failure(ErrorKind::NoGraph, describe(*y.get()) + " was not recorded")
            .note("mark its leaves with requireGrad, or with attachGrad and record inside RecordScope")
            .note("if an earlier backward cleared its history, set `retain` on that call");
    }
    Collected collected;
    if (Error error = collected.collect(values, engine->nextEpoch(), false, true)) return error;
    SmallVector<uint32_t, 4> heads;
    for (const TapeValue &value : values) heads.push_back(collected.word(value));
    Expected<RecordedGraph> graph =
        recordedGraph(engine->ctx, engine->store.shapes, collected, heads, RecordedNames::Files);
    if (!graph) return graph.takeError();
    if (Error error = checkForms(collected)) return error;
    return graph->graph;
  });
}

Expected<TensorList> Imperative::apply(const std::shared_ptr<const Function> &function, Tensors inputs, CallSite site) {
  return runForward(*engine, function, inputs, site);
}

Error Imperative::backward(Tensors ys, const BackwardOptions &options) {
  return deliverGradients(*engine, ys, options);
}

Expected<std::vector<Tensor>> Imperative::grad(Tensors ys, Tensors xs, const GradOptions &options) {
  return computeGradients(*engine, ys, xs, options);
}

// The rows that a new hook replaces are destroyed without the lock.
Expected<HookHandle> Imperative::addHook(const Tensor &x, TensorHook hook) {
  HookRows old;
  return entering(engine->store, "for a hook", [&] { return gradc::addHook(*engine, x, hook, old); });
}

Expected<HookHandle> Imperative::addPostAccumulateHook(const Tensor &leaf, TensorHook hook) {
  HookRows old;
  return entering(engine->store, "for a hook", [&] { return gradc::addPostAccumulateHook(*engine, leaf, hook, old); });
}

Error Imperative::queueCallback(FinalCallback callback) {
  return catchingBadAlloc("to queue a callback", [&] { return HostRun::queue(*engine, std::move(callback)); });
}

CacheStats Imperative::cacheStats() const {
  const StoreView view(engine->store);
  return engine->plans.stats();
}

std::string Imperative::explainMiss() const {
  const StoreView view(engine->store);
  return engine->plans.explainMiss(engine->signatures, engine->store.shapes);
}

MemoryStats Imperative::memoryStats() const {
  const StoreView view(engine->store);
  size_t scratchBytes = 0;
  for (const std::unique_ptr<Scratch> &scratch : engine->spare) scratchBytes += scratch->heapBytes();
  scratchBytes += engine->bufferMarks.heapBytes() + engine->recordedGradients.heapBytes();
  return {engine->store.stats(), engine->plans.stats().bytes, engine->signatures.heapBytes(),
          scratchBytes,          engine->signatures.size(),   engine->signatures.numPrepared()};
}

}  // namespace gradc
