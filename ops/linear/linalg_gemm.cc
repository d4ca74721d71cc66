// Matrix products with factors over batches: MXNet's linalg_gemm2, y = alpha · op(A) · op(B), and linalg_gemm, which
// adds beta · C.
//
// Columns run along the last axis, rows along `axis`, all other axes count the matrices of the batch. The gradients are
// such products again. Tested by tests/ops/network_ops_test.cc
#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/kit/primitives.h"
#include "ops/linear/linalg_gemm.h"

#include <algorithm>

using namespace llvm;

namespace gradc {
namespace {

constexpr AttrSpec kTransposeA =
    attr<&GemmParams::transposeA>("transpose_a", "False", "whether the matrices of A are transposed");
constexpr AttrSpec kTransposeB =
    attr<&GemmParams::transposeB>("transpose_b", "False", "whether the matrices of B are transposed");
constexpr AttrSpec kAlpha = attr<&GemmParams::alpha>("alpha", "1", "factor of the product");
constexpr AttrSpec kAxis = ofAxis(attr<&GemmParams::axis>(
    "axis", "-2", "the axis that rows run along, not the last; negative: counted from the end"));
constexpr AttrSpec kGemm2Attrs[] = {kTransposeA, kTransposeB, kAlpha, kAxis};
constexpr AttrSpec kGemmAttrs[] = {kTransposeA, kTransposeB, kAlpha,
                                   attr<&GemmParams::beta>("beta", "1", "factor of C"), kAxis};

// Positions of the operands and the result in a node: inputs, except for the result of a forward node.
struct GemmPorts {
  size_t lhs, rhs;
  std::optional<size_t> addend, result;
};

class GemmShapes {
 public:
  GemmShapes(ShapeInference &s, GemmPorts at) : s(s), at(at), p(s.params<GemmParams>()) {}

  void relate() {
    std::optional<size_t> rank;
    for (size_t i = 0; i < s.numInputs(); ++i)
      if (s.in(i).hasRank()) rank = rank.value_or(s.in(i).rank());
    if (!at.result && s.out(0).hasRank()) rank = rank.value_or(s.out(0).rank());
    if (!rank) return;
    if (*rank < 2) return s.fail("operands have rank " + Twine(*rank) + ", expected at least 2");
    const std::optional<size_t> rows = normalizeAxis(p.axis, *rank);
    if (!rows || *rows + 1 == *rank)
      return s.fail("axis " + Twine(p.axis) + " is out of range for the rows of " + Twine(*rank) +
                    "-dimensional operands, whose last axis is that of the columns");
    const DimsBuffer unknown(*rank, kUnknownDim);
    state(unknown, unknown, unknown);
    if (!s.hasFailed()) relate(*rows, *rank - 1);
  }

 private:
  ShapeRef result() const { return at.result ? s.in(*at.result) : s.out(0); }

  void relate(size_t rows, size_t columns) {
    DimsBuffer a(s.in(at.lhs).dims()), b(s.in(at.rhs).dims()), y(result().dims());
    if (at.addend)
      for (size_t i = 0; i < y.size(); ++i) y[i] = std::max(y[i], s.in(*at.addend)[i]);
    for (size_t i = 0; i < columns; ++i)
      if (i != rows) a[i] = b[i] = y[i] = std::max({a[i], b[i], y[i]});
    auto unify = [](int64_t &left, int64_t &right) { left = right = std::max(left, right); };
    unify(a[p.transposeA ? columns : rows], y[rows]);
    unify(b[p.transposeB ? rows : columns], y[columns]);
    unify(a[p.transposeA ? rows : columns], b[p.transposeB ? columns : rows]);
    state(a, b, y);
  }

  void state(Dims a, Dims b, Dims y) {
    s.setIn(at.lhs, a);
    s.setIn(at.rhs, b);
    if (at.addend) s.setIn(*at.addend, y);
    if (at.result) s.setIn(*at.result, y);
    else s.setOut(0, y);
  }

