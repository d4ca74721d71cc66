// The weight gradients of convolutions by oneDNN. oneDNN adds up everything in float32, so longer sums are taken in
// parts: images after images, and tiles of a large one. Tested by tests/runtime/kernels/fast_kernels_test.cc,
// tests/runtime/kernels/long_sums_test.cc
#include "runtime/kernels/convolution/convolution_weight_grad.h"

#include "ops/spatial/convolution.h"
#include "ops/spatial/convolution_kernel.h"
#include "runtime/kernels/convolution/gemm_convolution.h"
#include "runtime/kernels/matrix/gemm.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace llvm;
using dnnl::memory;

namespace gradc::fast {
namespace {

/// Whether it is oneDNN's newer code, which needs AVX-512. Where it is missing, the weight gradient of a channels-last
/// image with few channels is slow.
bool isRowCode(const dnnl::convolution_forward::primitive_desc &desc) {
  return StringRef(desc.impl_info_str()).starts_with("brg");
}

/// Whether it is code for AVX-512, which has gradients for images of one channel.
bool isWide(const dnnl::convolution_forward::primitive_desc &desc) {
  return StringRef(desc.impl_info_str()).contains("avx512");
}

/// Without the bias gradient: oneDNN adds it up in float32, number by number, and by thread.
DnnlStep weightStep(const ConvolutionDescs &d) {
  using Backward = dnnl::convolution_backward_weights;
  const Backward::primitive_desc desc = backwardDescOf<Backward>(
      forwardDesc(d, false, d.anyW), kConvolution, d.anyX, d.anyW, d.anyY, d.stride, d.dilate, d.padLow, d.padHigh);
  refuseReference(desc);
  return weightStepOf<Backward>(desc, {d.x, d.w, nullptr, d.y});
}

/// The weight gradient as a product, from inputs dy (0) and x (1) to output `weight`.
ConvolutionKernel::Part weightProduct(const ConvGeometry &g, Layout weightLayout, uint8_t weight) {
  Gemm<float> product{.transA = true, .m = g.out.channels, .n = g.in.channels, .k = g.out.batch * g.out.pixels()};
  product.lda = product.m, product.ldb = product.ldc = product.n;
  std::optional<WeightReorder> toTiles;
  if (weightLayout == Layout::FilterTiles) toTiles = WeightReorder::create({product.m, product.n, 1, 1});
  const size_t bytes = toTiles ? static_cast<size_t>(product.m * product.n) * sizeof(float) : 0;
  auto run = [=](const KernelCall &call) {
    Gemm<float> g = product;
    float *dw = call.out[weight].as<float>();
    g.a = call.in[0].as<const float>(), g.b = call.in[1].as<const float>();
    g.c = toTiles ? static_cast<float *>(call.workspace) : dw;
    multiply(g);
    if (toTiles) toTiles->toTiles(g.c, dw);
  };
  return {run, bytes, Reorders{toTiles ? 1u : 0u, 0, bytes}};
}

/// The same by products of gathered matrices; x and dw are row-major.
ConvolutionKernel::Part gatheredWeightGrad(const ConvGeometry &g, Layout dyLayout, uint8_t weight) {
  const GemmConvolution<float> products(g);
  auto run = [=](const KernelCall &call) {
    products.weightGrad(call.in[0].as<const float>(), dyLayout, call.in[1].as<const float>(),
                        call.out[weight].as<float>(), static_cast<float *>(call.workspace));
  };
  return {run, products.bytes()};
}

/// A weight gradient in parts, which are added up in float64 behind the scratch of the parts.
struct WeightSums {
  int64_t size;
  double *sums;
  float *part;  // which addPart adds

  static size_t bytes(int64_t size) { return static_cast<size_t>(size) * (sizeof(double) + sizeof(float)); }
  WeightSums(const KernelCall &call, size_t inner, int64_t size)
      : size(size), sums(reinterpret_cast<double *>(static_cast<char *>(call.workspace) + inner)),
        part(reinterpret_cast<float *>(sums + size)) {
    std::fill_n(sums, size, 0.0);
  }
  void addPart() const {
    for (int64_t i = 0; i < size; ++i) sums[i] += static_cast<double>(part[i]);
  }
  void write(float *to) const {
    std::transform(sums, sums + size, to, [](double sum) { return static_cast<float>(sum); });
  }
};

int64_t numWeights(const ConvolutionDescs &d) { return static_cast<int64_t>(d.w.get_size() / sizeof(float)); }

/// A range of output pixels on one axis, and the input pixels that their windows show.
struct AxisPart {
  int64_t out, numOut;  // the first one, and their number
  int64_t in, numIn;    // none: all windows are in the padding
  int64_t padBefore, padBehind;

