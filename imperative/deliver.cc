// Delivers gradients to their marks. Tested by tests/imperative/imperative_test.cc
#include "imperative/engine.h"

#include "runtime/arrays/elements.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

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

// REQ-04: a gradient with request `add` is computed in full, then added once. Memory that others see is not written,
// unless it is the caller's own.
Error Engine::addRecorded(const Mark &mark, Tensor &gradient, const Tensor &before) {
  if (mark.request != Request::Add || !before) return Error::success();
  const Tensor operands[] = {before, gradient};
  CallRequest call{kindOf(*ctx.ops.wellKnown.add, addKind), operands, {Recording::On}};
  Tensor sum;
  if (Error error = this->call(call, sum)) return error;
  gradient = std::move(sum);
  return Error::success();
}

void Engine::deliver(Mark &mark, Tensor gradient, bool isRecorded) {
  if (!mark.isMarked && mark.request == Request::Null) return;
  if (isRecorded && gradient.get()->producer) recordedGradients.add(mark);
  mark.isFresh = true;
  TensorImpl *const old = mark.grad;
  const bool isAdd = mark.request == Request::Add && old;
  TensorImpl &now = *gradient.get();
  if (old && mark.isCallersBuffer) {
    if (isAdd && !isRecorded) addElements(now.ref(), old->ref());
    else if (old->storage->bytes) std::memcpy(old->storage->data, now.storage->data, old->storage->bytes);
    countWrite(*old, numCalls);
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
    countWrite(*old, numCalls);
    return;
  }
  if (isAdd) addElements(old->ref(), now.ref());
  swapMemory(*old, now);
}

}  // namespace gradc
