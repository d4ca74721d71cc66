// Largest and smallest elements and sorting along an axis: topk, and sort and argsort, which are topk of a whole axis.
//
// Equal elements keep their order, and NaN comes after all numbers in either direction. MXNet specifies neither: its
// sort is not stable beyond sixteen elements. Positions have the type `dtype`, or int32 if only values are requested.
// Tested by tests/ops/ordering_ops_test.cc
#include "ops/index/ordering.h"

#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ir/tensor/dim.h"
#include "ops/elementwise/elementwise.h"
#include "ops/index/along_axis.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/pieces.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

enum class Wanted : uint8_t { Values, Positions, Mask, Both };
constexpr StringRef kWantedNames[] = {"value", "indices", "mask", "both"};
constexpr ArrayRef<StringRef> enumNames(Wanted) { return kWantedNames; }

struct OrderParams {
  std::optional<int64_t> axis;
  int64_t k = 0;  // below 1: all
  Wanted wanted = Wanted::Values;
  bool isAscending = false;
  DType dtype = DType::Int32;

  bool hasValues() const { return wanted == Wanted::Values || wanted == Wanted::Both; }
};

constexpr AttrSpec kAxisAttr =
    ofAxis(attr<&OrderParams::axis>("axis", "-1", "the axis; None: all elements in row-major order"));
constexpr AttrSpec kTopkAttrs[] = {
    kAxisAttr,
    attr<&OrderParams::k>("k", "1", "how many elements; below 1: all"),
    attr<&OrderParams::wanted>("ret_typ", "indices",
                               "elements, their positions, both, or 1 where they are and 0 elsewhere"),
    attr<&OrderParams::isAscending>("is_ascend", "False", "whether the smallest elements are taken"),
    attr<&OrderParams::dtype>("dtype", "float32", "type of positions"),
};
constexpr AttrSpec kAscending =
    attr<&OrderParams::isAscending>("is_ascend", "True", "whether the smallest comes first");
constexpr AttrSpec kSortAttrs[] = {kAxisAttr, kAscending};
constexpr AttrSpec kArgsortAttrs[] = {kAxisAttr, kAscending, kTopkAttrs[4]};

Error checkTopk(const OpDef &, void *params) {
  OrderParams &p = *static_cast<OrderParams *>(params);
  switch (p.dtype) {
    case DType::UInt8:
    case DType::Int32:
    case DType::Int64:
    case DType::Float16:
    case DType::Float32:
    case DType::Float64: break;
    default:
      return Failure(ErrorKind::BadAttribute, "attribute 'dtype' is " + dtypeName(p.dtype) +
                                                  ", expected uint8, int32, int64, float16, float32 or float64");
  }
  if (p.wanted == Wanted::Values) p.dtype = DType::Int32;
  return Error::success();
}
Error checkArgsort(const OpDef &op, void *params) {
  static_cast<OrderParams *>(params)->wanted = Wanted::Positions;
  return checkTopk(op, params);
}

// The largest n such that the type has all integers from 0 to n.
int64_t largestPosition(DType type) {
  switch (type) {
    case DType::UInt8: return 255;
    case DType::Float16: return int64_t{1} << 11;
    case DType::Float32: return int64_t{1} << 24;
    case DType::Int32: return std::numeric_limits<int32_t>::max();
    default: return kMaxElements;
  }
}

// Fails if an axis of this length has fewer than k elements, or more than the positions' type can distinguish.
void checkLength(ShapeInference &s, int64_t length) {
  const OrderParams &p = s.params<OrderParams>();
  if (p.k > length) return s.fail("k is " + Twine(p.k) + ", the axis has " + Twine(length) + " elements");
  if (p.wanted != Wanted::Mask && length > largestPosition(p.dtype))
    s.fail("the axis has " + Twine(length) + " elements, but type " + dtypeName(p.dtype) +
           " represents positions only up to " + Twine(largestPosition(p.dtype)));
}

