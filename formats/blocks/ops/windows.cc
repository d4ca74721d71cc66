// Convolution and pooling. Tested by tests/block_graph_test.cc and tests/block_rules_test.cc
#include "formats/blocks/ops/op_row.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr size_t kNumAxes = 2;  // height and width

/// Whether the channels of images are their last axis; refuses other layouts.
bool hasChannelsLast(OpTranslation &op, StringRef slot) {
  const std::string layout = op.text("data_format", "NCHW");
  if (layout != "NCHW" && layout != "AnyLayout" && layout != "NHWC")
    op.unsupported("'data_format' " + layout + " is not supported, expected NCHW or NHWC");
  if (op.rank(slot) != 4)
    op.fail(ErrorKind::BadEntry, "slot '" + slot + "' has rank " + Twine(op.rank(slot)) + ", expected 4");
  return layout == "NHWC";
}

Value channelsFirst(OpTranslation &op, Value v, bool isLast) {
  return isLast ? op.emit("transpose", {v}, {{"axes", tupleText({0, 3, 1, 2})}}) : v;
}
Value channelsBack(OpTranslation &op, Value v, bool isLast) {
  return isLast ? op.emit("transpose", {v}, {{"axes", tupleText({0, 2, 3, 1})}}) : v;
}

/// One number per axis; ones if the attribute is missing.
std::vector<int64_t> perAxis(OpTranslation &op, StringRef key) {
  std::vector<int64_t> numbers = op.integers(key);
  if (numbers.empty()) numbers.assign(kNumAxes, 1);
  if (numbers.size() != kNumAxes)
    op.fail(ErrorKind::BadAttribute,
            "attribute '" + key + "' has " + Twine(numbers.size()) + " elements, expected " + Twine(kNumAxes));
  numbers.resize(kNumAxes, 1);
  for (int64_t &number : numbers)
    if (number < -int64_t{INT32_MAX} || number > int64_t{INT32_MAX}) {
      op.fail(ErrorKind::BadAttribute, "attribute '" + key + "' has " + Twine(number) + ", expected a 32-bit number");
      number = 1;
    }
  return numbers;
}

bool isSame(OpTranslation &op) { return op.text("padding_algorithm", "EXPLICIT") == "SAME"; }

struct Padding {
  std::vector<int64_t> before, after;  // per axis
  bool isEven() const { return before == after; }
};

/// `slot` holds the images; its height and width have to be known for SAME.
Padding padding(OpTranslation &op, StringRef slot, bool isLast, ArrayRef<int64_t> size, ArrayRef<int64_t> strides) {
  const std::string algorithm = op.text("padding_algorithm", "EXPLICIT");
  const std::vector<int64_t> zeros(kNumAxes, 0);
  Padding pads = {zeros, zeros};
  if (algorithm == "VALID") return pads;
  if (algorithm == "SAME") {  // one window for each `stride` pixels
    for (size_t i = 0; i < kNumAxes; ++i) {
      const int64_t stride = std::max<int64_t>(strides[i], 1);
      const int64_t length = op.dim(slot, static_cast<int64_t>(i) + (isLast ? 1 : 2));
      const int64_t rest = length - (length - 1) / stride * stride;  // of the last window
      const int64_t sum = length < 1 ? 0 : std::max<int64_t>(size[i] - rest, 0);
      pads.before[i] = sum / 2;
      pads.after[i] = sum - sum / 2;
    }
    return pads;
  }
  if (algorithm != "EXPLICIT") op.unsupported("'padding_algorithm' " + algorithm + " is not supported");
  std::vector<int64_t> given = op.integers("paddings");
  if (given.empty()) return pads;
  if (given.size() == kNumAxes) return {given, given};
  if (given.size() == 2 * kNumAxes) return {{given[0], given[2]}, {given[1], given[3]}};
  op.fail(ErrorKind::BadAttribute, "attribute 'paddings' has " + Twine(given.size()) + " elements, expected 2 or 4");
  return pads;
}

