// The data gradient of convolutions over channels-last images as a convolution, to the bit of its definition.
#include "runtime/kernels/convolution/adjoint_convolution.h"
#include "runtime/kernels/core/threads.h"

#include "llvm/Support/MathExtras.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace llvm;
using dnnl::memory;

namespace gradc {
namespace {

struct Window {
  const char *what;
  int64_t channels, filters, height, width, kernel[2], dilate[2], pad[2];
  bool isPossible = true;

  int64_t span(size_t axis) const { return (kernel[axis] - 1) * dilate[axis]; }
  int64_t outHeight() const { return height + 2 * pad[0] - span(0); }
  int64_t outWidth() const { return width + 2 * pad[1] - span(1); }
};

constexpr int64_t kBatch = 2;

const Window kWindows[] = {
    {"three by three", 32, 16, 9, 8, {3, 3}, {1, 1}, {1, 1}},
    {"one pixel", 64, 16, 7, 5, {1, 1}, {1, 1}, {0, 0}},
    {"a column, unequal padding", 16, 48, 9, 6, {5, 1}, {1, 1}, {2, 0}},
    {"a row", 48, 16, 5, 9, {1, 7}, {1, 1}, {0, 3}},
    {"no padding", 16, 16, 8, 9, {3, 2}, {1, 1}, {0, 0}},
    {"as much padding as there can be", 16, 32, 6, 6, {3, 3}, {1, 1}, {2, 2}},
    {"dilated", 32, 32, 11, 10, {3, 3}, {2, 3}, {2, 3}},
    {"channels that fill no whole group", 80, 32, 14, 14, {3, 3}, {1, 1}, {1, 1}},
    {"more of them", 208, 96, 7, 7, {3, 3}, {1, 1}, {1, 1}},
    {"padding wider than the window", 16, 16, 6, 6, {2, 2}, {1, 1}, {2, 2}, false},
    {"channels that fill no vector", 20, 16, 6, 6, {3, 3}, {1, 1}, {1, 1}, false},
};

/// Small integers, so that products and their sums are exact in float32 and every order of adding them gives the same
/// bits.
std::vector<float> numbers(int64_t size, int64_t seed) {
  std::vector<float> made;
  for (int64_t i = 0; i < size; ++i) made.push_back(static_cast<float>((i * 7919 + seed) % 11 - 5));
  return made;
}

/// dx[n, h, w, c] = Σ over filters f and taps of dy[n, h + pad − tap, w + pad − tap, f] · filters[f, c, tap].
std::vector<float> dataGradient(const Window &g, const std::vector<float> &dy, const std::vector<float> &filters) {
  std::vector<float> dx(kBatch * g.height * g.width * g.channels);
  for (int64_t n = 0; n < kBatch; ++n)
    for (int64_t y = 0; y < g.outHeight(); ++y)
      for (int64_t x = 0; x < g.outWidth(); ++x)
        for (int64_t a = 0; a < g.kernel[0]; ++a)
          for (int64_t b = 0; b < g.kernel[1]; ++b) {
            const int64_t row = y - g.pad[0] + a * g.dilate[0], column = x - g.pad[1] + b * g.dilate[1];
            if (row < 0 || row >= g.height || column < 0 || column >= g.width) continue;
            const float *from = &dy[((n * g.outHeight() + y) * g.outWidth() + x) * g.filters];
            float *to = &dx[((n * g.height + row) * g.width + column) * g.channels];
            for (int64_t f = 0; f < g.filters; ++f)
              for (int64_t c = 0; c < g.channels; ++c)
                to[c] += from[f] * filters[((f * g.channels + c) * g.kernel[0] + a) * g.kernel[1] + b];
          }
  return dx;
}

memory::desc imageDesc(int64_t channels, int64_t height, int64_t width) {
  return denseDesc({kBatch, channels, height, width}, Layout::ChannelsLast);
}

/// Whether oneDNN has the code that the adjoint convolution needs.
bool hasVectorsOfSixteen() {
  constexpr int kWanted = static_cast<int>(dnnl::cpu_isa::avx512_core);
  return (static_cast<int>(dnnl::get_effective_cpu_isa()) & kWanted) == kWanted;
}

TEST(AdjointConvolution, RUN_02_IsTheDataGradientToTheBit) {
  if (!hasVectorsOfSixteen()) GTEST_SKIP() << "the processor has no vectors of sixteen numbers";
  for (const Window &g : kWindows)
    for (Layout layout : {Layout::Plain, Layout::FilterTiles})
      for (unsigned threads : {1u, 2u, 3u}) {
        if (layout == Layout::FilterTiles && !WeightReorder::hasTiles({g.filters, g.channels, 1, 1})) continue;
        SCOPED_TRACE(::testing::Message() << g.what << ", layout " << int(layout) << ", " << threads << " threads");
        const int64_t shape[] = {g.filters, g.channels, g.kernel[0], g.kernel[1]};
        const memory::desc x = imageDesc(g.channels, g.height, g.width);
        const memory::desc y = imageDesc(g.filters, g.outHeight(), g.outWidth());
        withThreads(threads, [&] {
          auto adjoint = AdjointConvolution::create(
              {x, x, denseDesc(shape, layout), y, y, {g.dilate[0] - 1, g.dilate[1] - 1}, {g.pad[0], g.pad[1]}});
          ASSERT_EQ(adjoint.has_value(), g.isPossible);
          if (!adjoint) return;
          EXPECT_EQ(adjoint->reorders().numWeights, 1u);
          std::vector<float> dy = numbers(kBatch * g.outHeight() * g.outWidth() * g.filters, 1);
          const std::vector<float> plain = numbers(g.filters * g.channels * g.kernel[0] * g.kernel[1], 2);
          std::vector<float> filters = plain, dx(kBatch * g.height * g.width * g.channels, NAN);
          if (layout == Layout::FilterTiles) WeightReorder::create(shape)->toTiles(plain.data(), filters.data());
          std::vector<std::byte> workspace(adjoint->bytes() + 64, std::byte{0xff});  // NaN
          void *aligned = reinterpret_cast<void *>(alignTo(reinterpret_cast<uintptr_t>(workspace.data()), 64));
          adjoint->run(dy.data(), filters.data(), dx.data(), aligned);
          EXPECT_EQ(dx, dataGradient(g, dy, plain));
        });
      }
}

}  // namespace
}  // namespace gradc
