// Slices picked by tuples of indices, and slices put or added at such tuples: gather_nd, scatter_nd, and _scatter_nd,
// to which the gradients of all indexing operators decompose.
//
// Indices have shape (M, N…): tuple j consists of the M numbers indices[·,j…], one for each of the first M axes of the
// data. Negative indices count from the end; an index outside its axis is an error. Where tuples repeat, the slice put
// last is kept; gradients treat tuples of slices that are put as distinct, as MXNet's do: each of them gets the
// gradient of its place, and base none. Numbers are cut toward 0, also those below 0: MXNet's gather_nd picks slice -1
// for -0.5, but its gradient adds to slice 0. Tested by tests/ops/indexing_ops_test.cc
#include "ops/index/gather_nd.h"

#include "ir/tensor/dim.h"
#include "ops/elementwise/elementwise.h"
#include "ops/index/rows.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

struct ScatterShapeParams {
  Dims shape;
};
constexpr AttrSpec kScatterShapeAttrs[] = {
    required<&ScatterShapeParams::shape>("shape", "shape of the result").atLeast(0).givingShape()};

struct OptionalShapeParams {
  std::optional<Dims> shape;
};
constexpr AttrSpec kOptionalShapeAttrs[] = {
    attr<&OptionalShapeParams::shape>("shape", "None",
                                      "shape of the result; None: that of the data of the forward node")
        .atLeast(0)
        .givingShape()};

enum class Reduction : uint8_t { None, Add };
constexpr StringRef kReductions[] = {"none", "add"};
constexpr ArrayRef<StringRef> enumNames(Reduction) { return kReductions; }
struct ScatterParams {
  Reduction reduction = Reduction::None;
};
constexpr AttrSpec kScatterAttrs[] = {attr<&ScatterParams::reduction>(
    "reduction", "none", "whether updates replace elements of base, or are added to them")};

// How many axes of the data a tuple addresses: the first dimension of the indices, else what follows from the ranks.
std::optional<int64_t> tupleLength(ShapeRef data, ShapeRef indices, ShapeRef picked) {
  if (indices[0] != kUnknownDim) return indices[0];
  if (!data.hasRank() || !picked.hasRank()) return std::nullopt;
  return static_cast<int64_t>(data.rank() + indices.rank() - 1) - static_cast<int64_t>(picked.rank());
}

// data (d0, d1, …), indices (M, N…), picked (N…, dM, …).
void relateTuples(ShapeInference &s, EntryPort data, EntryPort indices, EntryPort picked) {
  if (s.hasFailed() || !indices.shape(s).hasRank()) return;
  if (indices.shape(s).rank() == 0)
    return s.fail("indices have no axes, expected (M, …) with one number per axis of the data");
  const std::optional<int64_t> length = tupleLength(data.shape(s), indices.shape(s), picked.shape(s));
  if (!length || !data.shape(s).hasRank()) return;
  const size_t rank = data.shape(s).rank();
  if (*length < 1 || *length > static_cast<int64_t>(rank))
    return s.fail("indices of shape " + toString(indices.shape(s)) + " name " + Twine(*length) +
                  " axes of data of shape " + toString(data.shape(s)) + ", expected 1 to " + Twine(rank));
  const size_t numNamed = static_cast<size_t>(*length);
  DimsBuffer whole(data.shape(s).dims()), tuples(indices.shape(s).dims());
  tuples[0] = *length;
  DimsBuffer part(Dims(tuples).drop_front());
  part.append(whole.begin() + numNamed, whole.end());
  picked.set(s, part);
  if (s.hasFailed()) return;
  const Dims known = picked.shape(s).dims();
  const size_t numTupleAxes = tuples.size() - 1;
  std::copy_n(known.begin(), numTupleAxes, tuples.begin() + 1);
  std::copy(known.begin() + numTupleAxes, known.end(), whole.begin() + numNamed);
  indices.set(s, tuples);
  data.set(s, whole);
  for (size_t axis = 0; axis < numNamed; ++axis) checkNotEmpty(s, data.shape(s), axis, indices.shape(s));
}

size_t tupleScratch(Dims data, const TensorRef &numbers) {
  const TupleIndices indices(numbers, data);
  return RowGroups::scratchBytes(indices.numRows(), indices.count());
}

// Puts the updates at their rows of output 0, which holds the base.
void putTuples(const KernelCall &call, const TensorRef &updates, const TensorRef &numbers) {
  const TensorRef &to = call.out[0];
  const TupleIndices indices(numbers, to.shape);
  putRows(to, updates, tupleRows(to.shape, indices).inner, indices);
}

