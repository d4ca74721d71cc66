// Tensors made of indices: the identity matrix, evenly spaced numbers, the indices of a tensor's elements.
// Tested by tests/ops/conformance_test.cc
#include "ir/base/error.h"
#include "ir/base/number.h"
#include "ir/rules/kernel.h"
#include "ir/tensor/dim.h"
#include "ops/creation/created.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/kit/primitives.h"
#include "ops/kit/strided_walk.h"

#include <algorithm>
#include <cmath>
#include <utility>

using namespace llvm;

namespace gradc {
namespace {

struct EyeParams {
  int64_t rows = 0, columns = 0, k = 0;
  StringRef device;
  DType dtype;
};

constexpr AttrSpec kEyeAttrs[] = {
    required<&EyeParams::rows>("N", "rows").atLeast(0),
    attr<&EyeParams::columns>("M", "0", "columns; 0: as many as rows").atLeast(0),
    attr<&EyeParams::k>("k", "0", "which diagonal: above the main one, below it when negative"),
    kDeviceAttr<EyeParams>,
    kDTypeAttr<EyeParams>,
};

void eyeShape(ShapeInference &s) {
  const EyeParams &p = s.params<EyeParams>();
  s.setOut(0, {p.rows, p.columns ? p.columns : p.rows});
}

void eyeKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const int64_t k = call.params<EyeParams>().k, rows = call.out[0].shape[0], columns = call.out[0].shape[1];
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    T *y = call.out[0].as<T>();
    std::fill_n(y, call.out[0].size(), T{0});
    // k is arbitrary: the diagonal may be outside the matrix.
    if (k >= columns || k <= -rows) return;
    for (int64_t i = std::max<int64_t>(0, -k); i < rows && i + k < columns; ++i) y[i * columns + i + k] = T{1};
  });
}

// 1 where the column is the row + k.
void decomposeEye(DecomposeRule &d) {
  const Value place = placeOf(d, createdDims(d));
  auto index = [&](StringRef axis) {
    return d.emit(kCast, {d.emit(kIndexLike, {place}, {{"axis", axis}})}, {{"dtype", "float64"}});
  };
  const Value row = index("0"), column = index("1");
  const EyeParams &p = d.params<EyeParams>();
  const Value isOn = d.emit(kEqualScalar, {d.emit(kElemwiseSub, {column, row})}, {{"scalar", d.number(p.k)}});
  d.y(0, d.emit(kCast, {isOn}, {{"dtype", dtypeName(p.dtype)}}));
}

struct LinspaceParams {
  double start = 0, stop = 0;
  int64_t num = 0;
  bool endpoint = true;
  StringRef device;
  DType dtype;

  double step() const {
    const int64_t steps = endpoint ? num - 1 : num;
    return steps > 0 ? (stop - start) / static_cast<double>(steps) : 0;
  }
};

constexpr AttrSpec kLinspaceAttrs[] = {
    required<&LinspaceParams::start>("start", "the first number"),
    required<&LinspaceParams::stop>("stop", "the last number, or where the next one would be"),
    required<&LinspaceParams::num>("num", "how many").atLeast(0),
    attr<&LinspaceParams::endpoint>("endpoint", "True", "whether stop is the last number"),
    kDeviceAttr<LinspaceParams>,
    kDTypeAttr<LinspaceParams>,
};

void linspaceKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const LinspaceParams &p = call.params<LinspaceParams>();
  const double step = p.step();
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < p.num; ++i)
      call.out[0].as<T>()[i] = convertNumber<T>(p.start + step * static_cast<double>(i));
  });
}

void decomposeLinspace(DecomposeRule &d) {
  const LinspaceParams &p = d.params<LinspaceParams>();
  const Value place = placeOf(d, createdDims(d));
  const Value index = d.emit(kCast, {d.emit(kIndexLike, {place})}, {{"dtype", "float64"}});
  const Value way = d.emit(kMulScalar, {index}, {{"scalar", d.number(p.step())}});
  const Value sum = d.emit(kPlusScalar, {way}, {{"scalar", d.number(p.start)}});
  d.y(0, d.emit(kCast, {sum}, {{"dtype", dtypeName(p.dtype)}}));
}

struct ArangeLikeParams {
  double start = 0, step = 1;
  int64_t repeat = 1;
  StringRef device;
  std::optional<int64_t> axis;

  /// start or step in a tensor of this type: as in _arange and MXNet, without its fraction for integers.
  static double number(double given, DType type) {
    return type == DType::Unknown || isFloating(type) ? given : std::trunc(given);
  }
};

