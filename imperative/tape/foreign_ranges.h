// Which storages over the host's memory overlap: a write through one of them is a write to the others.
// Tested by tests/imperative/memory/imperative_foreign_test.cc
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>

namespace gradc {

struct Storage;

/// A treap by address whose nodes know the highest end below them. A node is in the block of its storage, so nothing is
/// allocated. With the lock held.
class ForeignRanges {
 public:
  struct Node {
    Storage *left, *right;
    uintptr_t highest;  // end of what it and those below it cover
    uint64_t priority;
  };

  void add(Storage &storage);
  void remove(Storage &storage);
  /// Visits the others that share a byte with this one, by address. O(log n) for each, in the mean.
  void visitOverlapping(const Storage &storage, llvm::function_ref<void(Storage &)> visit) const;

 private:
  Storage *root = nullptr;
};

}  // namespace gradc
