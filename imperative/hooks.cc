// Tested by tests/imperative_hooks_test.cc
#include "imperative/hooks.h"

#include "imperative/engine.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

void deleteHooks(void *hooks) { delete static_cast<HookList *>(hooks); }

/// What the host put into hooks is destroyed without the lock, like foreign memory.
Expected<HookList *> hooksOf(Engine &engine, Mark &mark) {
  if (!mark.hooks) {
    auto list = std::make_unique<HookList>();
    mark.hooks = engine.store.foreignStorage(nullptr, 0, deleteHooks, list.get());
    if (!mark.hooks) return Failure(ErrorKind::TooLarge, "no memory for a hook");
    list.release();
  }
  return static_cast<HookList *>(mark.hooks->releaseUser);
}

/// One more at the end, without those that were removed. `old` is what was there, to be destroyed without the lock.
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
  if (Error error = engine->checkOwn(x, "tensor")) return error;
  TensorImpl &impl = *x.get();
  if (!hook) return Failure(ErrorKind::BadCallback, "the hook of " + Engine::describe(impl) + " is empty");
  if (!impl.tracked)
    return Failure(ErrorKind::NotRequiresGrad, Engine::describe(impl) + " is not tracked: it gets no gradient to hook");
  Expected<Mark *> mark = engine->markOf(impl);
  if (!mark) return mark.takeError();
  Expected<HookList *> hooks = hooksOf(*engine, **mark);
  if (!hooks) return hooks.takeError();
  if (impl.producer)
    if (Error error = engine->tieToCall(impl, **mark)) return error;
  return add((*hooks)->before, std::move(hook), old);
}

Expected<HookHandle> Imperative::addPostAccumulateHook(const Tensor &leaf, TensorHook hook) {
  HookRows old;
  StoreLock lock(engine->store);
  if (Error error = engine->checkOwn(leaf, "tensor")) return error;
  TensorImpl &impl = *leaf.get();
  if (!hook) return Failure(ErrorKind::BadCallback, "the hook of " + Engine::describe(impl) + " is empty");
  if (impl.producer)
    return Failure(ErrorKind::HookNotLeaf,
                   Engine::describe(impl) + " is computed: a hook after the accumulation is for leaves")
        .note("add a hook of its gradient instead");
  if (!impl.tracked)
    return Failure(ErrorKind::NotRequiresGrad, Engine::describe(impl) + " is not tracked: it gets no gradient to hook");
  Expected<Mark *> mark = engine->markOf(impl);
  if (!mark) return mark.takeError();
  Expected<HookList *> hooks = hooksOf(*engine, **mark);
  if (!hooks) return hooks.takeError();
  if (!(*mark)->owner.load(std::memory_order_relaxed)) (*mark)->owner.store(&impl, std::memory_order_relaxed);
  return add((*hooks)->after, std::move(hook), old);
}

Error Imperative::queueCallback(FinalCallback callback) {
  if (!callback) return Failure(ErrorKind::BadCallback, "the callback is empty");
  if (HostRun::queue(*engine, std::move(callback))) return Error::success();
  return Failure(ErrorKind::CallbackScope, "a final callback was queued outside of a backward")
      .note("queue it inside a hook, or inside another callback");
}

}  // namespace gradc
