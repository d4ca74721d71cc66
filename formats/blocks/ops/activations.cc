// Activation functions beyond those of one operator of gradc's. Tested by tests/formats/blocks/block_rules_test.cc
#include "formats/blocks/ops/op_row.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

void unary(OpTranslation &op, StringRef name) { op.out("Out", op.emit(name, {op.in("X")})); }

Value times(OpTranslation &op, Value a, Value b) { return op.emit("elemwise_mul", {a, b}); }
Value minus(OpTranslation &op, Value a, Value b) { return op.emit("elemwise_sub", {a, b}); }
Value clipped(OpTranslation &op, Value v, double low, double high) {
  return op.emit("clip", {v}, {{"a_min", numberText(low)}, {"a_max", numberText(high)}});
}
Value eluOf(OpTranslation &op, Value v, double alpha) {
  return op.emit("LeakyReLU", {v}, {{"act_type", "elu"}, {"slope", numberText(alpha)}});
}

// x·Φ(x), or with `approximate` x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))).
void gelu(OpTranslation &op) {
  if (!op.flag("approximate", false)) return unary(op, "gelu");
  const Value x = op.in("X");
  const Value cube = times(op, op.emit("square", {x}), x);
  const Value inner = op.emit("elemwise_add", {x, op.timesScalar(cube, 0.044715)});
  const Value t = op.emit("tanh", {op.timesScalar(inner, std::sqrt(2 / M_PI))});
  op.out("Out", times(op, op.timesScalar(x, 0.5), op.addScalar(t, 1)));
}

void swish(OpTranslation &op) {
  const Value x = op.in("X");
  const double beta = op.number("beta", 1);
  op.out("Out", times(op, x, op.emit("sigmoid", {beta == 1 ? x : op.timesScalar(x, beta)})));
}

void relu6(OpTranslation &op) { op.out("Out", clipped(op, op.in("X"), 0, op.number("threshold", 6))); }
void brelu(OpTranslation &op) { op.out("Out", clipped(op, op.in("X"), op.number("t_min", 0), op.number("t_max", 24))); }
void elu(OpTranslation &op) { op.out("Out", eluOf(op, op.in("X"), op.number("alpha", 1))); }

// α·elu(x/α)
void celu(OpTranslation &op) {
  const double alpha = op.number("alpha", 1);
  if (alpha == 0) return op.fail(ErrorKind::BadAttribute, "attribute 'alpha' is 0, expected another number");
  op.out("Out", op.timesScalar(eluOf(op, op.timesScalar(op.in("X"), 1 / alpha), 1), alpha));
}

void selu(OpTranslation &op) {
  const Value v = eluOf(op, op.in("X"), op.number("alpha", 1.6732632423543772));
  op.out("Out", op.timesScalar(v, op.number("scale", 1.0507009873554805)));
}

void hardSwish(OpTranslation &op) {
  const Value x = op.in("X");
  const Value gate = clipped(op, op.addScalar(x, op.number("offset", 3)), 0, op.number("threshold", 6));
  op.out("Out", op.scalar("_div_scalar", times(op, x, gate), op.number("scale", 6)));
}

void hardSigmoid(OpTranslation &op) {
  op.out("Out",
         op.emit("hard_sigmoid", {op.in("X")},
                 {{"alpha", numberText(op.number("slope", 0.2))}, {"beta", numberText(op.number("offset", 0.5))}}));
}

// log(1 + exp(β·x))/β, and x where β·x is above the threshold.
void softplus(OpTranslation &op) {
  const double beta = op.number("beta", 1);
  if (beta == 0) return op.fail(ErrorKind::BadAttribute, "attribute 'beta' is 0, expected another number");
  const Value x = op.in("X");
  const Value scaled = op.timesScalar(x, beta);
  const Value smooth = op.timesScalar(op.emit("log_sigmoid", {op.emit("negative", {scaled})}), -1 / beta);
  op.out("Out", op.emit("where", {op.scalar("_greater_scalar", scaled, op.number("threshold", 20)), x, smooth}));
}

