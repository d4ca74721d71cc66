// A row of windows is computed one block of outputs at a time: for each tap (element of the window), all outputs of the
// block, in loops without branches that the compiler vectorises. Of equal maxima the first in row-major order gets the
// gradient; NaN gets none, and the maximum of NaN alone is the lowest finite number. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/spatial/pooling_loops.h"

#include "runtime/kernels/core/vector_loops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

using namespace llvm;

namespace gradc::fast {
namespace {

constexpr int64_t kBlock = 64;     // outputs computed together
constexpr int64_t kGrain = 16384;  // fewer taps are not worth a second thread

struct Span {
  int64_t begin, end;
};

/// One axis of the windows, in pixels of x and y.
struct Axis {
  int64_t in, out, kernel, stride, pad;

  /// Taps of output `o` that are inside the image.
  Span taps(int64_t o) const {
    const int64_t first = o * stride - pad;
    return {std::max<int64_t>(0, -first), std::min(kernel, in - first)};
  }
  /// Outputs within `block` whose tap is inside the image.
  Span outputs(int64_t tap, Span block) const {
    const int64_t shift = tap - pad;  // output o reads o·stride + shift
    const int64_t begin = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
    const int64_t end = in > shift ? (in - 1 - shift) / stride + 1 : 0;
    return {std::max(begin, block.begin), std::min(end, block.end)};
  }
  /// The divisor of a mean over the window of `o`, along this axis.
  int64_t count(int64_t o, bool countsPadding) const {
    const int64_t first = o * stride - pad;
    if (countsPadding) return std::min(first + kernel, in + pad) - first;
    const Span inside = taps(o);
    return inside.end - inside.begin;
  }
};

class Planes {
 public:
  Planes(const PoolingPlan &plan, unsigned threads)
      : isMax(plan.isMax), countsPadding(plan.countsPadding), threads(threads), numPlanes(plan.x[0] * plan.x[1]) {
    for (size_t i = 0; i < 2; ++i)
      axis[i] = {plan.x[2 + i], plan.y[2 + i], plan.kernel[i], plan.stride[i], plan.padLow[i]};
  }

  int64_t inSize() const { return axis[0].in * axis[1].in; }
  int64_t outSize() const { return axis[0].out * axis[1].out; }

  /// Calls body(plane), with planes divided among threads.
  template <class F> void forPlanes(F body) const {
    const int64_t work = outSize() * axis[0].kernel * axis[1].kernel;
    vectorFor(threads, numPlanes, std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) body(plane);
    });
  }

  /// Calls body(row, block) for blocks of the outputs of one plane.
  template <class F> void forBlocks(F body) const {
    for (int64_t row = 0; row < axis[0].out; ++row)
      for (int64_t begin = 0; begin < axis[1].out; begin += kBlock)
        body(row, Span{begin, std::min(begin + kBlock, axis[1].out)});
  }

  /// Calls visit(pixel, outputs) for each tap of a block: output o of `outputs` reads pixel + o·stride of the plane.
  template <class F> void forTaps(int64_t row, Span block, F visit) const {
    const Axis &h = axis[0], &w = axis[1];
    const Span rows = h.taps(row);
    for (int64_t i = rows.begin; i < rows.end; ++i)
      for (int64_t j = 0; j < w.kernel; ++j) {
        const int64_t line = (row * h.stride - h.pad + i) * w.in;
        visit(line + j - w.pad, w.outputs(j, block));
      }
  }

  /// The reciprocal of the number of taps in a mean.
  template <class T> T weight(int64_t row, int64_t o) const {
    return T{1} / static_cast<T>(axis[0].count(row, countsPadding) * axis[1].count(o, countsPadding));
  }

  bool isMax, countsPadding;
  unsigned threads;
  int64_t numPlanes;
  Axis axis[2];
};

