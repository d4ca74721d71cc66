// Code of the host that runs while gradients are computed: hooks of tensors, and callbacks at the end of a backward.
//
//   HookHandle handle = cantFail(im.addHook(x, [](const Tensor &gradient) -> Expected<Tensor> { return scaled(gradient); }));
//   cantFail(im.backward({loss}, {}));
//   handle.remove();
//
// The lock of the Imperative is not held while such code runs: it may call operators, run another backward, drop tensors.
// It runs with recording off, unless the gradients are recorded (createGraph).
// Tested by tests/imperative_hooks_test.cc
#pragma once

#include "imperative/tensor.h"

#include <functional>
#include <memory>

namespace gradc {

/// Sees the gradient of a tensor, all contributions summed up, before anything reads it (HOOK-02). The tensor that it returns
/// takes the place of the gradient, no tensor leaves it. An error ends the backward and comes back from there as it is.
using TensorHook = std::function<llvm::Expected<Tensor>(const Tensor &gradient)>;
using FinalCallback = std::function<llvm::Error()>;

struct HookEntry {
  TensorHook call;
  std::atomic<bool> isRemoved{false};
};

class HookHandle {
 public:
  HookHandle() = default;  // of no hook
  explicit HookHandle(std::weak_ptr<HookEntry> entry) : entry(std::move(entry)) {}
  /// False where the hook was removed before, or its tensor is gone. Inside a hook it takes effect for those that come later
  /// in the same run (HOOK-04).
  bool remove();

 private:
  std::weak_ptr<HookEntry> entry;
};

/// The hooks of one mark, in the order in which they were added.
struct HookList {
  std::vector<std::shared_ptr<HookEntry>> entries;
  bool isEmpty() const;
};

class StoreLock;

/// What a backward calls of the host's, and what that queues.
class HostRun {
 public:
  HostRun(Engine &engine, StoreLock &lock, bool isRecording) : engine(engine), lock(lock), isRecording(isRecording) {}
  HostRun(const HostRun &) = delete;
  ~HostRun();

  /// From now on tap number `numTaps()` is that of the mark's gradient.
  void addTap(const Mark &mark, std::string name);
  size_t numTaps() const { return taps.size(); }
  /// Runs the hooks of a tap, one on what the other made of the gradient. E-44, E-38 and E-39 for what a hook returns, and its
  /// own error.
  llvm::Error runHooks(size_t tap, Tensor &gradient);
  /// Runs what was queued, in order, and what that queues.
  llvm::Error finish();
  /// Takes a callback for the end of the backward whose host code the calling thread is in; false where it is in none of this
  /// engine.
  static bool queue(const Engine &engine, FinalCallback callback);

 private:
  class Inside;
  struct Tap {
    std::vector<std::shared_ptr<HookEntry>> hooks;
    std::string name;
  };
  llvm::Error checkResult(const Tap &tap, const Tensor &gradient, const Tensor &result) const;

  Engine &engine;
  StoreLock &lock;
  const bool isRecording;
  std::vector<Tap> taps;
  std::vector<FinalCallback> callbacks;
};

}  // namespace gradc
