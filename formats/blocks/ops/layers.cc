// Convolution, pooling, normalization, losses. Tested by tests/block_graph_test.cc
#include "formats/blocks/ops/op_row.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

/// The padding on both sides of each axis, from one number per axis or per side.
std::vector<int64_t> padding(OpTranslation &op) {
  const std::string algorithm = op.text("padding_algorithm", "EXPLICIT");
  std::vector<int64_t> pads = op.integers("paddings");
  if (algorithm == "VALID") pads.assign(pads.size(), 0);
  else if (algorithm != "EXPLICIT") op.unsupported("'padding_algorithm' " + algorithm + " is not supported");
  const size_t numAxes = 2;
  if (pads.size() == numAxes) return pads;
  if (pads.size() != 2 * numAxes || pads[0] != pads[1] || pads[2] != pads[3]) {
    op.unsupported("'paddings' that differ between the two sides of an axis are not supported");
    return {};
  }
  return {pads[0], pads[2]};
}

void expectChannelsFirst(OpTranslation &op, StringRef key) {
  const std::string layout = op.text(key, "NCHW");
  if (layout != "NCHW" && layout != "AnyLayout")
    op.unsupported("'" + key + "' " + layout + " is not supported, expected NCHW");
}

void convolution(OpTranslation &op) {
  expectChannelsFirst(op, "data_format");
  op.refuse({"Bias", "ResidualData"});
  if (op.rank("Filter") != 4)
    return op.fail(ErrorKind::BadEntry, "slot 'Filter' has rank " + Twine(op.rank("Filter")) + ", expected 4");
  op.out("Output", op.emit("Convolution", {op.in("Input"), op.in("Filter")},
                           {{"kernel", tupleText({op.dim("Filter", 2), op.dim("Filter", 3)})},
                            {"num_filter", std::to_string(op.dim("Filter", 0))},
                            {"num_group", std::to_string(op.integer("groups", 1))},
                            {"stride", tupleText(op.integers("strides"))},
                            {"dilate", tupleText(op.integers("dilations"))},
                            {"pad", tupleText(padding(op))},
                            {"no_bias", std::string("True")}}));
}

void pooling(OpTranslation &op) {
  expectChannelsFirst(op, "data_format");
  const std::vector<int64_t> size = op.integers("ksize");
  const std::string kind = op.text("pooling_type", "max");
  const bool isAdaptive = op.flag("adaptive", false), isOne = all_of(size, [](int64_t n) { return n == 1; });
  if (isAdaptive && !isOne && kind != "avg")
    return op.unsupported("'adaptive' with 'pooling_type' " + kind + " is not supported");
  if (isAdaptive && !isOne)
    return op.out("Out", op.emit("_contrib_AdaptiveAvgPooling2D", {op.in("X")}, {{"output_size", tupleText(size)}}));
  const bool isGlobal = isAdaptive || op.flag("global_pooling", false);
  if (isGlobal)
    return op.out("Out", op.emit("Pooling", {op.in("X")}, {{"pool_type", kind}, {"global_pool", std::string("True")}}));
  op.out("Out", op.emit("Pooling", {op.in("X")},
                        {{"kernel", tupleText(size)},
                         {"pool_type", kind},
                         {"stride", tupleText(op.integers("strides"))},
                         {"pad", tupleText(padding(op))},
                         {"pooling_convention", op.flag("ceil_mode", false) ? "full" : "valid"},
                         {"count_include_pad", flagText(!op.flag("exclusive", true))}}));
}

