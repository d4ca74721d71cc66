// Which heads of an executor share memory. Tested by tests/runtime/head_ranges_test.cc,
// tests/runtime/session_memory_test.cc
#pragma once

#include "ir/tensor/tensor.h"

#include "llvm/ADT/BitVector.h"

#include <optional>
#include <set>

namespace gradc {

/// The memory of heads, by size class and address. Heads with the request Add may share memory with each other; all
/// others share none, so that a search visits two ranges per class and the conflicts that it finds.
class HeadRanges {
 public:
  /// O(n log n). Heads without bytes or with null data have no range.
  HeadRanges(llvm::ArrayRef<TensorRef> heads, llvm::BitVector isAdded);
  /// The first head that could not share a byte with head `head` in `memory`; itself excluded. O(log n).
  std::optional<size_t> conflict(size_t head, const TensorRef &memory) const;
  /// Head `head` moves from `from` to `to`, of the same size. O(log n), without allocation.
  void move(size_t head, const TensorRef &from, const TensorRef &to);

 private:
  struct Range {
    unsigned sizeClass;  // 2^sizeClass bytes, up to twice as many
    uintptr_t begin, end;
    size_t head;

    friend auto operator<=>(const Range &, const Range &) = default;
  };
  using Ranges = std::set<Range>;

  static Range rangeOf(size_t head, const TensorRef &memory);
  void findFirst(const Ranges &ranges, const Range &wanted, std::optional<size_t> &first) const;

  llvm::BitVector isAdded;  // by head
  Ranges written, added;
  uint64_t sizeClasses = 0;  // bits: those with ranges
};

}  // namespace gradc
