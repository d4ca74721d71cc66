// Rows of a tensor replaced by others. Linear in both. Tested by tests/ops/indexing_ops_test.cc
#include "ops/elementwise/elementwise.h"
#include "ops/index/rows.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {

namespace {

// old (r, …), index (n,), new (n, …).
void relateCopies(ShapeInference &s, size_t old, size_t index, size_t replacing) {
  s.setIn(index, {kUnknownDim});
  if (s.hasFailed()) return;
  for (size_t input : {old, replacing})
    if (s.in(input).hasRank() && s.in(input).rank() == 0) return s.fail("tensors of no axes have no rows to copy");
  auto rows = [&](size_t from, size_t to, int64_t count) {
    if (s.hasFailed() || !s.in(from).hasRank()) return;
    DimsBuffer dims(s.in(from).dims());
    dims[0] = count;
    s.setIn(to, dims);
  };
  rows(old, replacing, s.in(index)[0]);
  if (s.hasFailed()) return;
  rows(replacing, old, kUnknownDim);
  if (s.hasFailed() || !s.in(replacing).hasRank()) return;
  s.setIn(index, {s.in(replacing)[0]});
  if (s.in(old).hasRank()) checkNotEmpty(s, s.in(old), 0, s.in(index));
}

void copyKernel(const KernelCall &call) {
  copyBytes(call);
  if (!call.wants(0) || call.out[0].size() == 0) return;
  putRows(call.out[0], call.in[2], AxisRows(call.out[0].shape, 0).inner, copiedRows(call.in[1], call.out[0].shape));
}

// Rows of `new` that a later row replaced get zero gradients.
void copyBackwardKernel(const KernelCall &call) {
  const TensorRef &dy = call.in[0];
  const size_t row = static_cast<size_t>(AxisRows(dy.shape, 0).inner) * dtypeBytes(dy.dtype);
  if (call.wants(1)) std::memset(call.out[1].data, 0, call.out[1].bytes());
  const AxisIndices indices = copiedRows(call.in[2], dy.shape);
  if (call.wants(2) && call.out[2].size() > 0) {
    std::memset(call.out[2].data, 0, call.out[2].bytes());
    const RowGroups groups(call.workspace, indices.size, indices);
    indices.forEach([&](int64_t j, int64_t at) {
      if (groups[at].back() == j)
        std::memcpy(call.out[2].as<char>() + static_cast<size_t>(j) * row,
                    dy.as<const char>() + static_cast<size_t>(at) * row, row);
    });
  }
  if (!call.wants(0) || dy.size() == 0) return;
  std::memcpy(call.out[0].data, dy.data, dy.bytes());
  indices.forEach(
      [&](int64_t, int64_t at) { std::memset(call.out[0].as<char>() + static_cast<size_t>(at) * row, 0, row); });
}

// Whether row j is kept: row numbers are copied in the same way, and row j is kept if its number is.
Value isKept(DecomposeRule &d, Value data, Value index) {
  const Value number = d.emit(kCast, {d.emit(kIndexLike, {index})}, {{"dtype", "float64"}});
  const Value lines = d.emit(kSum, {d.emit(kZerosLike, {data})}, {{"axis", "0"}, {"exclude", "True"}});
  const Value empty = d.emit(kCast, {lines}, {{"dtype", "float64"}});
  const Value tuples = d.emit(kExpandDims, {index}, {{"axis", "0"}});
  const Value last = d.emit(kScatterNd, {empty, number, tuples});
  return d.emit(kEqual, {d.emit(kGatherNd, {last, tuples}), number});
}

Value keptRows(DecomposeRule &d, Value data, Value index, Value rows) {
  return d.emit(kWhere, {isKept(d, data, index), rows, d.emit(kZerosLike, {rows})});
}

// The rows that are replaced again change nothing; no gradient gets to them, which _scatter_nd would let through.
void decomposeCopy(DecomposeRule &d) {
  const Value old = d.x(0), index = d.x(1), tuples = d.emit(kExpandDims, {index}, {{"axis", "0"}});
  d.y(0, d.emit(kScatterNd, {old, keptRows(d, old, index, d.x(2)), tuples}));
}

constexpr Domain kDomains[] = {Domain::Any, Domain::Index, Domain::Any};
constexpr Domain kBackwardDomains[] = {Domain::Any, Domain::Any, Domain::Index, Domain::Any};

extern const OpDef kBackwardIndexCopy;

constinit const OpDef kIndexCopy = asMovement({
    .name = "_contrib_index_copy",
    .summary = "old_tensor with row index_vector[j] replaced by row j of new_tensor, for each j in order",
    .inputs = {"old_tensor", "index_vector", "new_tensor"},
    .shape =
        [](ShapeInference &s) {
          s.sameInOut(0, 0);
          relateCopies(s, 0, 1, 2);
          s.sameInOut(0, 0);
        },
    .dtype =
        [](DTypeInference &t) {
          t.sameInIn(0, 2);
          t.sameInOut(0, 0);
          t.sameInIn(0, 2);
        },
    .inplace = kInplaceFirst,
    .stopped = {1},
    .domains = kDomains,
    .gradient =
        [](GradRule &g) {
          g.fused(kBackwardIndexCopy, {g.dy(0), g.x(0), g.x(1), g.x(2)});
          g.noGrad(1);
        },
    .decompose = decomposeCopy,
    .kernel = copyKernel,
});

// Only the shapes of old_tensor and new_tensor are used. The adjoint is index_copy: rows go back where they came from.
constinit const OpDef kBackwardIndexCopy = {
    .name = "_contrib_backward_index_copy",
    .summary = "gradients of _contrib_index_copy: dy without the replaced rows, and those rows",
    .inputs = {"ograd", "old_tensor", "index_vector", "new_tensor"},
    .outputs = {"old_grad", "index_grad", "new_grad"},
    .shape =
        [](ShapeInference &s) {
          s.sameInIn(0, 1);
          s.sameInOut(1, 0);
          s.sameInOut(2, 1);
          s.sameInOut(3, 2);
          if (!s.hasFailed()) relateCopies(s, 0, 2, 3);
        },
    .dtype =
        [](DTypeInference &t) {
          t.sameInOut(0, 0);
          t.sameInOut(0, 2);
          t.sameInOut(2, 1);
        },
    .ignored = {1, 3},
    .stopped = {1, 2, 3},
    .flags = {.isBackward = true},
    .domains = kBackwardDomains,
    .gradient =
        [](GradRule &g) {
          for (size_t input : {1, 2, 3}) g.noGrad(input);
          if (g.isZero(0) && g.isZero(2)) return g.noGrad(0);
          const Value rows = g.isZero(2) ? g.emit(kZerosLike, {g.x(3)}) : g.dy(2);
          const Value others = g.isZero(0) ? g.emit(kZerosLike, {g.x(0)}) : g.dy(0);
          g.dx(0, g.emit(kIndexCopy, {others, g.x(2), rows}));
        },
    .decompose =
        [](DecomposeRule &d) {
          const Value tuples = d.emit(kExpandDims, {d.x(2)}, {{"axis", "0"}});
          if (d.wants(0)) d.y(0, d.emit(kScatterNd, {d.x(0), d.emit(kZerosLike, {d.x(3)}), tuples}));
          if (d.wants(1)) d.y(1, d.emit(kZerosLike, {d.x(2)}));
          if (!d.wants(2)) return;
          d.y(2, keptRows(d, d.x(0), d.x(2), d.emit(kGatherNd, {d.x(0), tuples})));
        },
    .kernel = copyBackwardKernel,
    .workspace = [](const NodeKind &, ArrayRef<TensorRef> in,
                    ArrayRef<TensorRef>) { return RowGroups::scratchBytes(in[0].shape[0], in[2].size()); },
};

}  // namespace

constinit const OpFamily kIndexCopyFamily = kOps<kIndexCopy, kBackwardIndexCopy>;

}  // namespace gradc
