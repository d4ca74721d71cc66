// Steps of optimizers; learning rates are tensors. Tested by tests/block_graph_test.cc
#include "formats/blocks/ops/op_row.h"

using namespace llvm;

namespace gradc {
namespace {

Value times(OpTranslation &op, Value v, Value scalar) { return op.emit("broadcast_mul", {v, scalar}); }
Value minus(OpTranslation &op, Value a, Value b) { return op.emit("elemwise_sub", {a, b}); }
Value plus(OpTranslation &op, Value a, Value b) { return op.emit("elemwise_add", {a, b}); }

void sgd(OpTranslation &op) {
  op.out("ParamOut", minus(op, op.in("Param"), times(op, op.in("Grad"), op.in("LearningRate"))));
}

// v' = μ·v + g; p' = p − lr·v', or with Nesterov's p − lr·(g + μ·v').
void momentum(OpTranslation &op) {
  const double mu = op.number("mu", 0);
  const Value p = op.in("Param"), lr = op.in("LearningRate");
  Value g = op.in("Grad");
  if (op.text("regularization_method", "") == "l2_decay")
    g = plus(op, g, op.timesScalar(p, op.number("regularization_coeff", 0)));
  const Value v = plus(op, op.timesScalar(op.in("Velocity"), mu), g);
  const Value step = op.flag("use_nesterov", false) ? plus(op, g, op.timesScalar(v, mu)) : v;
  op.out("ParamOut", minus(op, p, times(op, step, lr)));
  op.out("VelocityOut", v);
}

// m' = β₁·m + (1−β₁)·g; n' = β₂·n + (1−β₂)·g²; p' = p − lr·√(1−β₂ᵗ)/(1−β₁ᵗ) · m'/(√n' + ε·√(1−β₂ᵗ)).
void adam(OpTranslation &op) {
  op.refuse({"Beta1Tensor", "Beta2Tensor", "EpsilonTensor", "SkipUpdate"});
  const double beta1 = op.number("beta1", 0.9), beta2 = op.number("beta2", 0.999), epsilon = op.number("epsilon", 1e-8);
  const Value g = op.in("Grad"), power1 = op.in("Beta1Pow"), power2 = op.in("Beta2Pow");
  const Value m = plus(op, op.timesScalar(op.in("Moment1"), beta1), op.timesScalar(g, 1 - beta1));
  const Value n = plus(op, op.timesScalar(op.in("Moment2"), beta2), op.timesScalar(op.emit("square", {g}), 1 - beta2));
  const Value root = op.emit("sqrt", {op.scalar("_rminus_scalar", power2, 1)});
  const Value rate = op.emit("broadcast_div", {op.emit("broadcast_mul", {op.in("LearningRate"), root}),
                                               op.scalar("_rminus_scalar", power1, 1)});
  const Value divisor = op.emit("broadcast_add", {op.emit("sqrt", {n}), op.timesScalar(root, epsilon)});
  op.out("ParamOut", minus(op, op.in("Param"), times(op, op.emit("elemwise_div", {m, divisor}), rate)));
  op.out("Moment1Out", m);
  op.out("Moment2Out", n);
  op.out("Beta1PowOut", op.timesScalar(power1, beta1));
  op.out("Beta2PowOut", op.timesScalar(power2, beta2));
}

// x·max/‖x‖ where the norm is above the maximum.
void clipByNorm(OpTranslation &op) {
  const Value x = op.in("X");
  const double most = op.number("max_norm", 1);
  const Value norm = op.scalar("_maximum_scalar", op.emit("norm", {x}), most);
  op.out("Out", times(op, x, op.scalar("_rdiv_scalar", norm, most)));
}

constexpr BlockOpRow kRows[] = {
    {"adam", adam},
    {"clip_by_norm", clipByNorm},
    {"momentum", momentum},
    {"sgd", sgd},
};

}  // namespace

ArrayRef<BlockOpRow> optimizerBlockOps() { return kRows; }

}  // namespace gradc
