// softmax, softmin and log_softmax along one axis, with a temperature and, for softmax, row lengths; and their
// gradients.
//
// All three are one row function of z = ±x/temperature. Gradients read y, as MXNet's do; y is differentiated through
// the forward node, which makes every higher order right. Elements beyond a row's length are 0 and stay so in the
// gradient. A requested dtype is that of the output; the gradient has the data's. Sums run in float64.
// Tested by tests/ops/layer_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/attrs.h"
#include "ops/kit/axis_rows.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/normalization/softmax.h"
#include "ops/normalization/softmax_rows.h"
#include "ops/spatial/spatial.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

struct SoftmaxParams {
  int64_t axis = -1;
  std::optional<double> temperature;
  DType dtype = DType::Unknown;
  Tristate useLength = Tristate::False;

  double divisor() const { return temperature.value_or(1); }
};

constexpr AttrSpec kAttrs[] = {
    ofAxis(attr<&SoftmaxParams::axis>("axis", "-1", "the axis of the rows; negative: counted from the end")),
    attr<&SoftmaxParams::temperature>("temperature", "None", "what the data is divided by; None: 1"),
    attr<&SoftmaxParams::dtype>("dtype", "None", "type of the output; None: the data's"),
    attr<&SoftmaxParams::useLength>("use_length", "False", "whether there is an input with the length of each row"),
};

Error checkParams(const OpDef &, void *params) {
  SoftmaxParams &p = *static_cast<SoftmaxParams *>(params);
  p.useLength = settle(p.useLength);
  if (p.dtype != DType::Unknown && !isFloating(p.dtype))
    return Failure(ErrorKind::BadAttribute,
                   "attribute 'dtype' is " + dtypeName(p.dtype) + ", expected a floating type or None");
  if (p.temperature == 0.0)
    return Failure(ErrorKind::BadAttribute, "attribute 'temperature' is 0, expected another number");
  return Error::success();
}

Error checkWithoutLength(const OpDef &op, void *params) {
  if (Error error = checkParams(op, params)) return error;
  if (static_cast<SoftmaxParams *>(params)->useLength != Tristate::True) return Error::success();
  return Failure(ErrorKind::BadAttribute, "attribute 'use_length' is True, expected False: only softmax takes lengths");
}

enum class RowFunction : uint8_t { Softmax, Softmin, LogSoftmax };

const SoftmaxParams &paramsOf(const NodeKind &kind) { return kind.params<SoftmaxParams>(); }
bool hasLength(const NodeKind &kind) { return paramsOf(kind).useLength == Tristate::True; }
// MXNet's gradient takes the data where its type or the lengths matter.
bool takesData(const NodeKind &kind) { return hasLength(kind) || paramsOf(kind).dtype != DType::Unknown; }

AxisRows rowsOf(const KernelCall &call, Dims shape) {
  if (shape.empty()) return AxisRows(shape, 0);
  return AxisRows(shape, normalizeAxis(paramsOf(*call.kind).axis, shape.size()).value_or(0));
}

// Number of elements of a row that take part.
int64_t rowLength(const KernelCall &call, const AxisRows &rows, int64_t row) {
  if (call.in.size() < 2) return rows.length;
  double length = 0;
  dispatchNumeric(call.in[1].dtype,
                  [&](auto zero) { length = static_cast<double>(call.in[1].as<const decltype(zero)>()[row]); });
  return length >= 0 ? static_cast<int64_t>(std::min(length, static_cast<double>(rows.length))) : 0;
}

template <RowFunction F> SoftmaxRows softmaxRowsOf(const KernelCall &call, Dims shape) {
  const double factor = (F == RowFunction::Softmin ? -1 : 1) / paramsOf(*call.kind).divisor();
  return {rowsOf(call, shape), factor, F == RowFunction::LogSoftmax};
}

template <RowFunction F> void forward(const KernelCall &call) {
  if (!call.wants(0)) return;
  const SoftmaxRows softmax = softmaxRowsOf<F>(call, call.in[0].shape);
  dispatchFloating(call.in[0].dtype, [&](auto in) {
    dispatchFloating(call.out[0].dtype, [&](auto out) {
      const auto *x = call.in[0].as<const decltype(in)>();
      for (int64_t row = 0; row < softmax.count(); ++row)
        softmax.forward(x, call.out[0].as<decltype(out)>(), row, rowLength(call, softmax.rows, row));
    });
  });
}

