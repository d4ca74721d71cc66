// Blocked products over gathered receptive fields. Tested by tests/nn_ops_test.cc
#include "ops/spatial/convolution_kernel.h"

#include <algorithm>

namespace gradc {
namespace {

// The place of an output pixel, numbered over the whole batch.
struct Position {
  int64_t image, pixel;
  int64_t origin[3];  // of its receptive field, in input coordinates; may be negative
};

Position locate(const ConvGeometry &g, int64_t index) {
  Position p;
  p.image = index / g.out.pixels();
  p.pixel = index % g.out.pixels();
  int64_t rest = p.pixel;
  for (int axis = 2; axis >= 0; --axis) {
    p.origin[axis] = rest % g.out.extent[axis] * g.stride[axis] - g.pad[axis];
    rest /= g.out.extent[axis];
  }
  return p;
}

// Kernel taps [low, high) of one axis that fall inside the image.
struct TapRange {
  int64_t low, high;
};
TapRange tapsInside(const ConvGeometry &g, const Position &p, int axis) {
  const int64_t origin = p.origin[axis], step = g.dilate[axis];
  const int64_t low = origin >= 0 ? 0 : (-origin + step - 1) / step;
  const int64_t room = g.in.extent[axis] - origin;
  const int64_t high = room <= 0 ? 0 : std::min(g.kernel[axis], (room + step - 1) / step);
  return {std::min(low, high), high};
}

// Calls visit(row of the patch, offset of the element in the input) for every tap of every channel inside the image.
template <class F> void forEachTap(const ConvGeometry &g, const Position &p, int64_t group, F visit) {
  const int64_t channels = g.groupChannels(), taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
  const int64_t tapRow = g.channelsLast ? channels : 1, channelRow = g.channelsLast ? 1 : taps;
  const int64_t base = p.image * g.in.batchStride + group * channels * g.in.channelStride;
  const TapRange z = tapsInside(g, p, 0), y = tapsInside(g, p, 1), x = tapsInside(g, p, 2);
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t kz = z.low; kz < z.high; ++kz)
      for (int64_t ky = y.low; ky < y.high; ++ky) {
        const int64_t iz = p.origin[0] + kz * g.dilate[0], iy = p.origin[1] + ky * g.dilate[1];
        const int64_t line = base + c * g.in.channelStride +
                             ((iz * g.in.extent[1] + iy) * g.in.extent[2] + p.origin[2]) * g.in.pixelStride;
        const int64_t row = c * channelRow + (kz * g.kernel[1] + ky) * g.kernel[2] * tapRow;
        for (int64_t kx = x.low; kx < x.high; ++kx)
          visit(row + kx * tapRow, line + kx * g.dilate[2] * g.in.pixelStride);
      }
}

// The blocks of one group, in order; each call sees at most kConvBlock positions. None without filters, because a
// deconvolution's data may be many pixels without channels.
template <class F> void forEachBlock(const ConvGeometry &g, F visit) {
  if (g.out.channels == 0) return;
  const int64_t total = g.out.batch * g.out.pixels();
  Position positions[kConvBlock];
  for (int64_t group = 0; group < g.groups; ++group)
    for (int64_t first = 0; first < total; first += kConvBlock) {
      const int64_t count = std::min(kConvBlock, total - first);
      for (int64_t i = 0; i < count; ++i) positions[i] = locate(g, first + i);
      visit(group, llvm::ArrayRef<Position>(positions, static_cast<size_t>(count)));
    }
}

int64_t outOffset(const ConvGeometry &g, const Position &p, int64_t filter) {
  return p.image * g.out.batchStride + filter * g.out.channelStride + p.pixel * g.out.pixelStride;
}

// acc[i] += a · row[i] over one block: the loop in which nearly all time is spent.
template <class T> inline void accumulate(T *__restrict acc, T a, const T *__restrict row) {
  for (int64_t i = 0; i < kConvBlock; ++i) acc[i] += a * row[i];
}

// filters[f][i] = dy of filter f at position i, zero beyond the last position.
template <class T>
void gatherOutput(const ConvGeometry &g, const T *dy, int64_t group, llvm::ArrayRef<Position> positions, T *filters) {
  const int64_t numFilters = g.groupFilters();
  std::fill_n(filters, numFilters * kConvBlock, T{0});
  for (int64_t f = 0; f < numFilters; ++f)
    for (size_t i = 0; i < positions.size(); ++i)
      filters[f * kConvBlock + static_cast<int64_t>(i)] = dy[outOffset(g, positions[i], group * numFilters + f)];
}

}  // namespace

