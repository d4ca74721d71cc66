// Slices picked along an axis: take, and Embedding, which is take from the rows of a table, with their gradients.
//
// Linear in the data; each backward operator is the adjoint, and each is the gradient of the other. Gradients are dense
// for any sparse_grad. Tested by tests/ops/indexing_ops_test.cc, tests/ops/layer_ops_test.cc
#include "ops/index/take.h"

#include "ops/elementwise/elementwise.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

struct TakeParams {
  int64_t axis = 0;
  IndexMode mode = IndexMode::Clip;
};

constexpr AttrSpec kTakeAttrs[] = {
    ofAxis(attr<&TakeParams::axis>("axis", "0", "axis to pick along; negative: from the end")),
    attr<&TakeParams::mode>("mode", "clip",
                            "indices outside the axis: its nearest end, an error, or modulo its length"),
};

// The picked slices have the axes of the indices in place of the one picked along. Two of three ranks give the third.
void takeShape(ShapeInference &s) {
  const int64_t given = s.params<TakeParams>().axis;
  std::optional<size_t> rank, numIndexAxes;
  if (s.in(0).hasRank()) rank = s.in(0).rank();
  if (s.in(1).hasRank()) numIndexAxes = s.in(1).rank();
  if (s.out(0).hasRank()) {
    const size_t all = s.out(0).rank();
    if (rank && !numIndexAxes && all + 1 >= *rank) numIndexAxes = all + 1 - *rank;
    if (!rank && numIndexAxes && all + 1 > *numIndexAxes) rank = all + 1 - *numIndexAxes;
  }
  if (!rank) return;
  const std::optional<size_t> axis = normalizeAxis(given, *rank);
  if (!axis && s.in(0).hasRank())
    return s.fail("axis " + Twine(given) + " is out of range for data of shape " + toString(s.in(0)));
  if (!axis || !numIndexAxes) return;
  DimsBuffer data(*rank, kUnknownDim), indices(*numIndexAxes, kUnknownDim), picked;
  if (s.in(0).hasRank()) data = DimsBuffer(s.in(0).dims());
  if (s.in(1).hasRank()) indices = DimsBuffer(s.in(1).dims());
  picked.append(data.begin(), data.begin() + *axis);
  picked.append(indices.begin(), indices.end());
  picked.append(data.begin() + *axis + 1, data.end());
  s.setOut(0, picked);
  if (s.hasFailed()) return;
  const Dims known = s.out(0).dims(), behind = known.drop_front(*axis + indices.size());
  std::copy_n(known.begin(), *axis, data.begin());
  std::copy(behind.begin(), behind.end(), data.begin() + *axis + 1);
  s.setIn(0, data);
  s.setIn(1, known.slice(*axis, indices.size()));
  checkNotEmpty(s, s.in(0), *axis, s.in(1));
}

size_t takenAxis(const NodeKind &kind, Dims data) {
  return *normalizeAxis(kind.params<TakeParams>().axis, data.size());
}

// Transposes so that axes [from, from + count) move to `to`.
Value moveAxes(DecomposeRule &d, Value v, size_t rank, size_t from, size_t count, size_t to) {
  if (from == to || count == 0) return v;
  DimsBuffer axes;
  for (size_t axis = 0; axis < rank; ++axis)
    if (axis < from || axis >= from + count) axes.push_back(static_cast<int64_t>(axis));
  for (size_t i = 0; i < count; ++i) axes.insert(axes.begin() + to + i, static_cast<int64_t>(from + i));
  return d.emit(kTranspose, {v}, {{"axes", d.tuple(axes)}});
}

// The ranks, axis and tuples with which take and its adjoint use gather_nd and _scatter_nd, which pick along axis 0.
struct TakenRows {
  size_t rank = 1, axis = 0, numIndexAxes = 0;
  Value tuples;  // of one index each

  TakenRows(DecomposeRule &d, Value data, Value indices) : rank(d.rank(data)), numIndexAxes(d.rank(indices)) {
    const TakeParams &p = d.params<TakeParams>();
    axis = normalizeAxis(p.axis, rank).value_or(0);
    const Value inRange = indicesInRange(d, indices, sizeOfAxis(d, data, axis), p.mode);
    tuples = d.emit(kExpandDims, {inRange}, {{"axis", "0"}});
  }
};

void decomposeTake(DecomposeRule &d) {
  const TakenRows rows(d, d.x(0), d.x(1));
  const Value picked = d.emit(kGatherNd, {moveAxes(d, d.x(0), rows.rank, rows.axis, 1, 0), rows.tuples});
  d.y(0, moveAxes(d, picked, rows.rank - 1 + rows.numIndexAxes, 0, rows.numIndexAxes, rows.axis));
}

