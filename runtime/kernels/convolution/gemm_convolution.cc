// Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "runtime/kernels/convolution/gemm_convolution.h"

#include "ir/tensor/dim.h"
#include "ops/spatial/convolution.h"
#include "ops/spatial/convolution_kernel.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/threads.h"
#include "runtime/kernels/matrix/column_sums.h"
#include "runtime/kernels/matrix/gemm.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace gradc {
namespace {

/// The elements of a filter window: as many terms as a pixel's gradient may have.
int64_t numTaps(const ConvGeometry &g) { return g.kernel[0] * g.kernel[1] * g.kernel[2]; }

/// One row of the gathered matrix: a channel of the group and an element of the filter window.
struct Tap {
  int64_t channel;
  int64_t origin[3];  // of the tap for output pixel 0, in input coordinates
};

Tap tapAt(const ConvGeometry &g, int64_t row) {
  Tap tap;
  for (int axis = 2; axis >= 0; --axis) {
    tap.origin[axis] = row % g.kernel[axis] * g.dilate[axis] - g.pad[axis];
    row /= g.kernel[axis];
  }
  tap.channel = row;
  return tap;
}

/// Calls visit(input, output, from, to) for each line of output pixels of one tap: the pixels [from, to) of the line
/// that starts at `output` read input + pixel·stride; the line's other pixels read padding. A null line is all padding.
template <class F> void forLines(const ConvGeometry &g, const Tap &tap, F visit) {
  const int64_t *in = g.in.extent, *out = g.out.extent;
  const int64_t stride = g.stride[2], shift = tap.origin[2];
  const int64_t from = std::min(out[2], shift >= 0 ? 0 : (-shift + stride - 1) / stride);
  const int64_t to = std::max(from, std::min(out[2], in[2] > shift ? (in[2] - 1 - shift) / stride + 1 : 0));
  for (int64_t d = 0; d < out[0]; ++d)
    for (int64_t h = 0; h < out[1]; ++h) {
      const int64_t z = d * g.stride[0] + tap.origin[0], y = h * g.stride[1] + tap.origin[1];
      const bool isInside = z >= 0 && z < in[0] && y >= 0 && y < in[1];
      const int64_t line = (d * out[1] + h) * out[2];
      if (isInside) visit((z * in[1] + y) * in[2] + shift, line, from, to);
      else visit(0, line, out[2], out[2]);
    }
}

template <class T> void gather(const ConvGeometry &g, const T *image, T *columns) {
  const int64_t pixels = g.out.pixels(), width = g.out.extent[2], stride = g.stride[2];
  for (int64_t row = 0; row < g.patch(); ++row, columns += pixels) {
    const Tap tap = tapAt(g, row);
    const T *x = image + tap.channel * g.in.pixels();
    forLines(g, tap, [&](int64_t input, int64_t line, int64_t from, int64_t to) {
      T *at = columns + line;
      std::fill(at, at + from, T{0});
      for (int64_t i = from; i < to; ++i) at[i] = x[input + i * stride];
      std::fill(at + to, at + width, T{0});
    });
  }
}

/// Adds one row of the gathered matrix to the plane that it shows.
template <class T, class Sum> void addTap(const ConvGeometry &g, const Tap &tap, const T *columns, Sum *plane) {
  const int64_t stride = g.stride[2];
  forLines(g, tap, [&](int64_t input, int64_t line, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) plane[input + i * stride] += static_cast<Sum>(columns[line + i]);
  });
}

/// Writes an image of zeros; `sums`, unless null, is a plane in which the taps of a channel are added up.
template <class T> void scatter(const ConvGeometry &g, const T *columns, T *image, double *sums) {
  const int64_t size = g.in.pixels(), pixels = g.out.pixels(), taps = numTaps(g);
  for (int64_t row = 0; row < g.patch(); ++row, columns += pixels) {
    const Tap tap = tapAt(g, row);
    T *plane = image + tap.channel * size;
    if (!sums) {
      addTap(g, tap, columns, plane);
      continue;
    }
    if (row % taps == 0) std::fill_n(sums, size, 0.0);
    addTap(g, tap, columns, sums);
    if ((row + 1) % taps == 0) std::transform(sums, sums + size, plane, [](double sum) { return static_cast<T>(sum); });
  }
}

}  // namespace

