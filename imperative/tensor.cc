// Tested by tests/imperative_test.cc
#include "imperative/tensor.h"

#include "imperative/tape.h"

using namespace llvm;

namespace gradc {

void destroy(TensorImpl *impl) {
  if (impl->storage) release(impl->storage);
  if (impl->producer) release(impl->producer);
  if (impl->mark) release(impl->mark);
  impl->store->freeSized(impl, sizeof(TensorImpl));
}

void destroy(Mark *mark) {
  if (mark->grad) release(mark->grad);
  if (mark->hooks) release(mark->hooks);
  Store *const store = mark->store;
  mark->~Mark();
  store->freeSized(mark, sizeof(Mark));
}

Tensor Tensor::grad() const {
  StoreLock lock(*impl->store);
  return impl->mark ? share(impl->mark->grad) : Tensor();
}

Request Tensor::gradRequest() const {
  StoreLock lock(*impl->store);
  return impl->mark && impl->mark->isMarked ? impl->mark->request : Request::Null;
}

bool Tensor::isFresh() const {
  StoreLock lock(*impl->store);
  return impl->mark && impl->mark->isFresh;
}

void Tensor::setFresh(bool isFresh) const {
  StoreLock lock(*impl->store);
  if (impl->mark) impl->mark->isFresh = isFresh;
}

std::string Tensor::name() const {
  StoreLock lock(*impl->store);
  return impl->mark ? impl->mark->name : std::string();
}

}  // namespace gradc
