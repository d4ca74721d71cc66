// The scale of a loss in training with 16 bits. Tested by tests/formats/blocks/backward/minimize_test.cc
#include "formats/blocks/ops/op_row.h"

using namespace llvm;

namespace gradc {
namespace {

Value choose(OpTranslation &op, Value condition, Value a, Value b) { return op.emit("where", {condition, a, b}); }

/// 1 where an element is not finite, as one number of the type of x.
Value foundInfinite(OpTranslation &op, Value x) {
  const Value size = op.emit("abs", {x});
  const Value isFinite = op.scalar("_lesser_scalar", size, std::numeric_limits<double>::infinity());  // false for NaN
  return op.emit("Reshape", {op.scalar("_rminus_scalar", op.emit("min", {isFinite}), 1)}, {{"shape", "(1,)"}});
}

// Gradients of a scaled loss, divided by the scale, and whether any of them is infinite or NaN.
void checkFinite(OpTranslation &op) {
  const Value scale = op.in("Scale");
  Value found;
  for (size_t i = 0; i < op.count("X"); ++i) {
    const Value x = op.in("X", i);
    op.out("Out", op.emit("broadcast_div", {x, op.emit("_cast_like", {scale, x})}), i);
    const Value here = op.emit("_cast_like", {foundInfinite(op, x), scale});
    found = i == 0 ? here : op.emit("broadcast_maximum", {found, here});
  }
  if (op.count("X") == 0) return op.fail(ErrorKind::BadEntry, "slot 'X' has no operand 0");
  op.out("FoundInfinite", op.emit("Cast", {found}, {{"dtype", "bool"}}));
}

// After so many bad steps in a row the scale is multiplied by `decr_ratio`, after so many good ones by `incr_ratio`. In
// a bad step the gradients become zeros.
void updateScale(OpTranslation &op) {
  op.refuse({"StopUpdate"});
  const Value scale = op.in("PrevLossScaling");
  const Value isBad = op.emit("_cast_like", {op.in("FoundInfinite"), scale});
  for (size_t i = 0; i < op.count("X"); ++i) {
    const Value x = op.in("X", i), zeros = op.emit("zeros_like", {x});
    const Value isZeroed = op.emit("broadcast_add", {zeros, op.emit("_cast_like", {isBad, x})});
    op.out("Out", choose(op, isZeroed, zeros, x), i);
  }
  if (op.flag("stop_update", false)) return;
  auto counted = [&](StringRef slot) { return op.addScalar(op.emit("_cast_like", {op.in(slot), scale}), 1); };
  const Value none = op.emit("zeros_like", {scale});
  const Value bad = choose(op, isBad, counted("InBadSteps"), none),
              good = choose(op, isBad, none, counted("InGoodSteps"));
  auto reaches = [&](Value number, StringRef key) {
    return op.scalar("_equal_scalar", number, static_cast<double>(op.integer(key, 0)));
  };
  const Value isLess = reaches(bad, "decr_every_n_nan_or_inf"), isMore = reaches(good, "incr_every_n_steps");
  const Value less = op.scalar("_maximum_scalar", op.timesScalar(scale, op.number("decr_ratio", 1)), 1);
  const Value larger = op.timesScalar(scale, op.number("incr_ratio", 1));
  const Value isFinite = op.scalar("_lesser_scalar", larger, std::numeric_limits<double>::infinity());
  const Value more = choose(op, isFinite, larger, scale);
  op.out("LossScaling", choose(op, isLess, less, choose(op, isMore, more, scale)));
  auto asCount = [&](Value v) { return op.emit("Cast", {v}, {{"dtype", "int32"}}); };
  op.out("OutBadSteps", asCount(choose(op, isLess, none, bad)));
  op.out("OutGoodSteps", asCount(choose(op, isMore, none, good)));
}

constexpr BlockOpRow kRows[] = {
    {"check_finite_and_unscale", checkFinite},
    {"update_loss_scaling", updateScale},
};

}  // namespace

ArrayRef<BlockOpRow> scalingBlockOps() { return kRows; }

}  // namespace gradc
