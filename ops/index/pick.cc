// One element of every row along an axis: pick, batch_take; and one_hot, whose rows mark one class each.
// Tested by tests/ops/indexing_ops_test.cc
#include "ops/index/pick.h"

#include "ops/elementwise/elementwise.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

// Unlike take, pick has no mode that raises an error.
enum class PickMode : uint8_t { Clip, Wrap };
constexpr StringRef kPickModes[] = {"clip", "wrap"};
constexpr ArrayRef<StringRef> enumNames(PickMode) { return kPickModes; }

struct PickParams {
  std::optional<int64_t> axis = -1;
  bool keepDims = false;
  PickMode mode = PickMode::Clip;
};

constexpr AttrSpec kPickAttrs[] = {
    ofAxis(attr<&PickParams::axis>("axis", "-1", "axis to pick from; negative: from the end")),
    attr<&PickParams::keepDims>("keepdims", "False", "whether the axis stays, with one element"),
    attr<&PickParams::mode>("mode", "clip", "indices outside the axis: its nearest end, or modulo its length"),
};

Error checkPick(const OpDef &, void *params) {
  if (static_cast<const PickParams *>(params)->axis) return Error::success();
  return Failure(ErrorKind::BadAttribute, "attribute 'axis' is None, expected an axis to pick from");
}

IndexMode modeOf(const PickParams &p) { return p.mode == PickMode::Wrap ? IndexMode::Wrap : IndexMode::Clip; }

// The dimensions of `whole` without an axis or, if `keeps`, with one element there.
DimsBuffer withoutAxis(Dims whole, size_t axis, bool keeps) {
  DimsBuffer dims(whole);
  if (keeps) dims[axis] = 1;
  else dims.erase(dims.begin() + axis);
  return dims;
}

// The reverse: the dimensions of the data, which has `rank` axes, as far as they follow from such dimensions.
DimsBuffer withAxis(Dims part, size_t axis, size_t rank) {
  DimsBuffer dims(part);
  if (part.size() < rank) dims.insert(dims.begin() + axis, kUnknownDim);
  else dims[axis] = kUnknownDim;
  return dims;
}

// The index has the shape of the result with or without the axis, for any keepdims. Picking from a vector leaves one
// element, of shape (1,), as in reductions.
void relatePick(ShapeInference &s, int64_t givenAxis, bool keepDims) {
  if (!s.in(0).hasRank()) return;
  const size_t rank = s.in(0).rank();
  const std::optional<size_t> axis = normalizeAxis(givenAxis, rank);
  if (!axis) return s.fail("axis " + Twine(givenAxis) + " is out of range for data of shape " + toString(s.in(0)));
  s.setOut(0, withoutAxis(s.in(0).dims(), *axis, keepDims || rank == 1));
  if (s.hasFailed()) return;
  s.setIn(0, withAxis(s.out(0).dims(), *axis, rank));
  if (s.hasFailed() || !s.in(1).hasRank()) return;
  if (s.in(1).rank() != rank && s.in(1).rank() + 1 != rank)
    return s.fail("an index of shape " + toString(s.in(1)) + " cannot pick from data of shape " + toString(s.in(0)) +
                  " along axis " + Twine(givenAxis));
  s.setIn(1, withoutAxis(s.in(0).dims(), *axis, s.in(1).rank() == rank));
  if (s.hasFailed()) return;
  s.setIn(0, withAxis(s.in(1).dims(), *axis, rank));
  if (s.hasFailed()) return;
  s.setOut(0, withoutAxis(s.in(0).dims(), *axis, keepDims || rank == 1));
  checkNotEmpty(s, s.in(0), *axis, s.in(1));
}

void pickShape(ShapeInference &s) { relatePick(s, *s.params<PickParams>().axis, s.params<PickParams>().keepDims); }

void pickElements(const KernelCall &call) {
  if (!call.wants(0) || call.out[0].size() == 0) return;
  const AxisIndices indices = pickedIndices(*call.kind, call.in[1], call.in[0].shape);
  const size_t bytes = dtypeBytes(call.out[0].dtype);
  withCopyOf(bytes, [&](auto copy) {
    forPicked(indices, call.in[0].shape, 0, indices.count(), [&](int64_t row, int64_t at) {
      copy(call.out[0].as<char>() + static_cast<size_t>(row) * bytes,
           call.in[0].as<const char>() + static_cast<size_t>(at) * bytes);
    });
  });
}

