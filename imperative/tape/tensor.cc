// Tested by tests/imperative/imperative_test.cc
#include "imperative/tape/tensor.h"

#include "imperative/tape/tape.h"
#include "imperative/tape/tape_shapes.h"
#include "ir/base/error.h"
#include "runtime/executor/bindings.h"

using namespace llvm;

namespace gradc {

// The owner of a mark is only read, and leaves are only counted, with the lock held.
static void endLeaf(TensorImpl &impl) {
  if (impl.mark && impl.mark->owner.load(std::memory_order_relaxed) == &impl)
    impl.mark->owner.store(nullptr, std::memory_order_relaxed);
  countLeaf(impl, false);
}

void destroy(TensorImpl *impl) {
  if (impl->isCountedLeaf || (impl->mark && impl->mark->owner.load(std::memory_order_relaxed) == impl)) {
    if (impl->store->isLockedHere()) {
      endLeaf(*impl);
    } else {
      StoreLock lock(*impl->store);
      endLeaf(*impl);
    }
  }
  if (impl->storage) release(impl->storage);
  if (impl->producer) release(impl->producer);
  if (impl->mark) release(impl->mark);
  TapeShapes::release(impl->dims);
  impl->store->freeSized(impl, sizeof(TensorImpl));
}

Tensor ownerOf(const Mark &mark) {
  TensorImpl *const impl = mark.owner.load(std::memory_order_relaxed);
  if (!impl) return Tensor();
  uint32_t refs = impl->refs.load(std::memory_order_relaxed);
  while (refs != 0)
    if (impl->refs.compare_exchange_weak(refs, refs + 1, std::memory_order_relaxed)) return Tensor::adopt(impl);
  return Tensor();
}

std::string describe(const TensorImpl &impl) {
  if (impl.mark && !impl.mark->name.empty()) return "tensor '" + impl.mark->name + "'";
  return "a tensor " + describeTensor(ShapeRef(impl.shapeDims()), impl.dtype);
}

static size_t heapBytesOfName(const std::string &name) {
  return name.capacity() <= std::string().capacity() ? 0 : heapBlock(name.capacity() + 1);
}

void setName(Mark &mark, StringRef name) {
  const size_t before = heapBytesOfName(mark.name);
  mark.name = name.str();
  mark.store->countNames(heapBytesOfName(mark.name) - before);
}

static void destroyOne(Mark *mark) {
  if (mark->grad) release(mark->grad);
  if (mark->hooks) release(mark->hooks);
  Store *const store = mark->store;
  store->countNames(-heapBytesOfName(mark->name));
  TapeShapes::release(mark->dims);
  mark->~Mark();
  store->freeSized(mark, sizeof(Mark));
}

// A gradient is a tensor, which may have a mark: these join the list of the `destroy` under way.
void destroy(Mark *mark) {
  static constinit thread_local Mark *doomed = nullptr;
  static constinit thread_local bool isDestroying = false;
  mark->nextDoomed = doomed;
  doomed = mark;
  if (isDestroying) return;
  isDestroying = true;
  while (doomed) destroyOne(std::exchange(doomed, doomed->nextDoomed));
  isDestroying = false;
}

bool Tensor::isLeaf() const {
  const StoreView view(*impl->store);
  return impl->producer == nullptr || impl->isDerived;
}

Error Tensor::unreadable(const char *expected) const {
  if (!impl) return Failure(ErrorKind::BadType, "there is no tensor to read");
  return Failure(ErrorKind::BindingMismatch,
                 "a tensor " + describeTensor(ShapeRef(shape()), dtype()) + " is read as " + expected);
}

Tensor Tensor::grad() const {
  const StoreView view(*impl->store);
  return impl->mark ? share(impl->mark->grad) : Tensor();
}

Request Tensor::gradRequest() const {
  const StoreView view(*impl->store);
  return impl->mark && impl->mark->isMarked ? impl->mark->request : Request::Null;
}

bool Tensor::isFresh() const {
  const StoreView view(*impl->store);
  return impl->mark && impl->mark->isFresh;
}

void Tensor::setFresh(bool isFresh) const {
  const StoreView view(*impl->store);
  if (impl->mark) impl->mark->isFresh = isFresh;
}

std::string Tensor::name() const {
  const StoreView view(*impl->store);
  return impl->mark ? impl->mark->name : std::string();
}

}  // namespace gradc
