// Tested by tests/imperative/imperative_hooks_test.cc
#include "imperative/hooks.h"

#include "imperative/engine.h"
#include "runtime/executor/failures.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

void releaseHooks(void *hooks) {
  HookList *const list = static_cast<HookList *>(hooks);
  Store *const store = list->store;
  list->~HookList();
  store->freeSized(list, sizeof(HookList));
}

/// The checks for both kinds of hooks: E-44, E-21, E-06.
Error checkHook(const Engine &engine, const Tensor &x, const TensorHook &hook) {
  if (Error error = engine.checkOwn(x, "tensor")) return error;
  const TensorImpl &impl = *x.get();
  if (!hook) return Failure(ErrorKind::BadCallback, "the hook of " + Engine::describe(impl) + " is empty");
  if (!impl.tracked)
    return Failure(ErrorKind::NotRequiresGrad, Engine::describe(impl) + " is not tracked: it gets no gradient to hook");
  return Error::success();
}

/// The hooks of the tensor's mark, made if there are none. What the host put into them is destroyed without the lock,
/// like foreign memory.
Expected<HookList *> hooksOf(Engine &engine, TensorImpl &impl) {
  Expected<Mark *> mark = engine.tiedMarkOf(impl);
  if (!mark) return mark.takeError();
  Storage *&hooks = (*mark)->hooks;
  if (!hooks) {
    void *const block = engine.store.allocate(sizeof(HookList));
    hooks = block ? engine.store.foreignStorage(nullptr, 0, releaseHooks, block) : nullptr;
    if (block && !hooks) engine.store.freeSized(block, sizeof(HookList));
    if (!hooks) return Failure(ErrorKind::TooLarge, "no memory for a hook");
    new (block) HookList{&engine.store, nullptr, nullptr};
  }
  return static_cast<HookList *>(hooks->releaseUser);
}

/// Appends a hook and drops those that were removed. `old` gets the previous rows, to be destroyed without the lock.
HookHandle add(Store &store, HookRows &rows, TensorHook &hook, HookRows &old) {
  using Rows = Pooled<std::shared_ptr<HookEntry>>;
  const PoolAllocator<Rows> pool(store);
  const auto longer = std::allocate_shared<Rows>(pool, pool);
  longer->reserve(1 + (rows ? rows->size() : 0));
  if (rows)
    for (const std::shared_ptr<HookEntry> &entry : *rows)
      if (entry->get()) longer->push_back(entry);
  const auto entry =
      std::allocate_shared<HookEntry>(pool, std::allocate_shared<const TensorHook>(pool, std::move(hook)));
  longer->push_back(entry);
  old = std::exchange(rows, longer);
  return HookHandle(entry);
}

}  // namespace

bool HookHandle::remove() {
  const std::shared_ptr<HookEntry> hook = entry.lock();
  return hook && hook->take();
}

HookRows liveHooks(const HookRows &rows) {
  if (!rows || all_of(*rows, [](const std::shared_ptr<HookEntry> &entry) { return !entry->get(); })) return nullptr;
  return rows;
}

Expected<HookHandle> Imperative::addHook(const Tensor &x, TensorHook hook) {
  HookRows old;
  return entering(engine->store, "for a hook", [&]() -> Expected<HookHandle> {
    if (Error error = checkHook(*engine, x, hook)) return error;
    Expected<HookList *> hooks = hooksOf(*engine, *x.get());
    if (!hooks) return hooks.takeError();
    return add(engine->store, (*hooks)->before, hook, old);
  });
}

Expected<HookHandle> Imperative::addPostAccumulateHook(const Tensor &leaf, TensorHook hook) {
  HookRows old;
  return entering(engine->store, "for a hook", [&]() -> Expected<HookHandle> {
    if (Error error = checkHook(*engine, leaf, hook)) return error;
    TensorImpl &impl = *leaf.get();
    if (impl.producer)
      return Failure(ErrorKind::HookNotLeaf,
                     Engine::describe(impl) + " is not a leaf: post-accumulate hooks need a leaf")
          .note("add a hook of its gradient instead");
    Expected<HookList *> hooks = hooksOf(*engine, impl);
    if (!hooks) return hooks.takeError();
    HookHandle handle = add(engine->store, (*hooks)->after, hook, old);
    if (!impl.mark->owner.load(std::memory_order_relaxed)) impl.mark->owner.store(&impl, std::memory_order_relaxed);
    return handle;
  });
}

Error Imperative::queueCallback(FinalCallback callback) {
  return catchingBadAlloc("to queue a callback", [&]() -> Error {
    if (!callback) return Failure(ErrorKind::BadCallback, "the callback is empty");
    if (HostRun::queue(*engine, std::move(callback))) return Error::success();
    return Failure(ErrorKind::CallbackScope, "a final callback was queued outside of a backward")
        .note("queue it inside a hook, or inside another callback");
  });
}

}  // namespace gradc