constexpr AttrSpec kArangeLikeAttrs[] = {
    attr<&ArangeLikeParams::start>("start", "0", "the first number"),
    attr<&ArangeLikeParams::step>("step", "1", "from one number to the next"),
    attr<&ArangeLikeParams::repeat>("repeat", "1", "how often each number appears, one after the other").atLeast(1),
    kDeviceAttr<ArangeLikeParams>,
    ofAxis(attr<&ArangeLikeParams::axis>(
        "axis", "None",
        "as many numbers as data has on this axis, negative: from the end; None: in the shape of data")),
};

void arangeLikeShape(ShapeInference &s) {
  const std::optional<int64_t> given = s.params<ArangeLikeParams>().axis;
  if (!given) return s.sameInOut(0, 0);
  int64_t length = kUnknownDim;
  if (s.in(0).hasRank()) {
    const std::optional<size_t> axis = normalizeAxis(*given, s.in(0).rank());
    if (!axis) return s.fail("axis " + Twine(*given) + " is outside data of shape " + toString(s.in(0)));
    length = s.in(0)[*axis];
  }
  s.setOut(0, {length});
}

void arangeLikeKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const ArangeLikeParams &p = call.params<ArangeLikeParams>();
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const double start = p.number(p.start, call.out[0].dtype), step = p.number(p.step, call.out[0].dtype);
    for (int64_t i = 0, size = call.out[0].size(); i < size; ++i)
      call.out[0].as<T>()[i] = convertNumber<T>(start + step * static_cast<double>(i / p.repeat));
  });
}

// The index of each element counted in row-major order; along one axis, that of the other axes' first elements.
Value flatIndex(DecomposeRule &d, std::optional<int64_t> given) {
  const size_t rank = d.rank(d.x(0));
  Value flat;
  if (given) {
    const std::optional<size_t> axis = normalizeAxis(*given, rank);
    if (!axis) {
      d.refuse(ErrorKind::InferConflict, "takes an axis that its input does not have");
      return Value();
    }
    flat = d.emit(kIndexLike, {d.x(0)}, {{"axis", d.number(static_cast<int64_t>(*axis))}});
    for (size_t other = 0; other < rank; ++other)
      if (other != *axis)
        flat =
            d.emit(kSliceAxis, {flat}, {{"axis", d.number(static_cast<int64_t>(other))}, {"begin", "0"}, {"end", "1"}});
    flat = d.emit(kReshape, {flat}, {{"shape", "(-1,)"}});
  } else {
    flat = d.emit(kIndexLike, {d.emit(kReshape, {d.x(0)}, {{"shape", "(-1,)"}})});
    flat = d.emit(kReshapeLike, {flat, d.x(0)});
  }
  return d.emit(kCast, {flat}, {{"dtype", "float64"}});
}

void decomposeArangeLike(DecomposeRule &d) {
  const ArangeLikeParams &p = d.params<ArangeLikeParams>();
  Value index = flatIndex(d, p.axis);
  if (!index.isValid()) return;
  if (p.repeat > 1) index = d.emit(kFloor, {d.emit(kDivScalar, {index}, {{"scalar", d.number(p.repeat)}})});
  const DType type = d.dtype(d.x(0));
  const Value way = d.emit(kMulScalar, {index}, {{"scalar", d.number(p.number(p.step, type))}});
  const Value sum = d.emit(kPlusScalar, {way}, {{"scalar", d.number(p.number(p.start, type))}});
  d.y(0, d.emit(kCastLike, {sum, d.x(0)}));
}

struct IndexArrayParams {
  std::optional<Dims> axes;
};
constexpr AttrSpec kIndexArrayAttrs[] = {
    ofAxis(attr<&IndexArrayParams::axes>("axes", "None", "axes whose indices are listed, in this order; None: all")),
};

void indexArrayShape(ShapeInference &s) {
  if (!s.in(0).hasRank()) return;
  const std::optional<Dims> &axes = s.params<IndexArrayParams>().axes;
  for (int64_t axis : axes.value_or(Dims()))
    if (!normalizeAxis(axis, s.in(0).rank()))
      return s.fail("axis " + Twine(axis) + " is outside data of shape " + toString(s.in(0)));
  DimsBuffer dims(s.in(0).dims());
  dims.push_back(static_cast<int64_t>(axes ? axes->size() : s.in(0).rank()));
  s.setOut(0, dims);
}

