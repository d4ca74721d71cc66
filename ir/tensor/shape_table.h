// Shapes as numbers: equal shapes of one table have one id, so comparing them is one instruction.
#pragma once

#include "ir/tensor/shape.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Allocator.h"

#include <optional>
#include <vector>

namespace gradc {

/// Belongs to the Inference that uses its ids. Shape 0 is `kUnknownShape`, the unknown rank. A result of `operator[]`
/// points into the table and stays valid when shapes are added.
class ShapeTable {
 public:
  ShapeTable();
  /// The same shapes under the same ids.
  ShapeTable(const ShapeTable &other);
  ShapeTable &operator=(const ShapeTable &) = delete;

  /// The id of dims; nothing for dims that no tensor can have (`isPossible`).
  std::optional<ShapeId> intern(Dims dims);
  ShapeRef operator[](ShapeId id) const { return id == kUnknownShape ? ShapeRef() : ShapeRef(shapes[id.value].dims); }
  /// True when every dimension is known; one load, for the loops of inference.
  bool isFullyKnown(ShapeId id) const { return shapes[id.value].elements >= 0; }
  /// Elements of a fully known shape, at most kMaxElements; -1 for any other.
  int64_t elements(ShapeId id) const { return shapes[id.value].elements; }

 private:
  struct Row {
    Dims dims;
    int64_t elements;  // -1: not fully known
  };

  llvm::BumpPtrAllocator arena;
  std::vector<Row> shapes;
  llvm::StringMap<uint32_t> ids;  // by the bytes of the dims
};

}  // namespace gradc