// Those functions are x or 0, or x moved towards 0.
void hardShrink(OpTranslation &op) {
  const Value x = op.in("X");
  op.out("Out", times(op, x, op.scalar("_greater_scalar", op.emit("abs", {x}), op.number("threshold", 0.5))));
}
void thresholdedRelu(OpTranslation &op) {
  const Value x = op.in("X");
  op.out("Out", times(op, x, op.scalar("_greater_scalar", x, op.number("threshold", 1))));
}
void softShrink(OpTranslation &op) {
  const Value x = op.in("X");
  const double lambda = op.number("lambda", 0.5);
  const Value above = op.emit("relu", {op.addScalar(x, -lambda)});
  op.out("Out", minus(op, above, op.emit("relu", {op.scalar("_rminus_scalar", x, -lambda)})));
}
void tanhShrink(OpTranslation &op) {
  const Value x = op.in("X");
  op.out("Out", minus(op, x, op.emit("tanh", {x})));
}

void scaledTanh(OpTranslation &op) {
  const Value t = op.emit("tanh", {op.timesScalar(op.in("X"), op.number("scale_a", 0.67))});
  op.out("Out", op.timesScalar(t, op.number("scale_b", 1.7159)));
}

// relu(x) − α·relu(−x), with one α, one per channel or one per element.
void prelu(OpTranslation &op) {
  const std::string mode = op.text("mode", "all"), layout = op.text("data_format", "NCHW");
  if (mode != "all" && mode != "channel" && mode != "element")
    return op.unsupported("'mode' " + mode + " is not supported, expected all, channel or element");
  const Value x = op.in("X");
  Value alpha = op.in("Alpha");
  if (mode == "channel") {
    std::vector<int64_t> shape(op.rank("X"), 1);
    const bool isLast = StringRef(layout).ends_with("C") && shape.size() > 2;
    if (shape.size() > 1) shape[isLast ? shape.size() - 1 : 1] = -1;
    alpha = op.emit("Reshape", {alpha}, {{"shape", tupleText(shape)}});
  }
  const Value below = op.emit("relu", {op.emit("negative", {x})});
  op.out("Out", minus(op, op.emit("relu", {x}), op.emit("broadcast_mul", {below, alpha})));
}

// log(x/(1 − x)); x is kept within [ε, 1 − ε].
void logit(OpTranslation &op) {
  const double epsilon = op.number("eps", 1e-6);
  const Value x = epsilon > 0 ? clipped(op, op.in("X"), epsilon, 1 - epsilon) : op.in("X");
  op.out("Out", minus(op, op.emit("log", {x}), op.emit("log", {op.scalar("_rminus_scalar", x, 1)})));
}

constexpr BlockOpRow kRows[] = {
    {"acos", [](OpTranslation &op) { unary(op, "arccos"); }},
    {"acosh", [](OpTranslation &op) { unary(op, "arccosh"); }},
    {"asin", [](OpTranslation &op) { unary(op, "arcsin"); }},
    {"asinh", [](OpTranslation &op) { unary(op, "arcsinh"); }},
    {"atan", [](OpTranslation &op) { unary(op, "arctan"); }},
    {"atanh", [](OpTranslation &op) { unary(op, "arctanh"); }},
    {"brelu", brelu},
    {"celu", celu},
    {"digamma", [](OpTranslation &op) { unary(op, "digamma"); }},
    {"elu", elu},
    {"erfinv", [](OpTranslation &op) { unary(op, "erfinv"); }},
    {"expm1", [](OpTranslation &op) { unary(op, "expm1"); }},
    {"gelu", gelu},
    {"hard_shrink", hardShrink},
    {"hard_sigmoid", hardSigmoid},
    {"hard_swish", hardSwish},
    {"lgamma", [](OpTranslation &op) { unary(op, "gammaln"); }},
    {"log10", [](OpTranslation &op) { unary(op, "log10"); }},
    {"log1p", [](OpTranslation &op) { unary(op, "log1p"); }},
    {"log2", [](OpTranslation &op) { unary(op, "log2"); }},
    {"logit", logit},
    {"logsigmoid", [](OpTranslation &op) { unary(op, "log_sigmoid"); }},
    {"mish", [](OpTranslation &op) { unary(op, "mish"); }},
    {"prelu", prelu},
    {"relu6", relu6},
    {"round", [](OpTranslation &op) { unary(op, "round"); }},
    {"selu", selu},
    {"silu", [](OpTranslation &op) { unary(op, "silu"); }},
    {"softplus", softplus},
    {"softshrink", softShrink},
    {"stanh", scaledTanh},
    {"swish", swish},
    {"tanh_shrink", tanhShrink},
    {"thresholded_relu", thresholdedRelu},
    {"trunc", [](OpTranslation &op) { unary(op, "trunc"); }},
};

}  // namespace

ArrayRef<BlockOpRow> activationBlockOps() { return kRows; }

}  // namespace gradc
