// Tested by tests/imperative_hooks_test.cc
#include "imperative/hooks.h"

#include "imperative/engine.h"
#include "runtime/bindings.h"

#include "llvm/ADT/STLExtras.h"

#include <optional>

using namespace llvm;

namespace gradc {
namespace {

// What the calling thread is inside of.
constinit thread_local HostRun *current = nullptr;

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

}  // namespace

/// While the calling thread is in code of the host.
class HostRun::Inside {
 public:
  explicit Inside(HostRun &run) : run(run), outer(std::exchange(current, &run)) {
    if (run.isRecording) recording.emplace(run.engine.owner, RecordOptions{modesOf(run.engine.owner).isTraining});
    else quiet.emplace(run.engine.owner);
    run.lock.unlock();
  }
  ~Inside() {
    run.lock.lock();
    current = outer;
  }
  Inside(const Inside &) = delete;

 private:
  HostRun &run;
  HostRun *const outer;
  std::optional<RecordScope> recording;
  std::optional<NoGradScope> quiet;
};

bool HookHandle::remove() {
  const std::shared_ptr<HookEntry> hook = entry.lock();
  return hook && !hook->isRemoved.exchange(true);
}

bool HookList::isEmpty() const {
  return all_of(entries, [](const std::shared_ptr<HookEntry> &entry) { return entry->isRemoved.load(); });
}

HostRun::~HostRun() {
  if (taps.empty() && callbacks.empty()) return;
  Inside inside(*this);  // what the host's code keeps goes without the lock
  taps.clear();
  callbacks.clear();
}

void HostRun::addTap(const Mark &mark, std::string name) {
  taps.push_back({static_cast<const HookList *>(mark.hooks->releaseUser)->entries, std::move(name)});
}

Error HostRun::checkResult(const Tap &tap, const Tensor &gradient, const Tensor &result) const {
  const std::string who = "a hook of " + tap.name + " returned ";
  const TensorImpl &was = *gradient.get(), &is = *result.get();
  if (is.store != &engine.store) return Failure(ErrorKind::ForeignEntry, who + "a tensor of another Imperative");
  if (is.shape != was.shape)
    return Failure(ErrorKind::HeadShape, who + "a gradient of shape " + toString(ShapeRef(is.shapeDims())) +
                                             ", expected " + toString(ShapeRef(was.shapeDims())));
  if (is.dtype != was.dtype)
    return Failure(ErrorKind::HeadDType,
                   who + "a gradient of type " + dtypeName(is.dtype) + ", expected " + dtypeName(was.dtype));
  return Error::success();
}

Error HostRun::runHooks(size_t tap, Tensor &gradient) {
  const Tap &row = taps[tap];
  for (const std::shared_ptr<HookEntry> &hook : row.hooks) {
    if (hook->isRemoved) continue;
    std::optional<Expected<Tensor>> result;
    {
      Inside inside(*this);
      result.emplace(hook->call(gradient));
    }
    if (!*result) return result->takeError();
    if (!**result) continue;
    if (Error error = checkResult(row, gradient, **result)) return error;
    gradient = std::move(**result);
  }
  return Error::success();
}

Error HostRun::finish() {
  for (size_t i = 0; i < callbacks.size(); ++i) {
    Inside inside(*this);
    const FinalCallback callback = std::move(callbacks[i]);  // which may queue another
    if (Error error = callback()) return error;
  }
  return Error::success();
}

bool HostRun::queue(const Engine &engine, FinalCallback callback) {
  if (!current || &current->engine != &engine) return false;
  current->callbacks.push_back(std::move(callback));
  return true;
}

Expected<HookHandle> Imperative::addHook(const Tensor &x, TensorHook hook) {
  std::vector<std::shared_ptr<HookEntry>> removed;  // destroyed without the lock
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
  llvm::erase_if((*hooks)->entries, [&](const std::shared_ptr<HookEntry> &entry) {
    if (entry->isRemoved) removed.push_back(entry);
    return entry->isRemoved.load();
  });
  auto entry = std::make_shared<HookEntry>();
  entry->call = std::move(hook);
  (*hooks)->entries.push_back(entry);
  return HookHandle(entry);
}

Error Imperative::queueCallback(FinalCallback callback) {
  if (!callback) return Failure(ErrorKind::BadCallback, "the callback is empty");
  if (HostRun::queue(*engine, std::move(callback))) return Error::success();
  return Failure(ErrorKind::CallbackScope, "a final callback was queued outside of a backward")
      .note("queue it inside a hook, or inside another callback");
}

}  // namespace gradc
