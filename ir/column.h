// A vector for the columns of large graphs: big ones live on 2 MiB pages where the system offers them.
//
// A pass over 10^6 nodes touches hundreds of megabytes once. With 4 KiB pages a quarter of its time is page faults, and
// every random access misses the TLB; asking for huge pages removes both. Small columns come from the usual heap.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace gradc {

template <class T> struct ColumnAllocator {
  using value_type = T;
  static constexpr size_t kHugePage = size_t{2} << 20;

  ColumnAllocator() = default;
  template <class U> ColumnAllocator(const ColumnAllocator<U> &) {}
  template <class U> bool operator==(const ColumnAllocator<U> &) const { return true; }

  T *allocate(size_t n) {
    const size_t bytes = n * sizeof(T);
    if (bytes < 2 * kHugePage) return static_cast<T *>(::operator new(bytes));
    void *memory = ::operator new(bytes, std::align_val_t(kHugePage));
#if defined(__linux__)
    (void)madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: without it the column works on small pages
#endif
    return static_cast<T *>(memory);
  }
  void deallocate(T *memory, size_t n) {
    if (n * sizeof(T) < 2 * kHugePage) return ::operator delete(memory);
    ::operator delete(memory, std::align_val_t(kHugePage));
  }
};

template <class T> using Column = std::vector<T, ColumnAllocator<T>>;

}  // namespace gradc
