// Shapes: a list of dimensions, each known (>= 0) or unknown (-1), or nothing known at all, not even the rank.
#pragma once

#include "ir/base/ids.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/raw_ostream.h"

#include <limits>
#include <optional>

namespace gradc {

inline constexpr int64_t kUnknownDim = -1;
/// Stands for a dimension that no tensor can have; a shape that contains it is refused.
inline constexpr int64_t kBadDim = std::numeric_limits<int64_t>::min();
/// The most elements, and bytes, of one tensor. The product of a shape's known nonzero dimensions has the same bound,
/// so strides and sizes of partly known and of empty shapes cannot overflow either.
inline constexpr int64_t kMaxElements = int64_t{1} << 48;
inline constexpr int64_t kMaxTensorBytes = int64_t{1} << 48;
inline constexpr ShapeId kUnknownShape{0};  // shape 0 of every ShapeTable: unknown rank

using Dims = llvm::ArrayRef<int64_t>;
using DimsBuffer = llvm::SmallVector<int64_t, 6>;

/// Read-only view of an interned shape. `rank()` and indexing need `hasRank()`.
class ShapeRef {
 public:
  ShapeRef() = default;  // unknown rank
  explicit ShapeRef(Dims dims) : list(dims), ranked(true) {}

  bool hasRank() const { return ranked; }
  size_t rank() const { return list.size(); }
  int64_t operator[](size_t axis) const { return list[axis]; }
  Dims dims() const { return list; }
  bool isFullyKnown() const;
  /// Unknown parts as INF-02 counts them: 1 for an unknown rank, else one per unknown dimension.
  size_t numUnknown() const;

 private:
  Dims list;
  bool ranked = false;
};

/// Whether a tensor can have this shape: at most 64 dimensions, each >= 0 or unknown, within kMaxElements.
bool isPossible(Dims dims);

/// Elements of a shape; nothing when a dimension is unknown (and none is 0), or there are more than kMaxElements.
std::optional<int64_t> numElements(Dims dims);

/// "(3,4)", "(3,)", "()", "(?,4)"; "?" for unknown rank.
void printShape(llvm::raw_ostream &os, ShapeRef shape);
std::string toString(ShapeRef shape);

/// Merges `update` into `dims` where dimensions agree or one is unknown; false on conflict (dims is then unspecified).
bool mergeDims(llvm::SmallVectorImpl<int64_t> &dims, Dims update);

/// Axis counted from the end when negative; nothing when outside [-rank, rank).
std::optional<size_t> normalizeAxis(int64_t axis, size_t rank);

}  // namespace gradc