void orderShape(ShapeInference &s) {
  const OrderParams &p = s.params<OrderParams>();
  if (s.numOutputs() == 2) s.sameOutOut(0, 1);
  if (p.wanted == Wanted::Mask) s.sameInOut(0, 0);
  const int64_t numTaken = p.k < 1 ? kUnknownDim : p.k;
  if (!p.axis) {
    if (p.wanted != Wanted::Mask) s.setOut(0, {numTaken});
    if (s.hasFailed() || !s.in(0).isFullyKnown()) return;
    const Dim length = productOf(s.in(0).dims());
    checkLength(s, length.nearest());
    if (p.wanted != Wanted::Mask && p.k < 1) s.setOut(0, {length.inShape()});
  } else {
    auto along = [&](ShapeRef shape) {
      const std::optional<size_t> axis = normalizeAxis(*p.axis, shape.rank());
      if (!axis) s.fail("axis " + Twine(*p.axis) + " is out of range for an input of shape " + toString(shape));
      return axis;
    };
    // If all elements are taken, even the lengths are equal.
    auto related = [&](ShapeRef shape, int64_t length) {
      DimsBuffer dims(shape.dims());
      if (std::optional<size_t> axis = along(shape); axis && p.k >= 1) dims[*axis] = length;
      return dims;
    };
    if (p.wanted != Wanted::Mask && s.out(0).hasRank()) s.setIn(0, related(s.out(0), kUnknownDim));
    if (s.hasFailed() || !s.in(0).hasRank()) return;
    const std::optional<size_t> axis = along(s.in(0));
    if (!axis) return;
    if (s.in(0)[*axis] != kUnknownDim) checkLength(s, s.in(0)[*axis]);
    if (!s.hasFailed() && p.wanted != Wanted::Mask) s.setOut(0, related(s.in(0), numTaken));
  }
  if (!s.hasFailed() && s.numOutputs() == 2) s.sameOutOut(0, 1);
}

// dy, the values and their positions have one shape: that of dx except for the axis.
void backwardShape(ShapeInference &s) {
  const OrderParams &p = s.params<OrderParams>();
  for (int pass = 0; pass < 2; ++pass) {
    s.sameInIn(0, 1);
    s.sameInIn(0, 2);
  }
  if (!p.axis) return s.setIn(0, {kUnknownDim});
  for (bool isForward : {true, false}) {
    const ShapeRef known = isForward ? s.in(0) : s.out(0);
    if (s.hasFailed() || !known.hasRank()) continue;
    DimsBuffer dims(known.dims());
    const std::optional<size_t> axis = normalizeAxis(*p.axis, dims.size());
    if (!axis) return s.fail("axis " + Twine(*p.axis) + " is out of range for an input of shape " + toString(known));
    dims[*axis] = kUnknownDim;
    if (isForward) s.setOut(0, dims);
    else s.setIn(0, dims);
  }
}

void orderDType(DTypeInference &t) {
  const OrderParams &p = t.params<OrderParams>();
  if (p.wanted == Wanted::Positions) return t.setOut(0, p.dtype);
  t.sameInOut(0, 0);
  if (t.numOutputs() == 2) t.setOut(1, p.dtype);
}

// The tensor and the axis to order along; without an axis, all elements as one row.
struct Ordered {
  DimsBuffer shape;
  size_t axis = 0;

  Ordered(const OrderParams &p, Dims whole) {
    if (p.axis) {
      shape.assign(whole.begin(), whole.end());
      axis = *normalizeAxis(*p.axis, whole.size());
    } else {
      shape.push_back(TensorRef(nullptr, DType::Unknown, whole).size());
    }
  }
};

