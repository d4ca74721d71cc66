// Sums, means and extrema along axes. Tested by tests/formats/blocks/block_graph_test.cc
#include "formats/blocks/ops/op_row.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <limits>

using namespace llvm;

namespace gradc {
namespace {

/// The axes that are reduced; empty: all.
std::vector<int64_t> axesOf(OpTranslation &op, StringRef key) {
  std::vector<int64_t> axes = op.integers(key);
  for (int64_t &axis : axes) axis = op.axisOf("X", axis);
  if (op.flag("reduce_all", false) || axes.size() >= op.rank("X")) axes.clear();
  return axes;
}

Value reduced(OpTranslation &op, StringRef name, Value v, ArrayRef<int64_t> axes, bool keepsAxes) {
  if (axes.empty()) return op.emit(name, {v}, {{"keepdims", flagText(keepsAxes)}});
  return op.emit(name, {v}, {{"axis", tupleText(axes)}, {"keepdims", flagText(keepsAxes)}});
}

void reduce(OpTranslation &op, StringRef name) {
  const Value v = reduced(op, name, op.in("X"), axesOf(op, "dim"), op.flag("keep_dim", false));
  op.out("Out", op.integer("out_dtype", -1) < 0 ? v : op.emit("Cast", {v}, {{"dtype", op.dtype("out_dtype")}}));
}

void mean(OpTranslation &op) { op.out("Out", op.emit("mean", {op.in("X")})); }

/// 1 where |v| is below infinity, else 0.
Value isFinite(OpTranslation &op, Value v) {
  return op.scalar("_lesser_scalar", op.emit("abs", {v}), std::numeric_limits<double>::infinity());
}

// m + log Σ exp(x − m), where m is the maximum, or 0 if that is infinite: nothing overflows, and m's own gradients add
// up to 0. Of −∞ alone it is −∞, and the gradient is NaN, as in PyTorch.
void logsumexp(OpTranslation &op) {
  const Value x = op.in("X");
  const std::vector<int64_t> axes = axesOf(op, "axis");
  const Value largest = op.emit("BlockGrad", {reduced(op, "max", x, axes, true)});
  const Value m = op.emit("where", {isFinite(op, largest), largest, op.emit("zeros_like", {largest})});
  const Value sum = reduced(op, "sum", op.emit("exp", {op.emit("broadcast_sub", {x, m})}), axes, true);
  const Value kept = op.emit("elemwise_add", {op.emit("log", {sum}), m});
  const bool keepsAxes = op.flag("keepdim", false);
  op.out("Out", keepsAxes ? kept : reduced(op, "sum", kept, axes, false));
}

void squaredNorm(OpTranslation &op) { op.out("Out", op.emit("sum", {op.emit("square", {op.in("X")})})); }

void frobeniusNorm(OpTranslation &op) {
  const std::vector<int64_t> axes = axesOf(op, "dim");
  op.out("Out", reduced(op, "norm", op.in("X"), axes, op.flag("keep_dim", false)));
}

// (Σ sizeᵖ)^(1/p) for a finite p, in units of the largest size, or of the smallest where p < 0, so that no power
// overflows. Powers of 0, whose slopes are infinite, are taken of 1 instead: the slope is then 0, as that of |x| is at
// 0.
Value generalNorm(OpTranslation &op, Value size, ArrayRef<int64_t> axes, bool keepsAxes, double p) {
  const Value extreme = op.emit("BlockGrad", {reduced(op, p > 0 ? "max" : "min", size, axes, true)});
  const Value isAbove = op.scalar("_greater_scalar", extreme, 0);
  const Value isUnit = op.emit("elemwise_mul", {isAbove, isFinite(op, extreme)});
  const Value unit = op.emit("where", {isUnit, extreme, op.emit("ones_like", {extreme})});
  auto isZero = [&](Value v) { return op.scalar("_equal_scalar", v, 0); };
  auto power = [&](Value v, Value of0, double exponent) {
    return op.scalar("_power_scalar", op.emit("elemwise_add", {v, of0}), exponent);
  };
  const Value zeros = isZero(size), powers = power(op.emit("broadcast_div", {size, unit}), zeros, p);
  Value norm;
  if (p > 0) {
    const Value sum = reduced(op, "sum", op.emit("elemwise_sub", {powers, zeros}), axes, true), none = isZero(sum);
    norm = op.emit("elemwise_sub", {power(sum, none, 1 / p), none});
  } else {  // 0 if one size is
    const Value root = op.scalar("_power_scalar", reduced(op, "sum", powers, axes, true), 1 / p);
    norm = op.emit("elemwise_mul", {root, isAbove});
  }
  norm = op.emit("elemwise_mul", {norm, unit});
  return keepsAxes ? norm : reduced(op, "sum", norm, axes, false);
}

// (Σ |x|ᵖ)^(1/p); an infinite p is the extremum of |x|.
void pNorm(OpTranslation &op) {
  const double p = op.number("porder", 2);
  if (p == 0) return op.unsupported("'porder' 0 is not supported");
  const bool isFlat = op.flag("asvector", false), keepsAxes = op.flag("keepdim", false);
  const std::vector<int64_t> axes =
      isFlat ? std::vector<int64_t>() : std::vector<int64_t>{op.axisOf("X", op.integer("axis", -1))};
  const Value x = op.in("X");
  if (p == 2) return op.out("Out", reduced(op, "norm", x, axes, keepsAxes));
  const Value size = op.emit("abs", {x});
  if (p == 1) return op.out("Out", reduced(op, "sum", size, axes, keepsAxes));
  if (std::isinf(p)) return op.out("Out", reduced(op, p > 0 ? "max" : "min", size, axes, keepsAxes));
  op.out("Out", generalNorm(op, size, axes, keepsAxes, p));
}

// Of truth values.
void reduceTruth(OpTranslation &op, StringRef name) {
  const Value numbers = op.emit("Cast", {op.in("X")}, {{"dtype", "int32"}});
  const Value v = reduced(op, name, numbers, axesOf(op, "dim"), op.flag("keep_dim", false));
  op.out("Out", op.emit("Cast", {v}, {{"dtype", "bool"}}));
}

Value reversed(OpTranslation &op, Value v, int64_t axis) {
  std::string step = "(";
  const auto rank = static_cast<int64_t>(op.rank("X"));
  std::string ends = "(";
  for (int64_t i = 0; i < rank; ++i) {
    step += i == axis ? "-1, " : "None, ";
    ends += "None, ";
  }
  return op.emit("slice", {v}, {{"begin", ends + ")"}, {"end", ends + ")"}, {"step", step + ")"}});
}

void cumsum(OpTranslation &op) {
  Value x = op.in("X");
  const bool isFlat = op.flag("flatten", false), isReverse = op.flag("reverse", false);
  if (isFlat && isReverse) return op.unsupported("'flatten' with 'reverse' is not supported");
  if (isFlat) x = op.reshaped(x, {-1});
  const int64_t axis = isFlat ? 0 : op.axisOf("X", op.integer("axis", -1));
  const Value terms = isReverse ? reversed(op, x, axis) : x;
  Value v = op.emit("_np_cumsum", {terms}, {{"axis", std::to_string(axis)}});
  if (op.flag("exclusive", false)) v = op.emit("elemwise_sub", {v, terms});
  op.out("Out", isReverse ? reversed(op, v, axis) : v);
}

/// v moved by `by` places along an axis, numbers in front.
Value shifted(OpTranslation &op, Value v, int64_t axis, int64_t by, int64_t length, double number) {
  Value front = op.emit("ones_like", {op.sliced(v, axis, 0, by)});
  if (number != 1) front = op.timesScalar(front, number);
  return op.joined({front, op.sliced(v, axis, 0, length - by)}, axis);
}

// Doubles the number of factors until it reaches the length: right for zeros, too.
void cumprod(OpTranslation &op) {
  const int64_t axis = op.axisOf("X", op.integer("dim", -1)), length = op.dim("X", axis);
  Value v = op.in("X");
  for (int64_t by = 1; by < length && by < int64_t{1} << 40; by *= 2)
    v = op.emit("elemwise_mul", {v, shifted(op, v, axis, by, length, 1)});
  op.out("Out", length > 1 ? v : op.emit("_copy", {v}));
}

// ‖x − y‖, with broadcasting.
void distance(OpTranslation &op) {
  const double p = op.number("p", 2);
  const Value way = op.emit("broadcast_sub", {op.in("X"), op.in("Y")});
  if (p == 2) return op.out("Out", op.emit("norm", {way}));
  const Value size = op.emit("abs", {way});
  if (std::isinf(p)) return op.out("Out", op.emit(p > 0 ? "max" : "min", {size}));
  if (p == 0) return op.unsupported("'p' 0 is not supported");
  op.out("Out", p == 1 ? op.emit("sum", {size}) : generalNorm(op, size, {}, false, p));
}

// An extremum whose gradient is shared equally by the elements that attain it.
void sharedExtremum(OpTranslation &op, StringRef name) {
  const Value x = op.in("X");
  const std::vector<int64_t> axes = axesOf(op, "dim");
  const bool keepsAxes = op.flag("keep_dim", false);
  const Value extremum = op.emit("BlockGrad", {reduced(op, name, x, axes, true)});
  const Value attains = op.emit("BlockGrad", {op.emit("broadcast_equal", {x, extremum})});
  const Value sum = reduced(op, "sum", op.emit("where", {attains, x, op.emit("zeros_like", {x})}), axes, keepsAxes);
  op.out("Out", op.emit("elemwise_div", {sum, reduced(op, "sum", attains, axes, keepsAxes)}));
}

// log(eᵃ + eᵇ) = a + log(1 + eᵇ⁻ᵃ), a the larger one; a itself where that is infinite. Of −∞ alone the gradient is NaN,
// as in PyTorch.
Value logOfSum(OpTranslation &op, Value a, Value b) {
  const Value larger = op.emit("_maximum", {a, b}),
              way = op.emit("elemwise_sub", {op.emit("_minimum", {a, b}), larger});
  const Value rest = op.emit("Activation", {way}, {{"act_type", "softrelu"}});
  return op.emit("where", {isFinite(op, larger), op.emit("elemwise_add", {larger, rest}), larger});
}

// The logarithms of sums of ever longer parts, as in cumprod.
void logCumSumExp(OpTranslation &op) {
  if (op.flag("exclusive", false)) return op.unsupported("'exclusive' is not supported");
  Value v = op.in("X");
  const bool isFlat = op.flag("flatten", false), isReverse = op.flag("reverse", false);
  if (isFlat) return op.unsupported("'flatten' is not supported");
  const int64_t axis = op.axisOf("X", op.integer("axis", -1)), length = op.dim("X", axis);
  if (isReverse) v = reversed(op, v, axis);
  for (int64_t by = 1; by < length && by < int64_t{1} << 40; by *= 2)
    v = logOfSum(op, v, shifted(op, v, axis, by, length, -std::numeric_limits<double>::infinity()));
  op.out("Out", isReverse ? reversed(op, v, axis) : length > 1 ? v : op.emit("_copy", {v}));
}

void argExtremum(OpTranslation &op, StringRef name) {
  const bool isFlat = op.flag("flatten", false);
  const Value v = isFlat ? op.emit(name, {op.emit("Reshape", {op.in("X")}, {{"shape", "(-1,)"}})}, {{"axis", "0"}})
                         : op.emit(name, {op.in("X")},
                                   {{"axis", std::to_string(op.integer("axis", -1))},
                                    {"keepdims", flagText(op.flag("keepdims", false))}});
  const int64_t type = op.integer("dtype", -1);
  op.out("Out", op.emit("Cast", {v}, {{"dtype", type < 0 ? "int64" : op.dtype("dtype")}}));
}

constexpr BlockOpRow kRows[] = {
    {"arg_max", [](OpTranslation &op) { argExtremum(op, "argmax"); }},
    {"arg_min", [](OpTranslation &op) { argExtremum(op, "argmin"); }},
    {"cumprod", cumprod},
    {"cumsum", cumsum},
    {"dist", distance},
    {"frobenius_norm", frobeniusNorm},
    {"logcumsumexp", logCumSumExp},
    {"logsumexp", logsumexp},
    {"mean", mean},
    {"p_norm", pNorm},
    {"reduce_all", [](OpTranslation &op) { reduceTruth(op, "min"); }},
    {"reduce_amax", [](OpTranslation &op) { sharedExtremum(op, "max"); }},
    {"reduce_amin", [](OpTranslation &op) { sharedExtremum(op, "min"); }},
    {"reduce_any", [](OpTranslation &op) { reduceTruth(op, "max"); }},
    {"reduce_max", [](OpTranslation &op) { reduce(op, "max"); }},
    {"reduce_mean", [](OpTranslation &op) { reduce(op, "mean"); }},
    {"reduce_min", [](OpTranslation &op) { reduce(op, "min"); }},
    {"reduce_prod", [](OpTranslation &op) { reduce(op, "prod"); }},
    {"reduce_sum", [](OpTranslation &op) { reduce(op, "sum"); }},
    {"squared_l2_norm", squaredNorm},
};

}  // namespace

ArrayRef<BlockOpRow> reductionBlockOps() { return kRows; }

}  // namespace gradc
