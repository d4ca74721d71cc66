// Blocked products over gathered receptive fields. Tested by tests/ops/nn_ops_test.cc
#include "ops/spatial/convolution_kernel.h"

#include "ir/base/instruction_sets.h"

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
  if (taps == 1) {  // as in fully connected layers
    if (z.low == z.high || y.low == y.high || x.low == x.high) return;
    const int64_t pixel = (p.origin[0] * g.in.extent[1] + p.origin[1]) * g.in.extent[2] + p.origin[2];
    const int64_t first = base + pixel * g.in.pixelStride;
    for (int64_t c = 0; c < channels; ++c) visit(c, first + c * g.in.channelStride);
    return;
  }
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

// The blocks of some images, in order; each call sees at most kConvBlock positions. None without filters, because a
// deconvolution's data may be many pixels without channels.
template <class F> void forEachBlock(const ConvGeometry &g, int64_t firstImage, int64_t numImages, F visit) {
  if (g.out.channels == 0) return;
  const int64_t begin = firstImage * g.out.pixels(), end = begin + numImages * g.out.pixels();
  Position positions[kConvBlock];
  for (int64_t first = begin; first < end; first += kConvBlock) {
    const int64_t count = std::min(kConvBlock, end - first);
    for (int64_t i = 0; i < count; ++i) positions[i] = locate(g, first + i);
    visit(llvm::ArrayRef<Position>(positions, static_cast<size_t>(count)));
  }
}

int64_t outOffset(const ConvGeometry &g, const Position &p, int64_t filter) {
  return p.image * g.out.batchStride + filter * g.out.channelStride + p.pixel * g.out.pixelStride;
}

// acc[i] += a · row[i] over one block: the loop in which nearly all time is spent.
inline void accumulate(double *__restrict acc, double a, const double *__restrict row) {
  for (int64_t i = 0; i < kConvBlock; ++i) acc[i] += a * row[i];
}

// rows[f][i] = dy of filter `first` + f at position i, zero beyond the last position.
template <class T>
void gatherOutput(const ConvGeometry &g, const T *dy, int64_t first, int64_t count, llvm::ArrayRef<Position> positions,
                  double *rows) {
  std::fill_n(rows, count * kConvBlock, 0.0);
  for (int64_t f = 0; f < count; ++f)
    for (size_t i = 0; i < positions.size(); ++i)
      rows[f * kConvBlock + static_cast<int64_t>(i)] = static_cast<double>(dy[outOffset(g, positions[i], first + f)]);
}

}  // namespace

template <class T> void convolve(const ConvGeometry &g, const T *x, const T *w, const T *bias, T *y, double *scratch) {
  const int64_t patch = g.patch(), numFilters = g.groupFilters();
  double *columns = scratch, *sums = scratch + patch * kConvBlock;  // columns: [patch][kConvBlock]
  for (int64_t group = 0; group < g.groups; ++group)
    forEachBlock(g, 0, g.out.batch, [&](llvm::ArrayRef<Position> positions) {
      const int64_t count = static_cast<int64_t>(positions.size());
      std::fill_n(columns, patch * kConvBlock, 0.0);
      for (int64_t i = 0; i < count; ++i)
        forEachTap(g, positions[i], group,
                   [&](int64_t row, int64_t at) { columns[row * kConvBlock + i] = static_cast<double>(x[at]); });
      const T *filters = w + group * numFilters * patch;
      onMachine([=] {
        for (int64_t f = 0; f < numFilters; ++f) {
          double acc[kConvBlock] = {};
          for (int64_t k = 0; k < patch; ++k)
            accumulate(acc, static_cast<double>(filters[f * patch + k]), columns + k * kConvBlock);
          std::copy_n(acc, kConvBlock, sums + f * kConvBlock);
        }
      });
      for (int64_t f = 0; f < numFilters; ++f) {
        const int64_t filter = group * numFilters + f;
        const double shift = bias ? static_cast<double>(bias[filter]) : 0;
        for (int64_t i = 0; i < count; ++i)
          y[outOffset(g, positions[i], filter)] = static_cast<T>(sums[f * kConvBlock + i] + shift);
      }
    });
}

