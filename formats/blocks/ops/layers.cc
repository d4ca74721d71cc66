// Normalization, dropout, softmax. Tested by tests/formats/blocks/block_graph_test.cc
#include "formats/blocks/ops/op_row.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

/// Batch norm in plain operators, for moving statistics that are values and not variables: in loops and branches, and
/// copies.
void batchNormOfValues(OpTranslation &op, int64_t axis) {
  const Value x = op.in("X");
  const auto rank = static_cast<int64_t>(op.rank("X"));
  std::vector<int64_t> others, shape(static_cast<size_t>(rank), 1);
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis) others.push_back(i);
  if (axis < rank) shape[static_cast<size_t>(axis)] = -1;
  auto aligned = [&](Value v) { return op.emit("Reshape", {v}, {{"shape", tupleText(shape)}}); };
  auto average = [&](Value v) { return op.emit("mean", {v}, {{"axis", tupleText(others)}, {"keepdims", "False"}}); };
  const bool usesMoving = op.flag("is_test", false) || op.flag("use_global_stats", false);
  const Value moving = op.in("Mean"), movingVariance = op.in("Variance");
  const Value mean = usesMoving ? moving : average(x);
  const Value centered = op.emit("broadcast_sub", {x, aligned(mean)});
  const Value variance = usesMoving ? movingVariance : average(op.emit("square", {centered}));
  const Value factor = op.emit("rsqrt", {op.addScalar(variance, op.number("epsilon", 1e-5))});
  const Value normal = op.emit("broadcast_mul", {centered, aligned(factor)});
  const Value scaled = op.emit("broadcast_mul", {normal, aligned(op.in("Scale"))});
  op.out("Y", op.emit("broadcast_add", {scaled, aligned(op.in("Bias"))}));
  const double momentum = usesMoving ? 1 : op.number("momentum", 0.9);
  auto next = [&](Value before, Value now) {
    const Value kept = op.timesScalar(before, momentum);
    return usesMoving ? before
                      : op.emit("elemwise_add", {kept, op.timesScalar(op.emit("BlockGrad", {now}), 1 - momentum)});
  };
  op.out("MeanOut", next(moving, mean));
  op.out("VarianceOut", next(movingVariance, variance));
  op.out("SavedMean", mean);
  op.out("SavedVariance", factor);
}

// The moving statistics are updated in place: the operator writes the names that it reads.
void batchNorm(OpTranslation &op) {
  const std::string layout = op.text("data_layout", "NCHW");
  if (layout != "NCHW" && layout != "AnyLayout" && layout != "NHWC")
    op.unsupported("'data_layout' " + layout + " is not supported, expected NCHW or NHWC");
  op.refuse({"MomentumTensor"});
  const bool isLast = layout == "NHWC" && op.rank("X") > 2;
  if (!op.isStored("Mean")) return batchNormOfValues(op, isLast ? static_cast<int64_t>(op.rank("X")) - 1 : 1);
  const bool usesMoving = op.flag("is_test", false) || op.flag("use_global_stats", false);
  const Value mean = op.in("Mean"), variance = op.in("Variance");
  const Value y = op.emit("BatchNorm", {op.in("X"), op.in("Scale"), op.in("Bias"), mean, variance},
                          {{"eps", numberText(op.number("epsilon", 1e-5))},
                           {"momentum", numberText(op.number("momentum", 0.9))},
                           {"fix_gamma", "False"},
                           {"axis", std::string(isLast ? "-1" : "1")},
                           {"use_global_stats", flagText(usesMoving)}});
  op.out("Y", y);
  op.out("MeanOut", mean);
  op.out("VarianceOut", variance);
  op.out("SavedMean", OpTranslation::output(y, 1));
  op.out("SavedVariance", OpTranslation::output(y, 2));  // the reciprocal of the deviation, as in Paddle
}

