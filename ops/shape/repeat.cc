// Elements or whole tensors several times: repeat, tile.
//
// Both are linear; the adjoint of a backward operator is the forward operator with the same attributes.
// Tested by tests/ops/movement_ops_test.cc
#include "ops/shape/repeat.h"

#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/tensor/dim.h"
#include "ops/kit/attrs.h"
#include "ops/kit/broadcast_loops.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/shape/axes.h"

using namespace llvm;

namespace gradc {
namespace {

struct RepeatParams {
  int64_t repeats;
  std::optional<int64_t> axis;
};
constexpr AttrSpec kRepeatAttrs[] = {
    required<&RepeatParams::repeats>("repeats", "how often each element is repeated").atLeast(0),
    ofAxis(attr<&RepeatParams::axis>("axis", "None", "axis to repeat along; None: data as a vector")),
};

struct TileParams {
  Dims reps;
};
constexpr AttrSpec kTileAttrs[] = {
    required<&TileParams::reps>("reps", "how often along each axis, aligned at the last").atLeast(1),
};

// A dimension times a factor, in both directions; a factor of 0 determines nothing about the input.
void scaleDim(ShapeInference &s, int64_t factor, int64_t &in, int64_t &out) {
  if (in != kUnknownDim || factor == 0) out = (Dim(in) * factor).inShape();
  if (in != kUnknownDim || out == kUnknownDim || factor == 0) return;
  if (out % factor != 0)
    return s.fail("output 0 has shape " + toString(s.out(0)) + ", expected a multiple of " + Twine(factor));
  in = out / factor;
}

void repeatShape(ShapeInference &s) {
  const RepeatParams &params = s.params<RepeatParams>();
  if (!params.axis) {
    DimsBuffer out(1, kUnknownDim);
    if (s.in(0).hasRank())
      if (std::optional<int64_t> size = numElements(s.in(0).dims())) out[0] = (Dim(*size) * params.repeats).inShape();
    return s.setOut(0, out);
  }
  std::optional<size_t> rank = eitherRank(s);
  if (!rank) return;
  std::optional<size_t> axis = normalizeAxis(*params.axis, *rank);
  if (!axis) return s.fail("axis " + Twine(*params.axis) + " is outside " + countOf(*rank, "dimension"));
  DimsBuffer common(*rank, kUnknownDim), other(*rank, kUnknownDim);
  if (s.in(0).hasRank()) common.assign(s.in(0).dims().begin(), s.in(0).dims().end());
  if (s.out(0).hasRank()) other.assign(s.out(0).dims().begin(), s.out(0).dims().end());
  if (other.size() != *rank) return s.setOut(0, common);
  int64_t in = common[*axis], out = other[*axis];
  scaleDim(s, params.repeats, in, out);
  common[*axis] = other[*axis] = kUnknownDim;
  s.setOut(0, common);
  s.setIn(0, other);
  if (s.hasFailed()) return;
  common[*axis] = out;
  s.setOut(0, common);
  other[*axis] = in;
  s.setIn(0, other);
}

}  // namespace

StridedView repeatView(const NodeKind &kind, Dims whole, Dims) {
  const RepeatParams &params = kind.params<RepeatParams>();
  if (!params.axis) return {{elementCount(whole), params.repeats}, {1, 0}, 0};
  StridedView view = wholeView(whole);
  const size_t after = *normalizeAxis(*params.axis, whole.size()) + 1;
  view.dims.insert(view.dims.begin() + after, params.repeats);
  view.strides.insert(view.strides.begin() + after, 0);
  return view;
}

namespace {

// Both lists are aligned at the last axis; missing entries are 1.
int64_t fromEnd(Dims dims, size_t back) { return back <= dims.size() ? dims[dims.size() - back] : 1; }

void tileShape(ShapeInference &s) {
  if (!s.in(0).hasRank()) return;
  Dims reps = s.params<TileParams>().reps;
  DimsBuffer in(s.in(0).dims());
  const size_t rank = std::max(in.size(), reps.size());
  DimsBuffer out(rank, kUnknownDim);
  if (s.out(0).hasRank() && !mergeDims(out, s.out(0).dims()))
    return s.fail("output 0 has shape " + toString(s.out(0)) + ", expected " + Twine(rank) + " dimensions");
  for (size_t back = 1; back <= rank && !s.hasFailed(); ++back) {
    int64_t one = 1;
    scaleDim(s, fromEnd(reps, back), back <= in.size() ? in[in.size() - back] : one, out[rank - back]);
  }
  s.setIn(0, in);
  s.setOut(0, out);
}

}  // namespace

// Every axis becomes two: the number of the copy, and the index in it.
StridedView tileView(const NodeKind &kind, Dims whole, Dims part) {
  Dims reps = kind.params<TileParams>().reps;
  const DimsBuffer own = contiguousStrides(whole);
  StridedView view;
  for (size_t back = part.size(); back > 0; --back) {
    view.dims.append({fromEnd(reps, back), fromEnd(whole, back)});
    view.strides.append({0, back <= own.size() ? own[own.size() - back] : 0});
  }
  return view;
}

namespace {

extern const OpDef kBackwardRepeat, kBackwardTile;

// The axis that is repeated; without one, that of the data as a vector.
size_t repeatedAxis(DecomposeRule &d, Value whole) {
  const std::optional<int64_t> axis = d.params<RepeatParams>().axis;
  if (!axis || *axis >= 0) return static_cast<size_t>(axis.value_or(0));
  return normalizeAxis(*axis, d.rank(whole)).value_or(0);
}

// Codes of Reshape that keep the axes before and after an axis.
StringRef reshapeAt(DecomposeRule &d, size_t axis, Dims codes) {
  DimsBuffer shape(axis, 0);
  shape.append(codes.begin(), codes.end());
  shape.push_back(-2);
  return d.tuple(shape);
}

// (…, n, …) as (…, n, 1, …), repeated to (…, n, r, …), as (…, n·r, …)
void repeatByReshaping(DecomposeRule &d) {
  const RepeatParams &params = d.params<RepeatParams>();
  const Value x = params.axis ? d.x(0) : d.emit(kReshape, {d.x(0)}, {{"shape", "(-1,)"}});
  const size_t axis = repeatedAxis(d, d.x(0));
  const StringRef next = d.number(static_cast<int64_t>(axis + 1));
  const Value column = d.emit(kExpandDims, {x}, {{"axis", next}});
  const Value wide = d.emit(kBroadcastAxis, {column}, {{"axis", next}, {"size", d.number(params.repeats)}});
  d.y(0, d.emit(kReshape, {wide}, {{"shape", reshapeAt(d, axis, {-3})}}));
}

void sumOfRepeated(DecomposeRule &d) {
  const RepeatParams &params = d.params<RepeatParams>();
  if (params.repeats == 0) return d.y(0, d.emit(kZerosLike, {d.forwardInput(0)}));
  const size_t axis = repeatedAxis(d, d.forwardInput(0));
  const Value wide = d.emit(kReshape, {d.x(0)}, {{"shape", reshapeAt(d, axis, {-4, -1, params.repeats})}});
  const Value sum = d.emit(kSum, {wide}, {{"axis", d.number(static_cast<int64_t>(axis + 1))}});
  d.y(0, d.emit(kReshapeLike, {sum, d.forwardInput(0)}));
}

// (r·n, …) as (r, n, …), summed over every r
void sumOfTiles(DecomposeRule &d) {
  const Dims reps = d.params<TileParams>().reps;
  const size_t rank = d.rank(d.x(0));
  DimsBuffer shape, axes;
  for (size_t back = rank; back > 0; --back) {
    axes.push_back(static_cast<int64_t>(2 * axes.size()));
    shape.append({-4, fromEnd(reps, back), -1});
  }
  if (rank == 0) return d.y(0, d.emit(kReshapeLike, {d.x(0), d.forwardInput(0)}));
  const Value copies = d.emit(kReshape, {d.x(0)}, {{"shape", d.tuple(shape)}});
  const Value sum = d.emit(kSum, {copies}, {{"axis", d.tuple(axes)}});
  d.y(0, d.emit(kReshapeLike, {sum, d.forwardInput(0)}));
}

}  // namespace

// dx = Σ of dy over the copies of each element
constinit const OpDef kRepeat = asMovementOfData({
    .name = "repeat",
    .aliases = {"_np_repeat"},
    .summary = "every element `repeats` times in a row: y[..., i, ...] = x[..., i / repeats, ...]",
    .attrs = kRepeatAttrs,
    .params = paramsOf<RepeatParams>(),
    .shape = repeatShape,
    .gradient = [](GradRule &g) { g.fused(kBackwardRepeat, {g.dy(0)}); },
    .decompose = repeatByReshaping,
    .kernel = gatherKernel<repeatView>,
});

// dx = Σ of dy over the copies of each element
constinit const OpDef kTile = asMovementOfData({
    .name = "tile",
    .aliases = {"_npi_tile"},
    .summary = "copies of data side by side: y[..., i, ...] = x[..., i mod n, ...]",
    .attrs = kTileAttrs,
    .params = paramsOf<TileParams>(),
    .shape = tileShape,
    .gradient = [](GradRule &g) { g.fused(kBackwardTile, {g.dy(0)}); },
    .primitive = {.onnx = "Tile", .c = "y[i] = x[i mod n], axis by axis"},
    .kernel = gatherKernel<tileView>,
});

namespace {

constinit const OpDef kBackwardRepeat = {
    .name = "_backward_repeat",
    .summary = "gradient of repeat: dx = sum of dy over the copies of each element",
    .inputs = {"dy"},
    .attrs = kRepeatAttrs,
    .params = paramsOf<RepeatParams>(),
    .flags = {.isBackward = true},
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kRepeat, g.dy(0), g.attrs())); },
    .decompose = sumOfRepeated,
    .kernel = scatterKernel<repeatView>,
};

constinit const OpDef kBackwardTile = {
    .name = "_backward_tile",
    .summary = "gradient of tile: dx = sum of dy over the copies of each element",
    .inputs = {"dy"},
    .attrs = kTileAttrs,
    .params = paramsOf<TileParams>(),
    .flags = {.isBackward = true},
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kTile, g.dy(0), g.attrs())); },
    .decompose = sumOfTiles,
    .kernel = scatterKernel<tileView>,
};

}  // namespace

constinit const OpFamily kRepeatFamily = kOps<kRepeat, kTile, kBackwardRepeat, kBackwardTile>;

}  // namespace gradc