DimsBuffer listedAxes(const std::optional<Dims> &given, size_t rank) {
  DimsBuffer axes;
  if (given)
    for (int64_t axis : *given) axes.push_back(static_cast<int64_t>(*normalizeAxis(axis, rank)));
  else
    for (size_t axis = 0; axis < rank; ++axis) axes.push_back(static_cast<int64_t>(axis));
  return axes;
}

void indexArrayKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const Dims shape = call.in[0].shape;
  const DimsBuffer axes = listedAxes(call.params<IndexArrayParams>().axes, shape.size()),
                   strides = contiguousStrides(shape);
  int64_t *y = call.out[0].as<int64_t>();
  for (int64_t i = 0, size = call.in[0].size(); i < size; ++i)
    for (int64_t axis : axes) *y++ = i / strides[axis] % shape[axis];
}

void decomposeIndexArray(DecomposeRule &d) {
  const size_t rank = d.rank(d.x(0));
  const std::optional<Dims> &given = d.params<IndexArrayParams>().axes;
  for (int64_t axis : given.value_or(Dims()))
    if (!normalizeAxis(axis, rank))
      return d.refuse(ErrorKind::InferConflict, "lists an axis that its input does not have");
  SmallVector<Value, 6> indices;
  const StringRef last = d.number(static_cast<int64_t>(rank));
  for (int64_t axis : listedAxes(given, rank)) {
    const Value index = d.emit(kIndexLike, {d.x(0)}, {{"axis", d.number(axis)}});
    indices.push_back(d.emit(kExpandDims, {index}, {{"axis", last}}));
  }
  const AttrText count{"num_args", d.number(static_cast<int64_t>(indices.size()))};
  d.y(0, d.emit(kConcat, indices, d.context().attrs({count, {"dim", last}})));
}

constinit const OpDef kEye = asCreation<EyeParams>({
    .name = "_eye",
    .summary = "a matrix of N rows and M columns: y[i, i + k] = 1, else 0",
    .attrs = kEyeAttrs,
    .shape = eyeShape,
    .decompose = decomposeEye,
    .kernel = eyeKernel,
});

constinit const OpDef kLinspace = asCreation<LinspaceParams>({
    .name = "_linspace",
    .aliases = {"_npi_linspace"},
    .summary = "evenly spaced numbers: y[i] = start + i * (stop - start) / n, n = num - 1 with endpoint, else num",
    .attrs = kLinspaceAttrs,
    .shape = [](ShapeInference &s) { s.setOut(0, {s.params<LinspaceParams>().num}); },
    .decompose = decomposeLinspace,
    .kernel = linspaceKernel,
});

constinit const OpDef kArangeLike = {
    .name = "_contrib_arange_like",
    .aliases = {"_npx_arange_like"},
    .summary =
        "evenly spaced numbers in the type of data: y[i] = start + step * floor(i / repeat); only the shape of data is "
        "used",
    .inputs = {"data"},
    .attrs = kArangeLikeAttrs,
    .params = paramsOf<ArangeLikeParams>(),
    .shape = arangeLikeShape,
    .ignored = {0},
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kZerosLike, {g.x(0)})); },
    .decompose = decomposeArangeLike,
    .kernel = arangeLikeKernel,
};

constinit const OpDef kIndexArray = {
    .name = "_contrib_index_array",
    .summary = "y[i0, i1, …, k] = the index along the k-th listed axis, an int64; only the shape of data is used",
    .inputs = {"data"},
    .attrs = kIndexArrayAttrs,
    .params = paramsOf<IndexArrayParams>(),
    .shape = indexArrayShape,
    .dtype = [](DTypeInference &t) { t.setOut(0, DType::Int64); },
    .ignored = {0},
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kZerosLike, {g.x(0)})); },
    .decompose = decomposeIndexArray,
    .kernel = indexArrayKernel,
};

struct RangeParams {
  double start = 0;
  std::optional<double> stop;
  double step = 1;
  int64_t repeat = 1;
  bool inferRange = false;
  StringRef device;
  DType dtype = DType::Float32;
};

constexpr AttrSpec kRangeAttrs[] = {
    required<&RangeParams::start>("start", "the first number; the end, where stop is None"),
    attr<&RangeParams::stop>("stop", "None", "the end, which is not reached"),
    attr<&RangeParams::step>("step", "1", "difference of neighbours; negative: downwards"),
    attr<&RangeParams::repeat>("repeat", "1", "how often each number is repeated").atLeast(1),
    attr<&RangeParams::inferRange>("infer_range", "False",
                                   "without an end: take it from the inferred length of the result"),
    kDeviceAttr<RangeParams>,
    kDTypeAttr<RangeParams>,
};

