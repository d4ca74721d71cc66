// Tested by tests/imperative/imperative_hooks_test.cc
#include "imperative/host_run.h"

#include "imperative/inside.h"
#include "runtime/executor/bindings.h"

using namespace llvm;

namespace gradc {

constinit thread_local HostRun::Inside *HostRun::innermost = nullptr;

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

void HostRun::hold(const Collected &collected, ArrayRef<Mark *> marks, Tensors heads) {
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
  if (tap.value.node) return ("output " + Twine(tap.value.output) + " of " + engine.describe(*tap.value.node)).str();
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

bool HostRun::queue(const Engine &engine, FinalCallback callback) {
  for (Inside *inside = innermost; inside; inside = inside->outer) {
    if (&inside->run.engine != &engine) continue;
    inside->run.scratch.callbacks.push_back(std::move(callback));
    return true;
  }
  return false;
}

}  // namespace gradc
