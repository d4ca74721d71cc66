// Products over one axis: MXNet's `dot`, and its fused gradient.
//
// y = A·B is bilinear; with dy it makes the trilinear form ⟨dy, A·B⟩, whose derivatives toward A and B are the two
// outputs of `_backward_dot`(dy, A, B). With u of A's shape and v of B's, the gradient of ⟨u, dA⟩ + ⟨v, dB⟩ is u·B +
// A·v toward dy, and toward A and B the two outputs of `_backward_dot`(dy, u, v). So the pair is closed to every order,
// whatever the ranks. Tested by tests/ops/reduce_ops_test.cc
#include "ops/linear/dot.h"

#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/kit/families.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/kit/primitives.h"
#include "ops/linear/matrix.h"

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

// Where lhs, rhs and the result of the product are among the entries of a node.
struct DotPorts {
  size_t lhs, rhs, result;
  bool isForward;  // the result is an output of the node, not an input
};

ShapeRef resultShape(const ShapeInference &s, DotPorts at) { return at.isForward ? s.out(at.result) : s.in(at.result); }

void stateShapes(ShapeInference &s, DotPorts at, Dims lhs, Dims rhs, Dims result) {
  s.setIn(at.lhs, lhs);
  s.setIn(at.rhs, rhs);
  if (at.isForward) s.setOut(at.result, result);
  else s.setIn(at.result, result);
}

// Infers the result from both ranks, and the operands from the result's dimensions and the shared axis.
void relateShapes(ShapeInference &s, DotPorts at) {
  if (!s.in(at.lhs).hasRank() || !s.in(at.rhs).hasRank()) return;
  const DotParams &params = s.params<DotParams>();
  DimsBuffer a(s.in(at.lhs).dims()), b(s.in(at.rhs).dims());
  if (a.empty() || b.empty()) return s.fail("an operand has no dimensions, expected at least one");
  const size_t axisA = params.transposeA ? 0 : a.size() - 1, axisB = params.transposeB ? b.size() - 1 : 0;
  if (a[axisA] != kUnknownDim && b[axisB] != kUnknownDim && a[axisA] != b[axisB])
    return s.fail("shapes " + toString(s.in(at.lhs)) + " and " + toString(s.in(at.rhs)) +
                  " differ in the axis summed over: " + Twine(a[axisA]) + " and " + Twine(b[axisB]));
  const int64_t shared = a[axisA] == kUnknownDim ? b[axisB] : a[axisA];
  a[axisA] = b[axisB] = shared;
  if (a.size() + b.size() == 2) return stateShapes(s, at, a, b, int64_t{1});
  DimsBuffer out;
  for (size_t axis = 0; axis < a.size(); ++axis)
    if (axis != axisA) out.push_back(a[axis]);
  for (size_t axis = 0; axis < b.size(); ++axis)
    if (axis != axisB) out.push_back(b[axis]);
  stateShapes(s, at, a, b, out);
  if (s.hasFailed()) return;
  out = DimsBuffer(resultShape(s, at).dims());
  size_t next = 0;
  for (size_t axis = 0; axis < a.size(); ++axis)
    if (axis != axisA) a[axis] = out[next++];
  for (size_t axis = 0; axis < b.size(); ++axis)
    if (axis != axisB) b[axis] = out[next++];
  stateShapes(s, at, a, b, out);
}

// op(tensor) as a matrix of `columns` columns, where op transposes if `isTransposed`.
template <class T> MatrixView<T> matrixOf(const TensorRef &tensor, int64_t rows, int64_t columns, bool isTransposed) {
  return isTransposed ? MatrixView<T>{tensor.as<T>(), 1, rows} : MatrixView<T>{tensor.as<T>(), columns, 1};
}

void dotKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const DotTransposes is = dotTransposes(*call.kind);
  const DotExtents size = dotExtents(is, call.in[0].shape, call.in[1].shape);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    multiply<T>(matrixOf<T>(call.out[0], size.m, size.n, false), matrixOf<const T>(call.in[0], size.m, size.k, is.a),
                matrixOf<const T>(call.in[1], size.k, size.n, is.b), size);
  });
}

// With A = op(lhs), B = op(rhs): dA = dY · Bᵀ, dB = Aᵀ · dY; each is stored through the strides of its operand.
void dotBackwardKernel(const KernelCall &call) {
  const DotTransposes is = dotTransposes(*call.kind);
  const DotExtents size = dotExtents(is, call.in[1].shape, call.in[2].shape);
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto dy = matrixOf<const T>(call.in[0], size.m, size.n, false);
    const auto a = matrixOf<const T>(call.in[1], size.m, size.k, is.a);
    const auto b = matrixOf<const T>(call.in[2], size.k, size.n, is.b);
    if (call.wants(0))
      multiply<T>(matrixOf<T>(call.out[0], size.m, size.k, is.a), dy, transposed(b), {size.m, size.k, size.n});
    if (call.wants(1))
      multiply<T>(matrixOf<T>(call.out[1], size.k, size.n, is.b), transposed(a), dy, {size.k, size.n, size.m});
  });
}

extern const OpDef kBackwardDot;

}  // namespace

