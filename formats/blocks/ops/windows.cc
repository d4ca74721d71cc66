// Convolution and pooling. Tested by tests/formats/blocks/block_graph_test.cc and
// tests/formats/blocks/block_rules_test.cc
#include "formats/blocks/ops/op_row.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

/// Images, or volumes with depth as their first axis.
struct Images {
  size_t numAxes = 2;
  bool isLast = false;  // the channels

  size_t axis(size_t i) const { return i + (isLast ? 1 : 2); }
};

/// Those of an operand; refuses other ranks and layouts.
Images imagesOf(OpTranslation &op, StringRef slot, size_t numAxes) {
  const StringRef first = numAxes == 2 ? "NCHW" : "NCDHW", last = numAxes == 2 ? "NHWC" : "NDHWC";
  const std::string layout = op.text("data_format", first);
  if (layout != first && layout != "NCHW" && layout != "AnyLayout" && layout != last)  // NCHW also means NCDHW
    op.unsupported("'data_format' " + layout + " is not supported, expected " + first + " or " + last);
  if (op.rank(slot) != numAxes + 2)
    op.fail(ErrorKind::BadEntry,
            "slot '" + slot + "' has rank " + Twine(op.rank(slot)) + ", expected " + Twine(numAxes + 2));
  return {numAxes, layout == last};
}

Value channelsFirst(OpTranslation &op, Value v, Images images) {
  if (!images.isLast) return v;
  return op.emit("transpose", {v}, {{"axes", images.numAxes == 2 ? "(0, 3, 1, 2)" : "(0, 4, 1, 2, 3)"}});
}
Value channelsBack(OpTranslation &op, Value v, Images images) {
  if (!images.isLast) return v;
  return op.emit("transpose", {v}, {{"axes", images.numAxes == 2 ? "(0, 2, 3, 1)" : "(0, 2, 3, 4, 1)"}});
}

