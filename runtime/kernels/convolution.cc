// Convolution over two spatial axes by oneDNN: y, dx and dw, each a primitive of its own; db by column_sums.h.
//
// Row-major weights are converted in every run, because training changes them at every step. The weight gradient produces
// weights in tiles; where converting them would be expensive, the forward primitive is made to read tiles. The data
// gradient has no code for that layout. Tested by tests/fast_kernels_test.cc
#include "ops/layer_attrs.h"
#include "runtime/kernels/adjoint_convolution.h"
#include "runtime/kernels/column_sums.h"
#include "runtime/kernels/convolution_choices.h"
#include "runtime/kernels/convolution_steps.h"
#include "runtime/kernels/dnnl_descs.h"
#include "runtime/kernels/factories.h"
#include "runtime/kernels/gemm.h"
#include "runtime/kernels/gemm_convolution.h"

#include "llvm/ADT/FunctionExtras.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;
using dnnl::memory;

namespace gradc::fast {
namespace {

/// The formats of one convolution: those of the entries, and those given to the primitive.
struct ConvolutionDescs {
  memory::desc x, w, b, y;        // outside
  memory::desc anyX, anyW, anyY;  // inside, or `any` where the primitive chooses
  bool isLast;                    // inside, both images
  bool convertsColours;           // x inside has the channels last, although they do not fill a vector
  bool readsTiles;                // forward
  memory::dims stride, dilate, pad;
};

/// oneDNN has no code for channels-last on only one side.
memory::desc insideDesc(Dims shape, bool isLast) {
  return isLast ? denseDesc(shape, Layout::ChannelsLast) : anyDesc(shape);
}

/// Drops the first axis of filters (groups, filters, channels, …) if there is only one group.
Dims withoutOneGroup(Dims w) { return w[0] == 1 ? w.drop_front() : w; }

/// Filters of nodes whose attribute `layout` puts channels last; the filters have them last too.
memory::desc channelsLastFilters(Dims w) {
  const Dims shape = withoutOneGroup(w);
  return memory::desc(memory::dims(shape.begin(), shape.end()), memory::data_type::f32,
                      shape.size() == 4 ? memory::format_tag::acdb : memory::format_tag::abdec);
}

/// If the node's attribute puts channels last, all layouts are Plain.
struct ConvolutionOperands {
  Dims x, y;
  Layout xLayout, yLayout, wLayout;
};

ConvolutionDescs describe(const NodeKind &kind, const ConvolutionOperands &operands) {
  const ConvGeometry g = convolutionGeometry(kind, operands.x, operands.y);
  ConvolutionDescs d;
  const int64_t x[] = {g.in.batch, g.in.channels, g.in.extent[1], g.in.extent[2]};
  const int64_t y[] = {g.out.batch, g.out.channels, g.out.extent[1], g.out.extent[2]};
  const int64_t w[] = {g.groups, g.groupFilters(), g.groupChannels(), g.kernel[1], g.kernel[2]};
  const Layout xLayout = g.channelsLast ? Layout::ChannelsLast : operands.xLayout;
  const Layout yLayout = g.channelsLast ? Layout::ChannelsLast : operands.yLayout;
  d.x = denseDesc(x, xLayout);
  d.y = denseDesc(y, yLayout);
  d.w = g.channelsLast ? channelsLastFilters(w) : denseDesc(withoutOneGroup(w), operands.wLayout);
  d.b = denseDesc(g.out.channels, Layout::Plain);
  d.isLast = suitsChannelsLast(g) && (xLayout == Layout::ChannelsLast || yLayout == Layout::ChannelsLast);
  d.convertsColours = !g.channelsLast && yLayout == Layout::ChannelsLast && prefersConvertedColours(g);
  d.anyX = insideDesc(x, d.isLast || d.convertsColours);
  d.anyY = insideDesc(y, d.isLast || d.convertsColours);
  d.anyW = anyDesc(withoutOneGroup(w));
  d.readsTiles = d.isLast && prefersTiles(g, operands.wLayout == Layout::FilterTiles);
  d.stride = {g.stride[1], g.stride[2]};
  d.dilate = {g.dilate[1] - 1, g.dilate[2] - 1};
  d.pad = {g.pad[1], g.pad[2]};
  return d;
}

/// One or two spatial axes. Operands with channels last by attribute must not be in another layout.
bool canHandle(const KernelSite &site, Dims x, Dims y) {
  if (site.in[0].dtype != DType::Float32) return false;
  const ConvGeometry g = convolutionGeometry(*site.kind, x, y);
  auto isMoved = [](const TensorRef &tensor) { return tensor.layout != Layout::Plain; };
  if (g.channelsLast && (any_of(site.in, isMoved) || any_of(site.out, isMoved))) return false;
  return x.size() <= 4 && hasModestWindows(g);
}

/// oneDNN's own reference code is slower than products of gathered matrices, so it is treated as missing.
template <class Desc> bool isReference(const Desc &desc) { return StringRef(desc.impl_info_str()).starts_with("ref"); }
template <class Desc> void refuseReference(const Desc &desc) {
  if (isReference(desc)) throw dnnl::error(dnnl_unimplemented, "reference code only");
}

constexpr dnnl::algorithm kAlgorithm = dnnl::algorithm::convolution_direct;

using Forward = dnnl::convolution_forward;

/// With weights in the format `w`.
Forward::primitive_desc forwardDesc(const ConvolutionDescs &d, bool hasBias, const memory::desc &w) {
  constexpr dnnl::prop_kind kKind = dnnl::prop_kind::forward_training;
  if (hasBias)
    return forwardDescOf<Forward>(kKind, kAlgorithm, d.anyX, w, d.b, d.anyY, d.stride, d.dilate, d.pad, d.pad);
  return forwardDescOf<Forward>(kKind, kAlgorithm, d.anyX, w, d.anyY, d.stride, d.dilate, d.pad, d.pad);
}

/// Whether the code is generated for convolutions. Implementations that delegate to inner products (`ip:`) may find only
/// reference code for tiles there.
template <class Desc> bool isGenerated(const Desc &desc) {
  const StringRef name = desc.impl_info_str();
  return name.starts_with("jit") || name.starts_with("brg");
}

/// Empty if no generated code reads weights in tiles.
std::optional<Forward::primitive_desc> forwardOfTiles(const ConvolutionDescs &d, bool hasBias) {
  const memory::dims shape = dimsOf(d.w);
  std::optional<Forward::primitive_desc> desc;
  if (!guarded([&] { desc = forwardDesc(d, hasBias, denseDesc(shape, Layout::FilterTiles)); }) || !isGenerated(*desc))
    return std::nullopt;
  return desc;
}

/// Whether it is oneDNN's newer code, which needs AVX-512. Where it is missing, the weight gradient of a channels-last image
/// with few channels is slow.
bool isRowCode(const Forward::primitive_desc &desc) { return StringRef(desc.impl_info_str()).starts_with("brg"); }

/// Whether it is code for AVX-512, which has gradients for images of one channel.
bool isWide(const Forward::primitive_desc &desc) { return StringRef(desc.impl_info_str()).contains("avx512"); }

DnnlStep forwardStep(const ConvolutionDescs &d, bool hasBias) {
  std::optional<Forward::primitive_desc> desc;
  if (d.readsTiles) desc = forwardOfTiles(d, hasBias);
  if (!desc) desc = forwardDesc(d, hasBias, d.anyW);
  refuseReference(*desc);
  return forwardStepOf<Forward>(*desc, {d.x, d.w, hasBias ? &d.b : nullptr, d.y});
}

DnnlStep dataStep(const ConvolutionDescs &d) {
  using Backward = dnnl::convolution_backward_data;
  const Backward::primitive_desc desc = backwardDescOf<Backward>(forwardDesc(d, false, d.anyW), kAlgorithm, d.anyX,
                                                                 d.anyW, d.anyY, d.stride, d.dilate, d.pad, d.pad);
  refuseReference(desc);
  return dataStepOf<Backward>(desc, {d.x, d.w, nullptr, d.y});
}

/// Without the bias gradient: oneDNN adds it up in float32, number by number, and by thread.
DnnlStep weightStep(const ConvolutionDescs &d) {
  using Backward = dnnl::convolution_backward_weights;
  const Backward::primitive_desc desc = backwardDescOf<Backward>(forwardDesc(d, false, d.anyW), kAlgorithm, d.anyX,
                                                                 d.anyW, d.anyY, d.stride, d.dilate, d.pad, d.pad);
  refuseReference(desc);
  return weightStepOf<Backward>(desc, {d.x, d.w, nullptr, d.y});
}

/// Runs its parts, one for each gradient, over the same scratch.
class ConvolutionKernel : public PreparedKernel {
 public:
  struct Part {
    unique_function<void(const KernelCall &)> run;
    size_t bytes = 0;  // of scratch
    Reorders reorders = {};
  };
  static constexpr uint8_t kOutput = 16;

