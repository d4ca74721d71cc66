// batch_dot: one matrix product per element of a batch. Bilinear; its gradients are batch_dot again, so it is closed to
// every order. Tested by tests/ops/layer_ops_test.cc
#include "ops/linear/batch_dot.h"

#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/kit/families.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/kit/primitives.h"
#include "ops/linear/matrix.h"

#include <algorithm>

using namespace llvm;

namespace gradc {
namespace {

struct BatchDotParams {
  bool transposeA = false, transposeB = false;
  StringRef storage;
};

constexpr AttrSpec kAttrs[] = {
    attr<&BatchDotParams::transposeA>("transpose_a", "False", "whether the matrices of lhs are transposed"),
    attr<&BatchDotParams::transposeB>("transpose_b", "False", "whether the matrices of rhs are transposed"),
    attr<&BatchDotParams::storage>("forward_stype", "None", "storage of the result, as the file says; not used"),
};

// lhs is (b, m, k), or (b, k, m) transposed; rhs (b, k, n) or (b, n, k); the result (b, m, n).
void relateShapes(ShapeInference &s) {
  const BatchDotParams &p = s.params<BatchDotParams>();
  const DimsBuffer unknown(3, kUnknownDim);
  s.setIn(0, unknown);
  s.setIn(1, unknown);
  s.setOut(0, unknown);
  if (s.hasFailed()) return;
  const ShapeRef a = s.in(0), b = s.in(1), y = s.out(0);
  const size_t rowAxis = p.transposeA ? 2 : 1, columnAxis = p.transposeB ? 1 : 2;
  const int64_t batch = std::max({a[0], b[0], y[0]}), rows = std::max(a[rowAxis], y[1]);
  const int64_t columns = std::max(b[columnAxis], y[2]), shared = std::max(a[3 - rowAxis], b[3 - columnAxis]);
  int64_t lhs[3] = {batch, rows, shared}, rhs[3] = {batch, shared, columns};
  if (p.transposeA) std::swap(lhs[1], lhs[2]);
  if (p.transposeB) std::swap(rhs[1], rhs[2]);
  s.setIn(0, lhs);
  s.setIn(1, rhs);
  s.setOut(0, {batch, rows, columns});
}

template <class T> void multiply(const KernelCall &call) {
  const BatchDotParams &p = call.params<BatchDotParams>();
  const Dims shape = call.out[0].shape;
  const int64_t rows = shape[1], columns = shape[2], shared = call.in[0].shape[p.transposeA ? 1 : 2];
  const int64_t rowStep = p.transposeA ? 1 : shared, sharedStep = p.transposeA ? rows : 1;
  const int64_t columnStep = p.transposeB ? shared : 1, depthStep = p.transposeB ? 1 : columns;
  constexpr int64_t kMost = 256;  // columns added up at once
  for (int64_t batch = 0; batch < shape[0]; ++batch)
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t first = 0; first < columns; first += kMost) {
        const int64_t count = std::min(kMost, columns - first);
        const T *a = call.in[0].as<const T>() + batch * rows * shared + row * rowStep;
        const T *b = call.in[1].as<const T>() + batch * shared * columns + first * columnStep;
        double sums[kMost] = {};
        for (int64_t k = 0; k < shared; ++k) {
          const double factor = static_cast<double>(a[k * sharedStep]);
          for (int64_t column = 0; column < count; ++column)
            sums[column] += factor * static_cast<double>(b[k * depthStep + column * columnStep]);
        }
        T *y = call.out[0].as<T>() + (batch * rows + row) * columns + first;
        std::transform(sums, sums + count, y, [](double sum) { return static_cast<T>(sum); });
      }
}

Value product(GradRule &g, Value a, Value b, bool transposesA, bool transposesB) {
  return emitProduct(g, kBatchDot, a, b, transposesA, transposesB);
}

// With op(a)·op(b) = y: d op(a) = dy · op(b)ᵀ, d op(b) = op(a)ᵀ · dy; a transposed operand gets the transposed product.
void batchDotGradient(GradRule &g) {
  const BatchDotParams &p = g.params<BatchDotParams>();
  const bool ta = p.transposeA, tb = p.transposeB;
  if (g.wants(0)) g.dx(0, ta ? product(g, g.x(1), g.dy(0), tb, true) : product(g, g.dy(0), g.x(1), false, !tb));
  if (g.wants(1)) g.dx(1, tb ? product(g, g.dy(0), g.x(0), true, ta) : product(g, g.x(0), g.dy(0), !ta, false));
}

}  // namespace

constinit const OpDef kBatchDot = {
    .name = "batch_dot",
    .aliases = {"_npx_batch_dot"},
    .summary = "y[b] = op(lhs[b]) · op(rhs[b]) for every element of the batch, op the transposition or nothing",
    .inputs = {"lhs", "rhs"},
    .attrs = kAttrs,
    .params = paramsOf<BatchDotParams>(),
    .shape = relateShapes,
    .gradient = batchDotGradient,
    .primitive = {.onnx = "MatMul, after Transpose where requested", .c = "y[n,i,j] += a[n,i,l] * b[n,l,j]"},
    .kernel =
        [](const KernelCall &call) {
          if (!call.wants(0)) return;
          dispatchFloating(call.out[0].dtype, [&](auto zero) { multiply<decltype(zero)>(call); });
        },
};

DotTransposes batchDotTransposes(const NodeKind &kind) {
  return {kind.params<BatchDotParams>().transposeA, kind.params<BatchDotParams>().transposeB};
}

constinit const OpFamily kBatchDotFamily = kOps<kBatchDot>;

}  // namespace gradc
