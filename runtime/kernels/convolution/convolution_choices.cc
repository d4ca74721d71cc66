#include "runtime/kernels/convolution/convolution_choices.h"

#include <numeric>

namespace gradc::fast {
namespace {

bool isOnePixel(const ConvGeometry &g) { return g.kernel[1] * g.kernel[2] == 1; }

bool hasUnitStride(const ConvGeometry &g) { return g.stride[1] == 1 && g.stride[2] == 1; }

/// oneDNN's newer code for channels-last images works on rows of pixels. For windows over rows as short as this its
/// older code, which reads filters in tiles, takes as little as half the time.
bool hasShortRows(const ConvGeometry &g, int64_t width) {
  constexpr int64_t kShort = 5;
  return !isOnePixel(g) && width <= kShort;
}

int64_t numPixels(const ConvGeometry &g) { return g.out.batch * g.out.pixels(); }

/// Whether 16 channels of each pixel of a row fall on so few sets of the first-level cache that they displace each
/// other.
bool conflictsInCache(int64_t width, int64_t channels) {
  constexpr int64_t kSets = 64, kWays = 12;
  return width > kWays * kSets / std::gcd(kSets, channels / 16);
}

}  // namespace

bool suitsChannelsLast(const ConvGeometry &g) {
  const bool isDepthwise = g.groups == g.in.channels && g.groups == g.out.channels;
  return (g.groups == 1 || isDepthwise) && g.in.channels % 16 == 0 && g.out.channels % 16 == 0;
}

bool hasFewChannels(const ConvGeometry &g) { return g.groups == 1 && g.in.channels <= 4; }

bool prefersGathering(const ConvGeometry &g) { return g.groups == 1 && g.in.channels == 1; }

bool prefersConvertedColours(const ConvGeometry &g) {
  return hasFewChannels(g) && g.in.channels >= 3 && g.out.channels % 16 == 0;
}

bool prefersTiles(const ConvGeometry &g, bool areTiles) {
  constexpr int64_t kFewPixels = 64;  // too few to make up for a conversion
  return g.groups == 1 && (hasShortRows(g, g.out.extent[2]) || (areTiles && numPixels(g) <= kFewPixels));
}

bool prefersAdjoint(const ConvGeometry &g) {
  return g.groups == 1 && hasUnitStride(g) && !hasShortRows(g, g.in.extent[2]);
}

bool prefersProduct(const ConvGeometry &g) {
  constexpr int64_t kPixels = 256;
  return g.groups == 1 && isOnePixel(g) && hasUnitStride(g) && g.pad[1] == 0 && g.pad[2] == 0 &&
         numPixels(g) >= kPixels;
}

bool prefersCopies(const ConvGeometry &g) {
  constexpr int64_t kMostElements = int64_t{1} << 23;  // of both copies, which are scratch
  const int64_t in = g.in.channels, out = g.out.channels, stride = g.stride[1] * g.stride[2];
  if (g.groups != 1 || isOnePixel(g) || g.in.batch * (g.in.pixels() * in + g.out.pixels() * out) > kMostElements)
    return false;
  const int64_t workPerCopied = g.patch() * out / (in * stride + out);
  if (stride > 1) return workPerCopied >= 100 && !hasShortRows(g, g.out.extent[2]);
  return workPerCopied >= 200 && (conflictsInCache(g.in.extent[2], in) || conflictsInCache(g.out.extent[2], out));
}

}  // namespace gradc::fast
