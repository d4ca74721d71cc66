// The shapes of an Imperative as numbers, each kept for as long as something refers to it.
//
// Tensors, marks, signatures and plans hold references; what nothing refers to is dropped at a sweep, and its number is
// used again. The table holds one reference itself. Tested by tests/imperative/memory/imperative_growth_test.cc
#pragma once

#include "ir/base/ids.h"
#include "ir/tensor/shape.h"

#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <vector>

namespace gradc {

/// The heap memory of a block: its bytes, and about what an allocator adds.
constexpr size_t heapBlock(size_t bytes) { return bytes == 0 ? 0 : bytes + 16; }

/// For vectors, without what their elements own.
template <class... Lists> size_t heapBytesOf(const Lists &...lists) {
  return (size_t{0} + ... + heapBlock(lists.capacity() * sizeof(*lists.data())));
}

class TapeShapes {
 public:
  TapeShapes();
  ~TapeShapes();
  TapeShapes(const TapeShapes &) = delete;

  // ---- with the lock held
  /// The number of dims; nothing for dims that no tensor can have (`isPossible`). Valid until the next sweep, unless it
  /// is held.
  std::optional<ShapeId> intern(Dims dims);
  ShapeRef operator[](ShapeId id) const {
    return id == kUnknownShape ? ShapeRef() : ShapeRef(Dims(rows[id.value]->dims(), rows[id.value]->rank));
  }
  /// Adds a reference to the shape with these dims, which are in the table.
  static void retain(const int64_t *dims) {
    Row &row = rowOf(dims);
    if (row.prepaid == 0) prepay(row);
    --row.prepaid;
  }
  /// Drops what nothing refers to, if there are twice as many shapes as were left by the last time.
  void sweep();
  size_t heapBytes() const;

  // ---- by any thread
  static void release(const int64_t *dims) { rowOf(dims).refs.fetch_sub(1, std::memory_order_release); }

 private:
  /// The dims are behind it.
  struct Row {
    std::atomic<uint32_t> refs{1};
    uint32_t prepaid = 0;  // references taken in advance: a new tensor only counts down
    uint32_t id, rank;

    int64_t *dims() { return reinterpret_cast<int64_t *>(this + 1); }
    const int64_t *dims() const { return reinterpret_cast<const int64_t *>(this + 1); }
    bool isUnused() const { return refs.load(std::memory_order_acquire) == prepaid + 1; }
  };
  static Row &rowOf(const int64_t *dims) { return *(reinterpret_cast<Row *>(const_cast<int64_t *>(dims)) - 1); }
  static void prepay(Row &row);
  static llvm::StringRef bytesOf(Dims dims) {
    return {reinterpret_cast<const char *>(dims.data()), dims.size() * sizeof(int64_t)};
  }

  std::vector<Row *> rows;  // by number; null: free
  std::vector<uint32_t> freeIds;
  llvm::StringMap<uint32_t> ids;  // by the bytes of the dims
  size_t numBytes = 0, limit = 1024;
};

/// Shapes that something holds until its end.
class ShapeReferences {
 public:
  ShapeReferences() = default;
  ShapeReferences(ShapeReferences &&other) noexcept : list(std::exchange(other.list, {})) {}
  ShapeReferences &operator=(ShapeReferences &&other) noexcept {
    std::swap(list, other.list);
    return *this;
  }
  ~ShapeReferences() {
    for (const int64_t *dims : list) TapeShapes::release(dims);
  }
  /// With the lock held.
  void add(const int64_t *dims) {
    list.push_back(dims);
    TapeShapes::retain(dims);
  }
  void add(const TapeShapes &shapes, ShapeId id) { add(shapes[id].dims().data()); }
  size_t capacity() const { return list.capacity(); }
  const int64_t *const *data() const { return list.data(); }

 private:
  std::vector<const int64_t *> list;
};

}  // namespace gradc
