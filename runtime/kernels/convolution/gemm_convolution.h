// Convolution over up to three spatial axes as matrix products, image by image: receptive fields are gathered into a
// matrix of (patch, pixels), which is multiplied with the filters. Used where oneDNN has no code or slow code: float64,
// three axes, gradients of images with few channels. Images are (n, c, spatial…). Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ops/spatial/convolution_kernel.h"
#include "runtime/kernels/core/prepared_kernel.h"

#include "llvm/ADT/SmallVector.h"

#include <algorithm>

namespace gradc {

/// Whether oneDNN can handle these windows: it computes positions in an image, including padding, in int.
bool hasModestWindows(const ConvGeometry &g);

/// The most images, and output pixels of them, whose weight gradients are added up in float32.
inline constexpr int64_t kMostImages = 512, kMostPixels = int64_t{1} << 20;

/// How many images to add up at once.
inline int64_t imagesAtOnce(const ConvGeometry &g) {
  return std::clamp<int64_t>(kMostPixels / std::max<int64_t>(g.out.pixels(), 1), 1, kMostImages);
}

template <class T> class GemmConvolution {
 public:
  explicit GemmConvolution(const ConvGeometry &g);

  /// Whether the matrices can be addressed.
  bool isPossible() const;
  /// Size of the scratch `columns` that each function needs.
  size_t bytes() const;
  void forward(const T *x, const T *w, const T *bias, T *y, T *columns) const;
  /// `dy` may be channels-last when there is one group.
  void dataGrad(const T *dy, Layout layout, const T *w, T *dx, T *columns) const;
  /// The same.
  void weightGrad(const T *dy, Layout layout, const T *x, T *dw, T *columns) const;

 private:
  ConvGeometry g;
  bool hasManyTaps() const;
  size_t columnBytes() const;
  void addImages(const T *dy, Layout layout, const T *x, T *dw, T *columns, int64_t first, int64_t count) const;

  int64_t patch, pixels, filters, inSize, outSize;  // of one group of one image
};

/// The same convolution with the channels first, for a node whose attribute puts them last.
ConvGeometry withChannelsFirst(const ConvGeometry &g);

/// The positions of images and filters with the channels last among the operands of a node. Both are matrices of (pixel
/// or window element, channel).
struct ChannelsLastOperands {
  struct Matrices {
    size_t operand;
    int64_t count, pixels, channels;
  };
  llvm::SmallVector<Matrices, 3> in, out;  // those that are read, or requested

  static Matrices images(size_t operand, const ImageView &view) {
    return {operand, view.batch, view.pixels(), view.channels};
  }
  static Matrices filters(size_t operand, const ConvGeometry &g) {
    return {operand, g.out.channels, g.kernel[0] * g.kernel[1] * g.kernel[2], g.groupChannels()};
  }
};

/// Positions of operands in a node that convolves or deconvolves; kNone: the operand does not exist or is not
/// requested.
struct ConvolutionPorts {
  static constexpr int8_t kNone = -1;
  int8_t x = kNone, w = kNone, b = kNone, dy = kNone;    // inputs
  int8_t y = kNone, dx = kNone, dw = kNone, db = kNone;  // outputs
};

/// `x` and `y` are the images of the node's data and result, `g` the convolution's geometry.
ChannelsLastOperands channelsLastOperands(const ConvGeometry &g, const ImageView &x, const ImageView &y,
                                          const ConvolutionPorts &at);

/// Wraps `kernel`, which has the channels first, for such operands: transposes them before it runs, and back
/// afterwards.
template <class T>
std::unique_ptr<PreparedKernel> aroundChannelsFirst(std::unique_ptr<PreparedKernel> kernel,
                                                    ChannelsLastOperands operands, unsigned threads);

namespace fast {

/// Any floating type, plain operands.
std::unique_ptr<PreparedKernel> gemmConvolution(const KernelSite &site);
std::unique_ptr<PreparedKernel> gemmConvolutionBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> gemmConvolutionDataGrad(const KernelSite &site);
std::unique_ptr<PreparedKernel> gemmConvolutionWeightGrad(const KernelSite &site);

}  // namespace fast
}  // namespace gradc
