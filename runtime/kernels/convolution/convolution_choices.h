// Which code computes a convolution fastest, by its shape. Measured with oneDNN 2.6.3 on one thread of an AVX-512
// processor; docs/performance.md has figures. Tested by tests/runtime/kernels/filter_tiles_test.cc,
// tests/runtime/kernels/channels_last_test.cc
#pragma once

#include "ops/spatial/convolution_kernel.h"

namespace gradc::fast {

/// Whether oneDNN is fast on channels-last images: channels on both sides fill whole vectors, and there is one group or
/// a filter for each channel. Other images are converted to the format that it chooses.
bool suitsChannelsLast(const ConvGeometry &g);

/// Whether the data gradient is faster by products of gathered matrices. oneDNN pads the channels of its result to
/// whole vectors: with one or three channels, most of the work is padding.
bool hasFewChannels(const ConvGeometry &g);

/// Whether the weight gradient is faster in this way too, without AVX-512: for images of one channel it takes between a
/// third and two thirds.
bool prefersGathering(const ConvGeometry &g);

/// Whether a channels-last result is worth converting an image of three or four channels, colours, which is smaller.
bool prefersConvertedColours(const ConvGeometry &g);

// The following are for channels-last images on which oneDNN is fast.

/// Whether the forward convolution is faster on filters in tiles than in the format that oneDNN chooses. `areTiles`:
/// they are in tiles, so that another format means a conversion.
bool prefersTiles(const ConvGeometry &g, bool areTiles);
/// Whether the data gradient is faster as the adjoint convolution, which exists for stride 1.
bool prefersAdjoint(const ConvGeometry &g);
/// Whether the weight gradient is faster as the product dyᵀ·x of two matrices of (pixels, channels).
bool prefersProduct(const ConvGeometry &g);
/// Whether the weight gradient is faster on copies of the images in the format that oneDNN chooses.
bool prefersCopies(const ConvGeometry &g);

}  // namespace gradc::fast