template <class T> void convolve(const ConvGeometry &g, const T *x, const T *w, const T *bias, T *y, T *scratch) {
  const int64_t patch = g.patch(), numFilters = g.groupFilters();
  forEachBlock(g, [&](int64_t group, llvm::ArrayRef<Position> positions) {
    const int64_t count = static_cast<int64_t>(positions.size());
    T *columns = scratch;  // [patch][kConvBlock]
    std::fill_n(columns, patch * kConvBlock, T{0});
    for (int64_t i = 0; i < count; ++i)
      forEachTap(g, positions[i], group, [&](int64_t row, int64_t at) { columns[row * kConvBlock + i] = x[at]; });
    for (int64_t f = 0; f < numFilters; ++f) {
      const int64_t filter = group * numFilters + f;
      T acc[kConvBlock] = {};
      for (int64_t k = 0; k < patch; ++k) accumulate(acc, w[filter * patch + k], columns + k * kConvBlock);
      const T shift = bias ? bias[filter] : T{0};
      for (int64_t i = 0; i < count; ++i) y[outOffset(g, positions[i], filter)] = acc[i] + shift;
    }
  });
}

template <class T> void convolveDataGrad(const ConvGeometry &g, const T *dy, const T *w, T *dx, T *scratch) {
  const int64_t patch = g.patch(), numFilters = g.groupFilters();
  T *columns = scratch, *filters = scratch + patch * kConvBlock;
  std::fill_n(dx, g.in.batch * g.in.batchStride, T{0});
  forEachBlock(g, [&](int64_t group, llvm::ArrayRef<Position> positions) {
    const int64_t count = static_cast<int64_t>(positions.size());
    gatherOutput(g, dy, group, positions, filters);
    std::fill_n(columns, patch * kConvBlock, T{0});
    // Eight rows at a time: they share the cache lines of the weights, and stay in the innermost cache over all filters.
    constexpr int64_t kRows = 8;
    for (int64_t first = 0; first < patch; first += kRows) {
      const int64_t last = std::min(patch, first + kRows);
      for (int64_t f = 0; f < numFilters; ++f)
        for (int64_t k = first; k < last; ++k)
          accumulate(columns + k * kConvBlock, w[(group * numFilters + f) * patch + k], filters + f * kConvBlock);
    }
    for (int64_t i = 0; i < count; ++i)
      forEachTap(g, positions[i], group, [&](int64_t row, int64_t at) { dx[at] += columns[row * kConvBlock + i]; });
  });
}

template <class T> void convolveWeightGrad(const ConvGeometry &g, const T *dy, const T *x, T *dw, T *scratch) {
  const int64_t patch = g.patch(), numFilters = g.groupFilters();
  T *fields = scratch, *filters = scratch + patch * kConvBlock;  // fields: [kConvBlock][patch]
  std::fill_n(dw, g.out.channels * patch, T{0});
  forEachBlock(g, [&](int64_t group, llvm::ArrayRef<Position> positions) {
    const int64_t count = static_cast<int64_t>(positions.size());
    gatherOutput(g, dy, group, positions, filters);
    std::fill_n(fields, patch * kConvBlock, T{0});
    for (int64_t i = 0; i < count; ++i)
      forEachTap(g, positions[i], group, [&](int64_t row, int64_t at) { fields[i * patch + row] = x[at]; });
    for (int64_t f = 0; f < numFilters; ++f) {
      T *__restrict to = dw + (group * numFilters + f) * patch;
      for (int64_t i = 0; i < kConvBlock; i += 4) {  // four positions per pass over the filter
        const T *a = filters + f * kConvBlock + i;
        const T *__restrict r0 = fields + i * patch, *__restrict r1 = r0 + patch;
        const T *__restrict r2 = r1 + patch, *__restrict r3 = r2 + patch;
        const T a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3];
        for (int64_t k = 0; k < patch; ++k) to[k] = to[k] + a0 * r0[k] + a1 * r1[k] + a2 * r2[k] + a3 * r3[k];
      }
    }
  });
}

template <class T> void sumPerChannel(const ImageView &view, const T *dy, T *db) {
  std::fill_n(db, view.channels, T{0});
  if (view.pixels() == 0) return;
  for (int64_t n = 0; n < view.batch; ++n)
    for (int64_t c = 0; c < view.channels; ++c) {
      const T *at = dy + n * view.batchStride + c * view.channelStride;
      T sum = 0;
      for (int64_t p = 0; p < view.pixels(); ++p) sum += at[p * view.pixelStride];
      db[c] += sum;
    }
}

template void convolve(const ConvGeometry &, const float *, const float *, const float *, float *, float *);
template void convolve(const ConvGeometry &, const double *, const double *, const double *, double *, double *);
template void convolveDataGrad(const ConvGeometry &, const float *, const float *, float *, float *);
template void convolveDataGrad(const ConvGeometry &, const double *, const double *, double *, double *);
template void convolveWeightGrad(const ConvGeometry &, const float *, const float *, float *, float *);
template void convolveWeightGrad(const ConvGeometry &, const double *, const double *, double *, double *);
template void sumPerChannel(const ImageView &, const float *, float *);
template void sumPerChannel(const ImageView &, const double *, double *);

}  // namespace gradc