  ShapeInference &s;
  const GemmPorts at;
  const GemmParams &p;
};

void backwardShape(ShapeInference &s, GemmPorts at) {
  auto relateGradients = [&] {
    for (size_t o = 0; o < s.numOutputs(); ++o) s.sameInOut(o + 1, o);
  };
  relateGradients();  // the forward node gives the shapes of the outputs
  if (!s.hasFailed()) GemmShapes(s, at).relate();
  relateGradients();
}

constexpr auto kCompute = [](const auto &products) { products.compute(); };

void forwardKernel(const KernelCall &call) {
  dispatchFloating(call.out[0].dtype, [&](auto zero) { gemmProducts<decltype(zero)>(call, kCompute); });
}
void backwardKernel(const KernelCall &call) {
  dispatchFloating(call.in[0].dtype, [&](auto zero) { gemmGradients<decltype(zero)>(call, kCompute); });
}

extern const OpDef kGemm2, kBackwardGemm, kBackwardGemm2;

void decomposeProduct(DecomposeRule &d) {
  const GemmParams &p = d.params<GemmParams>();
  const size_t rank = d.rank(d.x(0));
  const std::optional<size_t> rows = normalizeAxis(p.axis, rank);
  if (!rows || rank < 2) return d.refuse(ErrorKind::InferConflict, "needs matrices");
  // Moves the axis of rows next to that of columns, and back.
  auto aligned = [&](Value v) {
    if (*rows + 2 == rank) return v;
    return d.emit(kSwapAxis, {v}, {{"dim1", d.number(static_cast<int64_t>(*rows))}, {"dim2", "-2"}});
  };
  auto asBatch = [&](Value v) {
    for (size_t left = rank; left > 3; --left) v = d.emit(kReshape, {v}, {{"shape", "(-3,-2)"}});
    return v;
  };
  const Value a = aligned(d.x(0)), b = aligned(d.x(1));
  Value y = emitProduct(d, rank == 2 ? kDot : kBatchDot, asBatch(a), asBatch(b), p.transposeA, p.transposeB);
  if (p.alpha != 1) y = d.emit(kMulScalar, {y}, {{"scalar", d.number(p.alpha)}});
  if (rank > 3) {
    const StringRef end = d.number(static_cast<int64_t>(rank - 2));
    y = d.emit(kReshapeLike, {y, a}, {{"lhs_begin", "0"}, {"lhs_end", "1"}, {"rhs_begin", "0"}, {"rhs_end", end}});
  }
  d.y(0, aligned(y));
}

// alpha · op(a) · op(b), its rows along the same axis.
Value scaledProduct(DecomposeRule &d, Value a, Value b, bool transposesA, bool transposesB) {
  const GemmParams &p = d.params<GemmParams>();
  return d.emit(kGemm2, {a, b},
                {{"transpose_a", transposeText(transposesA)},
                 {"transpose_b", transposeText(transposesB)},
                 {"alpha", d.number(p.alpha)},
                 {"axis", d.number(p.axis)}});
}

Value timesBeta(DecomposeRule &d, Value v) {
  return d.emit(kMulScalar, {v}, {{"scalar", d.number(d.params<GemmParams>().beta)}});
}

void decomposeSum(DecomposeRule &d) {
  const GemmParams &p = d.params<GemmParams>();
  d.y(0, d.emit(kElemwiseAdd, {scaledProduct(d, d.x(0), d.x(1), p.transposeA, p.transposeB), timesBeta(d, d.x(2))}));
}

void decomposeBackward(DecomposeRule &d) {
  const bool ta = d.params<GemmParams>().transposeA, tb = d.params<GemmParams>().transposeB;
  const Value dy = d.x(0), a = d.x(1), b = d.x(2);
  if (d.wants(0)) d.y(0, ta ? scaledProduct(d, b, dy, tb, true) : scaledProduct(d, dy, b, false, !tb));
  if (d.wants(1)) d.y(1, tb ? scaledProduct(d, dy, a, true, ta) : scaledProduct(d, a, dy, !ta, false));
  if (d.numOutputs() == 3 && d.wants(2)) d.y(2, timesBeta(d, dy));
}

constinit const OpDef kGemm2 = {
    .name = "_linalg_gemm2",
    .aliases = {"linalg_gemm2"},
    .summary = "y = alpha·op(A)·op(B) for every matrix of a batch, rows along `axis`, op the transposition or nothing",
    .inputs = {"A", "B"},
    .attrs = kGemm2Attrs,
    .params = paramsOf<GemmParams>(),
    .shape = [](ShapeInference &s) { GemmShapes(s, {.lhs = 0, .rhs = 1, .addend = {}, .result = {}}).relate(); },
    .gradient = [](GradRule &g) { g.fused(kBackwardGemm2, {g.dy(0), g.x(0), g.x(1)}); },
    .decompose = decomposeProduct,
    .kernel = forwardKernel,
};

constinit const OpDef kGemm = {
    .name = "_linalg_gemm",
    .aliases = {"linalg_gemm"},
    .summary = "y = alpha·op(A)·op(B) + beta·C for every matrix of a batch, rows along `axis`, op the transposition or "
               "nothing",
    .inputs = {"A", "B", "C"},
    .attrs = kGemmAttrs,
    .params = paramsOf<GemmParams>(),
    .shape = [](ShapeInference &s) { GemmShapes(s, {.lhs = 0, .rhs = 1, .addend = 2, .result = {}}).relate(); },
    .gradient = [](GradRule &g) { g.fused(kBackwardGemm, {g.dy(0), g.x(0), g.x(1), g.x(2)}); },
    .decompose = decomposeSum,
    .kernel = forwardKernel,
};

constinit const OpDef kBackwardGemm2 = {
    .name = "_backward_linalg_gemm2",
    .summary = "gradients of linalg_gemm2: d op(A) = alpha·dy·op(B)ᵀ, d op(B) = alpha·op(A)ᵀ·dy",
    .inputs = {"dy", "A", "B"},
    .outputs = {"dA", "dB"},
    .attrs = kGemm2Attrs,
    .params = paramsOf<GemmParams>(),
    .shape = [](ShapeInference &s) { backwardShape(s, {.lhs = 1, .rhs = 2, .addend = {}, .result = 0}); },
    .flags = {.isBackward = true},
    .decompose = decomposeBackward,
    .kernel = backwardKernel,
};

constinit const OpDef kBackwardGemm = {
    .name = "_backward_linalg_gemm",
    .summary = "gradients of linalg_gemm: d op(A) = alpha·dy·op(B)ᵀ, d op(B) = alpha·op(A)ᵀ·dy, dC = beta·dy",
    .inputs = {"dy", "A", "B", "C"},
    .outputs = {"dA", "dB", "dC"},
    .attrs = kGemmAttrs,
    .params = paramsOf<GemmParams>(),
    .shape = [](ShapeInference &s) { backwardShape(s, {.lhs = 1, .rhs = 2, .addend = 3, .result = 0}); },
    .ignored = {3},
    .flags = {.isBackward = true},
    .decompose = decomposeBackward,
    .kernel = backwardKernel,
};

}  // namespace

constinit const OpFamily kLinalgGemmFamily = kOps<kGemm2, kGemm, kBackwardGemm2, kBackwardGemm>;

}  // namespace gradc
