// Tested by tests/imperative/memory/imperative_deep_test.cc
#include "imperative/plans/deep_stack.h"

#include "ir/base/error.h"

#include <cstdint>
#include <exception>
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define GRADC_ASAN_FIBERS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GRADC_ASAN_FIBERS 1
#endif
#if __has_feature(thread_sanitizer)
#define GRADC_TSAN_FIBERS 1
#endif
#endif
#ifdef GRADC_ASAN_FIBERS
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef GRADC_TSAN_FIBERS
#include <sanitizer/tsan_interface.h>
#endif

using namespace llvm;

namespace gradc {
namespace {

constexpr size_t kNeeded = size_t{256} << 10, kStackBytes = size_t{4} << 20, kGuardBytes = size_t{64} << 10;

struct Extent {
  char *low = nullptr, *high = nullptr;
};
// The stack that the thread runs on; empty: not looked up yet.
constinit thread_local Extent current;

Extent extentOfThread() {
  pthread_attr_t attributes;
  Extent extent;
  void *low = nullptr;
  size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return extent;
  if (pthread_attr_getstack(&attributes, &low, &bytes) == 0)
    extent = {static_cast<char *>(low), static_cast<char *>(low) + bytes};
  pthread_attr_destroy(&attributes);
  return extent;
}

/// Assumes that there is room on a stack of the host's own, about which nothing is known.
bool hasRoom() {
  if (!current.low) current = extentOfThread();
  char *const here = static_cast<char *>(__builtin_frame_address(0));
  if (here < current.low || here >= current.high) return true;
  return static_cast<size_t>(here - current.low) >= kNeeded;
}

/// One piece of work on a separate stack.
struct Switch {
  function_ref<Error()> work;
  Error result = Error::success();
  std::exception_ptr thrown = {};
  ucontext_t here = {}, there = {};
#ifdef GRADC_ASAN_FIBERS
  const void *from = nullptr;
  size_t fromBytes = 0;
#endif
#ifdef GRADC_TSAN_FIBERS
  void *fiber = nullptr;
#endif

  void run() {
#ifdef GRADC_ASAN_FIBERS
    __sanitizer_finish_switch_fiber(nullptr, &from, &fromBytes);
#endif
    try {
      result = work();
    } catch (...) {
      thrown = std::current_exception();
    }
#ifdef GRADC_ASAN_FIBERS
    __sanitizer_start_switch_fiber(nullptr, from, fromBytes);
#endif
#ifdef GRADC_TSAN_FIBERS
    __tsan_switch_to_fiber(fiber, 0);
#endif
  }

  void enter(const Extent &extent) {
#ifdef GRADC_ASAN_FIBERS
    void *fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, extent.low, static_cast<size_t>(extent.high - extent.low));
#endif
#ifdef GRADC_TSAN_FIBERS
    fiber = __tsan_get_current_fiber();
    void *const other = __tsan_create_fiber(0);
    __tsan_switch_to_fiber(other, 0);
#endif
    const Extent outer = std::exchange(current, extent);
    swapcontext(&here, &there);
    current = outer;
#ifdef GRADC_TSAN_FIBERS
    __tsan_destroy_fiber(other);
#endif
#ifdef GRADC_ASAN_FIBERS
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  }
};

// makecontext passes only ints.
void start(unsigned high, unsigned low) { reinterpret_cast<Switch *>(static_cast<uintptr_t>(high) << 32 | low)->run(); }

Error onAnotherStack(function_ref<Error()> work) {
  void *const memory =
      mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return Failure(ErrorKind::TooLarge, "no memory for the stack of a backward inside of another");
  // A page that cannot be protected, as at the system's limit of mappings, would let an overflow write into other
  // memory.
  if (mprotect(memory, kGuardBytes, PROT_NONE) != 0) {
    munmap(memory, kStackBytes);
    return Failure(ErrorKind::TooLarge, "no guard for the stack of a backward inside of another");
  }
  const Extent extent{static_cast<char *>(memory) + kGuardBytes, static_cast<char *>(memory) + kStackBytes};
  Switch change{.work = work};
  getcontext(&change.there);
  change.there.uc_stack.ss_sp = extent.low;
  change.there.uc_stack.ss_size = static_cast<size_t>(extent.high - extent.low);
  change.there.uc_link = &change.here;
  const uintptr_t address = reinterpret_cast<uintptr_t>(&change);
  makecontext(&change.there, reinterpret_cast<void (*)()>(start), 2, static_cast<unsigned>(address >> 32),
              static_cast<unsigned>(address));
  change.enter(extent);
  munmap(memory, kStackBytes);
  if (change.thrown) std::rethrow_exception(change.thrown);
  return std::move(change.result);
}

}  // namespace

Error withRoomOnStack(function_ref<Error()> work) { return hasRoom() ? work() : onAnotherStack(work); }

}  // namespace gradc
