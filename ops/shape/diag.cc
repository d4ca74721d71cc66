// Diagonals: of the matrices along two axes, or the matrix that has a vector as its diagonal. Linear; the backward
// operator is the adjoint. Tested by tests/ops/indexing_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/tensor/dim.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/kit/slice_rules.h"
#include "ops/shape/strided_view.h"

using namespace llvm;

namespace gradc {
namespace {

struct DiagParams {
  int64_t k = 0, axis1 = 0, axis2 = 1;
};
constexpr AttrSpec kAttrs[] = {
    attr<&DiagParams::k>("k", "0", "which diagonal: 0 the main one, positive above, negative below it"),
    ofAxis(attr<&DiagParams::axis1>("axis1", "0", "axis of the rows; negative: from the end; not used for a vector")),
    ofAxis(
        attr<&DiagParams::axis2>("axis2", "1", "axis of the columns; negative: from the end; not used for a vector")),
};

// The axes of the matrices, for data of two axes or more.
struct DiagAxes {
  size_t rows, columns;
};
std::optional<DiagAxes> axesOf(const DiagParams &p, size_t rank) {
  const std::optional<size_t> rows = normalizeAxis(p.axis1, rank), columns = normalizeAxis(p.axis2, rank);
  if (!rows || !columns || *rows == *columns) return std::nullopt;
  return DiagAxes{*rows, *columns};
}

Dim magnitude(int64_t k) { return k < 0 ? -Dim(k) : Dim(k); }

// Elements of diagonal k of a matrix; negative where it is outside.
Dim lengthOf(int64_t k, int64_t rows, int64_t columns) {
  const Dim below = k < 0 ? Dim(rows) + k : Dim(rows), beside = k > 0 ? Dim(columns) - k : Dim(columns);
  return std::min(below, beside);
}

void matrixShape(ShapeInference &s) {
  const DiagParams &p = s.params<DiagParams>();
  if (s.out(0).hasRank() && s.out(0).rank() == 2 && s.out(0)[0] != kUnknownDim)
    s.setIn(0, {(Dim(s.out(0)[0]) - magnitude(p.k)).inShape()});
  if (s.hasFailed()) return;
  const int64_t length = s.in(0)[0],
                size = length == kUnknownDim ? kUnknownDim : (Dim(length) + magnitude(p.k)).inShape();
  s.setOut(0, {size, size});
}

void diagShape(ShapeInference &s) {
  const DiagParams &p = s.params<DiagParams>();
  if (!s.in(0).hasRank()) return;
  const size_t rank = s.in(0).rank();
  if (rank == 1) return matrixShape(s);
  if (rank == 0) return s.fail("data has no axes, expected at least one");
  const std::optional<DiagAxes> axes = axesOf(p, rank);
  if (!axes)
    return s.fail("axes " + Twine(p.axis1) + " and " + Twine(p.axis2) + " are not two axes of data of shape " +
                  toString(s.in(0)));
  DimsBuffer in(s.in(0).dims()), out;
  for (size_t axis = 0; axis < rank; ++axis)
    if (axis != axes->rows && axis != axes->columns) out.push_back(in[axis]);
  const int64_t rows = in[axes->rows], columns = in[axes->columns];
  out.push_back(kUnknownDim);
  if (rows != kUnknownDim && columns != kUnknownDim) {
    const Dim length = lengthOf(p.k, rows, columns);
    if (length < 0)
      return s.fail("there is no diagonal " + Twine(p.k) + " in matrices of " + Twine(rows) + " by " + Twine(columns));
    out.back() = length.inShape();
  }
  s.setOut(0, out);
  if (s.hasFailed()) return;
  size_t next = 0;
  for (size_t axis = 0; axis < rank; ++axis)
    if (axis != axes->rows && axis != axes->columns) in[axis] = s.out(0)[next++];
  s.setIn(0, in);
}

// Where the elements of the diagonals are in `matrices`.
StridedView diagonals(const DiagParams &p, DiagAxes axes, Dims matrices) {
  const StridedView all = wholeView(matrices);
  StridedView view;
  for (size_t axis = 0; axis < matrices.size(); ++axis) {
    if (axis == axes.rows || axis == axes.columns) continue;
    view.dims.push_back(all.dims[axis]);
    view.strides.push_back(all.strides[axis]);
  }
  const int64_t length = lengthOf(p.k, matrices[axes.rows], matrices[axes.columns]).nearest();
  view.dims.push_back(length);
  view.strides.push_back(all.strides[axes.rows] + all.strides[axes.columns]);
  if (length > 0) view.offset = p.k > 0 ? p.k * all.strides[axes.columns] : -p.k * all.strides[axes.rows];
  return view;
}

// Output 0 = the diagonals of input 0, or zeros with input 0 on their diagonals.
void readDiagonals(const KernelCall &call, DiagAxes axes) {
  if (call.wants(0)) gatherView(call.out[0], call.in[0], diagonals(call.params<DiagParams>(), axes, call.in[0].shape));
}
void writeDiagonals(const KernelCall &call, DiagAxes axes) {
  if (call.wants(0)) scatterOnZeros(call, diagonals(call.params<DiagParams>(), axes, call.out[0].shape));
}

constexpr DiagAxes kMatrix = {0, 1};

void diagKernel(const KernelCall &call) {
  const size_t rank = call.in[0].shape.size();
  rank == 1 ? writeDiagonals(call, kMatrix) : readDiagonals(call, *axesOf(call.params<DiagParams>(), rank));
}

void diagBackwardKernel(const KernelCall &call) {
  const size_t rank = call.out[0].shape.size();
  rank == 1 ? readDiagonals(call, kMatrix) : writeDiagonals(call, *axesOf(call.params<DiagParams>(), rank));
}

// Moves dy's last axis, along the diagonals, to the rows of data, repeats it in every column, and keeps the elements
// whose column is k more than their row.
void decomposeBackward(DecomposeRule &d) {
  const DiagParams &p = d.params<DiagParams>();
  const Value data = d.forwardInput(0);
  const size_t rank = d.rank(data);
  if (rank == 1) return d.y(0, d.emit(kDiag, {d.x(0)}, {{"k", d.number(p.k)}}));
  const DiagAxes axes = axesOf(p, rank).value_or(kMatrix);
  const StringRef rows = d.number(static_cast<int64_t>(axes.rows)),
                  columns = d.number(static_cast<int64_t>(axes.columns));
  DimsBuffer order;
  for (size_t axis = 0; axis + 2 < rank; ++axis) order.push_back(static_cast<int64_t>(axis));
  order.insert(order.begin() + axes.rows - (axes.rows > axes.columns), static_cast<int64_t>(rank - 2));
  const Value along = d.emit(kTranspose, {d.x(0)}, {{"axes", d.tuple(order)}});
  const Value part = d.emit(kExpandDims, {along}, {{"axis", columns}});
  // For its shape alone, so that nothing keeps data.
  const Value firstColumn = d.emit(kSum, {d.emit(kZerosLike, {data})}, {{"axis", columns}, {"keepdims", "True"}});
  AxisCut cut{static_cast<int64_t>(axes.rows)};
  if (p.k < 0) cut.begin = magnitude(p.k).nearest();
  const Value spread = d.emit(kBroadcastLike, {amongZeros(d, part, firstColumn, cut), data});
  const Value row = d.emit(kIndexLike, {data}, {{"axis", rows}}),
              column = d.emit(kIndexLike, {data}, {{"axis", columns}});
  const Value isOnDiagonal = d.emit(kEqualScalar, {d.emit(kElemwiseSub, {column, row})}, {{"scalar", d.number(p.k)}});
  d.y(0, d.emit(kWhere, {isOnDiagonal, spread, d.emit(kZerosLike, {spread})}));
}

extern const OpDef kBackwardDiag;

}  // namespace

constinit const OpDef kDiag = asMovementOfData({
    .name = "diag",
    .summary = "y[…,i] = x[…] at (i, i + k) of two axes, or the matrix with a vector on its diagonal k",
    .attrs = kAttrs,
    .params = paramsOf<DiagParams>(),
    .shape = diagShape,
    .gradient = [](GradRule &g) { g.fused(kBackwardDiag, {g.dy(0)}); },
    .primitive = {.onnx = "Shape, Range, GatherND; of a vector: ConstantOfShape, ScatterND",
                  .c = "y[i] = x[i * n + i + k]; of a vector: y[i * n + i + k] = x[i] among zeros"},
    .kernel = diagKernel,
});

namespace {

constinit const OpDef kBackwardDiag = {
    .name = "_backward_diag",
    .summary = "gradient of diag: zeros with dy on the diagonals, or the diagonal of dy",
    .inputs = {"dy"},
    .attrs = kAttrs,
    .params = paramsOf<DiagParams>(),
    .flags = {.isBackward = true},
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kDiag, SmallVector<Value, 1>{g.dy(0)}, g.attrs())); },
    .decompose = decomposeBackward,
    .kernel = diagBackwardKernel,
};

}  // namespace

constinit const OpFamily kDiagFamily = kOps<kDiag, kBackwardDiag>;

}  // namespace gradc