// Orders the elements of input 0 as those of `base` are ordered.
void orderElements(const KernelCall &call, const TensorRef &base) {
  const OrderAttrs p = orderAttrs(*call.kind, base.shape);
  const AxisRows &rows = p.rows;
  const bool writesValues = p.values && call.wants(*p.values);
  const bool writesPositions = p.positions && call.wants(*p.positions);
  if (p.isMask && call.wants(0)) writeZeros(call);
  dispatchNumeric(base.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[0].as<const T>();
    // Rows of the result are like those of the input, except for the length.
    AxisRows out = rows;
    out.length = p.taken;
    sortRows(base.as<const T>(), rows, p.isAscending, p.taken, call.workspace,
             [&](int64_t row, ArrayRef<int64_t> order) {
               order = order.take_front(static_cast<size_t>(p.taken));
               if (p.isMask && call.wants(0))
                 for (int64_t at : order) call.out[0].as<T>()[rows.begin(row) + at * rows.inner] = T(1);
               for (size_t k = 0; k < order.size() && writesValues; ++k)
                 call.out[0].as<T>()[out.begin(row) + static_cast<int64_t>(k) * out.inner] =
                     x[rows.begin(row) + order[k] * rows.inner];
               if (!writesPositions) return;
               const TensorRef &positions = call.out[*p.positions];
               dispatchNumeric(positions.dtype, [&](auto of) {
                 using P = decltype(of);
                 for (size_t k = 0; k < order.size(); ++k)
                   positions.as<P>()[out.begin(row) + static_cast<int64_t>(k) * out.inner] = static_cast<P>(order[k]);
               });
             });
  });
}

void orderKernel(const KernelCall &call) { orderElements(call, call.in[0]); }
void orderPiece(const PieceCall &call) { orderElements(call, call.base[0]); }

size_t orderBytes(const NodeKind &kind, ArrayRef<TensorRef> in, ArrayRef<TensorRef>) {
  const Ordered ordered(kind.params<OrderParams>(), in[0].shape);
  return static_cast<size_t>(ordered.shape[ordered.axis]) * sizeof(int64_t);
}

Value flattened(DecomposeRule &d, Value x) {
  return d.params<OrderParams>().axis ? x : d.emit(kReshape, {x}, {{"shape", "(-1,)"}});
}

void decomposeOrder(DecomposeRule &d) {
  const OrderParams &p = d.params<OrderParams>();
  const Value x = flattened(d, d.x(0));
  const StringRef axis = d.number(p.axis.value_or(0));
  Value taken = d.emit(kSortOrder, {x}, {{"axis", axis}, {"is_ascend", p.isAscending ? "True" : "False"}});
  if (p.k >= 1) taken = d.emit(kSliceAxis, {taken}, {{"axis", axis}, {"begin", "0"}, {"end", d.number(p.k)}});
  if (p.wanted == Wanted::Mask) {
    const Value ones = d.emit(kCastLike, {d.emit(kOnesLike, {taken}), x});
    const Value mask = d.emit(kScatterAlongAxis, {ones, taken, x}, {{"axis", axis}});
    return d.y(0, p.axis ? mask : d.emit(kReshapeLike, {mask, d.x(0)}));
  }
  if (p.hasValues()) d.y(0, d.emit(kTakeAlongAxis, {x, taken}, {{"axis", axis}}));
  d.y(p.hasValues() ? 1 : 0, d.emit(kCast, {taken}, {{"dtype", dtypeName(p.dtype)}}));
}

extern const OpDef kBackwardTopk;

void differentiateOrder(GradRule &g) {
  const OrderParams &p = g.params<OrderParams>();
  if (!p.hasValues()) return g.dx(0, g.emit(kZerosLike, {g.x(0)}));
  if (g.isZero(0)) return g.noGrad(0);
  g.fused(kBackwardTopk, {g.dy(0), g.y(0), g.y(1)});
}

