// Windows over images and the columns that show them, as im2col and col2im have them. Tested by
// tests/ops/network_ops_test.cc
#pragma once

#include "ir/base/number.h"
#include "ir/op/op.h"
#include "ops/kit/broadcast_loops.h"

#include <algorithm>

namespace gradc {

/// Three spatial axes, missing ones in front. Columns have one row of positions for each plane and element of a window.
struct ColumnWindows {
  int64_t planes = 1, window = 1, positions = 1;  // planes: of images and channels
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, dilate[3] = {1, 1, 1}, pad[3] = {0, 0, 0};
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1};

  int64_t pixels() const { return in[0] * in[1] * in[2]; }

  /// The pixel on an axis that element `tap` of the window at position `at` shows; outside: in the padding.
  int64_t pixelOn(int axis, int64_t at, int64_t tap) const {
    return at * stride[axis] + tap * dilate[axis] - pad[axis];
  }
  bool isInside(int axis, int64_t pixel) const { return pixel >= 0 && pixel < in[axis]; }

  /// For element k of the window, calls visit(first, size, begin, end, pixel) for lines of positions, in order: of the
  /// `size` from `first`, those from begin to end show pixels of a plane, the first of them `pixel` and each next one
  /// stride[2] further; the others are in the padding.
  template <class F> void forLines(int64_t k, F visit) const {
    const int64_t tap[3] = {k / (kernel[1] * kernel[2]), k / kernel[2] % kernel[1], k % kernel[2]};
    const int64_t shift = pixelOn(2, 0, tap[2]);
    auto reaching = [&](int64_t pixel) {
      return std::clamp<int64_t>(pixel <= shift ? 0 : (pixel - shift + stride[2] - 1) / stride[2], 0, out[2]);
    };
    const int64_t begin = reaching(0), end = std::max(begin, reaching(in[2]));
    for (int64_t line = 0; line < out[0] * out[1]; ++line) {
      const int64_t plane = pixelOn(0, line / out[1], tap[0]), row = pixelOn(1, line % out[1], tap[1]);
      const bool isOutside = !isInside(0, plane) || !isInside(1, row) || begin == end;
      const int64_t pixel = (plane * in[1] + row) * in[2] + shift + begin * stride[2];
      if (isOutside) visit(line * out[2], out[2], 0, 0, 0);
      else visit(line * out[2], out[2], begin, end, pixel);
    }
  }

  /// Writes row number `row` of the columns.
  template <class T> void copyRow(int64_t row, const T *images, T *columns) const {
    const T *image = images + row / window * pixels();
    T *to = columns + row * positions;
    forLines(row % window,
             [=, step = stride[2]](int64_t first, int64_t size, int64_t begin, int64_t end, int64_t pixel) {
               T *line = to + first;
               std::fill(line, line + begin, T{0});
               for (int64_t o = begin; o < end; ++o) line[o] = image[pixel + (o - begin) * step];
               std::fill(line + end, line + size, T{0});
             });
  }

  /// Writes the pixels of a plane: the sums of the column elements that show them, in `sums` on the way.
  template <class T> void sumPlane(int64_t plane, const T *columns, Accumulator<T> *sums, T *images) const {
    std::fill_n(sums, pixels(), Accumulator<T>{0});
    for (int64_t k = 0; k < window; ++k) {
      const T *from = columns + (plane * window + k) * positions;
      forLines(k, [=, step = stride[2]](int64_t first, int64_t, int64_t begin, int64_t end, int64_t pixel) {
        for (int64_t o = begin; o < end; ++o) {
          Accumulator<T> &sum = sums[pixel + (o - begin) * step];
          sum = wrappingAdd(sum, static_cast<Accumulator<T>>(from[first + o]));
        }
      });
    }
    for (int64_t i = 0; i < pixels(); ++i) images[plane * pixels() + i] = static_cast<T>(sums[i]);
  }
};

/// Of im2col, col2im and their gradients, for images of this shape.
ColumnWindows columnWindows(const NodeKind &kind, Dims image);

}  // namespace gradc
