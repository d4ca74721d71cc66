// Arithmetic and printing of shapes. Tested by tests/ir/shape_test.cc
#include "ir/tensor/shape.h"

#include "ir/tensor/dim.h"

using namespace llvm;

namespace gradc {

// As in NumPy 2 and PyTorch. Interning a shape takes as long as its rank, so without a bound a chain of operators that
// each add a dimension would take the square of its length.
static constexpr size_t kMaxRank = 64;

bool ShapeRef::isFullyKnown() const { return ranked && !is_contained(list, kUnknownDim); }

size_t ShapeRef::numUnknown() const { return ranked ? static_cast<size_t>(count(list, kUnknownDim)) : 1; }

bool isPossible(Dims dims) {
  if (dims.size() > kMaxRank) return false;
  Dim product = 1;
  for (int64_t dim : dims) {
    if (dim < kUnknownDim) return false;
    if (dim > 0) product = product * dim;
  }
  return product <= kMaxElements;
}

std::optional<int64_t> numElements(Dims dims) {
  const Dim product = productOf(dims);
  if (product > kMaxElements || (product != 0 && any_of(dims, [](int64_t dim) { return dim < 0; })))
    return std::nullopt;
  return product.nearest();
}

void printShape(raw_ostream &os, ShapeRef shape) {
  if (!shape.hasRank()) {
    os << '?';
    return;
  }
  if (shape.rank() > kMaxRank) {  // only messages have it
    os << '(' << shape.rank() << " dimensions, more than " << kMaxRank << ')';
    return;
  }
  os << '(';
  for (size_t axis = 0; axis < shape.rank(); ++axis) {
    if (axis) os << ',';
    if (shape[axis] == kUnknownDim) os << '?';
    else if (shape[axis] == kBadDim) os << "out of range";
    else os << shape[axis];
  }
  os << (shape.rank() == 1 ? ",)" : ")");
}

std::string toString(ShapeRef shape) {
  std::string text;
  raw_string_ostream os(text);
  printShape(os, shape);
  return text;
}

bool mergeDims(SmallVectorImpl<int64_t> &dims, Dims update) {
  if (dims.size() != update.size()) return false;
  for (size_t axis = 0; axis < update.size(); ++axis) {
    if (update[axis] == kUnknownDim) continue;
    if (dims[axis] != kUnknownDim && dims[axis] != update[axis]) return false;
    dims[axis] = update[axis];
  }
  return true;
}

std::optional<size_t> normalizeAxis(int64_t axis, size_t rank) {
  int64_t signedRank = static_cast<int64_t>(rank);
  if (axis < -signedRank || axis >= signedRank) return std::nullopt;
  return static_cast<size_t>(axis < 0 ? axis + signedRank : axis);
}

}  // namespace gradc