// The moving statistics are updated in place: the operator writes the names that it reads.
void batchNorm(OpTranslation &op) {
  expectChannelsFirst(op, "data_layout");
  op.refuse({"MomentumTensor"});
  const bool usesMoving = op.flag("is_test", false) || op.flag("use_global_stats", false);
  const Value mean = op.in("Mean"), variance = op.in("Variance");
  const Value y = op.emit("BatchNorm", {op.in("X"), op.in("Scale"), op.in("Bias"), mean, variance},
                          {{"eps", numberText(op.number("epsilon", 1e-5))},
                           {"momentum", numberText(op.number("momentum", 0.9))},
                           {"fix_gamma", std::string("False")},
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
    rows = op.emit("Reshape", {rows}, {{"shape", tupleText(shape)}});
  }
  const std::string axis = "-1";
  const std::initializer_list<AttrPair> along = {{"axis", axis}};
  const Value mean = op.emit("mean", {rows}, {{"axis", axis}, {"keepdims", std::string("True")}});
  const Value centered = op.emit("broadcast_sub", {rows, mean});
  const Value variance =
      op.emit("mean", {op.emit("square", {centered})}, {{"axis", axis}, {"keepdims", std::string("True")}});
  const Value deviation = op.emit("sqrt", {op.addScalar(variance, op.number("epsilon", 1e-5))});
  Value y = op.emit("broadcast_div", {centered, deviation});
  if (op.has("Scale")) y = op.emit("broadcast_mul", {y, op.in("Scale")});
  if (op.has("Bias")) y = op.emit("broadcast_add", {y, op.in("Bias")});
  op.out("Y", begin + 1 < rank ? op.emit("reshape_like", {y, x}) : y);
  op.out("Mean", op.emit("Reshape", {op.emit("sum", {mean}, along)}, {{"shape", std::string("(-1,)")}}));
  op.out("Variance", op.emit("Reshape", {op.emit("sum", {variance}, along)}, {{"shape", std::string("(-1,)")}}));
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

void softmaxWithCrossEntropy(OpTranslation &op) {
  if (!op.flag("use_softmax", true)) return op.unsupported("'use_softmax' false is not supported");
  const Value x = op.in("Logits"), label = op.in("Label");
  const std::string axis = std::to_string(op.axisOf("Logits", op.integer("axis", -1)));
  const Value logs = op.emit("log_softmax", {x}, {{"axis", axis}});
  op.out("Softmax", op.emit("softmax", {x}, {{"axis", axis}}));
  const AttrPair keeps = {"keepdims", "True"};
  if (op.flag("soft_label", false)) {
    const Value sum = op.emit("sum", {op.emit("elemwise_mul", {logs, label})}, {{"axis", axis}, keeps});
    return op.out("Loss", op.emit("negative", {sum}));
  }
  const bool hasAxis = op.rank("Label") == op.rank("Logits");
  const Value index = hasAxis ? op.emit("squeeze", {label}, {{"axis", axis}}) : label;
  const Value loss = op.emit("negative", {op.emit("pick", {logs, index}, {{"axis", axis}, keeps})});
  const auto ignored = static_cast<double>(op.integer("ignore_index", -100));
  if (ignored < 0) return op.out("Loss", loss);  // no label is negative
  const Value whole = hasAxis ? label : op.emit("expand_dims", {label}, {{"axis", axis}});
  const Value isKept =
      op.scalar("_not_equal_scalar", op.emit("Cast", {whole}, {{"dtype", std::string("float64")}}), ignored);
  op.out("Loss", op.emit("elemwise_mul", {loss, op.emit("_cast_like", {isKept, loss})}));
}

constexpr BlockOpRow kRows[] = {
    {"batch_norm", batchNorm},
    {"conv2d", convolution},
    {"depthwise_conv2d", convolution},
    {"dropout", dropout},
    {"layer_norm", layerNorm},
    {"log_softmax", [](OpTranslation &op) { softmax(op, "log_softmax"); }},
    {"pool2d", pooling},
    {"softmax", [](OpTranslation &op) { softmax(op, "softmax"); }},
    {"softmax_with_cross_entropy", softmaxWithCrossEntropy},
};

}  // namespace

ArrayRef<BlockOpRow> layerBlockOps() { return kRows; }

}  // namespace gradc