void addTuples(const KernelCall &call, const void *base, const TensorRef &updates, const TensorRef &numbers) {
  const TensorRef &to = call.out[0];
  const TupleIndices indices(numbers, to.shape);
  addRows(to, base, updates, tupleRows(to.shape, indices), indices, call.workspace);
}

bool hasWork(const KernelCall &call) { return call.wants(0) && call.out[0].size() > 0; }

void firstType(DTypeInference &t) { t.sameInOut(0, 0); }
void firstTwoTypes(DTypeInference &t) {
  t.sameInIn(0, 1);
  t.sameInOut(0, 0);
  t.sameInIn(0, 1);
}

constexpr Domain kSecondIndexes[] = {Domain::Any, Domain::Index};
constexpr Domain kThirdIndexes[] = {Domain::Any, Domain::Any, Domain::Index};

Value zerosOfShape(DecomposeRule &d, Dims shape) {
  return d.emit(kCastLike, {d.emit(kFull, {}, {{"shape", d.tuple(shape)}, {"value", "0"}}), d.x(0)});
}

extern const OpDef kBackwardGatherNd;

// Of data that are put or added at the tuples: what is picked from dy there.
void pickHead(GradRule &g) {
  g.dx(0, g.emit(kGatherNd, {g.dy(0), g.x(1)}));
  zeroGradientOf(g, 1);
}

}  // namespace

bool addsUpdates(const NodeKind &kind) { return kind.params<ScatterParams>().reduction == Reduction::Add; }

constinit const OpDef kGatherNd = asMovement({
    .name = "gather_nd",
    .aliases = {"_npi_gather_nd", "_npx_gather_nd"},
    .summary =
        "y[j…,k…] = data[trunc(indices[0,j…]), trunc(indices[1,j…]), …, k…]; negative indices count from the end",
    .inputs = {"data", "indices"},
    .shape = [](ShapeInference &s) { relateTuples(s, {0}, {1}, {0, true}); },
    .dtype = firstType,
    .domains = kSecondIndexes,
    .gradient =
        [](GradRule &g) {
          const Value sums = g.fused(kBackwardGatherNd, {g.dy(0), g.x(1)});
          g.dx(0, sums);
          zeroGradientOf(g, 1);
        },
    .primitive = {.onnx = "Cast, Transpose, GatherND", .c = "y[j,k] = x[i[0,j], i[1,j], …, k]"},
    .kernel =
        [](const KernelCall &call) {
          if (!hasWork(call)) return;
          const TupleIndices indices(call.in[1], call.in[0].shape);
          pickRows(call.out[0], call.in[0], tupleRows(call.in[0].shape, indices), indices);
        },
});

// gather_nd and _scatter_nd are each other's adjoint.
constinit const OpDef kScatterNd = {
    .name = "_scatter_nd",
    .summary =
        "base with the updates put in the place of what gather_nd would pick, the last one where indices repeat, or "
        "added there",
    .inputs = {"base", "updates", "indices"},
    .attrs = kScatterAttrs,
    .params = paramsOf<ScatterParams>(),
    .shape =
        [](ShapeInference &s) {
          s.sameInOut(0, 0);
          relateTuples(s, {0, true}, {2}, {1});
          s.sameInOut(0, 0);
        },
    .dtype = firstTwoTypes,
    .inplace = kInplaceFirst,
    .kernelTypes = kFloatingAndIntegers,
    .domains = kThirdIndexes,
    .gradient =
        [](GradRule &g) {
          const bool isSum = g.params<ScatterParams>().reduction == Reduction::Add;
          if (g.wants(0))
            g.dx(0, isSum ? g.dy(0) : g.emit(kScatterNd, {g.dy(0), g.emit(kZerosLike, {g.x(1)}), g.x(2)}));
          if (g.wants(1)) g.dx(1, g.emit(kGatherNd, {g.dy(0), g.x(2)}));
          zeroGradientOf(g, 2);
        },
    .primitive = {.onnx = "Cast, Transpose, ScatterND", .c = "y = base; y[i[0,j], i[1,j], …, k] = or += x[j,k]"},
    .kernel =
        [](const KernelCall &call) {
          if (!hasWork(call)) return;
          if (addsUpdates(*call.kind)) return addTuples(call, call.in[0].data, call.in[1], call.in[2]);
          copyBytes(call);
          putTuples(call, call.in[1], call.in[2]);
        },
    .workspace = [](const NodeKind &kind, ArrayRef<TensorRef> in,
                    ArrayRef<TensorRef> out) { return addsUpdates(kind) ? tupleScratch(out[0].shape, in[2]) : 0; },
};