void decomposeTakeBackward(DecomposeRule &d) {
  if (d.wants(1)) d.y(1, d.emit(kZerosLike, {d.x(1)}));
  if (!d.wants(0)) return;
  const Value data = d.forwardInput(0);
  const TakenRows rows(d, data, d.x(1));
  const Value dy = moveAxes(d, d.x(0), rows.rank - 1 + rows.numIndexAxes, rows.axis, rows.numIndexAxes, 0);
  const Value zeros = d.emit(kZerosLike, {moveAxes(d, data, rows.rank, rows.axis, 1, 0)});
  const Value sums = d.emit(kScatterNd, {zeros, dy, rows.tuples}, {{"reduction", "add"}});
  d.y(0, moveAxes(d, sums, rows.rank, 0, 1, rows.axis));
}

// Output 0 has the type of operand 0; the other output, if any, that of operand 1.
void pairedTypes(DTypeInference &t) {
  for (size_t i = 0; i < t.numOutputs(); ++i) t.sameInOut(i, i);
}

constexpr Domain kTakeDomains[] = {Domain::Any, Domain::Index};

extern const OpDef kBackwardTake;

}  // namespace

AxisIndices takenIndices(const NodeKind &kind, const TensorRef &numbers, Dims data) {
  const size_t axis = takenAxis(kind, data);
  return {numbers, static_cast<int64_t>(axis), data[axis], kind.params<TakeParams>().mode};
}

constinit const OpDef kTake = asMovement({
    .name = "take",
    .aliases = {"_npi_take"},
    .summary = "slices along an axis by their indices: y[o…,i…,k…] = a[o…,trunc(indices[i…]),k…]",
    .inputs = {"a", "indices"},
    .attrs = kTakeAttrs,
    .params = paramsOf<TakeParams>(),
    .shape = takeShape,
    .dtype = pairedTypes,
    .stopped = {1},
    .domains = kTakeDomains,
    .gradient =
        [](GradRule &g) {
          g.fused(kBackwardTake, {g.dy(0), g.x(1)});
          g.noGrad(1);
        },
    .decompose = decomposeTake,
    .kernel =
        [](const KernelCall &call) {
          if (!call.wants(0) || call.out[0].size() == 0) return;
          const Dims shape = call.in[0].shape;
          pickRows(call.out[0], call.in[0], AxisRows(shape, takenAxis(*call.kind, shape)),
                   takenIndices(*call.kind, call.in[1], shape));
        },
});

namespace {

constinit const OpDef kBackwardTake = {
    .name = "_backward_take",
    .summary = "gradient of take: da[…,r,…] = Σ of dy over the indices that picked r; that of the indices is 0",
    .inputs = {"ograd", "indices"},
    .outputs = {"a_grad", "indices_grad"},
    .attrs = kTakeAttrs,
    .params = paramsOf<TakeParams>(),
    .shape = [](ShapeInference &s) { s.sameInOut(1, 1); },
    .dtype = pairedTypes,
    .stopped = {1},
    .flags = {.isBackward = true},
    .gradient =
        [](GradRule &g) {
          g.noGrad(1);
          if (g.isZero(0)) return g.noGrad(0);
          g.dx(0, g.emit(kTake, {g.dy(0), g.x(1)}, g.attrs()));
        },
    .decompose = decomposeTakeBackward,
    .kernel =
        [](const KernelCall &call) {
          if (call.wants(1)) std::memset(call.out[1].data, 0, call.out[1].bytes());
          if (!call.wants(0) || call.out[0].size() == 0) return;
          const Dims shape = call.out[0].shape;
          addRows(call.out[0], nullptr, call.in[0], AxisRows(shape, takenAxis(*call.kind, shape)),
                  takenIndices(*call.kind, call.in[1], shape), call.workspace);
        },
    .workspace =
        [](const NodeKind &kind, ArrayRef<TensorRef> in, ArrayRef<TensorRef> out) {
          return RowGroups::scratchBytes(out[0].shape[takenAxis(kind, out[0].shape)], in[1].size());
        },
};

struct EmbeddingParams {
  int64_t inputDim = 1, outputDim = 1;
  DType dtype = DType::Float32;
  bool sparseGrad = false;
};

constexpr AttrSpec kEmbeddingAttrs[] = {
    required<&EmbeddingParams::inputDim>("input_dim", "rows of the table").atLeast(1),
    required<&EmbeddingParams::outputDim>("output_dim", "columns of the table").atLeast(1),
    attr<&EmbeddingParams::dtype>("dtype", "float32", "accepted and not used"),
    attr<&EmbeddingParams::sparseGrad>("sparse_grad", "False", "accepted and not used"),
};

// The picked rows have the data's shape with one more axis at the end.
void relateRows(ShapeInference &s, size_t data, EntryPort picked) {
  const ShapeRef rows = picked.shape(s);
  if (rows.hasRank()) {
    if (rows.rank() == 0) return s.fail("picked rows have no axes, expected at least one");
    s.setIn(data, rows.dims().drop_back());
  }
  if (s.hasFailed() || !s.in(data).hasRank()) return;
  DimsBuffer dims(s.in(data).dims());
  dims.push_back(s.params<EmbeddingParams>().outputDim);
  picked.set(s, dims);
}

// The row numbers as tuples of one index, as gather_nd takes them.
Value rowTuples(DecomposeRule &d, Value data) {
  const Value size = d.emit(
      kFull, {}, {{"shape", "(1,)"}, {"dtype", "float64"}, {"value", d.number(d.params<EmbeddingParams>().inputDim)}});
  return d.emit(kExpandDims, {indicesInRange(d, data, size, IndexMode::Clip)}, {{"axis", "0"}});
}

constexpr Domain kEmbeddingDomains[] = {Domain::ClassIndex};

extern const OpDef kBackwardEmbedding;

constinit const OpDef kEmbedding = asMovement({
    .name = "Embedding",
    .aliases = {"_npx_embedding", "_sparse_Embedding"},
    .summary = "y[i…,k] = w[trunc(data[i…]), k], numbers outside the table taken as its first or last row",
    .inputs = {"data", "weight"},
    .attrs = kEmbeddingAttrs,
    .params = paramsOf<EmbeddingParams>(),
    .shape =
        [](ShapeInference &s) {
          const EmbeddingParams &p = s.params<EmbeddingParams>();
          s.setIn(1, {p.inputDim, p.outputDim});
          relateRows(s, 0, {0, true});
        },
    .dtype = [](DTypeInference &t) { t.sameInOut(1, 0); },
    .stopped = {0},
    .domains = kEmbeddingDomains,
    .gradient =
        [](GradRule &g) {
          g.fused(kBackwardEmbedding, {g.dy(0), g.x(0)});
          g.noGrad(0);
        },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kGatherNd, {d.x(1), rowTuples(d, d.x(0))})); },
    .kernel =
        [](const KernelCall &call) {
          if (call.wants(0))
            pickRows(call.out[0], call.in[1], AxisRows(call.in[1].shape, 0), tableRows(call.in[0], call.in[1].shape));
        },
});