Value padded(OpTranslation &op, Value v, const Padding &pads, StringRef value) {
  const std::string width = tupleText({0, 0, 0, 0, pads.before[0], pads.after[0], pads.before[1], pads.after[1]});
  return op.emit("Pad", {v},
                 {{"mode", std::string("constant")}, {"pad_width", width}, {"constant_value", value.str()}});
}

void convolution(OpTranslation &op) {
  op.refuse({"Bias", "ResidualData"});
  const bool isLast = hasChannelsLast(op, "Input");
  if (op.rank("Filter") != 4)
    return op.fail(ErrorKind::BadEntry, "slot 'Filter' has rank " + Twine(op.rank("Filter")) + ", expected 4");
  const std::vector<int64_t> size = {op.dim("Filter", 2), op.dim("Filter", 3)}, strides = perAxis(op, "strides");
  std::vector<int64_t> dilations = perAxis(op, "dilations");
  if (isSame(op)) dilations.assign(kNumAxes, 1);  // as in Paddle
  Padding pads = padding(op, "Input", isLast, size, strides);
  Value x = channelsFirst(op, op.in("Input"), isLast);
  if (!pads.isEven()) {
    x = padded(op, x, pads, "0");
    pads.before.assign(kNumAxes, 0);
  }
  const Value y = op.emit("Convolution", {x, op.in("Filter")},
                          {{"kernel", tupleText(size)},
                           {"num_filter", std::to_string(op.dim("Filter", 0))},
                           {"num_group", std::to_string(op.integer("groups", 1))},
                           {"stride", tupleText(strides)},
                           {"dilate", tupleText(dilations)},
                           {"pad", tupleText(pads.before)},
                           {"no_bias", std::string("True")}});
  op.out("Output", channelsBack(op, y, isLast));
}

void transposedConvolution(OpTranslation &op) {
  op.refuse({"Bias"});
  const bool isLast = hasChannelsLast(op, "Input");
  if (op.rank("Filter") != 4)
    return op.fail(ErrorKind::BadEntry, "slot 'Filter' has rank " + Twine(op.rank("Filter")) + ", expected 4");
  if (isSame(op)) return op.unsupported("'padding_algorithm' SAME is not supported");
  const std::vector<int64_t> size = {op.dim("Filter", 2), op.dim("Filter", 3)}, strides = perAxis(op, "strides"),
                             dilations = perAxis(op, "dilations"), outputSize = op.integers("output_size");
  const Padding pads = padding(op, "Input", isLast, size, strides);
  if (!pads.isEven())
    return op.unsupported("'paddings' that differ between the two sides of an axis are not supported");
  std::vector<int64_t> more = op.integers("output_padding");
  const int64_t groups = op.integer("groups", 1);
  std::vector<int64_t> numbers = {op.dim("Filter", 1), groups};
  for (ArrayRef<int64_t> part : {ArrayRef(size), ArrayRef(pads.before), ArrayRef(outputSize)})
    append_range(numbers, part);
  if (outputSize.size() == kNumAxes)
    for (int64_t axis : {1, 2, 3}) numbers.push_back(op.dim("Input", axis));
  if (any_of(numbers, [](int64_t n) { return n < -1 || n > int64_t{INT32_MAX}; }))
    return op.unsupported("sizes above 2147483647 are not supported");
  if (outputSize.size() == kNumAxes) {
    more.assign(kNumAxes, 0);
    for (size_t i = 0; i < kNumAxes; ++i)
      more[i] = outputSize[i] - ((op.dim("Input", static_cast<int64_t>(i) + (isLast ? 1 : 2)) - 1) * strides[i] -
                                 2 * pads.before[i] + dilations[i] * (size[i] - 1) + 1);
  }
  if (more.empty()) more.assign(kNumAxes, 0);
  const Value y = op.emit("Deconvolution", {channelsFirst(op, op.in("Input"), isLast), op.in("Filter")},
                          {{"kernel", tupleText(size)},
                           {"num_filter", std::to_string(op.dim("Filter", 1) * groups)},
                           {"num_group", std::to_string(groups)},
                           {"stride", tupleText(strides)},
                           {"dilate", tupleText(dilations)},
                           {"pad", tupleText(pads.before)},
                           {"adj", tupleText(more)},
                           {"no_bias", std::string("True")}});
  op.out("Output", channelsBack(op, y, isLast));
}