// A given end takes precedence.
bool isInferred(const RangeParams &p) { return p.inferRange && !p.stop; }

// How many numbers there are before `stop`, repetitions included.
Dim lengthOf(const RangeParams &p) {
  return Dim(convertNumber<int64_t>(std::ceil((*p.stop - p.start) / p.step))) * p.repeat;
}

// If only start is given, it is the end, and numbers begin at 0.
Error checkRange(const OpDef &, void *params) {
  RangeParams &p = *static_cast<RangeParams *>(params);
  if (p.dtype == DType::Bool)
    return Failure(ErrorKind::BadAttribute, "attribute 'dtype' is bool, expected a type of numbers");
  if (isInferred(p)) return Error::success();
  if (!p.stop) {
    p.stop = p.start;
    p.start = 0;
  }
  if (p.step != 0 && lengthOf(p) >= 1) return Error::success();
  return Failure(ErrorKind::BadAttribute, "attributes 'start', 'stop' and 'step' describe an empty range");
}

// start + k·step in the type of the result. Integers are computed in 64 bits, because steps of unsigned ones may be
// negative, and saturate.
template <class T> T numberAt(const RangeParams &p, int64_t k) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(p.start) + static_cast<T>(k) * static_cast<T>(p.step);
  else {
    using Limits = std::numeric_limits<T>;
    const int64_t number = (Dim(convertNumber<int64_t>(p.start)) + Dim(k) * convertNumber<int64_t>(p.step)).nearest();
    if (std::in_range<T>(number)) return static_cast<T>(number);
    return number < 0 ? Limits::min() : Limits::max();
  }
}

// y[i] = start + ⌊i/repeat⌋·step
void fillRange(const KernelCall &call) {
  if (!call.wants(0)) return;
  const RangeParams &p = call.params<RangeParams>();
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    T *y = call.out[0].as<T>();
    for (int64_t i = 0, size = call.out[0].size(); i < size; ++i) y[i] = numberAt<T>(p, i / p.repeat);
  });
}

// Saturates to an integer type, because Cast between integer types drops the upper bits.
Value withinType(DecomposeRule &d, Value v) {
  dispatchNumeric(d.params<RangeParams>().dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T> && sizeof(T) < sizeof(int64_t)) {
      v = d.emit(kMaximumScalar, {v}, {{"scalar", d.number(int64_t{std::numeric_limits<T>::min()})}});
      v = d.emit(kMinimumScalar, {v}, {{"scalar", d.number(int64_t{std::numeric_limits<T>::max()})}});
    }
  });
  return v;
}

// Computed in 64-bit integers, or in the type of the result where that is floating.
void decomposeRange(DecomposeRule &d) {
  const RangeParams &p = d.params<RangeParams>();
  const int64_t length = d.size(d.self(0), 0);
  const int64_t numbers[] = {ceilDiv(length, p.repeat).nearest()}, all[] = {length};
  const Value base = d.emit(kFull, {}, {{"shape", d.tuple(numbers)}, {"value", "0"}});
  Value y = d.emit(kIndexLike, {base});
  auto inType = [&](Value v) { return d.emit(kCast, {v}, {{"dtype", dtypeName(p.dtype)}}); };
  if (isFloating(p.dtype)) y = inType(y);
  y = d.emit(kMulScalar, {y}, {{"scalar", d.number(p.step)}});
  y = d.emit(kPlusScalar, {y}, {{"scalar", d.number(p.start)}});
  if (!isFloating(p.dtype)) y = inType(withinType(d, y));
  if (p.repeat > 1) y = d.emit(kRepeat, {y}, {{"repeats", d.number(p.repeat)}});
  if (length % p.repeat != 0) y = d.emit(kSlice, {y}, {{"begin", "(0,)"}, {"end", d.tuple(all)}});
  d.y(0, y);
}

constinit const OpDef kRange = asCreation<RangeParams>({
    .name = "_arange",
    .aliases = {"_npi_arange"},
    .summary = "start, start + step, … before stop, each repeat times",
    .attrs = kRangeAttrs,
    .check = checkRange,
    .shape =
        [](ShapeInference &s) {
          const RangeParams &p = s.params<RangeParams>();
          if (isInferred(p)) return s.setOut(0, {kUnknownDim});
          s.setOut(0, {lengthOf(p).inShape()});
        },
    .decompose = decomposeRange,
    .kernel = fillRange,
});

}  // namespace

constinit const OpFamily kRangesFamily = kOps<kEye, kLinspace, kArangeLike, kIndexArray, kRange>;

}  // namespace gradc
