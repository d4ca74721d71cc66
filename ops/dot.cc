// Products over one axis: MXNet's `dot`. Tested by tests/reduce_ops_test.cc
#include "ir/grad_rule.h"
#include "ir/inference.h"
#include "ir/kernel.h"
#include "ops/families.h"
#include "ops/kernel_dispatch.h"
#include "ops/layer_attrs.h"
#include "ops/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

struct DotParams {
  bool transposeA, transposeB;
  StringRef storage;
};
constexpr AttrSpec kDotAttrs[] = {
    attr<&DotParams::transposeA>("transpose_a", "False", "whether the first axis of lhs is the one summed over"),
    attr<&DotParams::transposeB>("transpose_b", "False", "whether the last axis of rhs is the one summed over"),
    attr<&DotParams::storage>("forward_stype", "None", "storage of the result, as the file says; not used"),
};

// Operands as matrices: lhs (m, k) or, transposed, (k, m); rhs (k, n) or (n, k). m and n gather all remaining axes.
struct Extents {
  int64_t m, n, k;
};

Extents extentsOf(const DotParams &params, Dims lhs, Dims rhs) {
  const int64_t k = params.transposeA ? lhs.front() : lhs.back();
  const int64_t sizeA = TensorRef{nullptr, DType::Unknown, lhs}.size();
  const int64_t sizeB = TensorRef{nullptr, DType::Unknown, rhs}.size();
  return {k ? sizeA / k : 0, k ? sizeB / k : 0, k};
}

// Forward from both ranks; backward from the result's dimensions and the shared axis.
void dotShape(ShapeInference &s) {
  if (!s.in(0).hasRank() || !s.in(1).hasRank()) return;
  const DotParams &params = s.params<DotParams>();
  DimsBuffer a(s.in(0).dims()), b(s.in(1).dims());
  if (a.empty() || b.empty()) return s.fail("an operand has no dimensions, expected at least one");
  const size_t axisA = params.transposeA ? 0 : a.size() - 1, axisB = params.transposeB ? b.size() - 1 : 0;
  if (a[axisA] != kUnknownDim && b[axisB] != kUnknownDim && a[axisA] != b[axisB])
    return s.fail("shapes " + toString(s.in(0)) + " and " + toString(s.in(1)) + " differ in the axis summed over: " +
                  Twine(a[axisA]) + " and " + Twine(b[axisB]));
  const int64_t shared = a[axisA] == kUnknownDim ? b[axisB] : a[axisA];
  a[axisA] = b[axisB] = shared;
  const size_t rank = a.size() + b.size() - 2;
  if (rank == 0) {
    s.setIn(0, a);
    s.setIn(1, b);
    return s.setOut(0, int64_t{1});
  }
  DimsBuffer out;
  for (size_t axis = 0; axis < a.size(); ++axis)
    if (axis != axisA) out.push_back(a[axis]);
  for (size_t axis = 0; axis < b.size(); ++axis)
    if (axis != axisB) out.push_back(b[axis]);
  s.setOut(0, out);
  if (s.hasFailed()) return;
  size_t next = 0;
  for (size_t axis = 0; axis < a.size(); ++axis)
    if (axis != axisA) a[axis] = s.out(0)[next++];
  for (size_t axis = 0; axis < b.size(); ++axis)
    if (axis != axisB) b[axis] = s.out(0)[next++];
  s.setIn(0, a);
  s.setIn(1, b);
}

// One matrix product with strides: out[i, j] = Σ a[i, l] · b[l, j], summed left to right in float64.
struct Matrix {
  const TensorRef *tensor;
  int64_t rowStride, columnStride;
};

template <class T> void multiply(const Matrix &out, const Matrix &a, const Matrix &b, const Extents &extents) {
  for (int64_t i = 0; i < extents.m; ++i)
    for (int64_t j = 0; j < extents.n; ++j) {
      double total = 0;
      for (int64_t l = 0; l < extents.k; ++l)
        total += static_cast<double>(a.tensor->as<const T>()[i * a.rowStride + l * a.columnStride]) *
                 b.tensor->as<const T>()[l * b.rowStride + j * b.columnStride];
      out.tensor->as<T>()[i * out.rowStride + j * out.columnStride] = static_cast<T>(total);
    }
}

Matrix transposed(const Matrix &matrix) { return {matrix.tensor, matrix.columnStride, matrix.rowStride}; }

