// Sums over the rows of a matrix. Tested by tests/fast_kernels_test.cc
#pragma once

#include "runtime/kernels/vector_loops.h"

#include <algorithm>

namespace gradc::fast {

/// sums[c] = Σ matrix[r, c], added from the first row to the last regardless of the number of threads. Rows are `stride`
/// elements apart.
template <class T> void sumColumns(const T *matrix, int64_t stride, int64_t rows, int64_t columns, T *__restrict sums) {
  constexpr int64_t kGrain = 32768;  // fewer elements are not worth a second thread
  constexpr int64_t kColumns = 64;   // that stay on one thread
  vectorFor(scopeThreads(), columns, std::max<int64_t>(kGrain / std::max<int64_t>(rows, 1), kColumns),
            [&](int64_t begin, int64_t end) {
              std::fill(sums + begin, sums + end, T{0});
              for (int64_t row = 0; row < rows; ++row)
                for (int64_t c = begin; c < end; ++c) sums[c] += matrix[row * stride + c];
            });
}
template <class T> void sumColumns(const T *matrix, int64_t rows, int64_t columns, T *sums) {
  sumColumns(matrix, columns, rows, columns, sums);
}

}  // namespace gradc::fast
