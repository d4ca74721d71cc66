// Bilinear resizing and adaptive mean pooling of images, and their gradients, plane by plane; contributions are added
// up or spread whole rows at a time. Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ops/spatial/adaptive_pooling.h"
#include "ops/spatial/bilinear_resize.h"
#include "runtime/kernels/core/channel_loops.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/core/small_tables.h"

using namespace llvm;

namespace gradc::fast {
namespace {

/// Extents of images before and after resizing.
struct PlaneSizes {
  int64_t planes, height, width, rows, columns;

  PlaneSizes(Dims image, Dims resized)
      : planes(image[0] * image[1]), height(image[2]), width(image[3]), rows(resized[2]), columns(resized[3]) {}
  int64_t inSize() const { return height * width; }
  int64_t outSize() const { return rows * columns; }
};

/// By row, or column, of the resized image: the two that it blends, and their weights.
template <class T> struct Blends {
  std::vector<int64_t> first, second;
  std::vector<T> weight, rest;

  Blends(const NodeKind &kind, int64_t in, int64_t out) {
    for (int64_t i = 0; i < out; ++i) {
      const Blend blend = resizeBlend(kind, i, in, out);
      first.push_back(blend.first);
      second.push_back(blend.second);
      weight.push_back(static_cast<T>(blend.weight));
      rest.push_back(static_cast<T>(1 - blend.weight));
    }
  }
};

template <class T> class BilinearBase : public ThreadedKernel {
 public:
  BilinearBase(const KernelSite &site, Dims image, Dims resized)
      : ThreadedKernel(site.threads), sizes(image, resized), rows(*site.kind, sizes.height, sizes.rows),
        columns(*site.kind, sizes.width, sizes.columns) {}

 protected:
  PlaneSizes sizes;
  Blends<T> rows, columns;
};

template <class T> class BilinearForward : public BilinearBase<T> {
 public:
  explicit BilinearForward(const KernelSite &site) : BilinearBase<T>(site, site.in[0].shape, site.out[0].shape) {}

  void run(const KernelCall &call) override {
    if (!call.wants(0)) return;
    const PlaneSizes sizes = this->sizes;
    const T *x = call.in[0].as<const T>();
    T *y = call.out[0].as<T>();
    const Blends<T> &rows = this->rows;
    forRows(sizes.planes, sizes.outSize(), this->threads, [=, this, &rows](int64_t plane) {
      const T *image = x + plane * sizes.inSize();
      for (int64_t row = 0; row < sizes.rows; ++row)
        blendRow(image + rows.first[static_cast<size_t>(row)] * sizes.width,
                 image + rows.second[static_cast<size_t>(row)] * sizes.width, rows.weight[static_cast<size_t>(row)],
                 rows.rest[static_cast<size_t>(row)], y + plane * sizes.outSize() + row * sizes.columns);
    });
  }

 private:
  void blendRow(const T *upper, const T *lower, T weight, T rest, T *to) const {
    const int64_t *left = this->columns.first.data(), *right = this->columns.second.data();
    const T *leftWeight = this->columns.weight.data(), *rightWeight = this->columns.rest.data();
    GRADC_INDEPENDENT
    for (int64_t c = 0; c < this->sizes.columns; ++c)
      to[c] = weight * leftWeight[c] * upper[left[c]] + weight * rightWeight[c] * upper[right[c]] +
              rest * leftWeight[c] * lower[left[c]] + rest * rightWeight[c] * lower[right[c]];
  }
};

// Outputs dx[, dlike].
template <class T> class BilinearBackward : public BilinearBase<T> {
 public:
  explicit BilinearBackward(const KernelSite &site) : BilinearBase<T>(site, site.out[0].shape, site.in[0].shape) {}

  void run(const KernelCall &call) override {
    if (call.out.size() == 2 && call.wants(1)) std::fill_n(call.out[1].as<T>(), call.out[1].size(), T{0});
    if (!call.wants(0)) return;
    const PlaneSizes sizes = this->sizes;
    const T *dy = call.in[0].as<const T>();
    T *dx = call.out[0].as<T>(), *scratch = static_cast<T *>(call.workspace);
    forRows(sizes.planes, sizes.outSize(), this->threads, [=, this](int64_t plane) {
      spread(dy + plane * sizes.outSize(), scratch + plane * sizes.width, dx + plane * sizes.inSize());
    });
  }
  /// A row of each plane.
  size_t workspaceBytes() const override {
    return static_cast<size_t>(this->sizes.planes * this->sizes.width) * sizeof(T);
  }

 private:
  void spread(const T *dy, T *line, T *dx) const {
    const int64_t width = this->sizes.width, columns = this->sizes.columns;
    const int64_t *left = this->columns.first.data(), *right = this->columns.second.data();
    std::fill(dx, dx + this->sizes.inSize(), T{0});
    for (size_t row = 0; row < this->rows.first.size(); ++row, dy += columns) {
      std::fill(line, line + width, T{0});
      for (int64_t c = 0; c < columns; ++c) {
        line[left[c]] += this->columns.weight[static_cast<size_t>(c)] * dy[c];
        line[right[c]] += this->columns.rest[static_cast<size_t>(c)] * dy[c];
      }
      addTimes(dx + this->rows.first[row] * width, line, this->rows.weight[row], width);
      addTimes(dx + this->rows.second[row] * width, line, this->rows.rest[row], width);
    }
  }
  static void addTimes(T *to, const T *line, T factor, int64_t size) {
    GRADC_INDEPENDENT
    for (int64_t i = 0; i < size; ++i) to[i] += line[i] * factor;
  }
};

/// `Line`: the type in which rows are added up.
template <class T, class Line> class AdaptiveForward : public ThreadedKernel {
 public:
  explicit AdaptiveForward(const KernelSite &site)
      : ThreadedKernel(site.threads), sizes(site.in[0].shape, site.out[0].shape) {}

  void run(const KernelCall &call) override {
    const PlaneSizes sizes = this->sizes;
    const T *x = call.in[0].as<const T>();
    T *y = call.out[0].as<T>();
    Line *scratch = static_cast<Line *>(call.workspace);
    forRows(sizes.planes, sizes.inSize(), threads, [=](int64_t plane) {
      Line *line = scratch + plane * sizes.width;
      for (int64_t row = 0; row < sizes.rows; ++row) {
        const AdaptiveWindow high(row, sizes.height, sizes.rows);
        std::fill(line, line + sizes.width, Line{0});
        for (int64_t h = high.begin; h < high.end; ++h) add(x + plane * sizes.inSize() + h * sizes.width, line, sizes);
        for (int64_t column = 0; column < sizes.columns; ++column) {
          const AdaptiveWindow wide(column, sizes.width, sizes.columns);
          double total = 0;
          addElements(line + wide.begin, wide.end - wide.begin, &total);
          const int64_t count = (high.end - high.begin) * (wide.end - wide.begin);
          y[plane * sizes.outSize() + row * sizes.columns + column] =
              static_cast<T>(total / static_cast<double>(count));
        }
      }
    });
  }
  /// A row of each plane.
  size_t workspaceBytes() const override { return static_cast<size_t>(sizes.planes * sizes.width) * sizeof(Line); }

 private:
  static void add(const T *from, Line *to, const PlaneSizes &sizes) {
    GRADC_INDEPENDENT
    for (int64_t w = 0; w < sizes.width; ++w) to[w] += static_cast<Line>(from[w]);
  }

  PlaneSizes sizes;
};

template <class T> class AdaptiveBackward : public ThreadedKernel {
 public:
  explicit AdaptiveBackward(const KernelSite &site)
      : ThreadedKernel(site.threads), sizes(site.out[0].shape, site.in[0].shape) {}

  void run(const KernelCall &call) override {
    const PlaneSizes sizes = this->sizes;
    const T *dy = call.in[0].as<const T>();
    T *dx = call.out[0].as<T>(), *scratch = static_cast<T *>(call.workspace);
    forRows(sizes.planes, sizes.inSize(), threads, [=](int64_t plane) {
      T *line = scratch + plane * sizes.width, *to = dx + plane * sizes.inSize();
      std::fill(to, to + sizes.inSize(), T{0});
      for (int64_t row = 0; row < sizes.rows; ++row) {
        const AdaptiveWindow high(row, sizes.height, sizes.rows);
        spread(dy + plane * sizes.outSize() + row * sizes.columns, high.end - high.begin, sizes, line);
        for (int64_t h = high.begin; h < high.end; ++h) {
          T *at = to + h * sizes.width;
          GRADC_INDEPENDENT
          for (int64_t w = 0; w < sizes.width; ++w) at[w] += line[w];
        }
      }
    });
  }
  /// A row of each plane.
  size_t workspaceBytes() const override { return static_cast<size_t>(sizes.planes * sizes.width) * sizeof(T); }

 private:
  /// Spreads the gradients of a row of means over the columns they average.
  static void spread(const T *dy, int64_t height, const PlaneSizes &sizes, T *line) {
    std::fill(line, line + sizes.width, T{0});
    for (int64_t column = 0; column < sizes.columns; ++column) {
      const AdaptiveWindow wide(column, sizes.width, sizes.columns);
      const T share = dy[column] / static_cast<T>(height * (wide.end - wide.begin));
      for (int64_t w = wide.begin; w < wide.end; ++w) line[w] += share;
    }
  }

  PlaneSizes sizes;
};

constexpr int64_t kLongLine = 256;  // more rows are not added up in float32
template <class T> using ShortMeans = AdaptiveForward<T, T>;
template <class T> using LongMeans = AdaptiveForward<T, double>;

/// Whether gradients of many pixels are added up in one. The reference kernel does so in float64.
bool enlargesMuch(const KernelSite &site) {
  const PlaneSizes sizes(site.out[0].shape, site.in[0].shape);
  return sizes.rows > kLongLine * sizes.height || sizes.columns > kLongLine * sizes.width;
}

template <template <class> class Kernel> std::unique_ptr<PreparedKernel> make(const KernelSite &site) {
  if (!site.wants(0)) return nullptr;
  return floatingKernel<Kernel>(site.out[0].dtype, site);
}

bool hasSmallBlends(const KernelSite &site, Dims resized) {
  return isSmallTable(site, resized[2] + resized[3], 2 * sizeof(int64_t) + 2 * sizeof(double));
}

std::unique_ptr<PreparedKernel> bilinearResize(const KernelSite &site) {
  return hasSmallBlends(site, site.out[0].shape) ? make<BilinearForward>(site) : nullptr;
}
std::unique_ptr<PreparedKernel> bilinearResizeBackward(const KernelSite &site) {
  return hasSmallBlends(site, site.in[0].shape) && !enlargesMuch(site) ? make<BilinearBackward>(site) : nullptr;
}
std::unique_ptr<PreparedKernel> adaptivePooling(const KernelSite &site) {
  return site.in[0].shape[2] > kLongLine * site.out[0].shape[2] ? make<LongMeans>(site) : make<ShortMeans>(site);
}
std::unique_ptr<PreparedKernel> adaptivePoolingBackward(const KernelSite &site) {
  return enlargesMuch(site) ? nullptr : make<AdaptiveBackward>(site);
}

constexpr FastKernelRow kRows[] = {
    {"_backward_contrib_AdaptiveAvgPooling2D", adaptivePoolingBackward, LayoutRole::Plain},
    {"_backward_contrib_BilinearResize2D", bilinearResizeBackward, LayoutRole::Plain},
    {"_contrib_AdaptiveAvgPooling2D", adaptivePooling, LayoutRole::Plain},
    {"_contrib_BilinearResize2D", bilinearResize, LayoutRole::Plain},
};

}  // namespace

constinit const FastKernels kResizeKernels = kRows;

}  // namespace gradc::fast
