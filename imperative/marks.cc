// The marks of tensors, by MXNet's rules and by PyTorch's, and the gradients in them.
// Tested by tests/imperative/imperative_marks_test.cc
#include "imperative/engine.h"

#include "ir/base/out_of_memory.h"
#include "runtime/executor/bindings.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

Error notDifferentiable(const TensorImpl &x) {
  return Failure(ErrorKind::NotRequiresGrad,
                 Engine::describe(x) + " has type " + dtypeName(x.dtype) + " and carries no gradient");
}

Error buffersOverlap(const TensorImpl &x) {
  return Failure(ErrorKind::BufferAlias,
                 "the gradient buffers of " + Engine::describe(x) + " and of another tensor overlap")
      .note("two tensors may have one buffer if both add to all of it, in one shape and type");
}

Error checkFits(const TensorImpl &x, const TensorImpl &grad) {
  if (x.storage == grad.storage || overlap(*x.storage, *grad.storage))
    return Failure(ErrorKind::BufferAlias,
                   "the gradient of " + Engine::describe(x) + " would overwrite it: they share memory");
  if (x.shape == grad.shape && x.dtype == grad.dtype) return Error::success();
  return Failure(ErrorKind::BindingMismatch, "the gradient of " + Engine::describe(x) + ": expected " +
                                                 describeTensor(ShapeRef(x.shapeDims()), x.dtype) + ", got " +
                                                 describeTensor(ShapeRef(grad.shapeDims()), grad.dtype));
}

void setTracked(TensorImpl &leaf, uint8_t bits) {
  setTrackedBits(leaf, bits);
  countLeaf(leaf, bits != 0);
}

void setGradient(Mark &mark, TensorImpl *grad) {
  if (mark.grad) release(mark.grad);
  mark.grad = grad;
}

}  // namespace

Expected<Mark *> Engine::tiedMarkOf(TensorImpl &x) {
  if (x.isDerived) dropHistory(x);
  if (!x.producer) return markOf(x);
  for (RetainedMark *retained = x.producer->retained; retained; retained = retained->next) {
    if (retained->output != x.output) continue;
    Mark &known = *retained->mark;
    if (x.mark == &known) return &known;
    // Nothing but a name and a gradient (BackwardOptions::inputs) is in a mark that is not linked to the call.
    if (x.mark && known.name.empty()) setName(known, x.mark->name);
    if (x.mark && !known.grad) std::swap(known.grad, x.mark->grad);
    retain(&known);
    if (x.mark) release(x.mark);
    return x.mark = &known;
  }
  Expected<Mark *> mark = markOf(x);
  if (!mark) return mark;
  void *const block = store.allocate(sizeof(RetainedMark));
  if (!block) return Failure(ErrorKind::TooLarge, "no memory for the mark of " + describe(x));
  retain(*mark);
  x.producer->retained = new (block) RetainedMark{*mark, x.output, x.producer->retained};
  return mark;
}

Error Imperative::mark(const Tensor &x, Request request, const Tensor &buffer) {
  return entering(engine->store, "to mark a tensor", [&]() -> Error {
    if (Error error = engine->checkOwn(x, "tensor")) return error;
    TensorImpl &impl = *x.get();
    if (!engine->signatureOptions().carriesGradient(impl.dtype)) return notDifferentiable(impl);
    if (request != Request::Null && request != Request::Write && request != Request::Add)
      return Failure(ErrorKind::UnsupportedOption, "a tensor is marked with 'null', 'write' or 'add'");
    if (buffer) {
      if (Error error = engine->checkOwn(buffer, "buffer")) return error;
      if (Error error = checkFits(impl, *buffer.get())) return error;
    }
    Expected<Mark *> made = engine->tiedMarkOf(impl);
    if (!made) return made.takeError();
    Mark &mark = **made;
    if (impl.producer && mark.isMarked && mark.grad != buffer.get())
      return Failure(ErrorKind::AlreadyMarked, Engine::describe(impl) + " is marked already, with another buffer")
          .note("drop its mark first, or mark it with the same buffer");
    if (buffer && engine->bufferMarks.isRefused(*buffer.get()->storage, mark, request)) return buffersOverlap(impl);
    if (buffer && buffer.get()->producer) engine->recordedGradients.add(mark);
    if (buffer && request != Request::Null) engine->bufferMarks.add(*buffer.get()->storage, mark);
    TensorImpl *grad = nullptr;
    if (buffer) {
      grad = buffer.get();
      retain(grad);
    } else if (request != Request::Null && !(impl.producer && mark.isMarked)) {
      Expected<Tensor> zero = engine->makeTensor({impl.shape, impl.dtype}, nullptr);
      if (!zero) return zero.takeError();
      if (zero->ref().bytes()) std::memset(zero->ref().data, 0, zero->ref().bytes());
      grad = zero->take();
    }
    setGradient(mark, grad);
    mark.isCallersBuffer = static_cast<bool>(buffer);
    mark.isMarked = true;
    mark.isFresh = false;
    mark.request = request;
    if (!impl.producer) setTracked(impl, impl.tracked | kTracked);
    return Error::success();
  });
}