template <class T>
GemmConvolution<T>::GemmConvolution(const ConvGeometry &g)
    : g(g), patch(g.patch()), pixels(g.out.pixels()), filters(g.groupFilters()),
      inSize(g.groupChannels() * g.in.pixels()), outSize(filters * pixels) {}

bool hasModestWindows(const ConvGeometry &g) {
  constexpr int64_t kMost = 1 << 24;
  for (int i = 0; i < 3; ++i) {
    const Dim reach = Dim(g.dilate[i]) * (g.kernel[i] - 1) + 1;
    if (reach > kMost || g.stride[i] > kMost || g.pad[i] > kMost || g.in.extent[i] > kMost || g.out.extent[i] > kMost)
      return false;
  }
  return true;
}

template <class T> bool GemmConvolution<T>::hasManyTaps() const {
  constexpr int64_t kMostTaps = 64;  // that are added up in float32
  return std::is_same_v<T, float> && numTaps(g) > kMostTaps;
}

template <class T> size_t GemmConvolution<T>::columnBytes() const {
  return llvm::alignTo(static_cast<size_t>(patch * pixels) * sizeof(T), sizeof(double));
}

template <class T> size_t GemmConvolution<T>::bytes() const {
  return columnBytes() + (hasManyTaps() ? static_cast<size_t>(g.in.pixels()) * sizeof(double) : 0);
}

template <class T> bool GemmConvolution<T>::isPossible() const {
  return Dim(patch) * pixels <= kMaxTensorBytes / static_cast<int64_t>(sizeof(T));
}

template <class T> void GemmConvolution<T>::forward(const T *x, const T *w, const T *bias, T *y, T *columns) const {
  for (int64_t i = 0; i < g.in.batch * g.groups; ++i, x += inSize, y += outSize) {
    const int64_t group = i % g.groups;
    gather(g, x, columns);
    for (int64_t f = 0; bias && f < filters; ++f)
      std::fill(y + f * pixels, y + (f + 1) * pixels, bias[group * filters + f]);
    multiply(Gemm<T>{false, false, filters, pixels, patch, w + group * filters * patch, columns, patch, pixels,
                     bias ? T{1} : T{0}, y, pixels});
  }
}

template <class T> void GemmConvolution<T>::dataGrad(const T *dy, Layout layout, const T *w, T *dx, T *columns) const {
  const bool isLast = layout == Layout::ChannelsLast;
  double *sums =
      hasManyTaps() ? reinterpret_cast<double *>(reinterpret_cast<char *>(columns) + columnBytes()) : nullptr;
  std::memset(dx, 0, static_cast<size_t>(g.in.batch * g.groups * inSize) * sizeof(T));
  for (int64_t i = 0; i < g.in.batch * g.groups; ++i, dx += inSize, dy += outSize) {
    multiply(Gemm<T>{true, isLast, patch, pixels, filters, w + i % g.groups * filters * patch, dy, patch,
                     isLast ? filters : pixels, T{0}, columns, pixels});
    scatter(g, columns, dx, sums);
  }
}

// Of `count` images alone.
template <class T>
void GemmConvolution<T>::addImages(const T *dy, Layout layout, const T *x, T *dw, T *columns, int64_t first,
                                   int64_t count) const {
  const bool isLast = layout == Layout::ChannelsLast;
  x += first * g.groups * inSize, dy += first * g.groups * outSize;
  for (int64_t i = 0; i < count * g.groups; ++i, x += inSize, dy += outSize) {
    gather(g, x, columns);
    multiply(Gemm<T>{isLast, true, filters, patch, pixels, dy, columns, isLast ? filters : pixels, pixels,
                     i < g.groups ? T{0} : T{1}, dw + i % g.groups * filters * patch, patch});
  }
}

template <class T>
void GemmConvolution<T>::weightGrad(const T *dy, Layout layout, const T *x, T *dw, T *columns) const {
  if (std::is_same_v<T, double> || g.in.batch <= kMostImages)
    return addImages(dy, layout, x, dw, columns, 0, g.in.batch);
  std::vector<double> sums(static_cast<size_t>(g.out.channels * patch));
  for (int64_t first = 0; first < g.in.batch; first += kMostImages) {
    addImages(dy, layout, x, dw, columns, first, std::min(kMostImages, g.in.batch - first));
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(dw[i]);
  }
  std::transform(sums.begin(), sums.end(), dw, [](double sum) { return static_cast<T>(sum); });
}

