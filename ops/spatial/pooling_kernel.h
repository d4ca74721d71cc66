// Pooling windows on plain memory: reductions over each window, and their adjoints.
//
// A window is clipped to the image; taps in the padding take no part. Of equal maxima the first in row-major order
// wins, and a NaN never does. Sums run in row-major order and in float64, and are rounded once. Tested by
// tests/ops/nn_ops_test.cc
#pragma once

#include "ops/spatial/spatial.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace gradc {

struct PoolGeometry {
  ImageView in, out;
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, pad[3] = {0, 0, 0};
};

/// The part of one window inside its image.
struct PoolWindow {
  int64_t low[3], high[3];  // pixel coordinates, high exclusive
  int64_t base;             // offset of the image and channel in the input
  int64_t output;           // offset of the window's element in the output
  double paddedSize;        // taps inside the image or its padding, of which there may be more than 2^63

  bool isEmpty() const { return high[0] <= low[0] || high[1] <= low[1] || high[2] <= low[2]; }
  int64_t size() const { return (high[0] - low[0]) * (high[1] - low[1]) * (high[2] - low[2]); }
};

/// Bounds of window `pixel` (numbered as output pixels); base and output are not set.
inline PoolWindow windowAt(const PoolGeometry &g, int64_t pixel) {
  PoolWindow w;
  w.paddedSize = 1;
  for (int axis = 2; axis >= 0; --axis) {
    const int64_t begin = pixel % g.out.extent[axis] * g.stride[axis] - g.pad[axis];
    const int64_t end = std::min(begin + g.kernel[axis], g.in.extent[axis] + g.pad[axis]);
    pixel /= g.out.extent[axis];
    w.paddedSize *= static_cast<double>(std::max<int64_t>(end - begin, 0));
    w.low[axis] = std::max<int64_t>(begin, 0);
    w.high[axis] = std::min(end, g.in.extent[axis]);
  }
  return w;
}

/// The same with base and output, in channel c of image n.
inline PoolWindow placedWindow(const PoolGeometry &g, int64_t n, int64_t c, int64_t pixel) {
  PoolWindow w = windowAt(g, pixel);
  w.base = n * g.in.batchStride + c * g.in.channelStride;
  w.output = n * g.out.batchStride + c * g.out.channelStride + pixel * g.out.pixelStride;
  return w;
}

/// Calls visit(window) for every window: images, then channels, then output pixels.
template <class F> void forEachWindow(const PoolGeometry &g, F visit) {
  if (g.out.pixels() == 0) return;
  for (int64_t n = 0; n < g.out.batch; ++n)
    for (int64_t c = 0; c < g.out.channels; ++c)
      for (int64_t pixel = 0; pixel < g.out.pixels(); ++pixel) visit(placedWindow(g, n, c, pixel));
}

/// Calls visit(offset in the input) for the pixels of a window in row-major order.
template <class F> void forEachPixel(const PoolGeometry &g, const PoolWindow &w, F visit) {
  for (int64_t z = w.low[0]; z < w.high[0]; ++z)
    for (int64_t y = w.low[1]; y < w.high[1]; ++y) {
      const int64_t line = w.base + (z * g.in.extent[1] + y) * g.in.extent[2] * g.in.pixelStride;
      for (int64_t x = w.low[2]; x < w.high[2]; ++x) visit(line + x * g.in.pixelStride);
    }
}

/// Offset of the largest element of the window, -1 when there is none.
template <class T> int64_t argMax(const PoolGeometry &g, const PoolWindow &w, const T *x) {
  int64_t best = -1;
  T largest = std::numeric_limits<T>::lowest();
  forEachPixel(g, w, [&](int64_t at) {
    if (x[at] <= largest && best >= 0) return;
    if (std::isnan(x[at])) return;
    best = at;
    largest = x[at];
  });
  return best;
}

/// y = v at the largest element of `chooser` in each window; `empty` where there is none.
template <class T> void poolGather(const PoolGeometry &g, const T *v, const T *chooser, T empty, T *y) {
  forEachWindow(g, [&](const PoolWindow &w) {
    const int64_t at = argMax(g, w, chooser);
    y[w.output] = at < 0 ? empty : v[at];
  });
}

/// Calls add(window) for the windows of one channel of one image after the other, which adds to the pixels of `sums`,
/// and writes these to dx.
template <class T, class Add> void poolAdd(const PoolGeometry &g, T *dx, double *sums, Add add) {
  for (int64_t n = 0; n < g.in.batch; ++n)
    for (int64_t c = 0; c < g.in.channels; ++c) {
      std::fill_n(sums, g.in.pixels(), 0.0);
      for (int64_t pixel = 0; pixel < g.out.pixels(); ++pixel) add(placedWindow(g, n, c, pixel));
      T *to = dx + n * g.in.batchStride + c * g.in.channelStride;
      for (int64_t i = 0; i < g.in.pixels(); ++i) to[i * g.in.pixelStride] = static_cast<T>(sums[i]);
    }
}

/// Scratch of the functions below, in elements: the pixels of an image.
inline size_t poolSums(const PoolGeometry &g) { return static_cast<size_t>(g.in.pixels()); }

/// dx = Σ of dy over the windows whose largest element of `chooser` is there.
template <class T> void poolScatter(const PoolGeometry &g, const T *dy, const T *chooser, T *dx, double *sums) {
  poolAdd(g, dx, sums, [&](const PoolWindow &w) {
    const int64_t at = argMax(g, w, chooser);
    if (at >= 0) sums[(at - w.base) / g.in.pixelStride] += static_cast<double>(dy[w.output]);
  });
}

/// y = weight(window, Σ term(x) over the window).
template <class T, class Term, class Weight>
void poolSum(const PoolGeometry &g, const T *x, T *y, Term term, Weight weight) {
  forEachWindow(g, [&](const PoolWindow &w) {
    double sum = 0;
    forEachPixel(g, w, [&](int64_t at) { sum += term(static_cast<double>(x[at])); });
    y[w.output] = static_cast<T>(weight(w, sum));
  });
}

/// dx[i] = Σ over the windows w that hold i of share(w, i); the adjoint of poolSum.
template <class T, class Share> void poolSpread(const PoolGeometry &g, T *dx, double *sums, Share share) {
  PoolGeometry plane = g;
  plane.in.pixelStride = 1;
  poolAdd(g, dx, sums, [&](PoolWindow w) {
    const int64_t base = std::exchange(w.base, 0);
    forEachPixel(plane, w, [&](int64_t i) { sums[i] += share(w, base + i * g.in.pixelStride); });
  });
}

}  // namespace gradc