namespace {

// Images whose gradients are added up at the same time: whole blocks of positions, or nearly.
int64_t imagesAtOnce(const ConvGeometry &g) {
  const int64_t pixels = std::max<int64_t>(g.out.pixels(), 1);
  const int64_t wanted = kConvBlock % pixels == 0 ? kConvBlock / pixels : (8 * kConvBlock + pixels - 1) / pixels;
  return std::clamp<int64_t>(wanted, 1, std::max<int64_t>(g.out.batch, 1));
}

// Filters whose gradients are added up at the same time: as many as stay in a cache, and enough to be worth gathering
// fields.
int64_t filtersAtOnce(const ConvGeometry &g) {
  constexpr int64_t kMost = int64_t{1} << 15, kLeast = 8;
  const int64_t wanted = std::max(kMost / std::max<int64_t>(g.patch(), 1), kLeast);
  return std::clamp<int64_t>(wanted, 1, std::max<int64_t>(g.groupFilters(), 1));
}

// images += dy·w of the blocks of `count` images of one group.
template <class T>
void addDataGrad(const ConvGeometry &g, const T *dy, const T *w, int64_t group, int64_t first, int64_t count,
                 double *scratch, double *images) {
  const int64_t patch = g.patch(), numFilters = g.groupFilters(), origin = first * g.in.batchStride;
  double *columns = scratch, *rows = scratch + patch * kConvBlock;
  const T *filters = w + group * numFilters * patch;
  forEachBlock(g, first, count, [&](llvm::ArrayRef<Position> positions) {
    gatherOutput(g, dy, group * numFilters, numFilters, positions, rows);
    std::fill_n(columns, patch * kConvBlock, 0.0);
    // Eight rows at a time: they share the cache lines of the weights, and stay in the innermost cache over all
    // filters.
    onMachine([=] {
      constexpr int64_t kRows = 8;
      for (int64_t from = 0; from < patch; from += kRows) {
        const int64_t last = std::min(patch, from + kRows);
        for (int64_t f = 0; f < numFilters; ++f)
          for (int64_t k = from; k < last; ++k)
            accumulate(columns + k * kConvBlock, static_cast<double>(filters[f * patch + k]), rows + f * kConvBlock);
      }
    });
    for (int64_t i = 0; i < static_cast<int64_t>(positions.size()); ++i)
      forEachTap(g, positions[i], group,
                 [&](int64_t row, int64_t at) { images[at - origin] += columns[row * kConvBlock + i]; });
  });
}

}  // namespace

template <class T>
void convolveDataGrad(const ConvGeometry &g, const T *dy, const T *w, const T *bias, T *dx, double *scratch) {
  double *images = scratch + (g.patch() + g.groupFilters()) * kConvBlock;
  const int64_t atOnce = imagesAtOnce(g), size = g.in.batchStride;
  const int64_t batch = size ? g.in.batch : 0;  // not a walk over 2^60 empty images
  for (int64_t first = 0; first < batch; first += atOnce) {
    const int64_t count = std::min(atOnce, batch - first);
    std::fill_n(images, count * size, 0.0);
    for (int64_t group = 0; group < g.groups; ++group) addDataGrad(g, dy, w, group, first, count, scratch, images);
    T *to = dx + first * size;
    for (int64_t i = 0; i < count * size; ++i) {
      const double shift = bias ? static_cast<double>(bias[i % size / g.in.channelStride % g.in.channels]) : 0;
      to[i] = static_cast<T>(images[i] + shift);
    }
  }
}

namespace {

// Where the sums of a weight gradient are taken from: blocks of receptive fields, [kConvBlock][patch], and of dy.
struct WeightGradBlock {
  const double *fields, *rows;
  int64_t patch, numFilters;

  void addTo(double *sums) const {
    for (int64_t f = 0; f < numFilters; ++f) {
      double *__restrict to = sums + f * patch;
      for (int64_t i = 0; i < kConvBlock; i += 4) {  // four positions per pass over the filter
        const double *a = rows + f * kConvBlock + i;
        const double *__restrict r0 = fields + i * patch, *__restrict r1 = r0 + patch;
        const double *__restrict r2 = r1 + patch, *__restrict r3 = r2 + patch;
        const double a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3];
        for (int64_t k = 0; k < patch; ++k) to[k] = to[k] + a0 * r0[k] + a1 * r1[k] + a2 * r2[k] + a3 * r3[k];
      }
    }
  }
};

}  // namespace