/// One number per axis; ones if the attribute is missing.
std::vector<int64_t> perAxis(OpTranslation &op, StringRef key, Images images) {
  std::vector<int64_t> numbers = op.integers(key);
  if (numbers.empty()) numbers.assign(images.numAxes, 1);
  if (numbers.size() != images.numAxes)
    op.fail(ErrorKind::BadAttribute,
            "attribute '" + key + "' has " + Twine(numbers.size()) + " elements, expected " + Twine(images.numAxes));
  numbers.resize(images.numAxes, 1);
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

/// `slot` holds the images; their extents have to be known for SAME.
Padding padding(OpTranslation &op, StringRef slot, Images images, ArrayRef<int64_t> size, ArrayRef<int64_t> strides) {
  const std::string algorithm = op.text("padding_algorithm", "EXPLICIT");
  const std::vector<int64_t> zeros(images.numAxes, 0);
  Padding pads = {zeros, zeros};
  if (algorithm == "VALID") return pads;
  if (algorithm == "SAME") {  // one window for each `stride` pixels
    for (size_t i = 0; i < images.numAxes; ++i) {
      const int64_t stride = std::max<int64_t>(strides[i], 1);
      const int64_t length = op.dim(slot, static_cast<int64_t>(images.axis(i)));
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
  if (given.size() == images.numAxes) return {given, given};
  if (given.size() != 2 * images.numAxes) {
    op.fail(ErrorKind::BadAttribute, "attribute 'paddings' has " + Twine(given.size()) + " elements, expected " +
                                         Twine(images.numAxes) + " or " + Twine(2 * images.numAxes));
    return pads;
  }
  for (size_t i = 0; i < images.numAxes; ++i) {
    pads.before[i] = given[2 * i];
    pads.after[i] = given[2 * i + 1];
  }
  return pads;
}

Value padded(OpTranslation &op, Value v, const Padding &pads, StringRef value) {
  std::vector<int64_t> width(4, 0);
  for (auto [before, after] : zip(pads.before, pads.after)) width.insert(width.end(), {before, after});
  return op.emit("Pad", {v}, {{"mode", "constant"}, {"pad_width", tupleText(width)}, {"constant_value", value.str()}});
}

/// The extents of a filter behind its two axes of channels.
std::vector<int64_t> filterSize(OpTranslation &op, size_t numAxes) {
  if (op.rank("Filter") != numAxes + 2)
    op.fail(ErrorKind::BadEntry,
            "slot 'Filter' has rank " + Twine(op.rank("Filter")) + ", expected " + Twine(numAxes + 2));
  std::vector<int64_t> size;
  for (size_t i = 0; i < numAxes; ++i) size.push_back(op.dim("Filter", static_cast<int64_t>(i + 2)));
  return size;
}

void convolution(OpTranslation &op, size_t numAxes) {
  op.refuse({"Bias", "ResidualData"});
  const Images images = imagesOf(op, "Input", numAxes);
  const std::vector<int64_t> size = filterSize(op, numAxes), strides = perAxis(op, "strides", images);
  std::vector<int64_t> dilations = perAxis(op, "dilations", images);
  if (isSame(op)) dilations.assign(numAxes, 1);  // as in Paddle
  Padding pads = padding(op, "Input", images, size, strides);
  Value x = channelsFirst(op, op.in("Input"), images);
  if (!pads.isEven()) {
    x = padded(op, x, pads, "0");
    pads.before.assign(numAxes, 0);
  }
  const Value y = op.emit("Convolution", {x, op.in("Filter")},
                          {{"kernel", tupleText(size)},
                           {"num_filter", std::to_string(op.dim("Filter", 0))},
                           {"num_group", std::to_string(op.integer("groups", 1))},
                           {"stride", tupleText(strides)},
                           {"dilate", tupleText(dilations)},
                           {"pad", tupleText(pads.before)},
                           {"no_bias", "True"}});
  op.out("Output", channelsBack(op, y, images));
}

void transposedConvolution(OpTranslation &op, size_t numAxes) {
  op.refuse({"Bias"});
  const Images images = imagesOf(op, "Input", numAxes);
  if (isSame(op)) return op.unsupported("'padding_algorithm' SAME is not supported");
  const std::vector<int64_t> size = filterSize(op, numAxes), strides = perAxis(op, "strides", images),
                             dilations = perAxis(op, "dilations", images), outputSize = op.integers("output_size");
  const Padding pads = padding(op, "Input", images, size, strides);
  if (!pads.isEven())
    return op.unsupported("'paddings' that differ between the two sides of an axis are not supported");
  std::vector<int64_t> more = op.integers("output_padding");
  const int64_t groups = op.integer("groups", 1);
  std::vector<int64_t> numbers = {op.dim("Filter", 1), groups};
  for (ArrayRef<int64_t> part : {ArrayRef(size), ArrayRef(pads.before), ArrayRef(outputSize)})
    append_range(numbers, part);
  if (outputSize.size() == numAxes)
    for (size_t axis = 1; axis < numAxes + 2; ++axis) numbers.push_back(op.dim("Input", static_cast<int64_t>(axis)));
  if (any_of(numbers, [](int64_t n) { return n < -1 || n > int64_t{INT32_MAX}; }))
    return op.unsupported("sizes above 2147483647 are not supported");
  if (outputSize.size() == numAxes) {
    more.assign(numAxes, 0);
    for (size_t i = 0; i < numAxes; ++i)
      more[i] = outputSize[i] - ((op.dim("Input", static_cast<int64_t>(images.axis(i))) - 1) * strides[i] -
                                 2 * pads.before[i] + dilations[i] * (size[i] - 1) + 1);
  }
  if (more.empty()) more.assign(numAxes, 0);
  const Value y = op.emit("Deconvolution", {channelsFirst(op, op.in("Input"), images), op.in("Filter")},
                          {{"kernel", tupleText(size)},
                           {"num_filter", std::to_string(op.dim("Filter", 1) * groups)},
                           {"num_group", std::to_string(groups)},
                           {"stride", tupleText(strides)},
                           {"dilate", tupleText(dilations)},
                           {"pad", tupleText(pads.before)},
                           {"adj", tupleText(more)},
                           {"no_bias", "True"}});
  op.out("Output", channelsBack(op, y, images));
}

/// Every output is one window's; maxima, and means of volumes, need windows of equal size.
Value adaptivePooling(OpTranslation &op, Value x, StringRef kind, ArrayRef<int64_t> size, Images images) {
  if (all_of(size, [](int64_t n) { return n == 1; }))
    return op.emit("Pooling", {x}, {{"pool_type", kind.str()}, {"global_pool", "True"}});
  if (kind == "avg" && images.numAxes == 2)
    return op.emit("_contrib_AdaptiveAvgPooling2D", {x}, {{"output_size", tupleText(size)}});
  std::vector<int64_t> window;
  for (size_t i = 0; i < images.numAxes; ++i) {
    const int64_t length = op.dim("X", static_cast<int64_t>(images.axis(i)));
    if (size[i] < 1 || length % size[i] != 0) {
      op.unsupported("'adaptive' windows that differ in size are not supported");
      return x;
    }
    window.push_back(length / size[i]);
  }
  return op.emit("Pooling", {x},
                 {{"kernel", tupleText(window)}, {"stride", tupleText(window)}, {"pool_type", kind.str()}});
}

Value pooled(OpTranslation &op, Value x, StringRef kind, Images images) {
  const std::vector<int64_t> size = perAxis(op, "ksize", images);
  if (op.flag("adaptive", false)) return adaptivePooling(op, x, kind, size, images);
  if (op.flag("global_pooling", false))
    return op.emit("Pooling", {x}, {{"pool_type", kind.str()}, {"global_pool", "True"}});
  const std::vector<int64_t> strides = perAxis(op, "strides", images);
  Padding pads = padding(op, "X", images, size, strides);
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
  pads.before.assign(images.numAxes, 0);
  if (kind == "max") return windows(padded(op, x, sides, "-inf"), kind);
  const Value whole = padded(op, x, sides, "0");
  if (!isExclusive) return windows(whole, kind);
  const Value counted = padded(op, op.emit("ones_like", {x}), sides, "0");
  return op.emit("elemwise_div", {windows(whole, "sum"), windows(counted, "sum")});
}

void pooling(OpTranslation &op, size_t numAxes) {
  const Images images = imagesOf(op, "X", numAxes);
  const Value x = channelsFirst(op, op.in("X"), images);
  op.out("Out", channelsBack(op, pooled(op, x, op.text("pooling_type", "max"), images), images));
}

// `Mask`, the positions of the maxima, is for its gradient operator, which here finds them itself.
void maxPooling(OpTranslation &op, size_t numAxes) {
  const Images images = imagesOf(op, "X", numAxes);
  op.out("Out", pooled(op, op.in("X"), "max", images));
}

/// Windows as columns and back; paddings are those of the upper, left, lower and right side.
void columns(OpTranslation &op, StringRef name, AttrPair more) {
  const Images images;
  const std::vector<int64_t> pads = op.integers("paddings");
  if (pads.size() != 4 || pads[0] != pads[2] || pads[1] != pads[3])
    return op.unsupported("'paddings' that differ between the two sides of an axis are not supported");
  SmallVector<AttrPair, 5> attrs = {{"kernel", tupleText(perAxis(op, "kernel_sizes", images))},
                                    {"stride", tupleText(perAxis(op, "strides", images))},
                                    {"dilate", tupleText(perAxis(op, "dilations", images))},
                                    {"pad", tupleText({pads[0], pads[1]})}};
  if (!more.first.empty()) attrs.push_back(std::move(more));
  op.out("Y", op.emit(name, {op.in("X")}, attrs));
}
void fold(OpTranslation &op) { columns(op, "col2im", {"output_size", tupleText(op.integers("output_sizes"))}); }

constexpr BlockOpRow kRows[] = {
    {"conv2d", [](OpTranslation &op) { convolution(op, 2); }},
    {"conv2d_transpose", [](OpTranslation &op) { transposedConvolution(op, 2); }},
    {"conv3d", [](OpTranslation &op) { convolution(op, 3); }},
    {"conv3d_transpose", [](OpTranslation &op) { transposedConvolution(op, 3); }},
    {"depthwise_conv2d", [](OpTranslation &op) { convolution(op, 2); }},
    {"fold", fold},
    {"max_pool2d_with_index", [](OpTranslation &op) { maxPooling(op, 2); }},
    {"max_pool3d_with_index", [](OpTranslation &op) { maxPooling(op, 3); }},
    {"pool2d", [](OpTranslation &op) { pooling(op, 2); }},
    {"pool3d", [](OpTranslation &op) { pooling(op, 3); }},
    {"unfold", [](OpTranslation &op) { columns(op, "im2col", {}); }},
};

}  // namespace

ArrayRef<BlockOpRow> windowBlockOps() { return kRows; }

}  // namespace gradc
