// Shared by the reference and fast kernels of linalg_gemm. Tested by tests/ops/network_ops_test.cc
#pragma once

#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/linear/matrix.h"

namespace gradc {

/// Of linalg_gemm, linalg_gemm2 and their gradients.
struct GemmParams {
  bool transposeA = false, transposeB = false;
  double alpha = 1, beta = 1;
  int64_t axis = -2;
};

/// The matrices of a tensor, numbered along the other axes: rows along `axis`, columns along the last one.
template <class T> struct MatrixBatch {
  T *data;
  int64_t rows, columns, inner = 1, outer = 1;

  MatrixBatch(const TensorRef &tensor, int64_t axis) : data(tensor.as<T>()), columns(tensor.shape.back()) {
    const size_t rowAxis = *normalizeAxis(axis, tensor.shape.size());
    rows = tensor.shape[rowAxis];
    for (int64_t dim : tensor.shape.take_front(rowAxis)) outer *= dim;
    for (int64_t dim : tensor.shape.slice(rowAxis + 1).drop_back()) inner *= dim;
  }
  int64_t count() const { return outer * inner; }
  MatrixView<T> at(int64_t i) const {
    return {data + (i / inner * rows * inner + i % inner) * columns, inner * columns, 1};
  }
};

/// out = alpha · op(a) · op(b) for every matrix; `out` may be stored transposed.
template <class T>
auto gemmProduct(const GemmParams &p, const TensorRef &out, const TensorRef &a, const TensorRef &b, bool transOut,
                 bool transA, bool transB) {
  const MatrixBatch<T> to(out, p.axis);
  const MatrixBatch<const T> left(transOut ? b : a, p.axis), right(transOut ? a : b, p.axis);
  const bool transLeft = transOut ? !transB : transA, transRight = transOut ? !transA : transB;
  const DotExtents extents = {to.rows, to.columns, transLeft ? left.rows : left.columns};
  return MatrixProducts{to, left, right, transLeft, transRight, extents, to.count(), p.alpha};
}

/// The operators as matrix products: multiply(products) for every requested output.
template <class T, class F> void gemmProducts(const KernelCall &call, F multiply) {
  if (!call.wants(0)) return;
  const GemmParams &p = call.params<GemmParams>();
  multiply(gemmProduct<T>(p, call.out[0], call.in[0], call.in[1], false, p.transposeA, p.transposeB));
  if (call.in.size() < 3) return;
  T *y = call.out[0].as<T>();
  const T *c = call.in[2].as<const T>();
  for (int64_t i = 0, size = call.out[0].size(); i < size; ++i) y[i] += static_cast<T>(p.beta) * c[i];
}

/// d op(A) = alpha · dy · op(B)ᵀ and d op(B) = alpha · op(A)ᵀ · dy, stored as A and B are; dC = beta · dy.
template <class T, class F> void gemmGradients(const KernelCall &call, F multiply) {
  const GemmParams &p = call.params<GemmParams>();
  const TensorRef &dy = call.in[0], &a = call.in[1], &b = call.in[2];
  if (call.wants(0)) multiply(gemmProduct<T>(p, call.out[0], dy, b, p.transposeA, false, !p.transposeB));
  if (call.wants(1)) multiply(gemmProduct<T>(p, call.out[1], a, dy, p.transposeB, !p.transposeA, false));
  if (call.out.size() < 3 || !call.wants(2)) return;
  const T *from = dy.as<const T>();
  T *dc = call.out[2].as<T>();
  for (int64_t i = 0, size = call.out[2].size(); i < size; ++i) dc[i] = static_cast<T>(p.beta) * from[i];
}

}  // namespace gradc
