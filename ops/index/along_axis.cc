// The building blocks of operators that order elements: positions that sort, and elements picked and put by position
// along an axis. Picking and putting are each other's gradient. Tested by tests/ops/ordering_ops_test.cc
#include "ops/index/along_axis.h"

#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/pieces.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

struct AlongParams {
  int64_t axis = -1;
  bool isAscending = true;
};
constexpr AttrSpec kAxisAttr =
    ofAxis(attr<&AlongParams::axis>("axis", "-1", "the axis; negative: counted from the end"));
constexpr AttrSpec kSortAttrs[] = {
    kAxisAttr,
    attr<&AlongParams::isAscending>("is_ascend", "True", "whether the smallest element comes first"),
};
constexpr AttrSpec kAlongAttrs[] = {kAxisAttr};
constexpr Domain kDomains[] = {Domain::Any, Domain::ClassIndex};

std::optional<size_t> axisIn(ShapeInference &s, ShapeRef shape) {
  const int64_t axis = s.params<AlongParams>().axis;
  const std::optional<size_t> at = normalizeAxis(axis, shape.rank());
  if (!at) s.fail("axis " + Twine(axis) + " is out of range for an input of shape " + toString(shape));
  return at;
}

// Relates two shapes that are equal except for the length of the axis.
void relateAlong(ShapeInference &s, size_t picked, size_t whole) {
  for (auto [from, to] : {std::pair(picked, whole), std::pair(whole, picked)}) {
    if (s.hasFailed() || !s.in(from).hasRank()) return;
    const std::optional<size_t> axis = axisIn(s, s.in(from));
    if (!axis) return;
    DimsBuffer dims(s.in(from).dims());
    dims[*axis] = kUnknownDim;
    s.setIn(to, dims);
  }
  if (s.hasFailed() || !s.in(whole).isFullyKnown() || !s.in(picked).isFullyKnown()) return;
  const size_t axis = *normalizeAxis(s.params<AlongParams>().axis, s.in(whole).rank());
  if (s.in(whole)[axis] == 0 && !is_contained(s.in(picked).dims(), 0))
    s.fail("positions of shape " + toString(s.in(picked)) + " on axis " + Twine(axis) + " of shape " +
           toString(s.in(whole)) + ", which has no elements");
}

size_t axisOf(const KernelCall &call, Dims shape) {
  return *normalizeAxis(call.params<AlongParams>().axis, shape.size());
}

void orderKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const AxisRows rows(call.in[0].shape, axisOf(call, call.in[0].shape));
  int64_t *positions = call.out[0].as<int64_t>();
  dispatchNumeric(call.in[0].dtype, [&](auto zero) {
    const auto *x = call.in[0].as<const decltype(zero)>();
    const bool isAscending = call.params<AlongParams>().isAscending;
    sortRows(x, rows, isAscending, rows.length, call.workspace, [&](int64_t row, ArrayRef<int64_t> order) {
      for (int64_t k = 0; k < rows.length; ++k)
        positions[rows.begin(row) + k * rows.inner] = order[static_cast<size_t>(k)];
    });
  });
}

}  // namespace

constinit const OpDef kSortOrder = {
    .name = "_sort_order",
    .summary =
        "positions that sort x along an axis, as int64; of equal elements the first comes first, NaN behind numbers",
    .inputs = {"data"},
    .attrs = kSortAttrs,
    .params = paramsOf<AlongParams>(),
    .shape =
        [](ShapeInference &s) {
          s.sameInOut(0, 0);
          if (!s.hasFailed() && s.in(0).hasRank()) axisIn(s, s.in(0));
        },
    .dtype = [](DTypeInference &t) { t.setOut(0, DType::Int64); },
    .flags = {.hasNoGradient = true},
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.noGrad(0); },
    .primitive = {.onnx = "Shape, Gather, TopK", .c = "y = 0, 1, …, sorted stably by x[y[i]]"},
    .kernel = orderKernel,
    .piece = holdAtBase,
    .workspace =
        [](const NodeKind &k, ArrayRef<TensorRef> in, ArrayRef<TensorRef>) {
          const size_t axis = *normalizeAxis(k.params<AlongParams>().axis, in[0].shape.size());
          return static_cast<size_t>(in[0].shape[axis]) * sizeof(int64_t);
        },
};

