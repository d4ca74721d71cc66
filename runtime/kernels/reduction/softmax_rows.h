// Softmax and its logarithm over the rows of a tensor, in either precision and along any axis.
//
// Adjacent rows with strided elements are computed side by side, rows of contiguous elements one at a time.
// Tested by tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ops/kit/axis_rows.h"
#include "runtime/kernels/core/channel_loops.h"
#include "runtime/kernels/elementwise/float_functions.h"

namespace gradc::fast {

inline constexpr int64_t kRowGrain = 2048;  // fewer elements of softmax are not worth a second thread
inline constexpr int64_t kRowBlock = 64;    // rows side by side

/// `width` adjacent rows: row r has element k at first + k · inner + r.
struct RowBlock {
  int64_t first, width;
};

/// The number of the block's first row.
inline int64_t rowNumber(const AxisRows &rows, RowBlock block) {
  const int64_t perOuter = rows.length * rows.inner;
  return block.first / perOuter * rows.inner + block.first % perOuter;
}

/// Calls body(block) for blocks of rows, divided among threads; if elements of a row are contiguous, a block is one
/// row.
template <class F> void forRowBlocks(const AxisRows &rows, unsigned threads, F body) {
  const int64_t width = std::min(rows.inner, kRowBlock), perOuter = (rows.inner + width - 1) / width;
  const int64_t grain = std::max<int64_t>(kRowGrain / (rows.length * width), 1);
  vectorFor(threads, rows.outer * perOuter, grain, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t row = at % perOuter * width;
      body(RowBlock{at / perOuter * rows.length * rows.inner + row, std::min(width, rows.inner - row)});
    }
  });
}

/// Calls visit(i, r) for element i of row r of the block; elements of one row in order.
template <class F> void forElements(const AxisRows &rows, RowBlock block, F visit) {
  if (rows.inner == 1) {
    GRADC_INDEPENDENT
    for (int64_t i = block.first; i < block.first + rows.length; ++i) visit(i, 0);
    return;
  }
  for (int64_t k = 0; k < rows.length; ++k) {
    const int64_t first = block.first + k * rows.inner;
    GRADC_INDEPENDENT
    for (int64_t r = 0; r < block.width; ++r) visit(first + r, r);
  }
}

/// totals[r] = Σ term(i) over row r of the block.
template <class T, class Term> void sumRows(const AxisRows &rows, RowBlock block, Term term, double *totals) {
  std::fill(totals, totals + block.width, 0.0);
  if (rows.inner == 1) return addRun<T, 1>(block.first, rows.length, [=](int64_t i, T *v) { v[0] = term(i); }, totals);
  forElements(rows, block, [=](int64_t i, int64_t r) { totals[r] += static_cast<double>(term(i)); });
}

/// Of the elements times `sign`, which is 1 or −1.
template <class T> void largestOfRows(const AxisRows &rows, RowBlock block, const T *x, T sign, T *largest) {
  std::fill(largest, largest + block.width, -std::numeric_limits<T>::infinity());
  if (rows.inner != 1)
    return forElements(rows, block, [=](int64_t i, int64_t r) { largest[r] = std::max(largest[r], x[i] * sign); });
  T lanes[kLanes];
  std::fill(lanes, lanes + kLanes, largest[0]);
  int64_t i = block.first;
  for (const int64_t end = block.first + rows.length; i < end; i += kLanes)
    for (int64_t l = 0; l < std::min(kLanes, end - i); ++l) lanes[l] = std::max(lanes[l], x[i + l] * sign);
  for (const T lane : lanes) largest[0] = std::max(largest[0], lane);
}

/// y = softmax of x · factor along the rows of the block, or its logarithm. x and y may be the same memory. The largest
/// element is subtracted before the multiplication: products of large elements would round more than their differences,
/// or be infinite.
template <class T> struct RowSoftmax {
  const T *x;
  T *y;
  T factor;
  bool isLog;

  void run(const AxisRows &rows, RowBlock block) const {
    T largest[kRowBlock];
    double totals[kRowBlock] = {};
    const T *from = x, sign = std::copysign(T{1}, factor), scale = std::abs(factor);
    largestOfRows(rows, block, x, sign, largest);
    T *to = y;
    if (isLog) {
      forElements(rows, block, [=, &largest](int64_t i, int64_t r) { to[i] = (from[i] * sign - largest[r]) * scale; });
      sumRows<T>(rows, block, [=](int64_t i) { return math::expOfNonPositive(to[i]); }, totals);
      for (int64_t r = 0; r < block.width; ++r) largest[r] = static_cast<T>(std::log(totals[r]));
      forElements(rows, block, [=, &largest](int64_t i, int64_t r) { to[i] -= largest[r]; });
      return;
    }
    forElements(rows, block, [=, &largest](int64_t i, int64_t r) {
      to[i] = math::expOfNonPositive((from[i] * sign - largest[r]) * scale);
    });
    sumRows<T>(rows, block, [=](int64_t i) { return to[i]; }, totals);
    for (int64_t r = 0; r < block.width; ++r) largest[r] = static_cast<T>(1 / totals[r]);
    forElements(rows, block, [=, &largest](int64_t i, int64_t r) { to[i] *= largest[r]; });
  }
};

}  // namespace gradc::fast
