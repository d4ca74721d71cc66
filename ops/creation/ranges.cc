// Tensors made of indices: the identity matrix, evenly spaced numbers, the indices of a tensor's elements.
// Tested by tests/ops/conformance_test.cc
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

constinit const OpDef kEye = {
    .name = "_eye",
    .summary = "a matrix of N rows and M columns: y[i, i + k] = 1, else 0",
    .attrs = kEyeAttrs,
    .params = paramsOf<EyeParams>(),
    .shape = eyeShape,
    .dtype = createdDType<EyeParams>,
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &) {},
    .decompose = decomposeEye,
    .kernel = eyeKernel,
};

constinit const OpDef kLinspace = {
    .name = "_linspace",
    .aliases = {"_npi_linspace"},
    .summary = "evenly spaced numbers: y[i] = start + i * (stop - start) / n, n = num - 1 with endpoint, else num",
    .attrs = kLinspaceAttrs,
    .params = paramsOf<LinspaceParams>(),
    .shape = [](ShapeInference &s) { s.setOut(0, {s.params<LinspaceParams>().num}); },
    .dtype = createdDType<LinspaceParams>,
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &) {},
    .decompose = decomposeLinspace,
    .kernel = linspaceKernel,
};

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

}  // namespace

constinit const OpFamily kRangesFamily = kOps<kEye, kLinspace, kArangeLike, kIndexArray>;

}  // namespace gradc
