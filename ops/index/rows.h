// Rows picked by number, and rows added or put at numbered rows: the computations of take, Embedding, gather_nd and
// their gradients. Numbers may have any type; fractions are dropped, and NaN is 0.
// Tested by tests/ops/indexing_ops_test.cc, tests/ops/conformance_test.cc
#pragma once

#include "ir/base/number.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ir/tensor/dim.h"
#include "ops/kit/axis_rows.h"
#include "ops/kit/broadcast_loops.h"
#include "ops/kit/kernel_dispatch.h"

#include <algorithm>
#include <cstring>

namespace gradc {

/// What a number outside an axis means: the nearest end, an error, or the number modulo the length.
enum class IndexMode : uint8_t { Clip, Raise, Wrap };
constexpr llvm::StringRef kIndexModes[] = {"clip", "raise", "wrap"};
constexpr llvm::ArrayRef<llvm::StringRef> enumNames(IndexMode) { return kIndexModes; }

/// Throws KernelError: "index 5 is out of range for axis 1 of size 3".
[[noreturn]] void failIndex(int64_t index, int64_t axis, int64_t size);

/// The index that a number means on an axis of `size` elements, at least one.
inline int64_t indexOnAxis(int64_t number, int64_t axis, int64_t size, IndexMode mode) {
  if (number >= 0 && number < size) return number;
  if (mode == IndexMode::Raise) failIndex(number, axis, size);
  if (mode == IndexMode::Clip) return number < 0 ? 0 : size - 1;
  const int64_t rest = number % size;
  return rest < 0 ? rest + size : rest;
}

/// The number without its fraction, saturated to int64_t.
template <class T> int64_t truncateToInt64(T value) {
  if constexpr (std::is_same_v<T, uint64_t>) return static_cast<int64_t>(std::min(value, uint64_t{INT64_MAX}));
  else return convertNumber<int64_t>(value);
}

/// Calls visit(position, number) for every element, as an integer.
template <class F> void forEachNumber(const TensorRef &numbers, F visit) {
  dispatchNumeric(numbers.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *from = numbers.as<const T>();
    for (int64_t i = 0, size = numbers.size(); i < size; ++i) visit(i, truncateToInt64(from[i]));
  });
}

/// Numbers along one axis: visit(position, index).
struct AxisIndices {
  TensorRef numbers;
  int64_t axis, size;
  IndexMode mode;

  int64_t count() const { return numbers.size(); }
  /// The `count` numbers from position `first` on; the result refers to `count`.
  AxisIndices part(int64_t first, const int64_t &count) const {
    char *from = numbers.as<char>() + static_cast<size_t>(first) * dtypeBytes(numbers.dtype);
    return {{from, numbers.dtype, Dims(count)}, axis, size, mode};
  }
  template <class F> void forEach(F visit) const {
    forEachNumber(numbers, [&](int64_t i, int64_t number) { visit(i, indexOnAxis(number, axis, size, mode)); });
  }
};

/// Those that Embedding picks from its table, and those of _contrib_index_copy.
inline AxisIndices tableRows(const TensorRef &numbers, Dims table) { return {numbers, 0, table[0], IndexMode::Clip}; }
inline AxisIndices copiedRows(const TensorRef &numbers, Dims data) { return {numbers, 0, data[0], IndexMode::Raise}; }

/// Tuples of numbers of shape (M, N…), as row numbers of data whose first M axes are merged into one.
struct TupleIndices {
  TensorRef numbers;
  Dims axes;  // the M axes
  int64_t first = 0, numTuples;

  TupleIndices(const TensorRef &numbers, Dims data)
      : numbers(numbers), axes(data.take_front(static_cast<size_t>(numbers.shape[0]))),
        numTuples(productOf(numbers.shape.drop_front()).nearest()) {}

  int64_t count() const { return numTuples; }
  int64_t numRows() const { return productOf(axes).nearest(); }
  /// The `count` tuples from position `from` on.
  TupleIndices part(int64_t from, int64_t count) const {
    TupleIndices some = *this;
    some.first += from;
    some.numTuples = count;
    return some;
  }

  template <class F> void forEach(F visit) const {
    const int64_t stride = numbers.size() / static_cast<int64_t>(axes.size());
    dispatchNumeric(numbers.dtype, [&](auto zero) {
      using T = decltype(zero);
      const T *from = numbers.as<const T>() + first;
      for (int64_t j = 0; j < numTuples; ++j) {
        int64_t row = 0;
        for (size_t axis = 0; axis < axes.size(); ++axis) {
          const int64_t index = truncateToInt64(from[static_cast<int64_t>(axis) * stride + j]);
          if (index < -axes[axis] || index >= axes[axis]) failIndex(index, static_cast<int64_t>(axis), axes[axis]);
          row = row * axes[axis] + (index < 0 ? index + axes[axis] : index);
        }
        visit(j, row);
      }
    });
  }
};

/// Rows of the data with its first M axes merged into one.
inline AxisRows tupleRows(Dims data, const TupleIndices &indices) {
  const int64_t all[] = {indices.numRows(), productOf(data.drop_front(indices.axes.size())).nearest()};
  return AxisRows(all, 0);
}

/// Calls loop(copy), where copy(to, from) copies `bytes` bytes.
template <class F> void withCopyOf(size_t bytes, F loop) {
  auto ofSize = [&](auto size) {
    loop([](char *to, const char *from) { std::memcpy(to, from, decltype(size)::value); });
  };
  if (bytes == 8) return ofSize(std::integral_constant<size_t, 8>());
  if (bytes == 4) return ofSize(std::integral_constant<size_t, 4>());
  loop([bytes](char *to, const char *from) { std::memcpy(to, from, bytes); });
}