// dx: dy put where elements were picked
constinit const OpDef kTakeAlongAxis = asMovement({
    .name = "_take_along_axis",
    .summary =
        "y[…,k,…] = x[…,positions[…,k,…],…]; fractions are dropped, positions beyond an end mean the last element "
        "there",
    .inputs = {"data", "positions"},
    .attrs = kAlongAttrs,
    .params = paramsOf<AlongParams>(),
    .shape =
        [](ShapeInference &s) {
          s.sameInOut(1, 0);
          if (!s.hasFailed()) relateAlong(s, 1, 0);
          s.sameInOut(1, 0);
        },
    .dtype = [](DTypeInference &t) { t.sameInOut(0, 0); },
    .stopped = {1},
    .domains = kDomains,
    .gradient =
        [](GradRule &g) {
          g.dx(0, g.emit(kScatterAlongAxis, {g.dy(0), g.x(1), g.x(0)}, g.attrs()));
          g.noGrad(1);
        },
    .primitive = {.onnx = "Cast, Clip, GatherElements", .c = "y[i] = x[row(i) + clip(positions[i]) * inner]"},
    .kernel =
        [](const KernelCall &call) {
          if (!call.wants(0)) return;
          const Dims whole = call.in[0].shape;
          dispatchNumeric(call.out[0].dtype, [&](auto zero) {
            using T = decltype(zero);
            const T *x = call.in[0].as<const T>();
            T *y = call.out[0].as<T>();
            forEachPosition(call.in[1], whole, axisOf(call, whole), [=](int64_t i, int64_t at) { y[i] = x[at]; });
          });
        },
    .piece = chooseAtBase<0>,
});

// dv: dy picked where elements of v were put
constinit const OpDef kScatterAlongAxis = {
    .name = "_scatter_along_axis",
    .summary = "zeros in the shape of x, plus v[…,k,…] at […,positions[…,k,…],…]; x is not read",
    .inputs = {"v", "positions", "x"},
    .attrs = kAlongAttrs,
    .params = paramsOf<AlongParams>(),
    .shape =
        [](ShapeInference &s) {
          s.sameInOut(2, 0);
          s.sameInIn(0, 1);
          if (!s.hasFailed()) relateAlong(s, 1, 2);
          s.sameInIn(0, 1);
          s.sameInOut(2, 0);
        },
    .dtype = [](DTypeInference &t) { t.sameInOut(0, 0); },
    .ignored = {2},
    .stopped = {1, 2},
    .kernelTypes = kFloatingAndIntegers,
    .domains = kDomains,
    .gradient =
        [](GradRule &g) {
          g.dx(0, g.emit(kTakeAlongAxis, {g.dy(0), g.x(1)}, g.attrs()));
          g.noGrad(1);
          g.noGrad(2);
        },
    .primitive = {.onnx = "Shape, ConstantOfShape, Cast, Clip, ScatterElements(reduction=add)",
                  .c = "y[row(i) + clip(positions[i]) * inner] += v[i]"},
    .kernel =
        [](const KernelCall &call) {
          if (!call.wants(0)) return;
          const Dims whole = call.out[0].shape;
          dispatchNumeric(call.out[0].dtype, [&](auto zero) {
            using T = decltype(zero);
            scatterAlong(call.in[0], call.in[1], call.out[0].as<T>(), whole, axisOf(call, whole), call.workspace);
          });
        },
    .piece = chooseAtBase<0>,
    .workspace = [](const NodeKind &, ArrayRef<TensorRef>, ArrayRef<TensorRef> out) { return scatterBytes(out[0]); },
};

OrderAttrs sortOrderAttrs(const NodeKind &kind, Dims shape) {
  const AlongParams &p = kind.params<AlongParams>();
  const AxisRows rows(shape, *normalizeAxis(p.axis, shape.size()));
  return {.rows = rows, .taken = rows.length, .isAscending = p.isAscending, .positions = 0};
}

constinit const OpFamily kAlongAxisFamily = kOps<kSortOrder, kTakeAlongAxis, kScatterAlongAxis>;

}  // namespace gradc