constinit const OpDef kDot = {
    .name = "dot",
    .aliases = {"_sparse_dot"},
    .summary =
        "sum of products over the last axis of lhs and the first of rhs: y[i, j] = sum over l of lhs[i, l] * rhs[l, j]",
    .inputs = {"lhs", "rhs"},
    .attrs = kDotAttrs,
    .params = paramsOf<DotParams>(),
    .shape = [](ShapeInference &s) { relateShapes(s, {.lhs = 0, .rhs = 1, .result = 0, .isForward = true}); },
    .gradient = [](GradRule &g) { g.fused(kBackwardDot, {g.dy(0), g.x(0), g.x(1)}); },
    .primitive = {.onnx = "Einsum", .c = "y[i,j] += a[i,l] * b[l,j]"},
    .kernel = dotKernel,
};

namespace {

// The term of a zero gradient is left out; the operand in its place only affects an output that is not requested.
void gradientOfBackward(GradRule &g) {
  const Value dy = g.x(0), a = g.x(1), b = g.x(2);
  const bool hasU = !g.isZero(0), hasV = !g.isZero(1);
  if (g.wants(0)) {
    const Value left = hasU ? g.emit(kDot, {g.dy(0), b}, g.attrs()) : Value();
    const Value right = hasV ? g.emit(kDot, {a, g.dy(1)}, g.attrs()) : Value();
    g.dx(0, hasU && hasV ? g.emit(kElemwiseAdd, {left, right}) : hasU ? left : right);
  }
  const bool needsA = g.wants(1) && hasV, needsB = g.wants(2) && hasU;
  if (!needsA) g.noGrad(1);
  if (!needsB) g.noGrad(2);
  if (!needsA && !needsB) return;
  const Value both = g.emitFused(kBackwardDot, {dy, hasU ? g.dy(0) : a, hasV ? g.dy(1) : b}, g.attrs(), g.forward());
  if (needsA) g.dx(1, both);
  if (needsB) g.dx(2, g.at(both, 1));
}

// v as a matrix: its first `first` axes become the rows, the next `second` the columns.
Value asMatrix(DecomposeRule &d, Value v, size_t first, size_t second) {
  for (; first > 1; --first) v = d.emit(kReshape, {v}, {{"shape", "(-3,-2)"}});  // the first two axes as one
  if (first == 0) v = d.emit(kExpandDims, {v}, {{"axis", "0"}});
  if (second == 0 && first == 1) v = d.emit(kExpandDims, {v}, {{"axis", "1"}});
  return second > 1 ? d.emit(kFlatten, {v}) : v;
}

// Merges the axes that are not summed over, after which both gradients are matrix products.
void decomposeBackward(DecomposeRule &d) {
  const DotTransposes is = dotTransposes(d.kind());
  const size_t rowAxes = d.rank(d.x(1)) - 1, columnAxes = d.rank(d.x(2)) - 1;
  const Value dy = asMatrix(d, d.x(0), rowAxes, columnAxes);
  auto product = [&](Value a, bool transposesA, Value b, bool transposesB, Value like) {
    return d.emit(kReshapeLike, {emitProduct(d, kDot, a, b, transposesA, transposesB), like});
  };
  if (d.wants(0)) {
    const Value b = is.b ? asMatrix(d, d.x(2), columnAxes, 1) : asMatrix(d, d.x(2), 1, columnAxes);
    d.y(0, is.a ? product(b, is.b, dy, true, d.x(1)) : product(dy, false, b, !is.b, d.x(1)));
  }
  if (!d.wants(1)) return;
  const Value a = is.a ? asMatrix(d, d.x(1), 1, rowAxes) : asMatrix(d, d.x(1), rowAxes, 1);
  d.y(1, is.b ? product(dy, true, a, is.a, d.x(2)) : product(a, !is.a, dy, false, d.x(2)));
}

constinit const OpDef kBackwardDot = {
    .name = "_backward_dot",
    .summary =
        "gradient of dot: dlhs = dy * rhs^T, drhs = lhs^T * dy, summed over the axes of dy that are not lhs' or rhs'",
    .inputs = {"dy", "lhs", "rhs"},
    .outputs = {"dlhs", "drhs"},
    .attrs = kDotAttrs,
    .params = paramsOf<DotParams>(),
    .shape =
        [](ShapeInference &s) {
          auto relateGradients = [&] {
            s.sameInOut(1, 0);
            s.sameInOut(2, 1);
          };
          relateGradients();  // the forward node gives the shapes of the outputs
          relateShapes(s, {.lhs = 1, .rhs = 2, .result = 0, .isForward = false});
          relateGradients();
        },
    .flags = {.isBackward = true},
    .gradient = gradientOfBackward,
    .decompose = decomposeBackward,
    .kernel = dotBackwardKernel,
};

}  // namespace

DotTransposes dotTransposes(const NodeKind &kind) {
  return {kind.params<DotParams>().transposeA, kind.params<DotParams>().transposeB};
}

DotExtents dotExtents(DotTransposes transposes, Dims lhs, Dims rhs) {
  auto sizeOf = [](Dims dims) { return TensorRef{nullptr, DType::Unknown, dims}.size(); };
  return {sizeOf(transposes.a ? lhs.drop_front() : lhs.drop_back()),
          sizeOf(transposes.b ? rhs.drop_back() : rhs.drop_front()), transposes.a ? lhs.front() : lhs.back()};
}

constinit const OpFamily kDotFamily = kOps<kDot, kBackwardDot>;

}  // namespace gradc