template <RowFunction F> void backward(const KernelCall &call) {
  if (call.out.size() == 2 && call.wants(1)) std::memset(call.out[1].data, 0, call.out[1].bytes());
  if (!call.wants(0)) return;
  const SoftmaxRows softmax = softmaxRowsOf<F>(call, call.out[0].shape);
  dispatchFloating(call.in[0].dtype, [&](auto in) {
    dispatchFloating(call.out[0].dtype, [&](auto out) {
      const auto *dy = call.in[0].as<const decltype(in)>(), *y = call.in.back().as<const decltype(in)>();
      for (int64_t row = 0; row < softmax.count(); ++row) softmax.backward(dy, y, call.out[0].as<decltype(out)>(), row);
    });
  });
}

void checkAxis(ShapeInference &s) {
  const int64_t axis = paramsOf(s.kind()).axis;
  if (!s.hasFailed() && s.in(0).hasRank() && s.in(0).rank() > 0 && !normalizeAxis(axis, s.in(0).rank()))
    s.fail("axis " + Twine(axis) + " is outside data of shape " + toString(s.in(0)));
}

// A length per row: the data's shape without the axis. A scalar is a row of one element.
void relateLength(ShapeInference &s, size_t data, size_t length) {
  checkAxis(s);
  if (s.hasFailed() || !s.in(data).hasRank()) return;
  if (s.in(data).rank() == 0) return s.setIn(length, Dims());
  const size_t axis = *normalizeAxis(paramsOf(s.kind()).axis, s.in(data).rank());
  DimsBuffer dims(s.in(data).dims());
  const int64_t rowLength = dims[axis];
  dims.erase(dims.begin() + static_cast<ptrdiff_t>(axis));
  s.setIn(length, dims);
  if (s.hasFailed()) return;
  DimsBuffer whole(s.in(length).dims());
  whole.insert(whole.begin() + static_cast<ptrdiff_t>(axis), rowLength);
  s.setIn(data, whole);
}

void forwardShape(ShapeInference &s) {
  s.sameInOut(0, 0);
  if (s.numInputs() == 2) relateLength(s, 0, 1);
  else checkAxis(s);
  s.sameInOut(0, 0);
}

void forwardType(DTypeInference &t) {
  const DType wanted = paramsOf(t.kind()).dtype;
  if (wanted != DType::Unknown) t.setOut(0, wanted);
  if (wanted == DType::Unknown || t.in(0) == DType::Unknown) t.sameInOut(0, 0);
}

// Inputs are dy, y; or dy, x[, length], y if the data is taken.
void backwardShape(ShapeInference &s) {
  const size_t last = s.numInputs() - 1;
  for (int pass = 0; pass < 2; ++pass) {
    s.sameInOut(0, 0);
    s.sameInOut(last, 0);
    if (takesData(s.kind())) s.sameInOut(1, 0);
  }
  if (!hasLength(s.kind())) return checkAxis(s);
  relateLength(s, 1, 2);
  s.sameInOut(2, 1);
}

void backwardType(DTypeInference &t) {
  const size_t last = t.numInputs() - 1;
  t.sameInIn(0, last);
  t.sameInOut(takesData(t.kind()) ? 1 : 0, 0);
  t.sameInIn(0, last);
  if (hasLength(t.kind())) t.sameInOut(2, 1);
}

uint32_t numForwardInputs(const NodeKind &kind) { return hasLength(kind) ? 2 : 1; }
uint32_t numBackwardInputs(const NodeKind &kind) { return hasLength(kind) ? 4 : takesData(kind) ? 3 : 2; }
uint32_t numBackwardOutputs(const NodeKind &kind) { return hasLength(kind) ? 2 : 1; }
bool isBackwardIgnored(const NodeKind &kind, size_t input) {
  return (takesData(kind) && input == 1) || (hasLength(kind) && input == 2);
}
bool isBackwardStopped(const NodeKind &kind, size_t input) { return hasLength(kind) && (input == 1 || input == 2); }