/// Every output is one window's; maxima need windows of equal size.
Value adaptivePooling(OpTranslation &op, Value x, StringRef kind, ArrayRef<int64_t> size, bool isLast) {
  if (all_of(size, [](int64_t n) { return n == 1; }))
    return op.emit("Pooling", {x}, {{"pool_type", kind.str()}, {"global_pool", std::string("True")}});
  if (kind == "avg") return op.emit("_contrib_AdaptiveAvgPooling2D", {x}, {{"output_size", tupleText(size)}});
  std::vector<int64_t> window;
  for (size_t i = 0; i < kNumAxes; ++i) {
    const int64_t length = op.dim("X", static_cast<int64_t>(i) + (isLast ? 1 : 2));
    if (size[i] < 1 || length % size[i] != 0) {
      op.unsupported("'adaptive' maxima of windows that differ in size are not supported");
      return x;
    }
    window.push_back(length / size[i]);
  }
  return op.emit("Pooling", {x},
                 {{"kernel", tupleText(window)}, {"stride", tupleText(window)}, {"pool_type", kind.str()}});
}

Value pooled(OpTranslation &op, Value x, StringRef kind, bool isLast) {
  const std::vector<int64_t> size = perAxis(op, "ksize");
  if (op.flag("adaptive", false)) return adaptivePooling(op, x, kind, size, isLast);
  if (op.flag("global_pooling", false))
    return op.emit("Pooling", {x}, {{"pool_type", kind.str()}, {"global_pool", std::string("True")}});
  const std::vector<int64_t> strides = perAxis(op, "strides");
  Padding pads = padding(op, "X", isLast, size, strides);
  const bool isExclusive = op.flag("exclusive", true), isEven = pads.isEven();
  auto windows = [&](Value v, StringRef how) {
    return op.emit("Pooling", {v},
                   {{"kernel", tupleText(size)},
                    {"pool_type", how.str()},
                    {"stride", tupleText(strides)},
                    {"pad", tupleText(pads.before)},
                    {"pooling_convention", op.flag("ceil_mode", false) ? "full" : "valid"},
                    {"count_include_pad", flagText(!isExclusive)}});
  };
  if (isEven) return windows(x, kind);
  const Padding sides = pads;
  pads.before.assign(kNumAxes, 0);
  if (kind == "max") return windows(padded(op, x, sides, "-inf"), kind);
  const Value whole = padded(op, x, sides, "0");
  if (!isExclusive) return windows(whole, kind);
  const Value counted = padded(op, op.emit("ones_like", {x}), sides, "0");
  return op.emit("elemwise_div", {windows(whole, "sum"), windows(counted, "sum")});
}

void pooling(OpTranslation &op) {
  const bool isLast = hasChannelsLast(op, "X");
  const Value x = channelsFirst(op, op.in("X"), isLast);
  op.out("Out", channelsBack(op, pooled(op, x, op.text("pooling_type", "max"), isLast), isLast));
}

// `Mask`, the positions of the maxima, is for its gradient operator, which here finds them itself.
void maxPooling(OpTranslation &op) {
  const bool isLast = hasChannelsLast(op, "X");
  op.out("Out", pooled(op, op.in("X"), "max", isLast));
}

constexpr BlockOpRow kRows[] = {
    {"conv2d", convolution},
    {"conv2d_transpose", transposedConvolution},
    {"depthwise_conv2d", convolution},
    {"max_pool2d_with_index", maxPooling},
    {"pool2d", pooling},
};

}  // namespace

ArrayRef<BlockOpRow> windowBlockOps() { return kRows; }

}  // namespace gradc
