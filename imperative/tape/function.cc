// Tested by tests/imperative/imperative_function_test.cc
#include "imperative/tape/function.h"

#include "imperative/tape/function_op.h"
#include "imperative/tape/signature.h"
#include "imperative/tape/tape.h"
#include "ir/base/error.h"

#include "llvm/ADT/ScopeExit.h"

using namespace llvm;

namespace gradc {
namespace {

bool tryRetain(TapeNode &node) {
  uint32_t refs = node.refs.load(std::memory_order_relaxed);
  while (refs != 0)
    if (node.refs.compare_exchange_weak(refs, refs + 1, std::memory_order_relaxed)) return true;
  return false;
}

/// A new tensor for a saved value, to which the host may give another history; an output has that of `node`, if it is
/// not null.
Tensor handOut(const FunctionCall::Saved &saved, TapeNode *node) {
  const TensorImpl &impl = *saved.value.get();
  const StoreView view(*impl.store);
  if (impl.store->hasEnded()) return saved.value;
  void *const block = impl.store->allocate(sizeof(TensorImpl));
  if (!block) return Tensor();
  retain(impl.storage);
  TapeShapes::retain(impl.dims);
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

}  // namespace

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