void pickBackwardKernel(const KernelCall &call) {
  writeZeros(call);
  if (!call.wants(0) || call.out[0].size() == 0) return;
  const Dims data = call.out[0].shape;
  const AxisIndices indices = pickedIndices(*call.kind, call.in[1], data);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *dy = call.in[0].as<const T>();
    T *dx = call.out[0].as<T>();
    forPicked(indices, data, 0, indices.count(), [&](int64_t row, int64_t at) { dx[at] = dy[row]; });
  });
}

// Shared by pick and its adjoint: a mask of the picked elements, and how a result gets its axis back.
struct PickedPlaces {
  size_t rank = 1, axis = 0;
  Value mask;

  PickedPlaces(DecomposeRule &d, Value data, Value index) : rank(d.rank(data)) {
    const PickParams &p = d.params<PickParams>();
    axis = normalizeAxis(*p.axis, rank).value_or(0);
    const Value inRange = indicesInRange(d, withAxisBack(d, index), sizeOfAxis(d, data, axis), modeOf(p));
    const Value along = d.emit(kIndexLike, {data}, {{"axis", d.number(static_cast<int64_t>(axis))}});
    mask = d.emit(kBroadcastEqual, {d.emit(kCast, {along}, {{"dtype", "float64"}}), inRange});
  }

  Value withAxisBack(DecomposeRule &d, Value v) const {
    return d.rank(v) == rank ? v : d.emit(kExpandDims, {v}, {{"axis", d.number(static_cast<int64_t>(axis))}});
  }
};

void decomposePick(DecomposeRule &d) {
  const PickedPlaces places(d, d.x(0), d.x(1));
  const Value chosen = d.emit(kWhere, {places.mask, d.x(0), d.emit(kZerosLike, {d.x(0)})});
  d.y(0, d.emit(kSum, {chosen},
                {{"axis", d.number(static_cast<int64_t>(places.axis))},
                 {"keepdims", d.params<PickParams>().keepDims ? "True" : "False"}}));
}

void decomposePickBackward(DecomposeRule &d) {
  const Value data = d.forwardInput(0);
  const PickedPlaces places(d, data, d.x(1));
  const Value spread = d.emit(kBroadcastLike, {places.withAxisBack(d, d.x(0)), data});
  d.y(0, d.emit(kWhere, {places.mask, spread, d.emit(kZerosLike, {spread})}));
}

void firstType(DTypeInference &t) { t.sameInOut(0, 0); }

constexpr Domain kPickDomains[] = {Domain::Any, Domain::Index};

extern const OpDef kBackwardPick, kBatchTake;

}  // namespace

AxisIndices pickedIndices(const NodeKind &kind, const TensorRef &numbers, Dims data) {
  if (kind.op == &kBatchTake) return {numbers, 1, data[1], IndexMode::Clip};
  const PickParams &p = kind.params<PickParams>();
  const size_t axis = *normalizeAxis(*p.axis, data.size());
  return {numbers, static_cast<int64_t>(axis), data[axis], modeOf(p)};
}

constinit const OpDef kPick = asMovement({
    .name = "pick",
    .aliases = {"choose_element_0index", "_npx_pick"},
    .summary = "y[o…,k…] = data[o…, trunc(index[o…,k…]), k…], one element of each row along an axis",
    .inputs = {"data", "index"},
    .attrs = kPickAttrs,
    .params = paramsOf<PickParams>(),
    .check = checkPick,
    .shape = pickShape,
    .dtype = firstType,
    .domains = kPickDomains,
    .gradient =
        [](GradRule &g) {
          const Value spread = g.fused(kBackwardPick, {g.dy(0), g.x(1)});
          g.dx(0, spread);
          zeroGradientOf(g, 1);
        },
    .decompose = decomposePick,
    .kernel = pickElements,
});

namespace {

constinit const OpDef kBackwardPick = {
    .name = "_backward_pick",
    .summary = "gradient of pick: ddata has dy where an element was picked, zeros elsewhere",
    .inputs = {"ograd", "index"},
    .attrs = kPickAttrs,
    .params = paramsOf<PickParams>(),
    .check = checkPick,
    .dtype = firstType,
    .flags = {.isBackward = true},
    .domains = kPickDomains,
    .gradient =
        [](GradRule &g) {
          g.dx(0, g.emit(kPick, {g.dy(0), g.x(1)}, g.attrs()));
          zeroGradientOf(g, 1);
        },
    .decompose = decomposePickBackward,
    .kernel = pickBackwardKernel,
};

// MXNet has no gradient for it.
constinit const OpDef kBatchTake = asMovement({
    .name = "batch_take",
    .summary = "y[i] = a[i, trunc(indices[i])], indices outside the row taken as its nearest end",
    .inputs = {"a", "indices"},
    .shape =
        [](ShapeInference &s) {
          s.setIn(0, {kUnknownDim, kUnknownDim});
          s.sameInOut(1, 0);
          if (!s.hasFailed()) relatePick(s, 1, false);
          if (!s.hasFailed()) s.sameInOut(1, 0);
        },
    .dtype = firstType,
    .domains = kPickDomains,
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kPick, {d.x(0), d.x(1)}, {{"axis", "1"}})); },
    .kernel = pickElements,
});

