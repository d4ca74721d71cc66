// UpSampling by repeating pixels, and its gradient, plane by plane. Bilinear is a deconvolution
// (runtime/kernels/convolution/deconvolution.cc). Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ops/spatial/up_sampling.h"
#include "runtime/kernels/convolution/deconvolution.h"
#include "runtime/kernels/core/channel_loops.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>

using namespace llvm;

namespace gradc::fast {
namespace {

/// The planes of one operand, and their places among those of the enlarged image.
struct Enlarged {
  int64_t planes, channels, height, width, scale;
  int64_t firstChannel, allChannels;

  Enlarged(Dims image, Dims large, int64_t firstChannel)
      : planes(image[0] * image[1]), channels(image[1]), height(image[2]), width(image[3]), scale(large[2] / image[2]),
        firstChannel(firstChannel), allChannels(large[1]) {}
  int64_t size() const { return height * width; }
  int64_t lineSize() const { return width * scale; }
  int64_t largeSize() const { return size() * scale * scale; }
  int64_t largePlane(int64_t plane) const { return plane / channels * allChannels + firstChannel + plane % channels; }
};

/// Calls `body` with the factor, as a constant if it is a common one.
template <class F> void withFactor(int64_t scale, F body) {
  if (scale == 2) return body(std::integral_constant<int64_t, 2>());
  body(scale);
}

template <class T> class RepeatKernel : public ThreadedKernel {
 public:
  RepeatKernel(const KernelSite &site, bool isConcat) : ThreadedKernel(site.threads), isConcat(isConcat) {}

  void run(const KernelCall &call) override {
    int64_t channel = 0;
    for (size_t i = 0; i < call.in.size(); ++i) {
      const Enlarged e(call.in[i].shape, call.out[0].shape, channel);
      const T *x = call.in[i].as<const T>();
      T *y = call.out[0].as<T>();
      const bool isAdded = i > 0 && !isConcat;
      forRows(e.planes, e.largeSize(), threads, [=](int64_t plane) {
        const T *from = x + plane * e.size();
        T *to = y + e.largePlane(plane) * e.largeSize();
        for (int64_t row = 0; row < e.height; ++row, from += e.width, to += e.lineSize() * e.scale)
          isAdded ? addRow(e, from, to) : repeatRow(e, from, to);
      });
      if (isConcat) channel += call.in[i].shape[1];
    }
  }

 private:
  static void repeatRow(const Enlarged &e, const T *from, T *to) {
    withFactor(e.scale, [&](auto scale) {
      GRADC_INDEPENDENT
      for (int64_t p = 0; p < e.width; ++p)
        for (int64_t k = 0; k < scale; ++k) to[p * scale + k] = from[p];
    });
    for (int64_t line = 1; line < e.scale; ++line)
      std::memcpy(to + line * e.lineSize(), to, static_cast<size_t>(e.lineSize()) * sizeof(T));
  }
  static void addRow(const Enlarged &e, const T *from, T *to) {
    for (int64_t line = 0; line < e.scale; ++line, to += e.lineSize())
      for (int64_t p = 0; p < e.width; ++p)
        for (int64_t k = 0; k < e.scale; ++k) to[p * e.scale + k] += from[p];
  }

  bool isConcat;
};

/// Sums the copies of each pixel, line by line.
template <class T> class SumKernel : public ThreadedKernel {
 public:
  SumKernel(const KernelSite &site, bool isConcat) : ThreadedKernel(site.threads), isConcat(isConcat) {}

  void run(const KernelCall &call) override {
    int64_t channel = 0;
    for (size_t i = 0; i < call.out.size(); ++i) {
      const Enlarged e(call.out[i].shape, call.in[0].shape, channel);
      if (isConcat) channel += call.out[i].shape[1];
      if (!call.wants(i)) continue;
      const T *dy = call.in[0].as<const T>();
      T *dx = call.out[i].as<T>();
      forRows(e.planes, e.largeSize(), threads, [=](int64_t plane) {
        const T *from = dy + e.largePlane(plane) * e.largeSize();
        T *to = dx + plane * e.size();
        for (int64_t row = 0; row < e.height; ++row, to += e.width, from += e.scale * e.lineSize()) {
          if (e.scale > kMostCopies) addBlocks(e, from, to);
          else addLines(e, from, to);
        }
      });
    }
  }

 private:
  static constexpr int64_t kMostCopies = 16;  // of a line that are added up in the type of the data

  static void addBlocks(const Enlarged &e, const T *from, T *to) {
    for (int64_t p = 0; p < e.width; ++p, from += e.scale) {
      double sum = 0;
      for (int64_t line = 0; line < e.scale; ++line) addElements(from + line * e.lineSize(), e.scale, &sum);
      to[p] = static_cast<T>(sum);
    }
  }
  static void addLines(const Enlarged &e, const T *from, T *to) {
    std::fill(to, to + e.width, T{0});
    for (int64_t line = 0; line < e.scale; ++line, from += e.lineSize()) addLine(e, from, to);
  }
  static void addLine(const Enlarged &e, const T *from, T *to) {
    withFactor(e.scale, [&](auto scale) {
      GRADC_INDEPENDENT
      for (int64_t p = 0; p < e.width; ++p) {
        T sum = 0;
        for (int64_t k = 0; k < scale; ++k) sum += from[p * scale + k];
        to[p] += sum;
      }
    });
  }

  bool isConcat;
};

template <template <class> class Kernel> std::unique_ptr<PreparedKernel> make(const KernelSite &site) {
  const bool isConcat = upSamplingAttrs(*site.kind).isConcat;
  return floatingKernel<Kernel>(site.out[0].dtype, site, isConcat);
}

std::unique_ptr<PreparedKernel> upSampling(const KernelSite &site) {
  return upSamplingAttrs(*site.kind).isBilinear ? bilinearUpSampling(site) : make<RepeatKernel>(site);
}
std::unique_ptr<PreparedKernel> upSamplingBackward(const KernelSite &site) {
  return upSamplingAttrs(*site.kind).isBilinear ? bilinearUpSamplingBackward(site) : make<SumKernel>(site);
}

constexpr FastKernelRow kRows[] = {
    {"UpSampling", upSampling, LayoutRole::Plain},
    {"_backward_UpSampling", upSamplingBackward, LayoutRole::Plain},
};

}  // namespace

constinit const FastKernels kUpSamplingKernels = kRows;

}  // namespace gradc::fast
