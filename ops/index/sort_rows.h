// What operators that order elements share: stable, NaN after all numbers in either direction.
// Tested by tests/ops/ordering_ops_test.cc
#pragma once

#include "ops/kit/axis_rows.h"

#include "llvm/ADT/ArrayRef.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace gradc {

/// What is to be ordered, without the parameter structs of the operators.
struct OrderAttrs {
  AxisRows rows;  // without an axis, all elements as one
  int64_t taken;  // of each row
  bool isAscending;
  bool isMask = false;                                // output 0 is 1 where elements are taken, and 0 elsewhere
  std::optional<size_t> values = {}, positions = {};  // outputs
};

/// The first `count` elements of `order` become the positions that sort the elements row[0], row[stride], …, which are
/// as many as `order` has. Equal elements keep their order.
template <class T>
void sortRow(const T *row, int64_t stride, bool isAscending, llvm::MutableArrayRef<int64_t> order, int64_t count) {
  std::iota(order.begin(), order.end(), int64_t{0});
  auto isBefore = [=](int64_t i, int64_t j) {
    const T a = row[i * stride], b = row[j * stride];
    if (a != a || b != b) return a == a ? true : b == b ? false : i < j;
    if (a != b) return isAscending ? a < b : b < a;
    return i < j;
  };
  // The order is total, so both algorithms give the same result.
  if (count < static_cast<int64_t>(order.size()))
    std::partial_sort(order.begin(), order.begin() + count, order.end(), isBefore);
  else std::sort(order.begin(), order.end(), isBefore);
}

/// Calls visit(row, order) with the positions that sort each row of `rows`, of which the first `count` are sorted.
/// `scratch` holds rows.length positions.
template <class T, class F>
void sortRows(const T *x, const AxisRows &rows, bool isAscending, int64_t count, void *scratch, F visit) {
  const llvm::MutableArrayRef<int64_t> order(static_cast<int64_t *>(scratch), static_cast<size_t>(rows.length));
  for (int64_t row = 0; row < rows.count(); ++row) {
    sortRow(x + rows.begin(row), rows.inner, isAscending, order, count);
    visit(row, llvm::ArrayRef<int64_t>(order));
  }
}

}  // namespace gradc