/// to[o, j, k] = from[o, index of j, k]; `rows` are those of `from`.
template <class Indices>
void pickRows(const TensorRef &to, const TensorRef &from, const AxisRows &rows, const Indices &indices) {
  const size_t bytes = static_cast<size_t>(rows.inner) * dtypeBytes(to.dtype);
  withCopyOf(bytes, [&](auto copy) {
    for (int64_t o = 0; o < rows.outer; ++o) {
      char *part = to.as<char>() + static_cast<size_t>(o * indices.count()) * bytes;
      const char *whole = from.as<const char>() + static_cast<size_t>(o * rows.length) * bytes;
      indices.forEach([&](int64_t j, int64_t at) {
        copy(part + static_cast<size_t>(j) * bytes, whole + static_cast<size_t>(at) * bytes);
      });
    }
  });
}

/// to[index of j, k] = from[j, k], the last one where an index repeats.
template <class Indices>
void putRows(const TensorRef &to, const TensorRef &from, int64_t inner, const Indices &indices) {
  const size_t bytes = static_cast<size_t>(inner) * dtypeBytes(to.dtype);
  withCopyOf(bytes, [&](auto copy) {
    indices.forEach([&](int64_t j, int64_t at) {
      copy(to.as<char>() + static_cast<size_t>(at) * bytes, from.as<const char>() + static_cast<size_t>(j) * bytes);
    });
  });
}

/// Positions grouped by the row that each names, in order within a group: a counting sort.
class RowGroups {
 public:
  static size_t scratchBytes(int64_t numRows, int64_t count) {
    return static_cast<size_t>(numRows + count + 2) * sizeof(int64_t);
  }

  template <class Indices>
  RowGroups(void *scratch, int64_t numRows, const Indices &indices)
      : begin(static_cast<int64_t *>(scratch)), positions(begin + numRows + 2) {
    std::fill_n(begin, numRows + 2, 0);
    indices.forEach([&](int64_t, int64_t row) { ++begin[row + 2]; });
    for (int64_t row = 0; row < numRows; ++row) begin[row + 2] += begin[row + 1];
    // begin[row + 1] moves from the start of the row's group to its end.
    indices.forEach([&](int64_t j, int64_t row) { positions[begin[row + 1]++] = j; });
  }

  llvm::ArrayRef<int64_t> operator[](int64_t row) const { return {positions + begin[row], positions + begin[row + 1]}; }
  /// The work of the preceding rows: one unit per row, and one for each of their positions.
  int64_t workBefore(int64_t row) const { return begin[row] + row; }

 private:
  int64_t *begin, *positions;
};

/// Rows and columns of a result; each element is computed separately, so any division gives the same bits.
struct RowRange {
  int64_t firstRow, lastRow, firstColumn, lastColumn;
};
inline RowRange allOf(const AxisRows &rows) { return {0, rows.length, 0, rows.inner}; }

/// to[o, r, k] = base[o, r, k] + Σ of from[o, j, k] over the positions j that name row r, in order; without a base,
/// starting from 0. The base may be `to`; `rows` are those of `to`.
template <class T>
void addRows(T *to, const T *base, const T *from, const AxisRows &rows, int64_t count, const RowGroups &groups,
             RowRange range) {
  constexpr int64_t kChunk = 256;
  Accumulator<T> total[kChunk];
  for (int64_t o = 0; o < rows.outer; ++o)
    for (int64_t r = range.firstRow; r < range.lastRow; ++r) {
      const int64_t row = (o * rows.length + r) * rows.inner;
      for (int64_t first = range.firstColumn; first < range.lastColumn; first += kChunk) {
        const int64_t size = std::min(kChunk, range.lastColumn - first);
        for (int64_t k = 0; k < size; ++k) total[k] = base ? static_cast<Accumulator<T>>(base[row + first + k]) : 0;
        for (int64_t j : groups[r]) {
          const T *part = from + (o * count + j) * rows.inner + first;
          for (int64_t k = 0; k < size; ++k) total[k] = wrappingAdd(total[k], static_cast<Accumulator<T>>(part[k]));
        }
        for (int64_t k = 0; k < size; ++k) to[row + first + k] = static_cast<T>(total[k]);
      }
    }
}

/// The same for an element type known only at run time; `base` may be null. `scratch` is that of RowGroups.
template <class Indices>
void addRows(const TensorRef &to, const void *base, const TensorRef &from, const AxisRows &rows, const Indices &indices,
             void *scratch) {
  const RowGroups groups(scratch, rows.length, indices);
  dispatchNumeric(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    addRows<T>(to.as<T>(), static_cast<const T *>(base), from.as<const T>(), rows, indices.count(), groups,
               allOf(rows));
  });
}

/// Fails if indices pick elements from an axis that has none.
void checkNotEmpty(ShapeInference &s, ShapeRef data, size_t axis, ShapeRef indices);

/// Numbers as float64 indices in range: clipped to [0, size) or, in any other mode, modulo `size`, a tensor of one
/// element.
Value indicesInRange(DecomposeRule &d, Value numbers, Value size, IndexMode mode);
/// The size of an axis as float64 of shape (1,); the axis must not be negative.
Value sizeOfAxis(DecomposeRule &d, Value data, size_t axis);
/// Zeros of the shape of an input that only gives positions: its gradient in MXNet.
void zeroGradientOf(GradRule &g, size_t input);

}  // namespace gradc
