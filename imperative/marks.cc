// Tested by tests/imperative/imperative_marks_test.cc
#include "imperative/marks.h"

#include "imperative/call.h"
#include "imperative/engine.h"
#include "ir/base/out_of_memory.h"
#include "runtime/arrays/elements.h"
#include "runtime/executor/bindings.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

/// Whether a gradient goes to a buffer of the caller's at this address.
bool isDeliveredTo(const Mark &mark, const char *address) {
  return mark.isMarked && mark.isCallersBuffer && mark.request != Request::Null && mark.grad &&
         mark.grad->storage->data == address;
}

Error notDifferentiable(const TensorImpl &x) {
  return Failure(ErrorKind::NotRequiresGrad,
                 describe(x) + " has type " + dtypeName(x.dtype) + " and carries no gradient");
}

Error buffersOverlap(const TensorImpl &x) {
  return Failure(ErrorKind::BufferAlias, "the gradient buffers of " + describe(x) + " and of another tensor overlap")
      .note("two tensors may have one buffer if both add to all of it, in one shape and type");
}

Error checkFits(const TensorImpl &x, const TensorImpl &grad) {
  if (x.storage == grad.storage || overlap(*x.storage, *grad.storage))
    return Failure(ErrorKind::BufferAlias, "the gradient of " + describe(x) + " would overwrite it: they share memory");
  if (x.shape == grad.shape && x.dtype == grad.dtype) return Error::success();
  return Failure(ErrorKind::BindingMismatch, "the gradient of " + describe(x) + ": expected " +
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

/// Whether others see the memory through another tensor, or keep it for a gradient.
bool isShared(const TensorImpl &impl) {
  return impl.storage->hasOtherOwners() || impl.store->isOverlapped(*impl.storage);
}

/// Swaps the memory of two tensors; `to` counts that as a write.
void swapMemory(TensorImpl &to, TensorImpl &from) {
  const bool isLeaf = to.isCountedLeaf;
  countLeaf(to, false);
  from.storage->version.store(to.storage->version.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  std::swap(to.storage, from.storage);
  countLeaf(to, isLeaf);
}

void countWrite(TensorImpl &impl, uint64_t call) { impl.storage->countWrite(Storage::kNoWriter, call); }

}  // namespace

BufferMarks::~BufferMarks() {
  for (auto &[address, list] : lists)
    for (Mark *mark : list) release(mark);
}

void BufferMarks::dropLast(List &list) {
  release(list.pop_back_val());
  --number;
}

bool BufferMarks::isRefused(const Storage &buffer, Mark &mark, Request request) {
  if (request == Request::Null) return false;
  if (hasPartOf(buffer, mark)) return true;
  const auto at = lists.find(buffer.data);
  if (at == lists.end()) return false;
  List &list = at->second;
  const bool isKnown = list.remove(&mark);
  while (!list.empty() && !isDeliveredTo(*list.back(), buffer.data)) dropLast(list);
  // A mark that writes is alone, and a recorded sum has one type.
  const bool isOthers = !list.empty() && (request == Request::Write || list.back()->request == Request::Write);
  const bool isOtherType = !list.empty() && (list.back()->shape != mark.shape || list.back()->dtype != mark.dtype);
  if (isKnown) list.insert(&mark);
  return isOthers || isOtherType;
}

bool BufferMarks::hasPartOf(const Storage &buffer, const Mark &mark) const {
  bool isFound = false;
  auto check = [&](const Storage &other) {
    if (other.data == buffer.data && other.bytes == buffer.bytes) return;
    const auto at = lists.find(other.data);
    isFound |= at != lists.end() && any_of(at->second, [&](const Mark *known) {
                 return known != &mark && isDeliveredTo(*known, other.data) && known->grad->storage == &other;
               });
  };
  if (buffer.isForeign()) buffer.store->visitOverlapping(buffer, check);
  return isFound;
}

void BufferMarks::add(const Storage &buffer, Mark &mark) {
  if (buffer.bytes == 0 || !lists[buffer.data].insert(&mark)) return;
  retain(&mark);
  if (++number < limit) return;
  SmallVector<const char *, 0> gone;
  for (auto &[address, list] : lists) {
    number -= list.size();
    list.remove_if([](Mark *known) {
      const bool isLast = known->refs.load(std::memory_order_relaxed) == 1;
      if (isLast) release(known);
      return isLast;
    });
    number += list.size();
    if (list.empty()) gone.push_back(address);
  }
  for (const char *address : gone) lists.erase(address);
  limit = std::max<size_t>(16, 2 * number);
}

size_t BufferMarks::heapBytes() const {
  size_t bytes = heapBlock(lists.getMemorySize());
  // More than a few are found by a set, as large as their list or more.
  for (const auto &[address, list] : lists)
    if (list.size() > 4) bytes += heapBlock(list.size() * sizeof(Mark *)) + heapBlock(2 * list.size() * sizeof(Mark *));
  return bytes;
}

RecordedGradients::~RecordedGradients() {
  for (Mark *mark : marks) {
    if (mark->grad && mark->grad->producer) dropHistory(*mark->grad);
    release(mark);
  }
}

void RecordedGradients::add(Mark &mark) {
  if (mark.isListed) return;
  if (marks.size() >= limit) {
    llvm::erase_if(marks, [](Mark *known) {
      if (known->grad && known->grad->producer) return false;
      known->isListed = false;
      release(known);
      return true;
    });
    limit = std::max<size_t>(16, 2 * marks.size());
  }
  marks.push_back(&mark);
  mark.isListed = true;
  retain(&mark);
}

Expected<Mark *> tiedMarkOf(Engine &engine, TensorImpl &x) {
  if (x.isDerived) dropHistory(x);
  if (!x.producer) return engine.markOf(x);
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
  Expected<Mark *> mark = engine.markOf(x);
  if (!mark) return mark;
  void *const block = engine.store.allocate(sizeof(RetainedMark));
  if (!block) return Failure(ErrorKind::TooLarge, "no memory for the mark of " + describe(x));
  retain(*mark);
  x.producer->retained = new (block) RetainedMark{*mark, x.output, x.producer->retained};
  return mark;
}

Error mark(Engine &engine, const Tensor &x, Request request, const Tensor &buffer) {
  if (Error error = engine.checkOwn(x, "tensor")) return error;
  TensorImpl &impl = *x.get();
  if (!engine.signatureOptions().carriesGradient(impl.dtype)) return notDifferentiable(impl);
  if (request != Request::Null && request != Request::Write && request != Request::Add)
    return Failure(ErrorKind::UnsupportedOption, "a tensor is marked with 'null', 'write' or 'add'");
  if (buffer) {
    if (Error error = engine.checkOwn(buffer, "buffer")) return error;
    if (Error error = checkFits(impl, *buffer.get())) return error;
  }
  Expected<Mark *> made = tiedMarkOf(engine, impl);
  if (!made) return made.takeError();
  Mark &mark = **made;
  if (impl.producer && mark.isMarked && mark.grad != buffer.get())
    return Failure(ErrorKind::AlreadyMarked, describe(impl) + " is marked already, with another buffer")
        .note("drop its mark first, or mark it with the same buffer");
  if (buffer && engine.bufferMarks.isRefused(*buffer.get()->storage, mark, request)) return buffersOverlap(impl);
  if (buffer && buffer.get()->producer) engine.recordedGradients.add(mark);
  if (buffer && request != Request::Null) engine.bufferMarks.add(*buffer.get()->storage, mark);
  TensorImpl *grad = nullptr;
  if (buffer) {
    grad = buffer.get();
    retain(grad);
  } else if (request != Request::Null && !(impl.producer && mark.isMarked)) {
    Expected<Tensor> zero = engine.makeTensor({impl.shape, impl.dtype}, nullptr);
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
}

Error requireGrad(Engine &engine, const Tensor &x, bool on) {
  if (Error error = engine.checkOwn(x, "tensor")) return error;
  TensorImpl &impl = *x.get();
  if (!engine.signatureOptions().carriesGradient(impl.dtype)) return notDifferentiable(impl);
  if (impl.producer && !impl.isDerived)
    return Failure(ErrorKind::NotRequiresGrad, describe(impl) + " is computed: its leaves decide whether it is tracked")
        .note("detach it for a leaf, or retain its gradient");
  if (!on && !impl.mark) return Error::success();
  Expected<Mark *> made = tiedMarkOf(engine, impl);
  if (!made) return made.takeError();
  Mark &mark = **made;
  const Request request = !on ? Request::Null : mark.request == Request::Null ? Request::Add : mark.request;
  if (on && mark.isCallersBuffer && mark.grad) {
    const Storage &buffer = *mark.grad->storage;
    if (engine.bufferMarks.isRefused(buffer, mark, request)) return buffersOverlap(impl);
    engine.bufferMarks.add(buffer, mark);
  }
  mark.isMarked = mark.isByLeaf = on;
  mark.request = request;
  setTracked(impl, on ? kTracked | kTrackedByLeaf : 0);
  return Error::success();
}

Error retainGrad(Engine &engine, const Tensor &x) {
  if (Error error = engine.checkOwn(x, "tensor")) return error;
  TensorImpl &impl = *x.get();
  if (!impl.tracked)
    return Failure(ErrorKind::NotRequiresGrad, describe(impl) + " is not tracked: it gets no gradient");
  if (!impl.producer) return Error::success();
  Expected<Mark *> mark = tiedMarkOf(engine, impl);
  if (!mark) return mark.takeError();
  if ((*mark)->isMarked) return Error::success();
  (*mark)->isMarked = true;
  (*mark)->request = Request::Add;
  return Error::success();
}

Error dropGrad(Engine &engine, const Tensor &x) {
  if (Error error = engine.checkOwn(x, "tensor")) return error;
  TensorImpl &impl = *x.get();
  if (!impl.mark || !impl.mark->isMarked) return Failure(ErrorKind::NotMarked, describe(impl) + " has no mark to drop");
  setGradient(*impl.mark, nullptr);
  impl.mark->isMarked = impl.mark->isByLeaf = impl.mark->isFresh = impl.mark->isCallersBuffer = false;
  impl.mark->request = Request::Null;
  if (!impl.producer) setTracked(impl, 0);
  return Error::success();
}

Error setGrad(Engine &engine, const Tensor &x, const Tensor &grad) {
  if (Error error = engine.checkOwn(x, "tensor")) return error;
  TensorImpl &impl = *x.get();
  if (!impl.mark || !(impl.mark->isMarked || impl.mark->grad))
    return Failure(ErrorKind::NotRequiresGrad, describe(impl) + " has no mark, and so no gradient");
  if (grad) {
    if (Error error = engine.checkOwn(grad, "gradient")) return error;
    if (Error error = checkFits(impl, *grad.get())) return error;
    if (grad.get()->producer) engine.recordedGradients.add(*impl.mark);
    retain(grad.get());
  }
  setGradient(*impl.mark, grad.get());
  impl.mark->isCallersBuffer = false;
  return Error::success();
}

Error clearGrad(Engine &engine, const Tensor &x) {
  if (Error error = engine.checkOwn(x, "tensor")) return error;
  Mark *const mark = x.get()->mark;
  if (!mark) return Error::success();
  mark->isFresh = false;
  if (!mark->grad) return Error::success();
  if (mark->grad->producer) dropHistory(*mark->grad);
  Storage &storage = *mark->grad->storage;
  if (storage.bytes) std::memset(storage.data, 0, storage.bytes);
  storage.countWrite(Storage::kNoWriter, engine.numCalls);
  return Error::success();
}

// REQ-04: a gradient with request `add` is computed in full, then added once. Memory that others see is not written,
// unless it is the caller's own.
Error addRecorded(Engine &engine, const Mark &mark, Tensor &gradient, const Tensor &before) {
  if (mark.request != Request::Add || !before) return Error::success();
  const Tensor operands[] = {before, gradient};
  CallRequest call{engine.kindOf(*engine.ctx.ops.wellKnown.add, engine.addKind), operands, {Recording::On}};
  Tensor sum;
  if (Error error = runCall(engine, call, sum)) return error;
  gradient = std::move(sum);
  return Error::success();
}

void deliver(Engine &engine, Mark &mark, Tensor gradient, bool isRecorded) {
  if (!mark.isMarked && mark.request == Request::Null) return;
  if (isRecorded && gradient.get()->producer) engine.recordedGradients.add(mark);
  mark.isFresh = true;
  TensorImpl *const old = mark.grad;
  const bool isAdd = mark.request == Request::Add && old;
  TensorImpl &now = *gradient.get();
  if (old && mark.isCallersBuffer) {
    if (isAdd && !isRecorded) addElements(now.ref(), old->ref());
    else if (old->storage->bytes) std::memcpy(old->storage->data, now.storage->data, old->storage->bytes);
    countWrite(*old, engine.numCalls);
    if (old->producer) dropHistory(*old);
    if (now.producer && !now.isDerived) {
      old->producer = std::exchange(now.producer, nullptr);
      old->output = now.output;
      setTrackedBits(*old, now.tracked);
    }
    return;
  }
  if (!old || isRecorded || old->producer) {
    if (isAdd && !isRecorded) addElements(old->ref(), now.ref());
    if (old) release(old);
    mark.grad = gradient.take();
    return;
  }
  if (isAdd && !isShared(*old)) {
    addElements(now.ref(), old->ref());
    countWrite(*old, engine.numCalls);
    return;
  }
  if (isAdd) addElements(old->ref(), now.ref());
  swapMemory(*old, now);
}

}  // namespace gradc
