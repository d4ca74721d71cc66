// Code of the host that runs while gradients are computed: hooks of tensors, hooks of leaves whose gradient has
// arrived, and callbacks at the end of a backward.
//
//   HookHandle handle = cantFail(im.addHook(x, [](const Tensor &gradient) -> Expected<Tensor> { return
//   scaled(gradient); })); cantFail(im.backward({loss}, {})); handle.remove();
//
// The lock of the Imperative is not held while such code runs: it may call operators, run another backward, drop
// tensors. It runs with recording off, unless the gradients are recorded (createGraph). Tested by
// tests/imperative/imperative_hooks_test.cc
#pragma once

#include "imperative/tape/tensor.h"

#include <functional>
#include <memory>
#include <mutex>

namespace gradc {

/// Sees the gradient of a tensor, the sum of all contributions, before anything reads it (HOOK-02). A tensor that it
/// returns replaces the gradient; no tensor leaves the gradient unchanged. An error ends the backward, which returns
/// the error.
using TensorHook = std::function<llvm::Expected<Tensor>(const Tensor &gradient)>;
using FinalCallback = std::function<llvm::Error()>;

class HookEntry {
 public:
  explicit HookEntry(std::shared_ptr<const TensorHook> hook) : hook(std::move(hook)) {}
  /// Null once it is removed. The caller shares ownership, because the hook may be removed while it runs.
  std::shared_ptr<const TensorHook> get() const {
    std::lock_guard guard(mutex);
    return hook;
  }
  std::shared_ptr<const TensorHook> take() {
    std::lock_guard guard(mutex);
    return std::move(hook);
  }

 private:
  mutable std::mutex mutex;
  std::shared_ptr<const TensorHook> hook;
};

class HookHandle {
 public:
  HookHandle() = default;  // of no hook
  explicit HookHandle(std::weak_ptr<HookEntry> entry) : entry(std::move(entry)) {}
  /// False if the hook was removed before, or its tensor is gone. Inside a hook it takes effect for hooks that come
  /// later in the same run (HOOK-04). The function is destroyed, at the end of its call if it is running.
  bool remove() {
    const std::shared_ptr<HookEntry> hook = entry.lock();
    return hook && hook->take();
  }

 private:
  std::weak_ptr<HookEntry> entry;
};

/// Replaced as a whole when a hook is added, so that a run in progress continues with the hooks it began with.
using HookRows = std::shared_ptr<const Pooled<std::shared_ptr<HookEntry>>>;

/// The hooks of one mark, in the order in which they were added: on the gradient, and after it was accumulated. Rows
/// and hooks are allocated in the pool.
struct HookList {
  Store *store;
  HookRows before, after;
};
/// Null if all of them were removed.
inline HookRows liveHooks(const HookRows &rows) {
  const bool isLive = rows && llvm::any_of(*rows, [](const auto &entry) { return entry->get() != nullptr; });
  return isLive ? rows : nullptr;
}

}  // namespace gradc