bool Imperative::attachGrad(const Tensor &x, Request request) {
  Error error = mark(x, request);
  const bool isDone = !error;
  consumeError(std::move(error));
  return isDone;
}

Error Imperative::requireGrad(const Tensor &x, bool on) {
  return entering(engine->store, "to mark a tensor", [&]() -> Error {
    if (Error error = engine->checkOwn(x, "tensor")) return error;
    TensorImpl &impl = *x.get();
    if (!engine->signatureOptions().carriesGradient(impl.dtype)) return notDifferentiable(impl);
    if (impl.producer && !impl.isDerived)
      return Failure(ErrorKind::NotRequiresGrad,
                     Engine::describe(impl) + " is computed: its leaves decide whether it is tracked")
          .note("detach it for a leaf, or retain its gradient");
    if (!on && !impl.mark) return Error::success();
    Expected<Mark *> made = engine->tiedMarkOf(impl);
    if (!made) return made.takeError();
    Mark &mark = **made;
    const Request request = !on ? Request::Null : mark.request == Request::Null ? Request::Add : mark.request;
    if (on && mark.isCallersBuffer && mark.grad) {
      const Storage &buffer = *mark.grad->storage;
      if (engine->bufferMarks.isRefused(buffer, mark, request)) return buffersOverlap(impl);
      engine->bufferMarks.add(buffer, mark);
    }
    mark.isMarked = mark.isByLeaf = on;
    mark.request = request;
    setTracked(impl, on ? kTracked | kTrackedByLeaf : 0);
    return Error::success();
  });
}

Error Imperative::retainGrad(const Tensor &x) {
  return entering(engine->store, "to mark a tensor", [&]() -> Error {
    if (Error error = engine->checkOwn(x, "tensor")) return error;
    TensorImpl &impl = *x.get();
    if (!impl.tracked)
      return Failure(ErrorKind::NotRequiresGrad, Engine::describe(impl) + " is not tracked: it gets no gradient");
    if (!impl.producer) return Error::success();
    Expected<Mark *> mark = engine->tiedMarkOf(impl);
    if (!mark) return mark.takeError();
    if ((*mark)->isMarked) return Error::success();
    (*mark)->isMarked = true;
    (*mark)->request = Request::Add;
    return Error::success();
  });
}

Error Imperative::dropGrad(const Tensor &x) {
  return entering(engine->store, "to drop a mark", [&]() -> Error {
    if (Error error = engine->checkOwn(x, "tensor")) return error;
    TensorImpl &impl = *x.get();
    if (!impl.mark || !impl.mark->isMarked)
      return Failure(ErrorKind::NotMarked, Engine::describe(impl) + " has no mark to drop");
    setGradient(*impl.mark, nullptr);
    impl.mark->isMarked = impl.mark->isByLeaf = impl.mark->isFresh = impl.mark->isCallersBuffer = false;
    impl.mark->request = Request::Null;
    if (!impl.producer) setTracked(impl, 0);
    return Error::success();
  });
}

Error Imperative::setGrad(const Tensor &x, const Tensor &grad) {
  return entering(engine->store, "to set a gradient", [&]() -> Error {
    if (Error error = engine->checkOwn(x, "tensor")) return error;
    TensorImpl &impl = *x.get();
    if (!impl.mark || !(impl.mark->isMarked || impl.mark->grad))
      return Failure(ErrorKind::NotRequiresGrad, Engine::describe(impl) + " has no mark, and so no gradient");
    if (grad) {
      if (Error error = engine->checkOwn(grad, "gradient")) return error;
      if (Error error = checkFits(impl, *grad.get())) return error;
      if (grad.get()->producer) engine->recordedGradients.add(*impl.mark);
      retain(grad.get());
    }
    setGradient(*impl.mark, grad.get());
    impl.mark->isCallersBuffer = false;
    return Error::success();
  });
}

Error Imperative::clearGrad(const Tensor &x) {
  return entering(engine->store, "to clear a gradient", [&]() -> Error {
    if (Error error = engine->checkOwn(x, "tensor")) return error;
    Mark *const mark = x.get()->mark;
    if (!mark) return Error::success();
    mark->isFresh = false;
    if (!mark->grad) return Error::success();
    if (mark->grad->producer) dropHistory(*mark->grad);
    Storage &storage = *mark->grad->storage;
    if (storage.bytes) std::memset(storage.data, 0, storage.bytes);
    storage.countWrite(Storage::kNoWriter, engine->numCalls);
    return Error::success();
  });
}

}  // namespace gradc