struct OneHotParams {
  int64_t depth = 1;
  double onValue = 1, offValue = 0;
  DType dtype = DType::Float32;
};

constexpr AttrSpec kOneHotAttrs[] = {
    required<&OneHotParams::depth>("depth", "number of classes").atLeast(0),
    attr<&OneHotParams::onValue>("on_value", "1", "value at the class"),
    attr<&OneHotParams::offValue>("off_value", "0", "value at all others"),
    attr<&OneHotParams::dtype>("dtype", "float32", "element type"),
};

Error checkOneHot(const OpDef &, void *params) {
  if (static_cast<const OneHotParams *>(params)->dtype != DType::Bool) return Error::success();
  return Failure(ErrorKind::BadAttribute, "attribute 'dtype' is bool, expected a type of numbers");
}

void oneHotShape(ShapeInference &s) {
  if (s.out(0).hasRank()) {
    if (s.out(0).rank() == 0) return s.fail("the result has no axes, expected one of classes at least");
    s.setIn(0, s.out(0).dims().drop_back());
  }
  if (s.hasFailed() || !s.in(0).hasRank()) return;
  DimsBuffer dims(s.in(0).dims());
  dims.push_back(s.params<OneHotParams>().depth);
  s.setOut(0, dims);
}

// A number outside all classes matches none of them.
void decomposeOneHot(DecomposeRule &d) {
  const OneHotParams &p = d.params<OneHotParams>();
  const int64_t depth[] = {p.depth};
  const Value number = d.emit(kExpandDims, {d.emit(kCast, {d.x(0)}, {{"dtype", "int64"}})}, {{"axis", "-1"}});
  const Value classes = d.emit(kIndexLike, {d.emit(kFull, {}, {{"shape", d.tuple(depth)}, {"value", "0"}})});
  const Value isClass = d.emit(kBroadcastEqual, {number, classes});
  const Value ones = d.emit(kCast, {d.emit(kOnesLike, {isClass})}, {{"dtype", "float64"}});
  auto filled = [&](double value) { return d.emit(kMulScalar, {ones}, {{"scalar", d.number(value)}}); };
  const Value chosen = d.emit(kWhere, {isClass, filled(p.onValue), filled(p.offValue)});
  d.y(0, d.emit(kCast, {chosen}, {{"dtype", dtypeName(p.dtype)}}));
}

constexpr Domain kOneHotDomains[] = {Domain::Index};

constinit const OpDef kOneHot = {
    .name = "one_hot",
    .aliases = {"_npx_one_hot"},
    .summary = "y[i…,k] = on_value where trunc(indices[i…]) = k, else off_value, for k from 0 to depth - 1",
    .inputs = {"indices"},
    .attrs = kOneHotAttrs,
    .params = paramsOf<OneHotParams>(),
    .check = checkOneHot,
    .shape = oneHotShape,
    .dtype = [](DTypeInference &t) { t.setOut(0, t.params<OneHotParams>().dtype); },
    .kernelTypes = kFloatingAndIntegers,
    .domains = kOneHotDomains,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kZerosLike, {g.x(0)})); },
    .decompose = decomposeOneHot,
    .kernel =
        [](const KernelCall &call) {
          if (call.wants(0)) markClasses(call, 0, call.in[0].size());
        },
};

}  // namespace

constinit const OpFamily kPickFamily = kOps<kPick, kBackwardPick, kBatchTake, kOneHot>;

void markClasses(const KernelCall &call, int64_t begin, int64_t end) {
  const OneHotParams &p = call.params<OneHotParams>();
  const AxisIndices all{call.in[0], 0, p.depth, IndexMode::Clip};
  const int64_t count = end - begin;
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    T *y = call.out[0].as<T>() + begin * p.depth;
    const T on = convertNumber<T>(p.onValue), off = convertNumber<T>(p.offValue);
    std::fill_n(y, count * p.depth, off);
    forEachNumber(all.part(begin, count).numbers, [&](int64_t row, int64_t number) {
      if (number >= 0 && number < p.depth) y[row * p.depth + number] = on;
    });
  });
}

}  // namespace gradc