constinit const OpDef kBackwardEmbedding = {
    .name = "_backward_Embedding",
    .summary = "gradient of Embedding: dw[r,k] = Σ of dy[i…,k] over the positions that picked row r; data has none",
    .inputs = {"ograd", "data"},
    .outputs = {"data_grad", "weight_grad"},
    .attrs = kEmbeddingAttrs,
    .params = paramsOf<EmbeddingParams>(),
    .shape =
        [](ShapeInference &s) {
          const EmbeddingParams &p = s.params<EmbeddingParams>();
          s.sameInOut(1, 0);
          relateRows(s, 1, {0, false});
          s.sameInOut(1, 0);
          s.setOut(1, {p.inputDim, p.outputDim});
        },
    .dtype =
        [](DTypeInference &t) {
          t.sameInOut(0, 1);
          t.sameInOut(1, 0);
        },
    .stopped = {1},
    .flags = {.isBackward = true},
    .gradient =
        [](GradRule &g) {
          g.noGrad(1);
          if (g.isZero(1)) return g.noGrad(0);
          g.dx(0, g.emit(kEmbedding, {g.x(1), g.dy(1)}, g.attrs()));
        },
    .decompose =
        [](DecomposeRule &d) {
          if (d.wants(0)) d.y(0, d.emit(kZerosLike, {d.x(1)}));
          if (!d.wants(1)) return;
          const EmbeddingParams &p = d.params<EmbeddingParams>();
          const Value zeros = d.emit(kFull, {}, {{"shape", d.tuple({p.inputDim, p.outputDim})}, {"value", "0"}});
          d.y(1, d.emit(kScatterNd, {d.emit(kCastLike, {zeros, d.x(0)}), d.x(0), rowTuples(d, d.x(1))},
                        {{"reduction", "add"}}));
        },
    .kernel =
        [](const KernelCall &call) {
          if (call.wants(0)) std::memset(call.out[0].data, 0, call.out[0].bytes());
          if (call.wants(1))
            addRows(call.out[1], nullptr, call.in[0], AxisRows(call.out[1].shape, 0),
                    tableRows(call.in[1], call.out[1].shape), call.workspace);
        },
    .workspace = [](const NodeKind &, ArrayRef<TensorRef> in,
                    ArrayRef<TensorRef> out) { return RowGroups::scratchBytes(out[1].shape[0], in[1].size()); },
};

}  // namespace

constinit const OpFamily kTakeFamily = kOps<kTake, kBackwardTake, kEmbedding, kBackwardEmbedding>;

}  // namespace gradc
