// Tested by tests/imperative_hooks_test.cc
#include "imperative/hooks.h"

#include "imperative/engine.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

void deleteHooks(void *hooks) { delete static_cast<HookList *>(hooks); }

/// The checks for both kinds of hooks: E-44, E-21, E-06.
Error checkHook(const Engine &engine, const Tensor &x, const TensorHook &hook) {
  if (Error error = engine.checkOwn(x, "tensor")) return error;
  const TensorImpl &impl = *x.get();
  if (!hook) return Failure(ErrorKind::BadCallback, "the hook of " + Engine::describe(impl) + " is empty");
  if (!impl.tracked)
    return Failure(ErrorKind::NotRequiresGrad, Engine::describe(impl) + " is not tracked: it gets no gradient to hook");
  return Error::success();
}

/// The hooks of the tensor's mark, made if there are none. What the host put into them is destroyed without the lock, like
/// foreign memory.
Expected<HookList *> hooksOf(Engine &engine, TensorImpl &impl) {
  Expected<Mark *> mark = engine.tiedMarkOf(impl);
  if (!mark) return mark.takeError();
  Storage *&hooks = (*mark)->hooks;
  if (!hooks) {
    auto list = std::make_unique<HookList>();
    hooks = engine.store.foreignStorage(nullptr, 0, deleteHooks, list.get());
    if (!hooks) return Failure(ErrorKind::TooLarge, "no memory for a hook");
    list.release();
  }
  return static_cast<HookList *>(hooks->releaseUser);
}

/// Appends a hook and drops those that were removed. `old` gets the previous rows, to be destroyed without the lock.
HookHandle add(HookRows &rows, TensorHook hook, HookRows &old) {
  auto longer = std::make_shared<std::vector<std::shared_ptr<HookEntry>>>();
  if (rows)
    for (const std::shared_ptr<HookEntry> &entry : *rows)
      if (!entry->isRemoved) longer->push_back(entry);
  auto entry = std::make_shared<HookEntry>();
  entry->call = std::move(hook);
  longer->push_back(entry);
  old = std::exchange(rows, std::move(longer));
  return HookHandle(entry);
}

}  // namespace

bool HookHandle::remove() {
  const std::shared_ptr<HookEntry> hook = entry.lock();
  return hook && !hook->isRemoved.exchange(true);
}

HookRows liveHooks(const HookRows &rows) {
  if (!rows || all_of(*rows, [](const std::shared_ptr<HookEntry> &entry) { return entry->isRemoved.load(); }))
    return nullptr;
  return rows;
}

Expected<HookHandle> Imperative::addHook(const Tensor &x, TensorHook hook) {
  HookRows old;
  StoreLock lock(engine->store);
  if (Error error = checkHook(*engine, x, hook)) return error;
  TensorImpl &impl = *x.get();
  Expected<HookList *> hooks = hooksOf(*engine, impl);
  if (!hooks) return hooks.takeError();
  return add((*hooks)->before, std::move(hook), old);
}

Expected<HookHandle> Imperative::addPostAccumulateHook(const Tensor &leaf, TensorHook hook) {
  HookRows old;
  StoreLock lock(engine->store);
  if (Error error = checkHook(*engine, leaf, hook)) return error;
  TensorImpl &impl = *leaf.get();
  if (impl.producer)
    return Failure(ErrorKind::HookNotLeaf, Engine::describe(impl) + " is not a leaf: post-accumulate hooks need a leaf")
        .note("add a hook of its gradient instead");
  Expected<HookList *> hooks = hooksOf(*engine, impl);
  if (!hooks) return hooks.takeError();
  if (!impl.mark->owner.load(std::memory_order_relaxed)) impl.mark->owner.store(&impl, std::memory_order_relaxed);
  return add((*hooks)->after, std::move(hook), old);
}

Error Imperative::queueCallback(FinalCallback callback) {
  if (!callback) return Failure(ErrorKind::BadCallback, "the callback is empty");
  if (HostRun::queue(*engine, std::move(callback))) return Error::success();
  return Failure(ErrorKind::CallbackScope, "a final callback was queued outside of a backward")
      .note("queue it inside a hook, or inside another callback");
}

}  // namespace gradc
