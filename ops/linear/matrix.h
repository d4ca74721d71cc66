// Products of matrices in strided memory, shared by dot, linalg_gemm and attention.
// Tested by tests/ops/reduce_ops_test.cc, tests/ops/network_ops_test.cc
#pragma once

#include "ir/rules/grad_rule.h"
#include "ops/linear/dot.h"

namespace gradc {

/// Element (i, j) is data[i · rowStride + j · columnStride].
template <class T> struct MatrixView {
  T *data;
  int64_t rowStride, columnStride;
};

template <class T> MatrixView<T> transposed(MatrixView<T> matrix) {
  return {matrix.data, matrix.columnStride, matrix.rowStride};
}
template <class T> MatrixView<T> transposedIf(bool isTransposed, MatrixView<T> matrix) {
  return isTransposed ? transposed(matrix) : matrix;
}

/// out[i, j] = factor · Σ a[i, l] · b[l, j], summed left to right in float64.
template <class T>
void multiply(MatrixView<T> out, MatrixView<const T> a, MatrixView<const T> b, const DotExtents &extents,
              double factor = 1) {
  for (int64_t i = 0; i < extents.m; ++i)
    for (int64_t j = 0; j < extents.n; ++j) {
      double total = 0;
      for (int64_t l = 0; l < extents.k; ++l)
        total += static_cast<double>(a.data[i * a.rowStride + l * a.columnStride]) *
                 static_cast<double>(b.data[l * b.rowStride + j * b.columnStride]);
      out.data[i * out.rowStride + j * out.columnStride] = static_cast<T>(total * factor);
    }
}

/// out_i = factor · op(a_i) · op(b_i) for i < count, op the transposition or nothing. `Out` and `In` yield matrix i,
/// whose columns are next to each other, by `at(i)`.
template <class Out, class In> struct MatrixProducts {
  Out out;
  In a, b;
  bool transA, transB;
  DotExtents extents;
  int64_t count;
  double factor = 1;

  void compute() const {
    for (int64_t i = 0; i < count; ++i)
      multiply(out.at(i), transposedIf(transA, a.at(i)), transposedIf(transB, b.at(i)), extents, factor);
  }
};

/// The text of the attributes transpose_a and transpose_b.
inline llvm::StringRef transposeText(bool isTransposed) { return isTransposed ? "True" : "False"; }
/// op(a) · op(b) by `dot` or `batch_dot`.
inline Value emitProduct(RuleContext &rule, const OpDef &product, Value a, Value b, bool transposesA,
                         bool transposesB) {
  return rule.emit(product, {a, b},
                   {{"transpose_a", transposeText(transposesA)}, {"transpose_b", transposeText(transposesB)}});
}

}  // namespace gradc