// op(tensor) as a matrix of `columns` columns, where op transposes if `isTransposed`.
Matrix matrixOf(const TensorRef &tensor, int64_t rows, int64_t columns, bool isTransposed) {
  return isTransposed ? Matrix{&tensor, 1, rows} : Matrix{&tensor, columns, 1};
}

void dotKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const DotParams &params = call.params<DotParams>();
  const Extents size = extentsOf(params, call.in[0].shape, call.in[1].shape);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    multiply<decltype(zero)>(matrixOf(call.out[0], size.m, size.n, false),
                             matrixOf(call.in[0], size.m, size.k, params.transposeA),
                             matrixOf(call.in[1], size.k, size.n, params.transposeB), size);
  });
}

// With A = op(lhs), B = op(rhs): dA = dY · Bᵀ, dB = Aᵀ · dY; each is stored through the strides of its operand.
void dotBackwardKernel(const KernelCall &call) {
  const DotParams &params = call.params<DotParams>();
  const Extents size = extentsOf(params, call.in[1].shape, call.in[2].shape);
  const Matrix dy = matrixOf(call.in[0], size.m, size.n, false);
  const Matrix a = matrixOf(call.in[1], size.m, size.k, params.transposeA);
  const Matrix b = matrixOf(call.in[2], size.k, size.n, params.transposeB);
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    if (call.wants(0))
      multiply<T>(matrixOf(call.out[0], size.m, size.k, params.transposeA), dy, transposed(b), {size.m, size.k, size.n});
    if (call.wants(1))
      multiply<T>(matrixOf(call.out[1], size.k, size.n, params.transposeB), transposed(a), dy, {size.k, size.n, size.m});
  });
}

Value emitDot(DecomposeRule &d, Value a, Value b, bool transposeA, bool transposeB) {
  return d.emit(kDot, {a, b}, {{"transpose_a", transposeA ? "True" : "False"}, {"transpose_b", transposeB ? "True" : "False"}});
}

extern const OpDef kBackwardDot;

}  // namespace

// dA = dY · op(B)ᵀ, dB = op(A)ᵀ · dY, each transposed back
constinit const OpDef kDot = {
    .name = "dot",
    .aliases = {"_sparse_dot"},
    .summary = "sum of products over the last axis of lhs and the first of rhs: y[i, j] = sum over l of lhs[i, l] * rhs[l, j]",
    .inputs = {"lhs", "rhs"},
    .attrs = kDotAttrs,
    .params = paramsOf<DotParams>(),
    .shape = dotShape,
    .gradient = [](GradRule &g) { g.fused(kBackwardDot, {g.dy(0), g.x(0), g.x(1)}); },
    .kernel = dotKernel,
};

namespace {

// The decomposition is for matrices: with more axes the sums of the second order run over several at once.
constinit const OpDef kBackwardDot = {
    .name = "_backward_dot",
    .summary = "gradient of dot: dlhs = dy * rhs^T, drhs = lhs^T * dy; beyond the first order for matrices only",
    .inputs = {"dy", "lhs", "rhs"},
    .outputs = {"dlhs", "drhs"},
    .attrs = kDotAttrs,
    .params = paramsOf<DotParams>(),
    .shape =
        [](ShapeInference &s) {
          s.sameInOut(1, 0);
          s.sameInOut(2, 1);
        },
    .flags = {.isBackward = true},
    .decompose =
        [](DecomposeRule &d) {
          const bool ta = d.params<DotParams>().transposeA, tb = d.params<DotParams>().transposeB;
          if (d.wants(0))
            d.y(0, ta ? emitDot(d, d.x(2), d.x(0), tb, true) : emitDot(d, d.x(0), d.x(2), false, !tb));
          if (d.wants(1))
            d.y(1, tb ? emitDot(d, d.x(0), d.x(1), true, ta) : emitDot(d, d.x(1), d.x(0), !ta, false));
        },
    .kernel = dotBackwardKernel,
};

constexpr const OpDef *kOps[] = {&kDot, &kBackwardDot};

}  // namespace

DotTransposes dotTransposes(const NodeKind &kind) {
  return {kind.params<DotParams>().transposeA, kind.params<DotParams>().transposeB};
}

constinit const OpFamily kDotFamily = kOps;

}  // namespace gradc