namespace {

constinit const OpDef kBackwardGatherNd = {
    .name = "_backward_gather_nd",
    .summary = "gradient of gather_nd: dx = Σ of dy over the tuples of indices that picked the element",
    .inputs = {"data", "indices"},
    .attrs = kOptionalShapeAttrs,
    .params = paramsOf<OptionalShapeParams>(),
    .shape =
        [](ShapeInference &s) {
          if (const std::optional<Dims> shape = s.params<OptionalShapeParams>().shape) s.setOut(0, *shape);
          relateTuples(s, {0, true}, {1}, {0});
        },
    .dtype = firstType,
    .flags = {.isBackward = true},
    .domains = kSecondIndexes,
    .gradient = pickHead,
    .decompose =
        [](DecomposeRule &d) {
          const std::optional<Dims> shape = d.params<OptionalShapeParams>().shape;
          const Value zeros = shape ? zerosOfShape(d, *shape) : d.emit(kZerosLike, {d.forwardInput(0)});
          d.y(0, d.emit(kScatterNd, {zeros, d.x(0), d.x(1)}, {{"reduction", "add"}}));
        },
    .kernel =
        [](const KernelCall &call) {
          if (hasWork(call)) addTuples(call, nullptr, call.in[0], call.in[1]);
        },
    .workspace = [](const NodeKind &, ArrayRef<TensorRef> in,
                    ArrayRef<TensorRef> out) { return tupleScratch(out[0].shape, in[1]); },
};

constinit const OpDef kScatterNdOnZeros = {
    .name = "scatter_nd",
    .summary =
        "zeros of a given shape, with the data in the place of what gather_nd would pick, the last one where indices "
        "repeat",
    .inputs = {"data", "indices"},
    .attrs = kScatterShapeAttrs,
    .params = paramsOf<ScatterShapeParams>(),
    .shape =
        [](ShapeInference &s) {
          s.setOut(0, s.params<ScatterShapeParams>().shape);
          relateTuples(s, {0, true}, {1}, {0});
        },
    .dtype = firstType,
    .kernelTypes = kFloatingAndIntegers,
    .domains = kSecondIndexes,
    .gradient = pickHead,
    .decompose =
        [](DecomposeRule &d) {
          const Value zeros = zerosOfShape(d, d.params<ScatterShapeParams>().shape);
          d.y(0, d.emit(kScatterNd, {zeros, d.x(0), d.x(1)}));
        },
    .kernel =
        [](const KernelCall &call) {
          writeZeros(call);
          if (hasWork(call)) putTuples(call, call.in[0], call.in[1]);
        },
};

// MXNet has no gradient for it.
constinit const OpDef kScatterSetNd = {
    .name = "_scatter_set_nd",
    .aliases = {"_npi_scatter_set_nd"},
    .summary = "lhs with rhs in the place of what gather_nd would pick, the last one where indices repeat",
    .inputs = {"lhs", "rhs", "indices"},
    .attrs = kScatterShapeAttrs,
    .params = paramsOf<ScatterShapeParams>(),
    .shape =
        [](ShapeInference &s) {
          s.setOut(0, s.params<ScatterShapeParams>().shape);
          s.sameInOut(0, 0);
          relateTuples(s, {0, true}, {2}, {1});
        },
    .dtype = firstTwoTypes,
    .inplace = kInplaceFirst,
    .kernelTypes = kFloatingAndIntegers,
    .domains = kThirdIndexes,
    .gradient =
        [](GradRule &g) {
          if (g.wants(0)) {
            const Value zeros = g.emit(kZerosLike, {g.x(1)});
            g.dx(0, g.emit(*g.kind().op, SmallVector<Value, 3>{g.dy(0), zeros, g.x(2)}, g.attrs()));
          }
          if (g.wants(1)) g.dx(1, g.emit(kGatherNd, {g.dy(0), g.x(2)}));
          zeroGradientOf(g, 2);
        },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kScatterNd, {d.x(0), d.x(1), d.x(2)})); },
    .kernel =
        [](const KernelCall &call) {
          copyBytes(call);
          if (hasWork(call)) putTuples(call, call.in[1], call.in[2]);
        },
};

}  // namespace

constinit const OpFamily kGatherNdFamily =
    kOps<kGatherNd, kScatterNd, kBackwardGatherNd, kScatterNdOnZeros, kScatterSetNd>;

}  // namespace gradc
