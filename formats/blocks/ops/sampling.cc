// Images read at computed places. Tested by tests/formats/blocks/paddle_values_test.cc
#include "formats/blocks/ops/op_row.h"

using namespace llvm;

namespace gradc {
namespace {

/// n numbers from −1 to 1, of the type of `like`; without `meetsCorners` they are the centres of n equal parts.
Value axisPoints(OpTranslation &op, int64_t n, bool meetsCorners, Value like) {
  const Value numbers = op.emit("_arange", {}, {{"start", "0"}, {"stop", std::to_string(n)}, {"dtype", "float64"}});
  const auto size = static_cast<double>(n);
  const Value points = meetsCorners ? op.addScalar(op.timesScalar(numbers, n > 1 ? 2 / (size - 1) : 0), -1)
                                    : op.addScalar(op.timesScalar(numbers, 2 / size), 1 / size - 1);
  return op.emit("_cast_like", {points, like});
}

// Output[n,i,j] = Theta[n]·(x of column j, y of row i, 1).
void affineGrid(OpTranslation &op) {
  op.refuse({"OutputShape"});
  const std::vector<int64_t> shape = op.integers("output_shape");
  if (shape.size() != 4) return op.unsupported("'output_shape' is expected to have 4 dimensions");
  const bool meetsCorners = op.flag("align_corners", true);
  const Value theta = op.in("Theta");
  auto points = [&](size_t axis, int64_t at) {
    const Value v = axisPoints(op, shape[axis], meetsCorners, theta);
    const Value line = op.emit("expand_dims", {v}, {{"axis", std::to_string(at)}});
    return op.emit("broadcast_to", {line}, {{"shape", tupleText({shape[2], shape[3]})}});
  };
  const Value x = points(3, 0), y = points(2, 1);
  const Value base = op.emit("stack", {x, y, op.emit("ones_like", {x})}, {{"axis", "0"}, {"num_args", "3"}});
  const Value places = op.emit("dot", {theta, op.reshaped(base, {3, -1})});  // (n, 2, rows·columns)
  const Value last = op.emit("transpose", {places}, {{"axes", "(0, 2, 1)"}});
  op.out("Output", op.reshaped(last, {-1, shape[2], shape[3], 2}));
}

/// Where a coordinate of the grid, −1 to 1 over the image, falls among the pixels of an axis.
Value pixelPlace(OpTranslation &op, Value v, int64_t size, bool meetsCorners, bool isClamped) {
  const auto number = static_cast<double>(size);
  const Value place = meetsCorners ? op.timesScalar(op.addScalar(v, 1), (number - 1) / 2)
                                   : op.addScalar(op.timesScalar(op.addScalar(v, 1), number / 2), -0.5);
  if (!isClamped) return place;
  return op.emit("clip", {place}, {{"a_min", "0"}, {"a_max", std::to_string(size - 1)}});
}

/// The pixels (n, c, places) at whole places of shape (n, 1, places); zeros outside of the image.
Value pixelsAt(OpTranslation &op, Value rows, Value channels, Value ix, Value iy, int64_t height, int64_t width) {
  auto inside = [&](Value v, int64_t size) {
    return op.emit("clip", {v}, {{"a_min", "0"}, {"a_max", std::to_string(size - 1)}});
  };
  const Value cx = inside(ix, width), cy = inside(iy, height);
  const Value index = op.emit("elemwise_add", {op.timesScalar(cy, static_cast<double>(width)), cx});
  const Value pixels =
      op.emit("_take_along_axis", {rows, op.emit("broadcast_add", {index, channels})}, {{"axis", "2"}});
  const Value isInside = op.emit("elemwise_mul", {op.emit("_equal", {cx, ix}), op.emit("_equal", {cy, iy})});
  return op.emit("broadcast_mul", {pixels, isInside});
}

// Output[n,c,i,j] = X[n,c] at Grid[n,i,j] = (x, y): the nearest pixel, or the four around it, weighted.
void gridSampler(OpTranslation &op) {
  const std::string mode = op.text("mode", "bilinear"), padding = op.text("padding_mode", "zeros");
  if (op.rank("X") != 4) return op.unsupported("volumes are not supported, expected an image (n, c, rows, columns)");
  if (mode != "bilinear" && mode != "nearest")
    return op.unsupported("'mode' " + mode + " is not supported, expected bilinear or nearest");
  if (padding != "zeros" && padding != "border")
    return op.unsupported("'padding_mode' " + padding + " is not supported, expected zeros or border");
  const int64_t height = op.dim("X", 2), width = op.dim("X", 3);
  const Value x = op.in("X"), grid = op.in("Grid");
  const Value rows = op.reshaped(x, {0, 0, -1});
  const Value channels = op.emit("zeros_like", {op.sliced(rows, 2, 0, 1)});
  auto coordinate = [&](int64_t at, int64_t size) {
    const Value line = op.reshaped(op.sliced(grid, 3, at, at + 1), {0, 1, -1});
    return pixelPlace(op, line, size, op.flag("align_corners", true), padding == "border");
  };
  const Value ix = coordinate(0, width), iy = coordinate(1, height);
  auto pixels = [&](Value at, Value below) {
    return pixelsAt(op, rows, channels, op.emit("BlockGrad", {at}), op.emit("BlockGrad", {below}), height, width);
  };
  Value y;
  if (mode == "nearest") {
    y = pixels(op.emit("rint", {ix}), op.emit("rint", {iy}));
  } else {
    const Value left = op.emit("BlockGrad", {op.emit("floor", {ix})}),
                top = op.emit("BlockGrad", {op.emit("floor", {iy})});
    const Value right = op.addScalar(left, 1), bottom = op.addScalar(top, 1);
    const Value toRight = op.emit("elemwise_sub", {ix, left}), toBottom = op.emit("elemwise_sub", {iy, top});
    const Value toLeft = op.scalar("_rminus_scalar", toRight, 1), toTop = op.scalar("_rminus_scalar", toBottom, 1);
    auto mixed = [&](Value a, Value ofA, Value b, Value ofB) {
      return op.emit("elemwise_add", {op.emit("broadcast_mul", {a, ofA}), op.emit("broadcast_mul", {b, ofB})});
    };
    const Value above = mixed(pixels(left, top), toLeft, pixels(right, top), toRight),
                below = mixed(pixels(left, bottom), toLeft, pixels(right, bottom), toRight);
    y = mixed(above, toTop, below, toBottom);
  }
  // The rows and columns of the result are those of the grid.
  const Value like = op.emit("transpose", {grid}, {{"axes", "(0, 3, 1, 2)"}});
  op.out("Output", op.emit("reshape_like", {y, like},
                           {{"lhs_begin", "2"}, {"lhs_end", "3"}, {"rhs_begin", "2"}, {"rhs_end", "4"}}));
}

constexpr BlockOpRow kRows[] = {
    {"affine_grid", affineGrid},
    {"grid_sampler", gridSampler},
};

}  // namespace

ArrayRef<BlockOpRow> samplingBlockOps() { return kRows; }

}  // namespace gradc