// The axes from `begin_norm_axis` on form a row, which is normalized as one vector.
void layerNorm(OpTranslation &op) {
  const Value x = op.in("X");
  const int64_t begin = op.axisOf("X", op.integer("begin_norm_axis", 1));
  const auto rank = static_cast<int64_t>(op.rank("X"));
  Value rows = x;
  for (int64_t i = begin + 1; i < rank; ++i) {
    std::vector<int64_t> shape(static_cast<size_t>(begin), 0);
    shape.insert(shape.end(), {-3, -2});
    rows = op.reshaped(rows, shape);
  }
  const std::string axis = "-1";
  const std::initializer_list<AttrPair> along = {{"axis", axis}};
  const Value mean = op.emit("mean", {rows}, {{"axis", axis}, {"keepdims", "True"}});
  const Value centered = op.emit("broadcast_sub", {rows, mean});
  const Value variance = op.emit("mean", {op.emit("square", {centered})}, {{"axis", axis}, {"keepdims", "True"}});
  const Value deviation = op.emit("sqrt", {op.addScalar(variance, op.number("epsilon", 1e-5))});
  Value y = op.emit("broadcast_div", {centered, deviation});
  if (op.has("Scale")) y = op.emit("broadcast_mul", {y, op.in("Scale")});
  if (op.has("Bias")) y = op.emit("broadcast_add", {y, op.in("Bias")});
  op.out("Y", begin + 1 < rank ? op.emit("reshape_like", {y, x}) : y);
  op.out("Mean", op.reshaped(op.emit("sum", {mean}, along), {-1}));
  op.out("Variance", op.reshaped(op.emit("sum", {variance}, along), {-1}));
}

void dropout(OpTranslation &op) {
  op.refuse({"Seed"});
  const Value x = op.in("X");
  const double p = op.number("dropout_prob", 0.5);
  const bool isUpscaled = op.text("dropout_implementation", "downgrade_in_infer") == "upscale_in_train";
  if (op.flag("is_test", false)) return op.out("Out", op.timesScalar(x, isUpscaled ? 1 : 1 - p));
  const Value y = op.emit("Dropout", {x}, {{"p", numberText(p)}});
  op.out("Out", isUpscaled ? y : op.timesScalar(y, 1 - p));
  op.out("Mask", OpTranslation::output(y, 1));
}

void softmax(OpTranslation &op, StringRef name) {
  op.out("Out", op.emit(name, {op.in("X")}, {{"axis", std::to_string(op.integer("axis", -1))}}));
}

/// The axes but the first two, and with `groups` above 0 each group of channels, are normalized as one vector; `Scale`
/// and `Bias` have one number per channel. Writes the moments, without their last axis, to the two slots.
void normalizeImages(OpTranslation &op, int64_t groups, StringRef meanSlot, StringRef varianceSlot) {
  const Value x = op.in("X");
  const std::string axis = "-1", keeps = "True";
  const Value rows = op.reshaped(x, {0, groups, -1});
  const Value mean = op.emit("mean", {rows}, {{"axis", axis}, {"keepdims", keeps}});
  const Value centered = op.emit("broadcast_sub", {rows, mean});
  const Value variance = op.emit("mean", {op.emit("square", {centered})}, {{"axis", axis}, {"keepdims", keeps}});
  const Value deviation = op.emit("sqrt", {op.addScalar(variance, op.number("epsilon", 1e-5))});
  Value y = op.emit("reshape_like", {op.emit("broadcast_div", {centered, deviation}), x});
  std::vector<int64_t> shape(op.rank("X"), 1);
  if (shape.size() > 1) shape[1] = -1;
  auto perChannel = [&](StringRef slot) { return op.emit("Reshape", {op.in(slot)}, {{"shape", tupleText(shape)}}); };
  if (op.has("Scale")) y = op.emit("broadcast_mul", {y, perChannel("Scale")});
  if (op.has("Bias")) y = op.emit("broadcast_add", {y, perChannel("Bias")});
  op.out("Y", y);
  op.out(meanSlot, op.emit("squeeze", {mean}, {{"axis", axis}}));
  op.out(varianceSlot, op.emit("squeeze", {variance}, {{"axis", axis}}));
}

void groupNorm(OpTranslation &op) {
  const std::string layout = op.text("data_layout", "NCHW");
  if (layout != "NCHW") return op.unsupported("'data_layout' " + layout + " is not supported, expected NCHW");
  normalizeImages(op, op.integer("groups", 1), "Mean", "Variance");
}

void instanceNorm(OpTranslation &op) { normalizeImages(op, 0, "SavedMean", "SavedVariance"); }

constexpr BlockOpRow kRows[] = {
    {"batch_norm", batchNorm},
    {"dropout", dropout},
    {"group_norm", groupNorm},
    {"instance_norm", instanceNorm},
    {"layer_norm", layerNorm},
    {"log_softmax", [](OpTranslation &op) { softmax(op, "log_softmax"); }},
    {"softmax", [](OpTranslation &op) { softmax(op, "softmax"); }},
};

}  // namespace

ArrayRef<BlockOpRow> layerBlockOps() { return kRows; }

}  // namespace gradc