template <const OpDef &Backward> void softmaxGradient(GradRule &g) {
  SmallVector<Value, 4> operands = {g.dy(0)};
  if (takesData(g.kind())) operands.push_back(g.x(0));
  if (hasLength(g.kind())) operands.push_back(g.x(1));
  operands.push_back(g.y(0));
  g.fused(Backward, operands);
  if (hasLength(g.kind())) g.noGrad(1);
}

// dy and y have the requested type; dx is converted to the data's, as by the gradient of a Cast.
Value inTypeOfData(DecomposeRule &d, Value dx) {
  const DType wanted = paramsOf(d.kind()).dtype;
  if (wanted == DType::Unknown) return dx;
  const Attrs attrs = d.context().attrs(AttrText{"dtype", dtypeName(wanted)});
  const Value cast = d.emit(kCast, d.x(1), attrs);
  return d.emitFused(kBackwardCast, dx, attrs, cast.node);
}

// 1 within a row's length, in the shape of the data. Lengths are truncated to integers, NaN to 0.
Value withinLength(DecomposeRule &d) {
  const StringRef axis = d.number(paramsOf(d.kind()).axis);
  Value length = d.emit(kCast, {d.x(1)}, {{"dtype", "int64"}}), data = d.x(0);
  if (d.rank(data) == 0) data = d.emit(kExpandDims, {data}, {{"axis", "0"}});
  length = d.emit(kExpandDims, {length}, {{"axis", axis}});
  const Value within = d.emit(kBroadcastGreater, {length, d.emit(kIndexLike, {data}, {{"axis", axis}})});
  return d.rank(d.x(0)) == 0 ? d.emit(kReshapeLike, {within, d.emit(kCast, {d.x(0)}, {{"dtype", "int64"}})}) : within;
}

// With z = ±x and m the largest z: exp((z − m) / temperature) / Σ, or (z − m) / temperature − ln Σ. The division comes
// after the subtraction, because quotients of large numbers round more than their difference. Beyond a row's length z
// is −∞ and y is 0, in rows of length 0 too.
template <RowFunction F> void decomposeForward(DecomposeRule &d) {
  const SoftmaxParams &p = paramsOf(d.kind());
  const StringRef axis = d.number(p.axis);
  auto over = [&](const OpDef &op, Value v) { return d.emit(op, {v}, {{"axis", axis}, {"keepdims", "True"}}); };
  const double factor = (F == RowFunction::Softmin ? -1 : 1) / p.divisor();
  Value z = d.x(0), within, zero;
  if (factor < 0) z = d.emit(kMulScalar, {z}, {{"scalar", d.number(-1.0)}});
  if (hasLength(d.kind())) {
    within = withinLength(d);
    zero = d.emit(kZerosLike, {z});
    z = d.emit(kWhere, {within, z, d.emit(kPlusScalar, {zero}, {{"scalar", "-inf"}})});
  }
  z = d.emit(kBroadcastSub, {z, over(kMax, z)});
  if (std::abs(factor) != 1) z = d.emit(kMulScalar, {z}, {{"scalar", d.number(std::abs(factor))}});
  const Value e = d.emit(kExp, {z}), sum = over(kSum, e);
  Value y =
      F == RowFunction::LogSoftmax ? d.emit(kBroadcastSub, {z, d.emit(kLog, {sum})}) : d.emit(kBroadcastDiv, {e, sum});
  if (within.isValid()) y = d.emit(kWhere, {within, y, zero});
  if (p.dtype != DType::Unknown) y = d.emit(kCast, {y}, {{"dtype", dtypeName(p.dtype)}});
  d.y(0, y);
}

template <RowFunction F> void decomposeBackward(DecomposeRule &d) {
  const Value dy = d.x(0), y = d.x(d.numInputs() - 1);
  const StringRef axis = d.number(paramsOf(d.kind()).axis);
  const double factor = (F == RowFunction::Softmin ? -1 : 1) / paramsOf(d.kind()).divisor();
  auto sum = [&](Value v) { return d.emit(kSum, {v}, {{"axis", axis}, {"keepdims", "True"}}); };
  Value dx;
  if (F == RowFunction::LogSoftmax)
    dx = d.emit(kElemwiseSub, {dy, d.emit(kBroadcastMul, {d.emit(kExp, {y}), sum(dy)})});
  else dx = d.emit(kElemwiseMul, {y, d.emit(kBroadcastSub, {dy, sum(d.emit(kElemwiseMul, {dy, y}))})});
  if (d.wants(0)) d.y(0, inTypeOfData(d, d.emit(kMulScalar, {dx}, {{"scalar", d.number(factor)}})));
  if (hasLength(d.kind()) && d.wants(1)) d.y(1, d.emit(kZerosLike, {d.x(2)}));
}