ConvGeometry withChannelsFirst(const ConvGeometry &g) {
  ConvGeometry first = g;
  first.channelsLast = false;
  for (ImageView *view : {&first.in, &first.out}) {
    view->channelStride = view->pixels();
    view->pixelStride = 1;
  }
  return first;
}

namespace {

/// Transposes matrices tile by tile, so that no cache line is loaded twice.
template <class T>
void transposeAll(const T *from, T *to, int64_t count, int64_t rows, int64_t columns, unsigned threads) {
  constexpr int64_t kTile = 16, kGrain = 16384;
  const int64_t tiles = (rows + kTile - 1) / kTile;
  parallelFor(threads, count * tiles, std::max<int64_t>(kGrain / (kTile * columns), 1),
              [&](int64_t begin, int64_t end) {
                for (int64_t at = begin; at < end; ++at) {
                  const int64_t matrix = at / tiles * rows * columns, row = at % tiles * kTile,
                                last = std::min(row + kTile, rows);
                  for (int64_t column = 0; column < columns; column += kTile)
                    for (int64_t j = column; j < std::min(column + kTile, columns); ++j)
                      for (int64_t i = row; i < last; ++i) to[matrix + j * rows + i] = from[matrix + i * columns + j];
                }
              });
}

template <class T> class AroundChannelsFirst : public ThreadedKernel {
 public:
  AroundChannelsFirst(std::unique_ptr<PreparedKernel> kernel, ChannelsLastOperands operands, unsigned threads)
      : ThreadedKernel(threads), kernel(std::move(kernel)), operands(std::move(operands)) {}

  void run(const KernelCall &call) override {
    llvm::SmallVector<TensorRef, 4> in(call.in.begin(), call.in.end()), out(call.out.begin(), call.out.end());
    char *at = static_cast<char *>(call.workspace) + own();
    for (const Matrices &m : operands.in) {
      const T *from = in[m.operand].as<const T>();
      if (!from) continue;  // only of use for outputs that are not requested
      in[m.operand].data = at;
      transposeAll<T>(from, in[m.operand].as<T>(), m.count, m.pixels, m.channels, threads);
      at += bytes(m);
    }
    for (const Matrices &m : operands.out) {
      out[m.operand].data = at;
      at += bytes(m);
    }
    KernelCall inner = call;
    inner.in = in;
    inner.out = out;
    kernel->run(inner);
    for (const Matrices &m : operands.out)
      transposeAll<T>(out[m.operand].as<const T>(), call.out[m.operand].as<T>(), m.count, m.channels, m.pixels,
                      threads);
  }

  size_t workspaceBytes() const override {
    size_t total = own();
    for (const auto *list : {&operands.in, &operands.out})
      for (const Matrices &m : *list) total += bytes(m);
    return total;
  }
  Reorders reorders() const override { return kernel->reorders(); }

 private:
  using Matrices = ChannelsLastOperands::Matrices;
  size_t own() const { return llvm::alignTo(kernel->workspaceBytes(), 64); }
  static size_t bytes(const Matrices &m) {
    return llvm::alignTo(static_cast<size_t>(m.count * m.pixels * m.channels) * sizeof(T), 64);
  }

  std::unique_ptr<PreparedKernel> kernel;
  ChannelsLastOperands operands;
};

}  // namespace

template <class T>
std::unique_ptr<PreparedKernel> aroundChannelsFirst(std::unique_ptr<PreparedKernel> kernel,
                                                    ChannelsLastOperands operands, unsigned threads) {
  return std::make_unique<AroundChannelsFirst<T>>(std::move(kernel), std::move(operands), threads);
}
template std::unique_ptr<PreparedKernel> aroundChannelsFirst<float>(std::unique_ptr<PreparedKernel>,
                                                                    ChannelsLastOperands, unsigned);
template std::unique_ptr<PreparedKernel> aroundChannelsFirst<double>(std::unique_ptr<PreparedKernel>,
                                                                     ChannelsLastOperands, unsigned);

ChannelsLastOperands channelsLastOperands(const ConvGeometry &g, const ImageView &x, const ImageView &y,
                                          const ConvolutionPorts &at) {
  ChannelsLastOperands operands;
  auto addImages = [](auto &list, int8_t port, const ImageView &view) {
    if (port != ConvolutionPorts::kNone) list.push_back(ChannelsLastOperands::images(static_cast<size_t>(port), view));
  };
  auto addFilters = [&](auto &list, int8_t port) {
    if (port != ConvolutionPorts::kNone) list.push_back(ChannelsLastOperands::filters(static_cast<size_t>(port), g));
  };
  addImages(operands.in, at.x, x);
  addFilters(operands.in, at.w);
  addImages(operands.in, at.dy, y);
  addImages(operands.out, at.y, y);
  addImages(operands.out, at.dx, x);
  addFilters(operands.out, at.dw);
  return operands;
}