template <class T> void convolveWeightGrad(const ConvGeometry &g, const T *dy, const T *x, T *dw, double *scratch) {
  const int64_t patch = g.patch(), numFilters = g.groupFilters(), atOnce = filtersAtOnce(g);
  double *fields = scratch, *rows = fields + patch * kConvBlock, *sums = rows + numFilters * kConvBlock;
  for (int64_t filter = 0; filter < g.out.channels;) {
    const int64_t group = filter / numFilters, count = std::min(atOnce, (group + 1) * numFilters - filter);
    std::fill_n(sums, count * patch, 0.0);
    forEachBlock(g, 0, g.out.batch, [&](llvm::ArrayRef<Position> positions) {
      gatherOutput(g, dy, filter, count, positions, rows);
      std::fill_n(fields, patch * kConvBlock, 0.0);
      for (int64_t i = 0; i < static_cast<int64_t>(positions.size()); ++i)
        forEachTap(g, positions[i], group,
                   [&](int64_t row, int64_t at) { fields[i * patch + row] = static_cast<double>(x[at]); });
      onMachine([block = WeightGradBlock{fields, rows, patch, count}, sums] { block.addTo(sums); });
    });
    std::transform(sums, sums + count * patch, dw + filter * patch, [](double sum) { return static_cast<T>(sum); });
    filter += count;
  }
}

size_t ConvGeometry::scratchBytes() const {
  return static_cast<size_t>((patch() + groupFilters()) * kConvBlock) * sizeof(double);
}
size_t ConvGeometry::dataGradBytes() const {
  return scratchBytes() + static_cast<size_t>(imagesAtOnce(*this) * in.batchStride) * sizeof(double);
}
size_t ConvGeometry::weightGradBytes() const {
  return scratchBytes() + static_cast<size_t>(filtersAtOnce(*this) * patch()) * sizeof(double);
}

template <class T> void sumPerChannel(const ImageView &view, const T *dy, T *db) {
  constexpr int64_t kMost = 64;  // channels at once
  double sums[kMost];
  const int64_t batch = view.pixels() ? view.batch : 0;  // not a walk over 2^60 empty images
  for (int64_t first = 0; first < view.channels; first += kMost) {
    const int64_t count = std::min(kMost, view.channels - first);
    std::fill_n(sums, count, 0.0);
    auto add = [&](int64_t n, int64_t c, int64_t p) {
      const int64_t at = n * view.batchStride + (first + c) * view.channelStride + p * view.pixelStride;
      sums[c] += static_cast<double>(dy[at]);
    };
    for (int64_t n = 0; n < batch; ++n) {
      if (view.channelStride < view.pixelStride || view.pixels() == 1)
        for (int64_t p = 0; p < view.pixels(); ++p)
          for (int64_t c = 0; c < count; ++c) add(n, c, p);
      else
        for (int64_t c = 0; c < count; ++c)
          for (int64_t p = 0; p < view.pixels(); ++p) add(n, c, p);
    }
    for (int64_t c = 0; c < count; ++c) db[first + c] = static_cast<T>(sums[c]);
  }
}

template void convolve(const ConvGeometry &, const float *, const float *, const float *, float *, double *);
template void convolve(const ConvGeometry &, const double *, const double *, const double *, double *, double *);
template void convolveDataGrad(const ConvGeometry &, const float *, const float *, const float *, float *, double *);
template void convolveDataGrad(const ConvGeometry &, const double *, const double *, const double *, double *,
                               double *);
template void convolveWeightGrad(const ConvGeometry &, const float *, const float *, float *, double *);
template void convolveWeightGrad(const ConvGeometry &, const double *, const double *, double *, double *);
template void sumPerChannel(const ImageView &, const float *, float *);
template void sumPerChannel(const ImageView &, const double *, double *);

}  // namespace gradc
