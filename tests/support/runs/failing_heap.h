// A heap whose allocations fail where a test chooses, for one file of a test program: it replaces operator new, and
// malloc for code that is linked into the program (LLVM's containers, the buffers of the runtime). Shared libraries
// keep their malloc.
#pragma once

#include "tests/support/sanitizers.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <limits>
#include <malloc.h>
#include <new>

namespace gradc::testing {

enum class Failing {
  Once,   // one allocation, as a very large one does
  Onward  // it and all that follow: nothing is left
};

struct FailingHeap {
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  uint64_t count = 0;  // allocations while armed
  uint64_t failsAt = kNever;
  Failing failing = Failing::Once;
  bool isArmed = false;
  int64_t live = 0;  // blocks that are not freed yet; 0 under a sanitizer, which finds them itself

  bool wasWithinOneDnn = false;  // the failed allocation
#ifdef GRADC_HEAP_OF_SANITIZER
  // What it leaks then would be reported, and nothing tells it from what gradc leaks.
  bool ignoresOneDnn = true;
#else
  bool ignoresOneDnn = false;  // its allocations neither count nor fail
#endif

  /// Whether the allocation that `caller` requests has to fail.
  bool fails(const void *caller) {
    if (!isArmed) return false;
    if (ignoresOneDnn && isOneDnn(caller)) return false;
    ++count;
    const bool isDue = failing == Failing::Once ? count == failsAt : count >= failsAt;
    if (isDue && isOneDnn(caller)) wasWithinOneDnn = true;
    return isDue;
  }
  static bool isOneDnn(const void *caller) {
    Dl_info library;
    return dladdr(caller, &library) && std::strstr(library.dli_fname, "libdnnl");
  }

  /// Runs `work` with the given allocation failing, and returns its result.
  template <class Work> auto during(Work work) -> decltype(work()) {
    struct Armed {
      FailingHeap &heap;
      explicit Armed(FailingHeap &heap) : heap(heap) { heap.isArmed = true; }
      ~Armed() { heap.isArmed = false; }
    } armed(*this);
    return work();
  }
};

/// The heap state of the calling thread.
inline thread_local constinit FailingHeap failingHeap;

}  // namespace gradc::testing

#ifndef GRADC_HEAP_OF_SANITIZER
extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);
extern const char __executable_start, etext;

/// Only code that is linked into the program has to handle failures.
inline bool mustFail(const void *caller) {
  return caller >= &__executable_start && caller < &etext && gradc::testing::failingHeap.fails(caller);
}
inline void *counted(void *memory) {
  gradc::testing::failingHeap.live += memory != nullptr;
  return memory;
}

void *malloc(size_t size) { return mustFail(__builtin_return_address(0)) ? nullptr : counted(__libc_malloc(size)); }
void *calloc(size_t count, size_t size) {
  return mustFail(__builtin_return_address(0)) ? nullptr : counted(__libc_calloc(count, size));
}
void *realloc(void *memory, size_t size) {
  if (mustFail(__builtin_return_address(0))) return nullptr;
  gradc::testing::failingHeap.live -= memory != nullptr;
  return counted(__libc_realloc(memory, size));
}
void *memalign(size_t align, size_t size) { return counted(__libc_memalign(align, size)); }
void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }
int posix_memalign(void **memory, size_t align, size_t size) {
  *memory = mustFail(__builtin_return_address(0)) ? nullptr : memalign(align, size);
  return *memory ? 0 : ENOMEM;
}
void free(void *memory) {
  gradc::testing::failingHeap.live -= memory != nullptr;
  __libc_free(memory);
}
}
#else
inline void *__libc_malloc(size_t size) { return std::malloc(size); }
inline void *counted(void *memory) { return memory; }
inline void *memalign(size_t align, size_t size) {
  void *memory = nullptr;
  return posix_memalign(&memory, align, size) == 0 ? memory : nullptr;
}
#endif

namespace gradc::testing {

inline void *allocate(size_t size, const void *caller) {
  return failingHeap.fails(caller) ? nullptr : counted(__libc_malloc(size));
}
inline void *allocateAligned(size_t size, std::align_val_t align, const void *caller) {
  if (failingHeap.fails(caller)) return nullptr;
  return memalign(std::max(static_cast<size_t>(align), sizeof(void *)), size);
}
inline void *orThrow(void *memory) { return memory ? memory : throw std::bad_alloc(); }

}  // namespace gradc::testing

void *operator new(size_t size) {
  return gradc::testing::orThrow(gradc::testing::allocate(size, __builtin_return_address(0)));
}
void *operator new[](size_t size) {
  return gradc::testing::orThrow(gradc::testing::allocate(size, __builtin_return_address(0)));
}
void *operator new(size_t size, const std::nothrow_t &) noexcept {
  return gradc::testing::allocate(size, __builtin_return_address(0));
}
void *operator new[](size_t size, const std::nothrow_t &) noexcept {
  return gradc::testing::allocate(size, __builtin_return_address(0));
}
void *operator new(size_t size, std::align_val_t align) {
  return gradc::testing::orThrow(gradc::testing::allocateAligned(size, align, __builtin_return_address(0)));
}
void *operator new[](size_t size, std::align_val_t align) {
  return gradc::testing::orThrow(gradc::testing::allocateAligned(size, align, __builtin_return_address(0)));
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete[](void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
void operator delete[](void *memory, size_t) noexcept { std::free(memory); }
void operator delete(void *memory, const std::nothrow_t &) noexcept { std::free(memory); }
void operator delete[](void *memory, const std::nothrow_t &) noexcept { std::free(memory); }
void operator delete(void *memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void *memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void *memory, size_t, std::align_val_t) noexcept { std::free(memory); }
