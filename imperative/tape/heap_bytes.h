// The heap memory of lists, as glibc's malloc counts it: a header of 8 bytes, in units of 16, at least 32.
// Tested by tests/imperative/memory/imperative_memory_test.cc
#pragma once

#include <algorithm>
#include <cstddef>

namespace gradc {

constexpr size_t heapBlock(size_t bytes) { return bytes == 0 ? 0 : std::max<size_t>(32, (bytes + 8 + 15) / 16 * 16); }

/// For vectors, without what their elements own.
template <class... Lists> size_t heapBytesOf(const Lists &...lists) {
  return (size_t{0} + ... + heapBlock(lists.capacity() * sizeof(*lists.data())));
}

}  // namespace gradc
