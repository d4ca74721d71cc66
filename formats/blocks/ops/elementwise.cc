// Operators on elements: functions, arithmetic of two tensors, comparisons, constants. Tested by
// tests/formats/blocks/block_graph_test.cc
#include "formats/blocks/ops/op_row.h"
#include "formats/blocks/tables/gradient_forms.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

using namespace llvm;

namespace gradc {
namespace {

bool haveOneShape(OpTranslation &op) {
  ArrayRef<int64_t> x = op.shape("X"), y = op.shape("Y");
  return x == y && !is_contained(x, -1);
}

// No gradient flows through whole numbers, for which the kernels of gradients are not made, nor through a type that
// Paddle has no gradient of (`elementwise_mod`).
void binary(OpTranslation &op, StringRef equalShapes, StringRef broadcast) {
  const Value x = op.in("X"), y = op.in("Y");
  const bool isPlain = haveOneShape(op) && !equalShapes.empty();
  const Value v = isPlain ? op.emit(equalShapes, {x, y}) : op.emit(broadcast, {x, op.alignedWithX(y)});
  op.out("Out", op.isWhole("X") || hasEmptyMaker(op.type()) ? op.emit("BlockGrad", {v}) : v);
}

// Of equal operands, Paddle gives y the gradient, and gradc's operator the first one.
void extremum(OpTranslation &op, StringRef name) {
  const Value v = op.emit(name, {op.alignedWithX(op.in("Y")), op.in("X")});
  op.out("Out", op.isWhole("X") ? op.emit("BlockGrad", {v}) : v);
}

// Of a number and NaN, the number. x gets the gradient where it is chosen, also of equal operands and where both are
// NaN.
void extremumOfNumbers(OpTranslation &op, StringRef extremum, StringRef isChosen) {
  if (op.isWhole("X")) return binary(op, "", extremum);
  const Value x = op.in("X"), y = op.alignedWithX(op.in("Y"));
  const Value isBeyond = op.emit(isChosen, {x, y}), isAlone = op.emit("_not_equal", {y, y});
  const Value takesX = op.emit("broadcast_logical_or", {isBeyond, isAlone}), ones = op.emit("ones_like", {takesX});
  auto whole = [&](Value v) { return op.emit("broadcast_mul", {v, ones}); };
  op.out("Out", op.emit("where", {takesX, whole(x), whole(y)}));
}

Value asBool(OpTranslation &op, Value v) { return op.emit("Cast", {v}, {{"dtype", "bool"}}); }

void comparison(OpTranslation &op, StringRef name) {
  const Value x = op.in("X"), y = op.in("Y");
  op.out("Out", asBool(op, op.emit(name, {x, op.alignedWithX(y)})));
}

void unary(OpTranslation &op, StringRef name) { op.out("Out", op.emit(name, {op.in("X")})); }

void logicalNot(OpTranslation &op) { op.out("Out", asBool(op, op.emit("logical_not", {op.in("X")}))); }

// Of truth values only.
bool areTruths(OpTranslation &op) {
  if (op.isTruth("X")) return true;
  op.unsupported("whole numbers are not supported, expected truth values");
  return false;
}
void truth(OpTranslation &op, StringRef name) {
  if (areTruths(op)) comparison(op, name);
}
void bitwiseNot(OpTranslation &op) {
  if (areTruths(op)) logicalNot(op);
}

void assign(OpTranslation &op) { unary(op, "_copy"); }

void sum(OpTranslation &op) {
  const std::vector<Value> terms = op.ins("X");
  op.out("Out", op.emit("add_n", terms, {{"num_args", std::to_string(terms.size())}}));
}

void scale(OpTranslation &op) {
  op.refuse({"ScaleTensor"});
  const double scale = op.number("scale", 1), bias = op.number("bias", 0);
  Value v = op.in("X");
  const bool isBiasLast = op.flag("bias_after_scale", true);
  if (!isBiasLast && bias != 0) v = op.addScalar(v, bias);
  if (scale != 1 || bias == 0) v = op.timesScalar(v, scale);
  if (isBiasLast && bias != 0) v = op.addScalar(v, bias);
  op.out("Out", v);
}

void increment(OpTranslation &op) { op.out("Out", op.addScalar(op.in("X"), op.number("step", 1))); }

void cast(OpTranslation &op) { op.out("Out", op.emit("Cast", {op.in("X")}, {{"dtype", op.dtype("out_dtype")}})); }

// At a bound X keeps its gradient, as in `clip`.
void clip(OpTranslation &op) {
  const double least = op.number("min", 0), most = op.number("max", 0);
  const Value x = op.in("X");
  if (!op.has("Min") && !op.has("Max"))
    return op.out("Out", op.emit("clip", {x}, {{"a_min", numberText(least)}, {"a_max", numberText(most)}}));
  const Value v =
      op.has("Min") ? op.emit("broadcast_maximum", {x, op.in("Min")}) : op.scalar("_maximum_scalar", x, least);
  op.out("Out",
         op.has("Max") ? op.emit("broadcast_minimum", {v, op.in("Max")}) : op.scalar("_minimum_scalar", v, most));
}

/// Paddle starts from a [1] for a loss of shape [1, 1], too, and declares the loss's shape (D-24).
bool isSeedOfOneElement(OpTranslation &op, ArrayRef<int64_t> shape) {
  constexpr int64_t kLoss = 257;  // value of op_role: backward, of the loss
  if (shape != ArrayRef<int64_t>(1) || op.integer("op_role", 0) != kLoss) return false;
  return op.rank("Out") > 1 && all_of(op.shape("Out"), [](int64_t size) { return size == 1; });
}

void fillConstant(OpTranslation &op) {
  op.refuse({"ShapeTensor", "ShapeTensorList", "ValueTensor"});
  std::vector<int64_t> shape = op.integers("shape");
  if (shape.empty()) shape.push_back(1);  // a scalar
  if (isSeedOfOneElement(op, shape)) shape.assign(op.rank("Out"), 1);
  if (is_contained(shape, -1)) op.unsupported("attribute 'shape' has an unknown dimension");
  const std::string spelled = op.text("str_value", "");
  const std::string value = spelled.empty() ? numberText(op.number("value", 0)) : spelled;
  op.out("Out", op.emit("_full", {}, {{"shape", tupleText(shape)}, {"value", value}, {"dtype", op.dtype("dtype")}}));
}

/// Takes one dimension from the operand.
void fillLikeBatch(OpTranslation &op) {
  std::vector<int64_t> shape = op.integers("shape");
  const int64_t axis = op.integer("output_dim_idx", 0);
  if (axis < 0 || axis >= static_cast<int64_t>(shape.size())) {
    op.fail(ErrorKind::BadAttribute, "attribute 'output_dim_idx' is " + Twine(axis) + ", and 'shape' has " +
                                         Twine(shape.size()) + " dimensions");
    return;
  }
  shape[static_cast<size_t>(axis)] = op.dim("Input", op.integer("input_dim_idx", 0));
  if (is_contained(shape, -1)) op.unsupported("attribute 'shape' has an unknown dimension");
  const std::string spelled = op.text("str_value", "");
  const std::string value = spelled.empty() ? numberText(op.number("value", 0)) : spelled;
  op.out("Out", op.emit("_full", {}, {{"shape", tupleText(shape)}, {"value", value}, {"dtype", op.dtype("dtype")}}));
}

void fillAnyLike(OpTranslation &op) {
  const double value = op.number("value", 0);
  Value v = op.emit(value == 0 ? "zeros_like" : "ones_like", {op.in("X")});
  if (value != 0 && value != 1) v = op.timesScalar(v, value);
  if (op.integer("dtype", -1) >= 0) v = op.emit("Cast", {v}, {{"dtype", op.dtype("dtype")}});
  op.out("Out", v);
}

/// Values of a constant, by element type: `fp32_values` and so on, or `values` in older programs.
void assignValue(OpTranslation &op) {
  std::string values = "(";
  size_t number = 0;
  for (const char *key : {"bool_values", "int32_values", "int64_values"})
    for (int64_t value : op.integers(key)) {
      values += std::to_string(value) + ", ";
      ++number;
    }
  for (const char *key : {"fp32_values", "fp64_values"})
    for (double value : op.numbers(key)) {
      values += numberText(value) + ", ";
      ++number;
    }
  if (number == 0) return op.unsupported("attribute 'values' is not supported, expected one for the element type");
  std::vector<int64_t> shape = op.integers("shape");
  if (shape.empty()) shape.push_back(1);  // a scalar
  op.out("Out", op.emit("_constant", {},
                        {{"shape", tupleText(shape)}, {"values", values + ")"}, {"dtype", op.dtype("dtype")}}));
}

/// A whole number of elements whose shape the program declares.
void range(OpTranslation &op) {
  const int64_t number = op.dim("Out", 0);
  const Value start = op.in("Start");
  const Value steps = op.emit("_arange", {}, {{"start", "0"}, {"stop", std::to_string(number)}, {"dtype", "float64"}});
  const Value scaled = op.emit("broadcast_mul", {op.emit("_cast_like", {steps, start}), op.in("Step")});
  op.out("Out", op.emit("broadcast_add", {scaled, start}));
}

// As many numbers as the program declares.
void linspace(OpTranslation &op) {
  const int64_t number = op.dim("Out", 0);
  const std::string dtype = op.dtype("dtype");
  auto asOut = [&](StringRef slot) { return op.emit("Cast", {op.in(slot)}, {{"dtype", dtype}}); };
  const Value start = asOut("Start"), way = op.emit("broadcast_sub", {asOut("Stop"), start});
  const Value steps = op.emit("_arange", {}, {{"start", "0"}, {"stop", std::to_string(number)}, {"dtype", dtype}});
  const Value parts = op.timesScalar(steps, number > 1 ? 1 / static_cast<double>(number - 1) : 0);
  const Value points = op.emit("broadcast_add", {op.emit("broadcast_mul", {parts, way}), start});
  op.out("Out", op.emit("BlockGrad", {points}));  // as in Paddle
}

void eye(OpTranslation &op) {
  const int64_t rows = op.integer("num_rows", 1), columns = op.integer("num_columns", -1);
  op.out("Out", op.emit("_eye", {},
                        {{"N", std::to_string(rows)},
                         {"M", std::to_string(columns < 0 ? rows : columns)},
                         {"dtype", op.dtype("dtype")}}));
}

void shapeOf(OpTranslation &op) {
  op.out("Out", op.emit("Cast", {op.emit("shape_array", {op.in("Input")})}, {{"dtype", "int32"}}));
}

void numElements(OpTranslation &op) { op.out("Out", op.emit("size_array", {op.in("Input")})); }

/// Draws of gradc's generator: other numbers than Paddle's.
void draw(OpTranslation &op, StringRef name, AttrPair first, AttrPair second) {
  op.refuse({"ShapeTensor", "ShapeTensorList"});
  const std::vector<int64_t> shape = op.integers("shape");
  if (is_contained(shape, -1)) op.unsupported("attribute 'shape' has an unknown dimension");
  op.out("Out", op.emit(name, {}, {{"shape", tupleText(shape)}, first, second, {"dtype", op.dtype("dtype")}}));
}
void gaussian(OpTranslation &op) {
  draw(op, "_random_normal", {"loc", numberText(op.number("mean", 0))}, {"scale", numberText(op.number("std", 1))});
}
void uniform(OpTranslation &op) {
  draw(op, "_random_uniform", {"low", numberText(op.number("min", -1))}, {"high", numberText(op.number("max", 1))});
}

void where(OpTranslation &op) { op.out("Out", op.emit("where", {op.in("Condition"), op.in("X"), op.in("Y")})); }

void pow(OpTranslation &op) {
  op.refuse({"FactorTensor"});
  op.out("Out", op.scalar("_power_scalar", op.in("X"), op.number("factor", 1)));
}

void leakyRelu(OpTranslation &op) {
  op.out("Out",
         op.emit("LeakyReLU", {op.in("X")}, {{"act_type", "leaky"}, {"slope", numberText(op.number("alpha", 0.02))}}));
}

void arcTangent(OpTranslation &op) { op.out("Out", op.emit("_npi_arctan2", {op.in("X1"), op.in("X2")})); }

// x + w·(y − x)
void lerp(OpTranslation &op) {
  const Value x = op.in("X"), way = op.emit("broadcast_sub", {op.in("Y"), x});
  op.out("Out", op.emit("broadcast_add", {x, op.emit("broadcast_mul", {op.in("Weight"), way})}));
}

void floorDivide(OpTranslation &op) {
  const Value x = op.in("X"), y = op.alignedWithX(op.in("Y"));
  if (!op.isWhole("X")) return op.out("Out", op.emit("floor", {op.emit("broadcast_div", {x, y})}));
  // Exact for whole numbers: what the remainder leaves is a multiple.
  const Value rest = op.emit("broadcast_mod", {x, y});
  op.out("Out", op.emit("BlockGrad", {op.emit("broadcast_div", {op.emit("broadcast_sub", {x, rest}), y})}));
}

// Which elements are not numbers, infinite, or neither.
void isNotANumber(OpTranslation &op) {
  const Value x = op.in("X");
  op.out("Out", asBool(op, op.emit("broadcast_not_equal", {x, x})));
}
void compareWithInfinity(OpTranslation &op, StringRef name) {
  const double infinity = std::numeric_limits<double>::infinity();
  op.out("Out", asBool(op, op.scalar(name, op.emit("abs", {op.in("X")}), infinity)));
}

constexpr BlockOpRow kRows[] = {
    {"abs", [](OpTranslation &op) { unary(op, "abs"); }},
    {"assign", assign},
    {"assign_value", assignValue},
    {"atan2", arcTangent},
    {"bitwise_and", [](OpTranslation &op) { truth(op, "broadcast_logical_and"); }},
    {"bitwise_not", bitwiseNot},
    {"bitwise_or", [](OpTranslation &op) { truth(op, "broadcast_logical_or"); }},
    {"bitwise_xor", [](OpTranslation &op) { truth(op, "broadcast_logical_xor"); }},
    {"cast", cast},
    {"ceil", [](OpTranslation &op) { unary(op, "ceil"); }},
    {"clip", clip},
    {"cos", [](OpTranslation &op) { unary(op, "cos"); }},
    {"cosh", [](OpTranslation &op) { unary(op, "cosh"); }},
    {"elementwise_add", [](OpTranslation &op) { binary(op, "elemwise_add", "broadcast_add"); }},
    {"elementwise_div", [](OpTranslation &op) { binary(op, "elemwise_div", "broadcast_div"); }},
    {"elementwise_floordiv", floorDivide},
    {"elementwise_fmax",
     [](OpTranslation &op) { extremumOfNumbers(op, "broadcast_maximum", "broadcast_greater_equal"); }},
    {"elementwise_fmin",
     [](OpTranslation &op) { extremumOfNumbers(op, "broadcast_minimum", "broadcast_lesser_equal"); }},
    {"elementwise_max", [](OpTranslation &op) { extremum(op, "broadcast_maximum"); }},
    {"elementwise_min", [](OpTranslation &op) { extremum(op, "broadcast_minimum"); }},
    {"elementwise_mod", [](OpTranslation &op) { binary(op, "", "broadcast_mod"); }},
    {"elementwise_mul", [](OpTranslation &op) { binary(op, "elemwise_mul", "broadcast_mul"); }},
    {"elementwise_pow", [](OpTranslation &op) { binary(op, "", "broadcast_power"); }},
    {"elementwise_sub", [](OpTranslation &op) { binary(op, "elemwise_sub", "broadcast_sub"); }},
    {"equal", [](OpTranslation &op) { comparison(op, "broadcast_equal"); }},
    {"erf", [](OpTranslation &op) { unary(op, "erf"); }},
    {"exp", [](OpTranslation &op) { unary(op, "exp"); }},
    {"eye", eye},
    {"fill_any_like", fillAnyLike},
    {"fill_constant", fillConstant},
    {"fill_constant_batch_size_like", fillLikeBatch},
    {"fill_zeros_like", [](OpTranslation &op) { unary(op, "zeros_like"); }},
    {"floor", [](OpTranslation &op) { unary(op, "floor"); }},
    {"gaussian_random", gaussian},
    {"greater_equal", [](OpTranslation &op) { comparison(op, "broadcast_greater_equal"); }},
    {"greater_than", [](OpTranslation &op) { comparison(op, "broadcast_greater"); }},
    {"increment", increment},
    {"isfinite_v2", [](OpTranslation &op) { compareWithInfinity(op, "_lesser_scalar"); }},
    {"isinf_v2", [](OpTranslation &op) { compareWithInfinity(op, "_equal_scalar"); }},
    {"isnan_v2", isNotANumber},
    {"leaky_relu", leakyRelu},
    {"lerp", lerp},
    {"less_equal", [](OpTranslation &op) { comparison(op, "broadcast_lesser_equal"); }},
    {"less_than", [](OpTranslation &op) { comparison(op, "broadcast_lesser"); }},
    {"linspace", linspace},
    {"log", [](OpTranslation &op) { unary(op, "log"); }},
    {"logical_and", [](OpTranslation &op) { comparison(op, "broadcast_logical_and"); }},
    {"logical_not", logicalNot},
    {"logical_or", [](OpTranslation &op) { comparison(op, "broadcast_logical_or"); }},
    {"logical_xor", [](OpTranslation &op) { comparison(op, "broadcast_logical_xor"); }},
    {"not_equal", [](OpTranslation &op) { comparison(op, "broadcast_not_equal"); }},
    {"pow", pow},
    {"range", range},
    {"reciprocal", [](OpTranslation &op) { unary(op, "reciprocal"); }},
    {"relu", [](OpTranslation &op) { unary(op, "relu"); }},
    {"rnn_memory_helper", assign},
    {"rsqrt", [](OpTranslation &op) { unary(op, "rsqrt"); }},
    {"scale", scale},
    {"shape", shapeOf},
    {"share_data", [](OpTranslation &op) { unary(op, "BlockGrad"); }},  // Paddle's has no gradient
    {"sigmoid", [](OpTranslation &op) { unary(op, "sigmoid"); }},
    {"sign", [](OpTranslation &op) { unary(op, "sign"); }},
    {"sin", [](OpTranslation &op) { unary(op, "sin"); }},
    {"sinh", [](OpTranslation &op) { unary(op, "sinh"); }},
    {"size", numElements},
    {"softsign", [](OpTranslation &op) { unary(op, "softsign"); }},
    {"sqrt", [](OpTranslation &op) { unary(op, "sqrt"); }},
    {"square", [](OpTranslation &op) { unary(op, "square"); }},
    {"sum", sum},
    {"tan", [](OpTranslation &op) { unary(op, "tan"); }},
    {"tanh", [](OpTranslation &op) { unary(op, "tanh"); }},
    {"uniform_random", uniform},
    {"where", where},
};

}  // namespace

ArrayRef<BlockOpRow> elementwiseBlockOps() { return kRows; }

}  // namespace gradc