  void add(Part part) { parts.push_back(std::move(part)); }

  /// `operands`: for each slot of the step, input i, or kOutput + i.
  void add(DnnlStep step, std::vector<uint8_t> operands) {
    const size_t bytes = step.bytes();
    const Reorders reorders = step.reorders();
    auto run = [step = std::move(step), operands = std::move(operands)](const KernelCall &call) mutable {
      void *data[4];
      for (size_t i = 0; i < operands.size(); ++i)
        data[i] = operands[i] < kOutput ? call.in[operands[i]].data : call.out[operands[i] - kOutput].data;
      step.run(ArrayRef(data, operands.size()), call.workspace);
    };
    add({std::move(run), bytes, reorders});
  }

  void run(const KernelCall &call) override {
    for (Part &part : parts) part.run(call);
  }

  Reorders reorders() const override {
    Reorders count;
    for (const Part &part : parts) count += part.reorders;
    return count;
  }

  size_t workspaceBytes() const override {
    size_t most = 0;
    for (const Part &part : parts) most = std::max(most, part.bytes);
    return most;
  }

 private:
  std::vector<Part> parts;
};

constexpr uint8_t kOut = ConvolutionKernel::kOutput;

/// The data gradient by products of gathered matrices, from inputs dy (0) and w (`weight`) to output 0.
ConvolutionKernel::Part dataProducts(const GemmConvolution<float> &products, Layout dyLayout, uint8_t weight) {
  auto run = [=](const KernelCall &call) {
    products.dataGrad(call.in[0].as<const float>(), dyLayout, call.in[weight].as<const float>(),
                      call.out[0].as<float>(), static_cast<float *>(call.workspace));
  };
  return {run, products.bytes()};
}

/// The same by the adjoint convolution.
std::optional<ConvolutionKernel::Part> adjointPart(const ConvolutionDescs &d, uint8_t weight) {
  auto adjoint = AdjointConvolution::create({d.x, d.anyX, d.w, d.y, d.anyY, d.dilate, d.pad});
  if (!adjoint) return std::nullopt;
  const size_t bytes = adjoint->bytes();
  const Reorders reorders = adjoint->reorders();
  auto run = [adjoint = std::move(*adjoint), weight](const KernelCall &call) mutable {
    adjoint.run(call.in[0].data, call.in[weight].data, call.out[0].data, call.workspace);
  };
  return ConvolutionKernel::Part{std::move(run), bytes, reorders};
}

void addDataGrad(ConvolutionKernel &kernel, const KernelSite &site, const ConvolutionOperands &operands,
                 uint8_t weight) {
  const ConvGeometry g = convolutionGeometry(*site.kind, operands.x, operands.y);
  const GemmConvolution<float> products(g);
  if (hasFewChannels(g) && !g.channelsLast && operands.xLayout == Layout::Plain && products.isPossible())
    return kernel.add(dataProducts(products, operands.yLayout, weight));
  const ConvolutionDescs d = describe(*site.kind, operands);
  if (d.isLast && prefersAdjoint(g))
    if (std::optional<ConvolutionKernel::Part> adjoint = adjointPart(d, weight)) return kernel.add(std::move(*adjoint));
  kernel.add(dataStep(d), {0, weight, kOut});
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

void addWeightGrad(ConvolutionKernel &, const KernelSite &, const ConvolutionOperands &, uint8_t weight);

/// The weight gradient of `atOnce` images after the other, added up in float64.
ConvolutionKernel::Part weightGradInPieces(const KernelSite &site, const ConvolutionOperands &operands, int64_t atOnce,
                                           uint8_t weight) {
  struct Pieces {
    ConvolutionKernel whole, rest;
    int64_t images, atOnce, xSize, ySize, wSize;
    size_t inner;  // bytes
    uint8_t weightOutput;

    void run(const KernelCall &call) {
      double *sums = reinterpret_cast<double *>(static_cast<char *>(call.workspace) + inner);
      float *part = reinterpret_cast<float *>(sums + wSize);
      std::fill_n(sums, wSize, 0.0);
      SmallVector<TensorRef, 4> in(call.in.begin(), call.in.end()), out(call.out.begin(), call.out.end());
      KernelCall piece = call;
      piece.in = in, piece.out = out;
      for (int64_t first = 0; first < images; first += atOnce) {
        in[0].data = call.in[0].as<float>() + first * ySize;
        in[1].data = call.in[1].as<float>() + first * xSize;
        out[weightOutput].data = part;
        (images - first < atOnce ? rest : whole).run(piece);
        for (int64_t i = 0; i < wSize; ++i) sums[i] += static_cast<double>(part[i]);
      }
      std::transform(sums, sums + wSize, call.out[weightOutput].as<float>(),
                     [](double sum) { return static_cast<float>(sum); });
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
  pieces->wSize = static_cast<int64_t>(describe(*site.kind, operands).w.get_size() / sizeof(float));
  pieces->inner = alignTo(std::max(pieces->whole.workspaceBytes(), pieces->rest.workspaceBytes()), 64);
  const size_t bytes = pieces->inner + static_cast<size_t>(pieces->wSize) * (sizeof(double) + sizeof(float));
  const Reorders reorders = pieces->whole.reorders();
  return {[pieces = std::move(pieces)](const KernelCall &call) { pieces->run(call); }, bytes, reorders};
}

/// From inputs dy (0) and x (1) to output `weight`.
void addWeightGrad(ConvolutionKernel &kernel, const KernelSite &site, const ConvolutionOperands &operands,
                   uint8_t weight) {
  const ConvGeometry g = convolutionGeometry(*site.kind, operands.x, operands.y);
  if (const int64_t atOnce = imagesAtOnce(g); atOnce < g.out.batch)
    return kernel.add(weightGradInPieces(site, operands, atOnce, weight));
  ConvolutionDescs d = describe(*site.kind, operands);
  const bool isPlain = !g.channelsLast && operands.xLayout == Layout::Plain;
  const bool isLong = g.out.pixels() > kMostPixels;  // products of matrices divide such sums
  if (isPlain && (isLong || prefersGathering(g)) && GemmConvolution<float>(g).isPossible() &&
      (isLong || !isWide(forwardDesc(d, false, d.anyW))))
    return kernel.add(gatheredWeightGrad(g, operands.yLayout, weight));
  if (d.isLast && d.x == d.anyX && d.y == d.anyY && prefersProduct(g))
    return kernel.add(weightProduct(g, operands.wLayout, weight));
  const bool hasSlowCode = d.convertsColours && !isRowCode(forwardDesc(d, false, d.anyW));
  if (hasSlowCode || (d.isLast && prefersCopies(g))) d.anyX = anyDesc(dimsOf(d.x)), d.anyY = anyDesc(dimsOf(d.y));
  kernel.add(weightStep(d), {0, 1, static_cast<uint8_t>(kOut + weight)});
}

/// From input dy (0) to output 2, by one more pass over dy: the same bits for any number of threads.
ConvolutionKernel::Part biasGrad(const KernelSite &site) {
  const ConvGeometry g = convolutionGeometry(*site.kind, site.in[1].shape, site.in[0].shape);
  const ChannelView view = channelsOf(g.out, g.channelsLast || site.in[0].layout == Layout::ChannelsLast);
  return {[=](const KernelCall &call) { sumPerChannel(view, call.in[0].as<const float>(), call.out[2].as<float>()); }};
}

/// Whether oneDNN has code for the forward convolution over weights in tiles: on processors with vectors of 16 floats,
/// where it also produces weight gradients in tiles.
bool suitsTiles(const KernelSite &site, Dims x, Dims y) {
  const ConvGeometry g = convolutionGeometry(*site.kind, x, y);
  if (g.channelsLast || !canHandle(site, x, y) || !suitsChannelsLast(g) || g.groups != 1) return false;
  constexpr Layout kLast = Layout::ChannelsLast;
  return forwardOfTiles(describe(*site.kind, {x, y, kLast, kLast, Layout::FilterTiles}), false).has_value();
}

std::unique_ptr<PreparedKernel> finished(const KernelSite &site, function_ref<void(ConvolutionKernel &)> make) {
  auto kernel = std::make_unique<ConvolutionKernel>();
  if (!guarded(site, [&] { make(*kernel); })) return nullptr;
  return kernel;
}

}  // namespace

bool convolutionSuitsTiles(const KernelSite &site) { return suitsTiles(site, site.in[0].shape, site.out[0].shape); }
bool convolutionBackwardSuitsTiles(const KernelSite &site) {
  return suitsTiles(site, site.in[1].shape, site.in[0].shape);
}
bool convolutionDataGradSuitsTiles(const KernelSite &site) {
  return suitsTiles(site, site.out[0].shape, site.in[0].shape);
}

std::unique_ptr<PreparedKernel> convolution(const KernelSite &site) {
  if (!canHandle(site, site.in[0].shape, site.out[0].shape)) return gemmConvolution(site);
  const bool hasBias = site.in.size() == 3;
  std::unique_ptr<PreparedKernel> kernel = finished(site, [&](ConvolutionKernel &kernel) {
    const ConvolutionOperands operands{site.in[0].shape, site.out[0].shape, site.in[0].layout, site.out[0].layout,
                                       site.in[1].layout};
    const ConvolutionDescs d = describe(*site.kind, operands);
    if (hasBias) kernel.add(forwardStep(d, true), {0, 1, 2, kOut});
    else kernel.add(forwardStep(d, false), {0, 1, kOut});
  });
  return kernel ? std::move(kernel) : gemmConvolution(site);
}

std::unique_ptr<PreparedKernel> convolutionBackward(const KernelSite &site) {
  if (!canHandle(site, site.in[1].shape, site.in[0].shape)) return gemmConvolutionBackward(site);
  std::unique_ptr<PreparedKernel> kernel = finished(site, [&](ConvolutionKernel &kernel) {
    // x and dx are different entries and may have different layouts, and so may w and dw.
    const ConvolutionOperands forData{site.in[1].shape, site.in[0].shape, site.out[0].layout, site.in[0].layout,
                                      site.in[2].layout};
    const ConvolutionOperands forWeight{site.in[1].shape, site.in[0].shape, site.in[1].layout, site.in[0].layout,
                                        site.out[1].layout};
    if (site.wants(0)) addDataGrad(kernel, site, forData, 2);
    if (site.wants(1)) addWeightGrad(kernel, site, forWeight, 1);
    if (site.out.size() == 3 && site.wants(2)) kernel.add(biasGrad(site));
  });
  return kernel ? std::move(kernel) : gemmConvolutionBackward(site);
}

// Inputs dy, w, (x).
std::unique_ptr<PreparedKernel> convolutionDataGrad(const KernelSite &site) {
  if (!canHandle(site, site.out[0].shape, site.in[0].shape)) return gemmConvolutionDataGrad(site);
  std::unique_ptr<PreparedKernel> kernel = finished(site, [&](ConvolutionKernel &kernel) {
    const ConvolutionOperands operands{site.out[0].shape, site.in[0].shape, site.out[0].layout, site.in[0].layout,
                                       site.in[1].layout};
    addDataGrad(kernel, site, operands, 1);
  });
  return kernel ? std::move(kernel) : gemmConvolutionDataGrad(site);
}

// Inputs dy, x, (w).
std::unique_ptr<PreparedKernel> convolutionWeightGrad(const KernelSite &site) {
  if (!canHandle(site, site.in[1].shape, site.in[0].shape)) return gemmConvolutionWeightGrad(site);
  std::unique_ptr<PreparedKernel> kernel = finished(site, [&](ConvolutionKernel &kernel) {
    const ConvolutionOperands operands{site.in[1].shape, site.in[0].shape, site.in[1].layout, site.in[0].layout,
                                       site.out[0].layout};
    addWeightGrad(kernel, site, operands, 0);
  });
  return kernel ? std::move(kernel) : gemmConvolutionWeightGrad(site);
}

}  // namespace gradc::fast
