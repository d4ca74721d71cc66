// Convolution over up to three spatial axes as matrix products, image by image: receptive fields are gathered into a
// matrix of (patch, pixels), which is multiplied with the filters. For what oneDNN does not do, or does badly: float64,
// three axes, gradients toward images of few channels. Images are (n, c, spatial…). Tested by tests/fast_kernels_test.cc
#pragma once

#include "ops/spatial/convolution_kernel.h"
#include "runtime/kernels/prepared_kernel.h"

#include "llvm/ADT/SmallVector.h"

namespace gradc {

/// Whether oneDNN can be asked about these windows: it computes places in an image, padding included, in int.
bool hasModestWindows(const ConvGeometry &g);

template <class T> class GemmConvolution {
 public:
  explicit GemmConvolution(const ConvGeometry &g);

  /// Whether the products can be computed, and the matrices be addressed.
  bool isPossible() const;
  /// Scratch each function needs as `columns`.
  size_t bytes() const { return static_cast<size_t>(patch * pixels) * sizeof(T); }
  void forward(const T *x, const T *w, const T *bias, T *y, T *columns) const;
  /// `dy` may be channels-last when there is one group.
  void dataGrad(const T *dy, Layout layout, const T *w, T *dx, T *columns) const;
  void weightGrad(const T *dy, const T *x, T *dw, T *columns) const;
  void biasGrad(const T *dy, T *db) const { sumPerChannel(g.out, dy, db); }

 private:
  ConvGeometry g;
  int64_t patch, pixels, filters, inSize, outSize;  // of one group of one image
};

/// Operands with the channels last by attribute: the same convolution with them first.
ConvGeometry withChannelsFirst(const ConvGeometry &g);

/// Where images, and filters, with the channels last are among the operands of a node. Both are matrices of (pixel or tap,
/// channel).
struct ChannelsLastOperands {
  struct Matrices {
    size_t operand;
    int64_t count, pixels, channels;
  };
  llvm::SmallVector<Matrices, 3> in, out;  // those that are read, or wanted

  static Matrices images(size_t operand, const ImageView &view) {
    return {operand, view.batch, view.pixels(), view.channels};
  }
  static Matrices filters(size_t operand, const ConvGeometry &g) {
    return {operand, g.out.channels, g.kernel[0] * g.kernel[1] * g.kernel[2], g.groupChannels()};
  }
};

/// `kernel`, of operands with the channels first, for such operands: they are brought into its order and back.
template <class T>
std::unique_ptr<PreparedKernel> aroundChannelsFirst(std::unique_ptr<PreparedKernel> kernel,
                                                    ChannelsLastOperands operands, unsigned threads);

}  // namespace gradc