// The values are an operand in MXNet; they are not read.
constinit const OpDef kBackwardTopk = {
    .name = "_backward_topk",
    .summary = "gradient of topk and sort: dx = dy at the positions that were taken, 0 elsewhere",
    .inputs = {"dy", "values", "indices"},
    .attrs = kTopkAttrs,
    .params = paramsOf<OrderParams>(),
    .check = checkTopk,
    .shape = backwardShape,
    .dtype = [](DTypeInference &t) { t.sameInOut(0, 0); },
    .ignored = {1},
    .stopped = {1, 2},
    .flags = {.isBackward = true},
    .gradient =
        [](GradRule &g) {
          const OrderParams &p = g.params<OrderParams>();
          const Value head = p.axis ? g.dy(0) : g.emit(kReshape, {g.dy(0)}, {{"shape", "(-1,)"}});
          g.dx(0, g.emit(kTakeAlongAxis, {head, g.x(2)}, {{"axis", g.number(p.axis.value_or(0))}}));
          g.noGrad(1);
          g.noGrad(2);
        },
    .decompose =
        [](DecomposeRule &d) {
          const OrderParams &p = d.params<OrderParams>();
          const Value x = d.forwardInput(0);
          const Value dx =
              d.emit(kScatterAlongAxis, {d.x(0), d.x(2), flattened(d, x)}, {{"axis", d.number(p.axis.value_or(0))}});
          d.y(0, p.axis ? dx : d.emit(kReshapeLike, {dx, x}));
        },
    .kernel =
        [](const KernelCall &call) {
          if (!call.wants(0)) return;
          const Ordered ordered(call.params<OrderParams>(), call.out[0].shape);
          dispatchFloating(call.out[0].dtype, [&](auto zero) {
            using T = decltype(zero);
            scatterAlong(call.in[0], call.in[2], call.out[0].as<T>(), ordered.shape, ordered.axis, call.workspace);
          });
        },
    .piece = chooseAtBase<0>,
    .workspace = [](const NodeKind &, ArrayRef<TensorRef>, ArrayRef<TensorRef> out) { return scatterBytes(out[0]); },
};

constexpr OpDef ordering(NameList names, StringRef summary, ArrayRef<AttrSpec> attrs) {
  OpDef op = named(names, summary);
  op.inputs = {"data"};
  op.attrs = attrs;
  op.params = paramsOf<OrderParams>();
  op.shape = orderShape;
  op.dtype = orderDType;
  op.kernelTypes = kFloatingAndIntegers;
  op.gradient = differentiateOrder;
  op.decompose = decomposeOrder;
  op.kernel = orderKernel;
  op.piece = orderPiece;
  op.workspace = orderBytes;
  return op;
}

constinit const OpDef kTopk = [] {
  OpDef op = ordering({"topk", "_npx_topk"}, "the k largest or smallest elements along an axis, in order", kTopkAttrs);
  op.outputs = {{}, [](const NodeKind &k) { return k.params<OrderParams>().hasValues() ? 2u : 1u; }};
  op.visibleOutputs = [](const NodeKind &k) { return k.params<OrderParams>().wanted == Wanted::Both ? 2u : 1u; };
  op.check = checkTopk;
  return op;
}();

// The gradient states its axis. MXNet writes an empty axis if sort has none, and cannot load that again.
constinit const OpDef kSort = [] {
  OpDef op = ordering({"sort", "_npi_sort"}, "the elements sorted along an axis", kSortAttrs);
  op.outputs = {"output0", "output1"};  // as MXNet names them
  op.visibleOutputs = [](const NodeKind &) { return 1u; };
  op.gradient = [](GradRule &g) {
    const OrderParams &p = g.params<OrderParams>();
    if (g.isZero(0)) return g.noGrad(0);
    const AttrText attrs[] = {{"axis", p.axis ? g.number(*p.axis) : "None"},
                              {"is_ascend", p.isAscending ? "True" : "False"},
                              {"k", "0"},
                              {"ret_typ", "value"}};
    g.fused(kBackwardTopk, {g.dy(0), g.y(0), g.y(1)}, g.context().attrs(attrs));
  };
  return op;
}();

constinit const OpDef kArgsort = [] {
  OpDef op = ordering({"argsort", "_npi_argsort"}, "the positions that sort the elements along an axis", kArgsortAttrs);
  op.check = checkArgsort;
  return op;
}();

}  // namespace

OrderAttrs orderAttrs(const NodeKind &kind, Dims shape) {
  const OrderParams &p = kind.params<OrderParams>();
  const Ordered ordered(p, shape);
  OrderAttrs attrs{AxisRows(ordered.shape, ordered.axis), p.k, p.isAscending, p.wanted == Wanted::Mask};
  if (p.k < 1) attrs.taken = attrs.rows.length;
  if (p.hasValues()) attrs.values = 0;
  if (!attrs.isMask) attrs.positions = p.hasValues() ? 1 : 0;
  return attrs;
}

constinit const OpFamily kOrderingFamily = kOps<kTopk, kSort, kArgsort, kBackwardTopk>;

}  // namespace gradc
