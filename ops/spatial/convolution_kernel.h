// The three bilinear maps of convolution on plain memory: y = x * w, and its adjoints toward x and w.
//
// The idea: a block of kConvBlock output pixels at a time. Their receptive fields are gathered into a small matrix of
// `patch` rows, after which all three maps are products of small matrices whose innermost loops run over contiguous
// memory. A fully connected layer is the same on images of one pixel. Sums run in float64, in an order fixed by the
// shapes, and are rounded once.
// Tested by tests/ops/nn_ops_test.cc
#pragma once

#include "ops/spatial/spatial.h"

#include <algorithm>

namespace gradc {

/// Output pixels handled at once, counted over the whole batch.
inline constexpr int64_t kConvBlock = 16;

/// Weights are (filter, channel of the group, kernel…), or (filter, kernel…, channel of the group) with channels last:
/// one filter is contiguous and has `patch()` elements.
struct ConvGeometry {
  ImageView in, out;
  int64_t groups = 1;
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, dilate[3] = {1, 1, 1}, pad[3] = {0, 0, 0};
  bool channelsLast = false;

  int64_t groupChannels() const { return in.channels / groups; }
  int64_t groupFilters() const { return out.channels / groups; }
  int64_t patch() const { return groupChannels() * kernel[0] * kernel[1] * kernel[2]; }
  /// Scratch of `convolve`, `convolveDataGrad` and `convolveWeightGrad`: a block and the sums of it. Filters are
  /// tensors, so this fits in 64 bits by far.
  size_t scratchBytes() const;
  size_t dataGradBytes() const;
  size_t weightGradBytes() const;
  size_t gradientBytes() const { return std::max(dataGradBytes(), weightGradBytes()); }
};

/// y[n,f,p] = bias[f] + Σ x·w over the receptive field of p; `bias` may be null.
template <class T> void convolve(const ConvGeometry &g, const T *x, const T *w, const T *bias, T *y, double *scratch);
/// dx = Σ of dy·w over the windows that contain the input pixel, + bias of its channel; `bias` may be null.
template <class T>
void convolveDataGrad(const ConvGeometry &g, const T *dy, const T *w, const T *bias, T *dx, double *scratch);
/// dw = Σ over batch and output pixels of dy·x.
template <class T> void convolveWeightGrad(const ConvGeometry &g, const T *dy, const T *x, T *dw, double *scratch);
/// db[f] = Σ over batch and pixels of dy.
template <class T> void sumPerChannel(const ImageView &view, const T *dy, T *db);

}  // namespace gradc