  AxisPart(const ConvGeometry &g, int axis, int64_t first, int64_t count) : out(first), numOut(count) {
    const int64_t low = first * g.stride[axis] - g.pad[axis];
    const int64_t high = low + (count - 1) * g.stride[axis] + (g.kernel[axis] - 1) * g.dilate[axis] + 1;
    in = std::max<int64_t>(low, 0);
    numIn = std::min(high, g.in.extent[axis]) - in;
    padBefore = in - low;
    padBehind = high - in - numIn;
  }
  bool hasShapeOf(const AxisPart &other) const {
    return numOut == other.numOut && numIn == other.numIn && padBefore == other.padBefore;
  }
};

/// Pixels of a larger image; `isLast`: its channels are last.
memory::desc partDesc(const ImageView &image, bool isLast, int64_t height, int64_t width) {
  const int64_t pixel = isLast ? image.channels : 1, row = image.extent[2] * pixel;
  const int64_t channel = isLast ? 1 : image.pixels();
  return memory::desc({1, image.channels, height, width}, memory::data_type::f32,
                      memory::dims{isLast ? height * row : image.channels * channel, channel, row, pixel});
}

/// The weight gradient of one image, a tile of at most kMostPixels output pixels after the other, added up in float64.
class TiledWeightGrad {
 public:
  TiledWeightGrad(const ConvGeometry &g, const ConvolutionDescs &d) : g(g), size(numWeights(d)) {
    const int64_t width = g.out.extent[2], columns = std::min(width, kMostPixels), rows = kMostPixels / columns;
    for (int64_t y = 0; y < g.out.extent[1]; y += rows)
      for (int64_t x = 0; x < width; x += columns)
        add(d, AxisPart(g, 1, y, std::min(rows, g.out.extent[1] - y)), AxisPart(g, 2, x, std::min(columns, width - x)));
  }

  size_t bytes() const { return inner() + WeightSums::bytes(size); }
  Reorders reorders() const { return kinds.empty() ? Reorders() : kinds.front().step.reorders(); }

  void run(float *dy, float *x, float *dw, const KernelCall &call) {
    const WeightSums sums(call, inner(), size);
    for (const Tile &tile : tiles) {
      kinds[tile.kind].step.run({dy + tile.y, x + tile.x, sums.part}, call.workspace);
      sums.addPart();
    }
    sums.write(dw);
  }

 private:
  /// Tiles of one shape, which share a primitive.
  struct Kind {
    AxisPart height, width;
    DnnlStep step;
  };
  struct Tile {
    size_t kind;
    int64_t y, x;  // where it begins in dy and in the image
  };

  void add(const ConvolutionDescs &d, const AxisPart &height, const AxisPart &width) {
    if (height.numIn <= 0 || width.numIn <= 0) return;
    const auto *kind = find_if(
        kinds, [&](const Kind &kind) { return kind.height.hasShapeOf(height) && kind.width.hasShapeOf(width); });
    tiles.push_back({static_cast<size_t>(kind - kinds.begin()), offset(g.out, d.isYLast, height.out, width.out),
                     offset(g.in, d.isXLast, height.in, width.in)});
    if (kind == kinds.end()) kinds.push_back({height, width, stepOf(d, height, width)});
  }
  static int64_t offset(const ImageView &image, bool isLast, int64_t y, int64_t x) {
    return (y * image.extent[2] + x) * (isLast ? image.channels : 1);
  }
  DnnlStep stepOf(const ConvolutionDescs &whole, const AxisPart &height, const AxisPart &width) const {
    ConvolutionDescs d = whole;
    const bool isAny = whole.anyX == anyDesc(dimsOf(whole.x));
    d.x = partDesc(g.in, d.isXLast, height.numIn, width.numIn);
    d.y = partDesc(g.out, d.isYLast, height.numOut, width.numOut);
    d.anyX = insideDesc(dimsOf(d.x), !isAny);
    d.anyY = insideDesc(dimsOf(d.y), !isAny);
    d.padLow = {height.padBefore, width.padBefore};
    d.padHigh = {height.padBehind, width.padBehind};
    return weightStep(d);
  }
  size_t inner() const {
    size_t most = 0;
    for (const Kind &kind : kinds) most = std::max(most, kind.step.bytes());
    return alignTo(most, 64);
  }