template <class T> class ForwardLoops : public PreparedKernel {
 public:
  explicit ForwardLoops(const Planes &planes) : planes(planes) {}

  void run(const KernelCall &call) override {
    const T *x = call.in[0].as<const T>();
    T *y = call.out[0].as<T>();
    planes.forPlanes([&](int64_t plane) {
      const T *from = x + plane * planes.inSize();
      T *to = y + plane * planes.outSize();
      planes.forBlocks([&](int64_t row, Span block) {
        if (planes.isMax) largest(from, row, block, to + row * planes.axis[1].out);
        else mean(from, row, block, to + row * planes.axis[1].out);
      });
    });
  }

 private:
  void largest(const T *x, int64_t row, Span block, T *y) const {
    const int64_t stride = planes.axis[1].stride;
    std::fill(y + block.begin, y + block.end, -std::numeric_limits<T>::infinity());
    planes.forTaps(row, block, [=](int64_t pixel, Span outputs) {
      GRADC_INDEPENDENT
      for (int64_t o = outputs.begin; o < outputs.end; ++o) {
        const T v = x[pixel + o * stride];
        y[o] = v > y[o] ? v : y[o];
      }
    });
    for (int64_t o = block.begin; o < block.end; ++o)
      if (std::isinf(y[o]) && !hasNumber(x, row, o)) y[o] = std::numeric_limits<T>::lowest();
  }

  /// Whether an element of a window is not NaN.
  bool hasNumber(const T *x, int64_t row, int64_t o) const {
    bool isFound = false;
    planes.forTaps(row, {o, o + 1}, [&](int64_t pixel, Span outputs) {
      if (outputs.begin < outputs.end) isFound |= !std::isnan(x[pixel + o * planes.axis[1].stride]);
    });
    return isFound;
  }

  void mean(const T *x, int64_t row, Span block, T *y) const {
    const int64_t stride = planes.axis[1].stride;
    std::fill(y + block.begin, y + block.end, T{0});
    planes.forTaps(row, block, [=](int64_t pixel, Span outputs) {
      GRADC_INDEPENDENT
      for (int64_t o = outputs.begin; o < outputs.end; ++o) y[o] += x[pixel + o * stride];
    });
    for (int64_t o = block.begin; o < block.end; ++o) y[o] *= planes.weight<T>(row, o);
  }

  Planes planes;
};

template <class T> class BackwardLoops : public PreparedKernel {
 public:
  BackwardLoops(const Planes &planes, size_t data) : planes(planes), data(data) {}

  void run(const KernelCall &call) override {
    const T *dy = call.in[0].as<const T>(), *x = call.in[data].as<const T>();
    T *dx = call.out[0].as<T>();
    planes.forPlanes([&](int64_t plane) {
      const T *from = dy + plane * planes.outSize(), *image = planes.isMax ? x + plane * planes.inSize() : nullptr;
      T *to = dx + plane * planes.inSize();
      std::fill(to, to + planes.inSize(), T{0});
      planes.forBlocks([&](int64_t row, Span block) {
        if (planes.isMax) toLargest(image, from + row * planes.axis[1].out, row, block, to);
        else toAll(from + row * planes.axis[1].out, row, block, to);
      });
    });
  }

 private:
  using Pixel =
      std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;  // as wide as T, so that loops have one vector width
  static constexpr Pixel kNone = std::numeric_limits<Pixel>::min();

  void toLargest(const T *x, const T *dy, int64_t row, Span block, T *dx) const {
    T best[kBlock];
    Pixel sources[kBlock];  // of the maxima, less o·stride
    std::fill(std::begin(best), std::end(best), -std::numeric_limits<T>::infinity());
    std::fill(std::begin(sources), std::end(sources), kNone);
    const int64_t stride = planes.axis[1].stride, base = block.begin;
    planes.forTaps(row, block, [&, stride, base](int64_t pixel, Span outputs) {
      for (int64_t o = outputs.begin; o < outputs.end; ++o) {
        const T v = x[pixel + o * stride];
        const bool isBetter = (v > best[o - base]) | ((sources[o - base] == kNone) & (v == v));
        best[o - base] = isBetter ? v : best[o - base];
        sources[o - base] = isBetter ? static_cast<Pixel>(pixel) : sources[o - base];
      }
    });
    for (int64_t o = block.begin; o < block.end; ++o)
      if (sources[o - base] != kNone) dx[sources[o - base] + o * stride] += dy[o];
  }

  void toAll(const T *dy, int64_t row, Span block, T *dx) const {
    T share[kBlock];
    for (int64_t o = block.begin; o < block.end; ++o) share[o - block.begin] = dy[o] * planes.weight<T>(row, o);
    const int64_t stride = planes.axis[1].stride, base = block.begin;
    planes.forTaps(row, block, [&, stride, base](int64_t pixel, Span outputs) {
      GRADC_INDEPENDENT
      for (int64_t o = outputs.begin; o < outputs.end; ++o) dx[pixel + o * stride] += share[o - base];
    });
  }

  Planes planes;
  size_t data;
};

}  // namespace

std::unique_ptr<PreparedKernel> poolingLoops(const KernelSite &site, const PoolingPlan &plan) {
  const Planes planes(plan, site.threads);
  return floatingKernel<ForwardLoops>(site.in[0].dtype, planes);
}

std::unique_ptr<PreparedKernel> poolingLoopsBackward(const KernelSite &site, const PoolingPlan &plan, size_t data) {
  const Planes planes(plan, site.threads);
  if (planes.inSize() > std::numeric_limits<int32_t>::max()) return nullptr;
  return floatingKernel<BackwardLoops>(site.in[0].dtype, planes, data);
}

}  // namespace gradc::fast
