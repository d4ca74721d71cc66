// Steps of optimizers; learning rates are tensors. Tested by tests/formats/blocks/block_graph_test.cc
#include "formats/blocks/ops/op_row.h"

using namespace llvm;

namespace gradc {
namespace {

Value times(OpTranslation &op, Value v, Value scalar) { return op.emit("broadcast_mul", {v, scalar}); }
Value minus(OpTranslation &op, Value a, Value b) { return op.emit("elemwise_sub", {a, b}); }
Value plus(OpTranslation &op, Value a, Value b) { return op.emit("elemwise_add", {a, b}); }

/// The gradient, times attribute `rescale_grad`.
Value rescaled(OpTranslation &op) {
  const double factor = op.number("rescale_grad", 1);
  return factor == 1 ? op.in("Grad") : op.timesScalar(op.in("Grad"), factor);
}

/// decay·v + (1 − decay)·x.
Value average(OpTranslation &op, Value v, Value x, double decay) {
  return plus(op, op.timesScalar(v, decay), op.timesScalar(x, 1 - decay));
}

void sgd(OpTranslation &op) {
  op.out("ParamOut", minus(op, op.in("Param"), times(op, op.in("Grad"), op.in("LearningRate"))));
}

// v' = μ·v + g; p' = p − lr·v', or with Nesterov's p − lr·(g + μ·v').
void momentum(OpTranslation &op) {
  const double mu = op.number("mu", 0);
  const Value p = op.in("Param"), lr = op.in("LearningRate");
  Value g = rescaled(op);
  if (op.text("regularization_method", "") == "l2_decay")
    g = plus(op, g, op.timesScalar(p, op.number("regularization_coeff", 0)));
  const Value v = plus(op, op.timesScalar(op.in("Velocity"), mu), g);
  const Value step = op.flag("use_nesterov", false) ? plus(op, g, op.timesScalar(v, mu)) : v;
  op.out("ParamOut", minus(op, p, times(op, step, lr)));
  op.out("VelocityOut", v);
}

/// The states of Adam and its like after a step.
struct Moments {
  Value mean, squares, power1, power2;  // the powers are those of this step
};
Moments nextMoments(OpTranslation &op) {
  op.refuse({"Beta1Tensor", "Beta2Tensor", "EpsilonTensor", "SkipUpdate"});
  const double beta1 = op.number("beta1", 0.9), beta2 = op.number("beta2", 0.999);
  const Value g = op.in("Grad"), power1 = op.in("Beta1Pow"), power2 = op.in("Beta2Pow");
  const Value mean = average(op, op.in("Moment1"), g, beta1),
              squares = average(op, op.in("Moment2"), op.emit("square", {g}), beta2);
  op.out("Moment1Out", mean);
  op.out("Moment2Out", squares);
  op.out("Beta1PowOut", op.timesScalar(power1, beta1));
  op.out("Beta2PowOut", op.timesScalar(power2, beta2));
  return {mean, squares, power1, power2};
}

// p' = p − lr·√(1−β₂ᵗ)/(1−β₁ᵗ) · m'/(√n' + ε·√(1−β₂ᵗ)).
Value adamStep(OpTranslation &op, Value p, Value lr) {
  const Moments next = nextMoments(op);
  const Value root = op.emit("sqrt", {op.scalar("_rminus_scalar", next.power2, 1)});
  const Value rate =
      op.emit("broadcast_div", {op.emit("broadcast_mul", {lr, root}), op.scalar("_rminus_scalar", next.power1, 1)});
  const Value divisor =
      op.emit("broadcast_add", {op.emit("sqrt", {next.squares}), op.timesScalar(root, op.number("epsilon", 1e-8))});
  return minus(op, p, times(op, op.emit("elemwise_div", {next.mean, divisor}), rate));
}

void adam(OpTranslation &op) { op.out("ParamOut", adamStep(op, op.in("Param"), op.in("LearningRate"))); }

// The decay comes first: p·(1 − lr·coeff). Without decay, Paddle ignores `lr_ratio`.
void adamw(OpTranslation &op) {
  Value p = op.in("Param"), lr = op.in("LearningRate");
  if (op.flag("with_decay", false)) {
    lr = op.timesScalar(lr, op.number("lr_ratio", 1));
    p = times(op, p, op.scalar("_rminus_scalar", op.timesScalar(lr, op.number("coeff", 0.01)), 1));
  }
  op.out("ParamOut", adamStep(op, p, lr));
}

/// a where both norms are above 0, else 1: shape (1,).
Value whereBothArePositive(OpTranslation &op, Value x, Value y, Value a) {
  const Value both = op.emit("broadcast_mul", {op.scalar("_greater_scalar", x, 0), op.scalar("_greater_scalar", y, 0)});
  return op.emit("where", {both, a, op.emit("ones_like", {a})});
}

// u = m̂/(√n̂ + ε) + decay·p; p' = p − lr·‖p‖/‖u‖·u.
void lamb(OpTranslation &op) {
  const Moments next = nextMoments(op);
  const double decay = op.number("weight_decay", 0);
  const Value p = op.in("Param");
  auto corrected = [&](Value v, Value power) {
    return op.emit("broadcast_div", {v, op.scalar("_rminus_scalar", power, 1)});
  };
  const Value root = op.emit("sqrt", {corrected(next.squares, next.power2)});
  const Value step =
      op.emit("elemwise_div", {corrected(next.mean, next.power1), op.addScalar(root, op.number("epsilon", 1e-6))});
  const Value u = plus(op, step, op.timesScalar(p, decay));
  Value rate = op.in("LearningRate");
  if (decay > 0 || op.flag("always_adapt", false)) {
    const Value ofP = op.emit("norm", {p}), ofU = op.emit("norm", {u});
    const Value trust = whereBothArePositive(op, ofP, ofU, op.emit("elemwise_div", {ofP, ofU}));
    rate = op.emit("broadcast_mul", {rate, trust});
  }
  op.out("ParamOut", minus(op, p, times(op, u, rate)));
}

// v' = μ·v + r·(g + decay·p) with the rate r = lr·c·‖p‖/(‖g‖ + decay·‖p‖ + ε); p' = p − v'.
void larsMomentum(OpTranslation &op) {
  const std::vector<double> decays = op.numbers("lars_weight_decay");
  if (op.count("Param") != 1 || decays.size() > 1) return op.unsupported("several parameters are not supported");
  const double decay = decays.empty() ? 0.0005 : decays[0];
  const Value p = op.in("Param"), g = rescaled(op);
  Value rate = op.in("LearningRate");
  if (decay > 0) {
    const Value ofP = op.emit("norm", {p}), ofG = op.emit("norm", {g});
    const Value divisor = op.addScalar(plus(op, ofG, op.timesScalar(ofP, decay)), op.number("epsilon", 0));
    const Value ratio = op.timesScalar(op.emit("elemwise_div", {ofP, divisor}), op.number("lars_coeff", 0.001));
    rate = op.emit("broadcast_mul", {rate, whereBothArePositive(op, ofP, ofG, ratio)});
  }
  const Value step = times(op, plus(op, g, op.timesScalar(p, decay)), rate);
  const Value v = plus(op, op.timesScalar(op.in("Velocity"), op.number("mu", 0)), step);
  op.out("ParamOut", minus(op, p, v));
  op.out("VelocityOut", v);
}

// n' = n + g²; p' = p − lr·g/(√n' + ε).
void adagrad(OpTranslation &op) {
  const Value g = op.in("Grad"), n = plus(op, op.in("Moment"), op.emit("square", {g}));
  const Value divisor = op.addScalar(op.emit("sqrt", {n}), op.number("epsilon", 1e-6));
  op.out("ParamOut",
         minus(op, op.in("Param"), times(op, op.emit("elemwise_div", {g, divisor}), op.in("LearningRate"))));
  op.out("MomentOut", n);
}

// u' = max(β₂·u + ε, |g|); p' = p − lr/(1−β₁ᵗ)·m'/u'.
void adamax(OpTranslation &op) {
  const Value g = op.in("Grad");
  const Value m = average(op, op.in("Moment"), g, op.number("beta1", 0.9));
  const Value before =
      op.addScalar(op.timesScalar(op.in("InfNorm"), op.number("beta2", 0.999)), op.number("epsilon", 1e-8));
  const Value u = op.emit("broadcast_maximum", {op.emit("abs", {g}), before});
  const Value rate =
      op.emit("broadcast_div", {op.in("LearningRate"), op.scalar("_rminus_scalar", op.in("Beta1Pow"), 1)});
  op.out("ParamOut", minus(op, op.in("Param"), times(op, op.emit("elemwise_div", {m, u}), rate)));
  op.out("MomentOut", m);
  op.out("InfNormOut", u);
}

// s = g·√(d + ε)/√(n' + ε) with the mean squares n of gradients and d of steps; p' = p − lr·s.
void adadelta(OpTranslation &op) {
  const double rho = op.number("rho", 0.95), epsilon = op.number("epsilon", 1e-6);
  const Value g = op.in("Grad"), d = op.in("AvgSquaredUpdate");
  const Value n = average(op, op.in("AvgSquaredGrad"), op.emit("square", {g}), rho);
  auto root = [&](Value v) { return op.emit("sqrt", {op.addScalar(v, epsilon)}); };
  const Value step = op.emit("elemwise_mul", {g, op.emit("elemwise_div", {root(d), root(n)})});
  op.out("ParamOut", minus(op, op.in("Param"), times(op, step, op.in("LearningRate"))));
  op.out("AvgSquaredGradOut", n);
  op.out("AvgSquaredUpdateOut", average(op, d, op.emit("square", {step}), rho));
}

// v' = μ·v + lr·g/√(n' + ε), with the variance n' − m'² in the place of n' if it is centered; p' = p − v'.
void rmsprop(OpTranslation &op) {
  const double rho = op.number("decay", 0.9);
  const Value g = op.in("Grad"), n = average(op, op.in("MeanSquare"), op.emit("square", {g}), rho);
  Value variance = n;
  if (op.flag("centered", false)) {
    const Value mean = average(op, op.in("MeanGrad"), g, rho);
    variance = minus(op, n, op.emit("square", {mean}));
    op.out("MeanGradOut", mean);
  } else if (op.has("MeanGrad")) {
    op.out("MeanGradOut", op.in("MeanGrad"));
  }
  const Value root = op.emit("sqrt", {op.addScalar(variance, op.number("epsilon", 1e-10))});
  const Value step = times(op, op.emit("elemwise_div", {g, root}), op.in("LearningRate"));
  const Value v = plus(op, op.timesScalar(op.in("Moment"), op.number("momentum", 0)), step);
  op.out("ParamOut", minus(op, op.in("Param"), v));
  op.out("MeanSquareOut", n);
  op.out("MomentOut", v);
}

// x·max/‖x‖ where the norm is above the maximum.
void clipByNorm(OpTranslation &op) {
  const Value x = op.in("X");
  const double most = op.number("max_norm", 1);
  const Value norm = op.scalar("_maximum_scalar", op.emit("norm", {x}), most);
  op.out("Out",
         op.emit("BlockGrad", {times(op, x, op.scalar("_rdiv_scalar", norm, most))}));  // Paddle's has no gradient
}

constexpr BlockOpRow kRows[] = {
    {"adadelta", adadelta}, {"adagrad", adagrad},         {"adam", adam}, {"adamax", adamax},
    {"adamw", adamw},       {"clip_by_norm", clipByNorm}, {"lamb", lamb}, {"lars_momentum", larsMomentum},
    {"momentum", momentum}, {"rmsprop", rmsprop},         {"sgd", sgd},
};

}  // namespace

ArrayRef<BlockOpRow> optimizerBlockOps() { return kRows; }

}  // namespace gradc
