// Double precision products by Eigen, compiled once per instruction set (runtime/BUILD.bazel). GRADC_GEMM_SET names the
// set and Eigen's namespace: with one name in two sets, the linker would merge the functions and keep either one. For
// the same reason nothing else with inline functions is included. Tested by tests/runtime/kernels/fast_kernels_test.cc
#define GRADC_JOIN_NAMES(a, b) a##b
#define GRADC_JOIN(a, b) GRADC_JOIN_NAMES(a, b)
#define Eigen GRADC_JOIN(gradc_eigen_, GRADC_GEMM_SET)
#define EIGEN_DONT_PARALLELIZE
#include <eigen3/Eigen/Core>

#include "runtime/kernels/matrix/gemm_double.h"

namespace gradc {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Rows = Eigen::OuterStride<>;
using Input = Eigen::Map<const Matrix, Eigen::Unaligned, Rows>;
using Output = Eigen::Map<Matrix, Eigen::Unaligned, Rows>;

template <class A> void addProduct(const A &a, const Input &b, bool transB, Output &c) {
  if (transB) c.noalias() += a * b.transpose();
  else c.noalias() += a * b;
}

}  // namespace

void GRADC_JOIN(multiply_, GRADC_GEMM_SET)(const Gemm<double> &g) {
  const Input a(g.a, g.transA ? g.k : g.m, g.transA ? g.m : g.k, Rows(g.lda));
  const Input b(g.b, g.transB ? g.n : g.k, g.transB ? g.k : g.n, Rows(g.ldb));
  Output c(g.c, g.m, g.n, Rows(g.ldc));
  if (g.beta == 0) c.setZero();
  else if (g.beta != 1) c *= g.beta;
  if (g.transA) addProduct(a.transpose(), b, g.transB, c);
  else addProduct(a, b, g.transB, c);
}

}  // namespace gradc
