// Images of other sizes: each axis by itself, as a sum of weighted neighbours. Tested by
// tests/formats/blocks/block_rules_test.cc
#include "formats/blocks/ops/op_row.h"

#include "llvm/ADT/STLExtras.h"

#include <array>
#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

enum class Method { Nearest, Linear, Cubic };

constexpr int64_t kMostPixels = 1 << 20;  // along an axis

/// Along an axis: neighbour k of output i is pixel `pixels[k][i]`, with weight `weights[k][i]`.
struct Neighbours {
  std::vector<std::vector<int64_t>> pixels;
  std::vector<std::vector<double>> weights;
};

/// The weights of the four pixels around a place, `t` behind the second one.
std::array<double, 4> cubicWeights(double t) {
  constexpr double a = -0.75;
  auto near = [](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  auto far = [](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

// In Paddle, steps are float32 numbers, and so are places but those of cubic weights.
Neighbours neighbours(Method method, int64_t in, int64_t out, double scale, bool isAligned, bool isCentered) {
  const float step = isAligned   ? (out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1) : 0)
                     : scale > 0 ? static_cast<float>(1 / scale)
                                 : static_cast<float>(in) / static_cast<float>(out);
  const size_t number = method == Method::Nearest ? 1 : method == Method::Linear ? 2 : 4;
  Neighbours made{std::vector<std::vector<int64_t>>(number), std::vector<std::vector<double>>(number)};
  for (int64_t i = 0; i < out; ++i) {
    const auto at = static_cast<float>(i);
    auto add = [&](size_t k, int64_t pixel, double weight) {
      made.pixels[k].push_back(std::clamp<int64_t>(pixel, 0, in - 1));
      made.weights[k].push_back(weight);
    };
    if (method == Method::Nearest) {
      add(0, static_cast<int64_t>(isAligned ? step * at + 0.5F : step * at), 1);
      continue;
    }
    const bool isHalf = !isAligned && (isCentered || method == Method::Cubic);
    double place = isHalf ? step * (at + 0.5) - 0.5 : static_cast<double>(step * at);
    if (method == Method::Linear) place = std::max(static_cast<float>(place), 0.0F);
    const auto first = static_cast<int64_t>(std::floor(place));
    const double behind = place - static_cast<double>(first);
    if (method == Method::Linear) {
      add(0, first, 1 - behind);
      add(1, first + 1, behind);
      continue;
    }
    for (auto [k, weight] : enumerate(cubicWeights(behind))) add(k, first + static_cast<int64_t>(k) - 1, weight);
  }
  return made;
}

template <class T, class Spell>
Value constant(OpTranslation &op, ArrayRef<T> values, std::vector<int64_t> shape, StringRef dtype, Spell spell) {
  std::string text = "(";
  for (const T &value : values) text += spell(value) + ", ";
  return op.emit("_constant", {}, {{"shape", tupleText(shape)}, {"values", text + ")"}, {"dtype", dtype.str()}});
}

Value resized(OpTranslation &op, Value v, size_t rank, int64_t axis, const Neighbours &from) {
  Value sum;
  const auto size = static_cast<int64_t>(from.pixels[0].size());
  std::vector<int64_t> shape(rank, 1);
  shape[static_cast<size_t>(axis)] = size;
  for (auto [pixels, weights] : zip(from.pixels, from.weights)) {
    const Value index =
        constant(op, ArrayRef(pixels), {size}, "int64", [](int64_t pixel) { return std::to_string(pixel); });
    Value term = op.emit("take", {v, index}, {{"axis", std::to_string(axis)}});
    if (from.pixels.size() == 1) return term;
    const Value weight = constant(op, ArrayRef(weights), shape, "float64", numberText);
    term = op.emit("broadcast_mul", {term, op.emit("_cast_like", {weight, v})});
    sum = sum.isValid() ? op.emit("elemwise_add", {sum, term}) : term;
  }
  return sum;
}

// `scale` counts before `out_d`, `out_h` and `out_w`.
void interpolate(OpTranslation &op, Method method, size_t numAxes) {
  op.refuse({"OutSize", "Scale", "SizeTensor"});
  const std::string layout = op.text("data_layout", "NCHW");
  const bool isLast = StringRef(layout).ends_with("C"), isAligned = op.flag("align_corners", true),
             isCentered = op.integer("align_mode", 1) == 0;
  if (op.rank("X") != numAxes + 2)
    return op.fail(ErrorKind::BadEntry,
                   "slot 'X' has rank " + Twine(op.rank("X")) + ", expected " + Twine(numAxes + 2));
  const std::vector<double> scales = op.numbers("scale");
  constexpr StringLiteral kSizes[] = {"out_d", "out_h", "out_w"};
  Value v = op.in("X");
  for (size_t i = 0; i < numAxes; ++i) {
    const auto axis = static_cast<int64_t>(i) + (isLast ? 1 : 2);
    const int64_t in = op.dim("X", axis);
    const double scale = scales.empty() ? 0 : scales[std::min(i, scales.size() - 1)];
    const double wanted =
        scale > 0 ? static_cast<double>(in) * scale : static_cast<double>(op.integer(kSizes[i + 3 - numAxes], -1));
    if (in < 1 || !(wanted >= 1) || wanted > kMostPixels)
      return op.unsupported("an axis of " + Twine(in) + " pixels cannot become one of " + numberText(wanted));
    v = resized(op, v, numAxes + 2, axis,
                neighbours(method, in, static_cast<int64_t>(wanted), scale, isAligned, isCentered));
  }
  op.out("Out", v);
}

constexpr BlockOpRow kRows[] = {
    {"bicubic_interp_v2", [](OpTranslation &op) { interpolate(op, Method::Cubic, 2); }},
    {"bilinear_interp_v2", [](OpTranslation &op) { interpolate(op, Method::Linear, 2); }},
    {"linear_interp_v2", [](OpTranslation &op) { interpolate(op, Method::Linear, 1); }},
    {"nearest_interp_v2", [](OpTranslation &op) { interpolate(op, Method::Nearest, 2); }},
    {"trilinear_interp_v2", [](OpTranslation &op) { interpolate(op, Method::Linear, 3); }},
};

}  // namespace

ArrayRef<BlockOpRow> interpolationBlockOps() { return kRows; }

}  // namespace gradc
