// Tested by tests/imperative/imperative_hooks_test.cc
#include "imperative/host_run.h"

#include "imperative/engine.h"
#include "runtime/executor/bindings.h"

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
  if (!hook) return Failure(ErrorKind::BadCallback, "the hook of " + describe(impl) + " is empty");
  if (!impl.tracked)
    return Failure(ErrorKind::NotRequiresGrad, describe(impl) + " is not tracked: it gets no gradient to hook");
  return Error::success();
}

/// The hooks of the tensor's mark, made if there are none. What the host put into them is destroyed without the lock,
/// like foreign memory.
Expected<HookList *> hooksOf(Engine &engine, TensorImpl &impl) {
  Expected<Mark *> mark = tiedMarkOf(engine, impl);
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

Expected<HookHandle> addHook(Engine &engine, const Tensor &x, TensorHook &hook, HookRows &old) {
  if (Error error = checkHook(engine, x, hook)) return error;
  Expected<HookList *> hooks = hooksOf(engine, *x.get());
  if (!hooks) return hooks.takeError();
  return add(engine.store, (*hooks)->before, hook, old);
}

Expected<HookHandle> addPostAccumulateHook(Engine &engine, const Tensor &leaf, TensorHook &hook, HookRows &old) {
  if (Error error = checkHook(engine, leaf, hook)) return error;
  TensorImpl &impl = *leaf.get();
  if (impl.producer)
    return Failure(ErrorKind::HookNotLeaf, describe(impl) + " is not a leaf: post-accumulate hooks need a leaf")
        .note("add a hook of its gradient instead");
  Expected<HookList *> hooks = hooksOf(engine, impl);
  if (!hooks) return hooks.takeError();
  HookHandle handle = add(engine.store, (*hooks)->after, hook, old);
  if (!impl.mark->owner.load(std::memory_order_relaxed)) impl.mark->owner.store(&impl, std::memory_order_relaxed);
  return handle;
}

constinit thread_local HostRun::Inside *HostRun::innermost = nullptr;

HostRun::Inside::Inside(HostRun &run, bool isRecording) : run(run), outer(std::exchange(innermost, this)) {
  if (isRecording) recording.emplace(run.engine.owner, RecordOptions{modesOf(run.engine.owner).isTraining});
  else quiet.emplace(run.engine.owner);
  run.lock.unlock();
}

HostRun::Inside::~Inside() {
  run.lock.lock();
  innermost = outer;
}

void HostRun::end() {
  if (!scratch.taps.empty() || !scratch.callbacks.empty()) {
    lock.unlock();
    for (HostScratch::Tap &tap : scratch.taps) {
      tap.before.reset();
      tap.after.reset();
    }
    while (!scratch.callbacks.empty()) scratch.callbacks.pop_back();
    lock.lock();
  }
  for (TapeNode *node : scratch.nodes) release(node);
  for (Mark *mark : scratch.marks) release(mark);
  for (Storage *state : scratch.states)
    if (state) release(state);
  for (Storage *head : scratch.heads) release(head);
  scratch.taps.clear();
  scratch.nodes.clear();
  scratch.marks.clear();
  scratch.states.clear();
  scratch.heads.clear();
  scratch.late.clear();
}

void HostRun::addTap(const HostScratch::Tap &tap) {
  scratch.taps.push_back(tap);
  hasHooksBefore |= tap.before != nullptr;
}

void HostRun::retainAll(const Collected &collected, ArrayRef<Mark *> marks, Tensors heads) {
  for (TapeNode *node : collected.nodes()) {
    scratch.nodes.push_back(node);
    retain(node);
    scratch.states.push_back(node->state);
    if (node->state) retain(node->state);
  }
  for (ArrayRef<Mark *> list : {collected.leaves(), marks})
    for (Mark *mark : list) {
      scratch.marks.push_back(mark);
      retain(mark);
    }
  for (const Tensor &head : heads) {
    if (!head) continue;
    scratch.heads.push_back(head.get()->storage);
    retain(head.get()->storage);
  }
}

std::string HostRun::nameOf(const HostScratch::Tap &tap) const {
  if (tap.value.node) return ("output " + Twine(tap.value.output) + " of " + describe(*tap.value.node)).str();
  return tap.mark->name.empty() ? "a leaf" : "tensor '" + tap.mark->name + "'";
}

Error HostRun::checkResult(const HostScratch::Tap &tap, const Tensor &gradient, const Tensor &result) const {
  const TensorImpl &was = *gradient.get(), &is = *result.get();
  if (is.store == &engine.store && is.shape == was.shape && is.dtype == was.dtype) return Error::success();
  const std::string who = "a hook of " + nameOf(tap) + " returned ";
  if (is.store != &engine.store) return Failure(ErrorKind::ForeignEntry, who + "a tensor of another Imperative");
  if (is.shape != was.shape)
    return Failure(ErrorKind::HeadShape, who + "a gradient of shape " + toString(ShapeRef(is.shapeDims())) +
                                             ", expected " + toString(ShapeRef(was.shapeDims())));
  return Failure(ErrorKind::HeadDType,
                 who + "a gradient of type " + dtypeName(is.dtype) + ", expected " + dtypeName(was.dtype));
}

Error HostRun::runHooks(size_t tap, Tensor &gradient) {
  const HostScratch::Tap &row = scratch.taps[tap];
  if (!row.before) return Error::success();
  for (const std::shared_ptr<HookEntry> &hook : *row.before) {
    std::optional<Expected<Tensor>> result;
    {
      Inside inside(*this);
      const std::shared_ptr<const TensorHook> call = hook->get();
      if (!call) continue;
      result.emplace((*call)(gradient));
    }
    if (!*result) return result->takeError();
    if (!**result) continue;
    if (Error error = checkResult(row, gradient, **result)) return error;
    gradient = std::move(**result);
  }
  return Error::success();
}

Error HostRun::runHooksAfter(const HostScratch::Tap &tap) {
  const Tensor leaf = ownerOf(*tap.mark);
  if (!tap.after || !leaf) return Error::success();
  for (const std::shared_ptr<HookEntry> &hook : *tap.after) {
    std::optional<Expected<Tensor>> result;
    {
      Inside inside(*this);
      const std::shared_ptr<const TensorHook> call = hook->get();
      if (!call) continue;
      result.emplace((*call)(leaf));
    }
    if (!*result) return result->takeError();
    if (**result)
      return Failure(ErrorKind::HookReturned,
                     "a hook after the accumulation, of " + nameOf(tap) + ", returned a tensor, expected none");
  }
  return Error::success();
}

Error HostRun::finish() {
  for (size_t i = 0; i < scratch.callbacks.size(); ++i) {
    Inside inside(*this);
    const FinalCallback callback = std::move(scratch.callbacks[i]);  // which may queue another
    if (Error error = callback()) return error;
  }
  return Error::success();
}

Error HostRun::queue(const Engine &engine, FinalCallback callback) {
  if (!callback) return Failure(ErrorKind::BadCallback, "the callback is empty");
  for (Inside *inside = innermost; inside; inside = inside->outer) {
    if (&inside->run.engine != &engine) continue;
    inside->run.scratch.callbacks.push_back(std::move(callback));
    return Error::success();
  }
  return Failure(ErrorKind::CallbackScope, "a final callback was queued outside of a backward")
      .note("queue it inside a hook, or inside another callback");
}

}  // namespace gradc