  ConvGeometry g;
  int64_t size;
  SmallVector<Kind, 0> kinds;
  std::vector<Tile> tiles;
};

/// The same from inputs dy (0) and x (1) to output `weight`.
ConvolutionKernel::Part tiledWeightGrad(const ConvGeometry &g, const ConvolutionDescs &d, uint8_t weight) {
  TiledWeightGrad tiles(g, d);
  const size_t bytes = tiles.bytes();
  const Reorders reorders = tiles.reorders();
  auto run = [tiles = std::move(tiles), weight](const KernelCall &call) mutable {
    tiles.run(call.in[0].as<float>(), call.in[1].as<float>(), call.out[weight].as<float>(), call);
  };
  return {std::move(run), bytes, reorders};
}

/// The weight gradient of `atOnce` images after the other, added up in float64.
ConvolutionKernel::Part weightGradInPieces(const KernelSite &site, const ConvolutionOperands &operands, int64_t atOnce,
                                           uint8_t weight) {
  struct Pieces {
    ConvolutionKernel whole, rest;
    int64_t images, atOnce, xSize, ySize, wSize;
    size_t inner;  // bytes
    uint8_t weightOutput;

    void run(const KernelCall &call) {
      const WeightSums sums(call, inner, wSize);
      SmallVector<TensorRef, 4> in(call.in.begin(), call.in.end()), out(call.out.begin(), call.out.end());
      KernelCall piece = call;
      piece.in = in, piece.out = out;
      for (int64_t first = 0; first < images; first += atOnce) {
        in[0].data = call.in[0].as<float>() + first * ySize;
        in[1].data = call.in[1].as<float>() + first * xSize;
        out[weightOutput].data = sums.part;
        (images - first < atOnce ? rest : whole).run(piece);
        sums.addPart();
      }
      sums.write(call.out[weightOutput].as<float>());
    }
  };
  auto pieces = std::make_unique<Pieces>();
  const int64_t images = operands.x[0], last = images % atOnce;
  auto addTo = [&](ConvolutionKernel &kernel, int64_t count) {
    DimsBuffer x(operands.x), y(operands.y);
    x[0] = y[0] = count;
    ConvolutionOperands some = operands;
    some.x = x, some.y = y;
    addWeightGrad(kernel, site, some, weight);
  };
  addTo(pieces->whole, atOnce);
  if (last > 0) addTo(pieces->rest, last);
  pieces->images = images, pieces->atOnce = atOnce, pieces->weightOutput = weight;
  const ConvGeometry g = convolutionGeometry(*site.kind, operands.x, operands.y);
  pieces->xSize = g.in.batchStride, pieces->ySize = g.out.batchStride;
  pieces->wSize = numWeights(describe(*site.kind, operands));
  pieces->inner = alignTo(std::max(pieces->whole.workspaceBytes(), pieces->rest.workspaceBytes()), 64);
  const size_t bytes = pieces->inner + WeightSums::bytes(pieces->wSize);
  const Reorders reorders = pieces->whole.reorders();
  return {[pieces = std::move(pieces)](const KernelCall &call) { pieces->run(call); }, bytes, reorders};
}

}  // namespace

void addWeightGrad(ConvolutionKernel &kernel, const KernelSite &site, const ConvolutionOperands &operands,
                   uint8_t weight) {
  const ConvGeometry g = convolutionGeometry(*site.kind, operands.x, operands.y);
  if (const int64_t atOnce = imagesAtOnce(g); atOnce < g.out.batch)
    return kernel.add(weightGradInPieces(site, operands, atOnce, weight));
  ConvolutionDescs d = describe(*site.kind, operands);
  const bool isPlain = !g.channelsLast && operands.xLayout == Layout::Plain;
  if (isPlain && prefersGathering(g) && GemmConvolution<float>(g).isPossible() &&
      !isWide(forwardDesc(d, false, d.anyW)))
    return kernel.add(gatheredWeightGrad(g, operands.yLayout, weight));
  if (d.isLast && d.x == d.anyX && d.y == d.anyY && prefersProduct(g))
    return kernel.add(weightProduct(g, operands.wLayout, weight));
  const bool hasSlowCode = d.convertsColours && !isRowCode(forwardDesc(d, false, d.anyW));
  if (hasSlowCode || (d.isLast && prefersCopies(g))) d.anyX = anyDesc(dimsOf(d.x)), d.anyY = anyDesc(dimsOf(d.y));
  // Products of matrices divide long sums; oneDNN's convolutions do not.
  if (g.out.pixels() > kMostPixels) return kernel.add(tiledWeightGrad(g, d, weight));
  kernel.add(weightStep(d), {0, 1, static_cast<uint8_t>(ConvolutionKernel::kOutput + weight)});
}

}  // namespace gradc::fast
