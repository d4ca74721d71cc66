// Turns exceptions of the standard library and of kernels into errors: no entry point of the runtime lets one escape.
// Tested by tests/runtime/failures_test.cc
#pragma once

#include "ir/base/out_of_memory.h"
#include "runtime/kernels/core/prepared_kernel.h"

#include <system_error>

namespace gradc {

/// Where kernels leave errors (KernelCall::failure).
class FailureSlot {
 public:
  FailureSlot() { hasFailed(); }
  ~FailureSlot() { llvm::consumeError(std::move(error)); }
  FailureSlot(const FailureSlot &) = delete;

  llvm::Error *address() { return &error; }
  bool hasFailed() { return static_cast<bool>(error); }
  /// Success, unless a kernel left an error. Empties the slot.
  llvm::Error take() {
    llvm::Error taken = std::move(error);
    hasFailed();
    return taken;
  }

 private:
  llvm::Error error = llvm::Error::success();
};

/// Returns what `work` returns, an Error or an Expected. TooLarge for std::bad_alloc and for a thread that cannot be
/// started, both with `what` in the message; a KernelError becomes the error it describes. `place` adds where it
/// happened.
template <class Work, class Place> auto catching(const char *what, Work work, Place place) -> decltype(work()) {
  return catchingBadAlloc(what, [&]() -> decltype(work()) {
    try {
      return work();
    } catch (const std::bad_alloc &) {
      return place(Failure(ErrorKind::TooLarge, llvm::Twine("no memory ") + what));
    } catch (const std::system_error &) {
      return place(Failure(ErrorKind::TooLarge, llvm::Twine("no thread ") + what));
    } catch (const KernelError &error) {
      return place(Failure(error.kind, error.message));
    }
  });
}
template <class Work> auto catching(const char *what, Work work) -> decltype(work()) {
  return catching(what, std::move(work), [](Failure failure) { return failure; });
}

}  // namespace gradc
