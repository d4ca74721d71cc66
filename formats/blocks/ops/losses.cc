// Losses. Tested by tests/formats/blocks/block_graph_test.cc and tests/formats/blocks/block_rules_test.cc
#include "formats/blocks/ops/op_row.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

Value times(OpTranslation &op, Value a, Value b) { return op.emit("elemwise_mul", {a, b}); }
Value plus(OpTranslation &op, Value a, Value b) { return op.emit("elemwise_add", {a, b}); }
Value minus(OpTranslation &op, Value a, Value b) { return op.emit("elemwise_sub", {a, b}); }

/// The loss, and 0 where the label is `ignore_index`, which may be negative.
Value withoutIgnored(OpTranslation &op, Value label, Value loss) {
  const auto ignored = static_cast<double>(op.integer("ignore_index", -100));
  const Value numbers = op.emit("Cast", {label}, {{"dtype", "float64"}});
  return times(op, loss, op.emit("_cast_like", {op.scalar("_not_equal_scalar", numbers, ignored), loss}));
}

/// The label with `axis` of one element, and what v has there.
struct Picked {
  Value label, value;
};
Picked picked(OpTranslation &op, Value v, StringRef slot, const std::string &axis) {
  const Value label = op.in("Label");
  const bool hasAxis = op.rank("Label") == op.rank(slot);
  const Value index = hasAxis ? op.emit("squeeze", {label}, {{"axis", axis}}) : label;
  return {hasAxis ? label : op.emit("expand_dims", {label}, {{"axis", axis}}),
          op.emit("pick", {v, index}, {{"axis", axis}, {"keepdims", "True"}})};
}

/// −Σ label·logs along the axis.
Value softCrossEntropy(OpTranslation &op, Value logs, const std::string &axis) {
  const AttrPair keeps = {"keepdims", "True"};
  return op.emit("negative", {op.emit("sum", {times(op, logs, op.in("Label"))}, {{"axis", axis}, keeps})});
}

// With `use_softmax` false the operand holds probabilities.
void softmaxWithCrossEntropy(OpTranslation &op) {
  const Value x = op.in("Logits");
  const std::string axis = std::to_string(op.axisOf("Logits", op.integer("axis", -1)));
  const bool isLogits = op.flag("use_softmax", true);
  const Value logs = isLogits ? op.emit("log_softmax", {x}, {{"axis", axis}}) : op.emit("log", {x});
  op.out("Softmax", isLogits ? op.emit("softmax", {x}, {{"axis", axis}}) : x);
  if (op.flag("soft_label", false)) return op.out("Loss", softCrossEntropy(op, logs, axis));
  const Picked at = picked(op, logs, "Logits", axis);
  op.out("Loss", withoutIgnored(op, at.label, op.emit("negative", {at.value})));
}

// Of probabilities.
void crossEntropy(OpTranslation &op) {
  const Value x = op.in("X");
  const std::string axis = std::to_string(op.axisOf("X", -1));
  if (op.flag("soft_label", false)) return op.out("Y", softCrossEntropy(op, op.emit("log", {x}), axis));
  const Picked at = picked(op, x, "X", axis);
  op.out("Y", withoutIgnored(op, at.label, op.emit("negative", {op.emit("log", {at.value})})));
  op.out("MatchX", at.value);  // of cross_entropy2
  op.out("XShape", x);
}

// −(z·log x + (1 − z)·log(1 − x)), each logarithm at least −100.
void bceLoss(OpTranslation &op) {
  const Value x = op.in("X"), z = op.in("Label");
  auto log = [&](Value v) { return op.scalar("_maximum_scalar", op.emit("log", {v}), -100); };
  const Value ones = times(op, z, log(x));
  const Value zeros = times(op, op.scalar("_rminus_scalar", z, 1), log(op.scalar("_rminus_scalar", x, 1)));
  op.out("Out", op.emit("negative", {plus(op, ones, zeros)}));
}

// max(x, 0) − x·z + w·log(1 + exp(−|x|)), where w is `pos_weight`.
void sigmoidCrossEntropy(OpTranslation &op) {
  if (op.flag("normalize", false)) return op.unsupported("'normalize' true is not supported");
  const Value x = op.in("X"), z = op.in("Label");
  Value loss;
  if (op.has("pos_weight")) {
    const Value logs = op.emit("negative", {op.emit("log_sigmoid", {op.emit("abs", {x})})});
    loss = plus(op, minus(op, op.emit("relu", {x}), times(op, x, z)),
                op.emit("broadcast_mul", {logs, op.in("pos_weight")}));
  } else {  // the same, and smooth: (1 − z)·x + log(1 + exp(−x))
    loss = minus(op, times(op, op.scalar("_rminus_scalar", z, 1), x), op.emit("log_sigmoid", {x}));
  }
  op.out("Out", withoutIgnored(op, z, loss));
}