constexpr Domain kDomains[] = {Domain::Any, Domain::Length};

extern const OpDef kBackwardSoftmax, kBackwardSoftmin, kBackwardLogSoftmax;

template <RowFunction F, const OpDef &Backward>
constexpr OpDef forwardOf(StringRef name, StringRef alias, StringRef summary) {
  OpDef op;
  op.name = name;
  if (!alias.empty()) op.aliases = {alias};
  op.summary = summary;
  op.inputs = {"data"};
  op.attrs = kAttrs;
  op.params = gradc::paramsOf<SoftmaxParams>();
  op.check = checkWithoutLength;
  op.shape = forwardShape;
  op.dtype = forwardType;
  op.inplace = kInplaceFirst;
  op.gradient = softmaxGradient<Backward>;
  op.decompose = decomposeForward<F>;
  op.kernel = forward<F>;
  return op;
}

constexpr OpDef withLength(OpDef op) {
  op.inputs = {{"data", "length"}, numForwardInputs};
  op.check = checkParams;
  op.stopped = {1};
  op.domains = kDomains;
  return op;
}

}  // namespace

constinit const OpDef kSoftmax = withLength(forwardOf<RowFunction::Softmax, kBackwardSoftmax>(
    "softmax", "_npx_softmax",
    "y[k] = exp(x[k]/t) / Σ over j of exp(x[j]/t) along the axis, t the temperature; 0 beyond a row's length"));

constinit const OpDef kLogSoftmax = forwardOf<RowFunction::LogSoftmax, kBackwardLogSoftmax>(
    "log_softmax", "_npx_log_softmax", "y[k] = x[k]/t − ln Σ over j of exp(x[j]/t) along the axis, t the temperature");

namespace {

constinit const OpDef kSoftmin = forwardOf<RowFunction::Softmin, kBackwardSoftmin>(
    "softmin", "", "y[k] = exp(−x[k]/t) / Σ over j of exp(−x[j]/t) along the axis, t the temperature");

template <RowFunction F> constexpr OpDef backwardOf(StringRef name, StringRef summary) {
  return {
      .name = name,
      .summary = summary,
      .inputs = {{}, numBackwardInputs, true},
      .outputs = {{"data_grad", "length_grad"}, numBackwardOutputs},
      .attrs = kAttrs,
      .params = gradc::paramsOf<SoftmaxParams>(),
      .check = checkParams,
      .shape = backwardShape,
      .dtype = backwardType,
      .inplace = kInplaceFirst,
      .ignored = isBackwardIgnored,
      .stopped = isBackwardStopped,
      .flags = {.isBackward = true},
      .decompose = decomposeBackward<F>,
      .kernel = backward<F>,
  };
}

constinit const OpDef kBackwardSoftmax =
    backwardOf<RowFunction::Softmax>("_backward_softmax", "gradient of softmax: dx = y·(dy − Σ dy·y)/t");
constinit const OpDef kBackwardSoftmin =
    backwardOf<RowFunction::Softmin>("_backward_softmin", "gradient of softmin: dx = −y·(dy − Σ dy·y)/t");
constinit const OpDef kBackwardLogSoftmax =
    backwardOf<RowFunction::LogSoftmax>("_backward_log_softmax", "gradient of log_softmax: dx = (dy − exp(y)·Σ dy)/t");

}  // namespace

SoftmaxAttrs softmaxAttrs(const NodeKind &kind) {
  const bool isMin = kind.op == &kSoftmin || kind.op == &kBackwardSoftmin;
  const bool isLog = kind.op == &kLogSoftmax || kind.op == &kBackwardLogSoftmax;
  return {paramsOf(kind).axis, (isMin ? -1 : 1) / paramsOf(kind).divisor(), isLog, hasLength(kind)};
}

constinit const OpFamily kSoftmaxFamily =
    kOps<kSoftmax, kSoftmin, kLogSoftmax, kBackwardSoftmax, kBackwardSoftmin, kBackwardLogSoftmax>;

}  // namespace gradc