template class GemmConvolution<float>;
template class GemmConvolution<double>;

namespace fast {
namespace {

/// Computes those outputs among the ports that the node has and that are requested.
template <class T> class GemmConvolutionKernel : public PreparedKernel {
 public:
  GemmConvolutionKernel(const ConvGeometry &g, const ConvolutionPorts &at)
      : maps(g), output(channelsOf(g.out, false)), at(at) {}
  void run(const KernelCall &call) override {
    auto in = [&](int8_t port) {
      const size_t i = static_cast<size_t>(port);  // of kNone, beyond all operands
      return i < call.in.size() ? call.in[i].as<T>() : nullptr;
    };
    auto out = [&](int8_t port) {
      const size_t o = static_cast<size_t>(port);
      return o < call.out.size() && call.wants(o) ? call.out[o].as<T>() : nullptr;
    };
    T *const columns = static_cast<T *>(call.workspace), *const x = in(at.x), *const w = in(at.w),
             *const dy = in(at.dy);
    if (T *y = out(at.y)) maps.forward(x, w, in(at.b), y, columns);
    if (T *dx = out(at.dx)) maps.dataGrad(dy, Layout::Plain, w, dx, columns);
    if (T *dw = out(at.dw)) maps.weightGrad(dy, Layout::Plain, x, dw, columns);
    if (T *db = out(at.db)) sumPerChannel(output, static_cast<const T *>(dy), db);
  }
  size_t workspaceBytes() const override { return maps.bytes(); }

 private:
  GemmConvolution<T> maps;
  ChannelView output;
  ConvolutionPorts at;
};

/// Without the outputs that are not requested.
ConvolutionPorts requested(const KernelSite &site, ConvolutionPorts at) {
  for (int8_t *port : {&at.y, &at.dx, &at.dw})
    if (*port != ConvolutionPorts::kNone && !site.wants(static_cast<size_t>(*port))) *port = ConvolutionPorts::kNone;
  return at;
}

std::unique_ptr<PreparedKernel> make(const KernelSite &site, Dims data, Dims output, const ConvolutionPorts &at) {
  const ConvGeometry own = convolutionGeometry(*site.kind, data, output);
  const ConvGeometry g = own.channelsLast ? withChannelsFirst(own) : own;
  auto isMoved = [](const TensorRef &tensor) { return tensor.layout != Layout::Plain; };
  if (llvm::any_of(site.in, isMoved) || llvm::any_of(site.out, isMoved)) return nullptr;
  return ofFloatingType(site.in[0].dtype, [&](auto zero) -> std::unique_ptr<PreparedKernel> {
    using T = decltype(zero);
    if (!GemmConvolution<T>(g).isPossible()) return nullptr;
    auto made = std::make_unique<GemmConvolutionKernel<T>>(g, at);
    if (!own.channelsLast) return made;
    return aroundChannelsFirst<T>(std::move(made), channelsLastOperands(g, g.in, g.out, requested(site, at)),
                                  site.threads);
  });
}

}  // namespace

std::unique_ptr<PreparedKernel> gemmConvolution(const KernelSite &site) {
  return make(site, site.in[0].shape, site.out[0].shape, {.x = 0, .w = 1, .b = 2, .y = 0});
}
std::unique_ptr<PreparedKernel> gemmConvolutionBackward(const KernelSite &site) {
  return make(site, site.in[1].shape, site.in[0].shape, {.x = 1, .w = 2, .dy = 0, .dx = 0, .dw = 1, .db = 2});
}
// Inputs dy, w, (x).
std::unique_ptr<PreparedKernel> gemmConvolutionDataGrad(const KernelSite &site) {
  return make(site, site.in[2].shape, site.in[0].shape, {.w = 1, .dy = 0, .dx = 0});
}
// Inputs dy, x, (w).
std::unique_ptr<PreparedKernel> gemmConvolutionWeightGrad(const KernelSite &site) {
  return make(site, site.in[1].shape, site.in[0].shape, {.x = 1, .dy = 0, .dw = 0});
}

}  // namespace fast
}  // namespace gradc