// With r = y − x: r²/2 where |r| ≤ δ, else δ·(|r| − δ/2).
void huberLoss(OpTranslation &op) {
  const double delta = op.number("delta", 1);
  if (!(delta > 0))
    return op.fail(ErrorKind::BadAttribute, "attribute 'delta' is " + numberText(delta) + ", expected more than 0");
  const Value residual = minus(op, op.in("Y"), op.in("X"));
  const Value unit = op.emit("smooth_l1", {residual}, {{"scalar", numberText(1 / std::sqrt(delta))}});
  op.out("Out", delta == 1 ? unit : op.timesScalar(unit, delta));
  op.out("Residual", residual);
}

/// A loss per element as the attribute `reduction` wants it.
Value reduced(OpTranslation &op, Value v) {
  const std::string how = op.text("reduction", "mean");
  if (how == "none") return v;
  if (how == "mean") return op.emit("mean", {v});
  if (how == "sum") return op.emit("sum", {v});
  if (how == "batchmean") return op.scalar("_div_scalar", op.emit("sum", {v}), static_cast<double>(op.dim("X", 0)));
  op.unsupported("'reduction' " + how + " is not supported");
  return v;
}

// target·(log target − x), 0 where target is not positive.
void klLoss(OpTranslation &op) {
  const Value x = op.in("X"), target = op.in("Target");
  const Value isPositive = op.scalar("_greater_scalar", target, 0);
  const Value log = op.emit("log", {op.emit("where", {isPositive, target, op.emit("ones_like", {target})})});
  const Value terms = times(op, target, minus(op, log, x));
  op.out("Loss", reduced(op, op.emit("where", {isPositive, terms, op.emit("zeros_like", {terms})})));
}

// −w[label]·x[label] along axis 1; the mean is that of the weights.
void nllLoss(OpTranslation &op) {
  const Value x = op.in("X");
  const Picked at = picked(op, x, "X", "1");
  Value weight = op.emit("ones_like", {at.value});
  if (op.has("Weight")) weight = op.emit("take", {op.in("Weight"), at.label}, {{"axis", "0"}});
  weight = withoutIgnored(op, at.label, weight);
  const std::initializer_list<AttrPair> axis = {{"axis", "1"}};
  const Value loss = op.emit("squeeze", {op.emit("negative", {times(op, at.value, weight)})}, axis);
  const Value total = op.emit("sum", {weight});
  const std::string how = op.text("reduction", "mean");
  op.out("Out", how == "mean" ? op.emit("elemwise_div", {op.emit("sum", {loss}), total}) : reduced(op, loss));
  op.out("Total_weight", total);
}

// −z·log(x + ε) − (1 − z)·log(1 − x + ε)
void logLoss(OpTranslation &op) {
  const Value x = op.in("Predicted"), z = op.in("Labels");
  const double epsilon = op.number("epsilon", 1e-4);
  const Value ones = times(op, z, op.emit("log", {op.addScalar(x, epsilon)}));
  const Value zeros =
      times(op, op.scalar("_rminus_scalar", z, 1), op.emit("log", {op.scalar("_rminus_scalar", x, 1 + epsilon)}));
  op.out("Loss", op.emit("negative", {plus(op, ones, zeros)}));
}

// (1 − ε)·x + ε·prior, by default the same for each class.
void labelSmooth(OpTranslation &op) {
  const double epsilon = op.number("epsilon", 0);
  const Value x = op.timesScalar(op.in("X"), 1 - epsilon);
  if (op.has("PriorDist"))
    return op.out("Out", op.emit("broadcast_add", {x, op.timesScalar(op.in("PriorDist"), epsilon)}));
  op.out("Out", op.addScalar(x, epsilon / static_cast<double>(op.dim("X", -1))));
}

constexpr BlockOpRow kRows[] = {
    {"bce_loss", bceLoss},
    {"cross_entropy", crossEntropy},
    {"cross_entropy2", crossEntropy},
    {"huber_loss", huberLoss},
    {"kldiv_loss", klLoss},
    {"label_smooth", labelSmooth},
    {"log_loss", logLoss},
    {"nll_loss", nllLoss},
    {"sigmoid_cross_entropy_with_logits", sigmoidCrossEntropy},
    {"softmax_with_cross_entropy", softmaxWithCrossEntropy},
};

}  // namespace

ArrayRef<BlockOpRow> lossBlockOps() { return kRows; }

}  // namespace gradc
