// Convolution over two spatial axes by oneDNN: y, dx and dw, a primitive for each; db by column_sums.h.
//
// Row-major weights are converted in every run, because training changes them at every step. The weight gradient
// produces weights in tiles; where converting them would be expensive, the forward primitive is made to read tiles. The
// data gradient has no code for that layout. Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ops/spatial/convolution.h"
#include "ops/spatial/convolution_kernel.h"
#include "runtime/kernels/convolution/adjoint_convolution.h"
#include "runtime/kernels/convolution/convolution_weight_grad.h"
#include "runtime/kernels/convolution/gemm_convolution.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/matrix/column_sums.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using dnnl::memory;

namespace gradc::fast {
namespace {

using Forward = dnnl::convolution_forward;

/// One or two spatial axes. Operands with channels last by attribute must not be in another layout.
bool canHandle(const KernelSite &site, Dims x, Dims y) {
  if (site.in[0].dtype != DType::Float32) return false;
  const ConvGeometry g = convolutionGeometry(*site.kind, x, y);
  auto isMoved = [](const TensorRef &tensor) { return tensor.layout != Layout::Plain; };
  if (g.channelsLast && (any_of(site.in, isMoved) || any_of(site.out, isMoved))) return false;
  return x.size() <= 4 && hasModestWindows(g);
}

/// Whether the code is generated for convolutions. Implementations that delegate to inner products (`ip:`) may find
/// only reference code for tiles there.
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

DnnlStep forwardStep(const ConvolutionDescs &d, bool hasBias) {
  std::optional<Forward::primitive_desc> desc;
  if (d.readsTiles) desc = forwardOfTiles(d, hasBias);
  if (!desc) desc = forwardDesc(d, hasBias, d.anyW);
  refuseReference(*desc);
  return forwardStepOf<Forward>(*desc, {d.x, d.w, hasBias ? &d.b : nullptr, d.y});
}

DnnlStep dataStep(const ConvolutionDescs &d) {
  using Backward = dnnl::convolution_backward_data;
  const Backward::primitive_desc desc = backwardDescOf<Backward>(
      forwardDesc(d, false, d.anyW), kConvolution, d.anyX, d.anyW, d.anyY, d.stride, d.dilate, d.padLow, d.padHigh);
  refuseReference(desc);
  return dataStepOf<Backward>(desc, {d.x, d.w, nullptr, d.y});
}

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
  auto adjoint = AdjointConvolution::create({d.x, d.anyX, d.w, d.y, d.anyY, d.dilate, d.padLow});
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

constexpr FastKernelRow kRows[] = {
    {"Convolution", convolution, LayoutRole::Independent, {.in = 1, .suitTiles = convolutionSuitsTiles}},
    {"_backward_Convolution",
     convolutionBackward,
     LayoutRole::Independent,
     {.in = 2, .out = 1, .suitTiles = convolutionBackwardSuitsTiles}},
    {"_convolution_data_grad",
     convolutionDataGrad,
     LayoutRole::Independent,
     {.in = 1, .suitTiles = convolutionDataGradSuitsTiles}},
    {"_convolution_weight_grad",
     convolutionWeightGrad,
     LayoutRole::Independent,
     {.out = 0, .suitTiles = convolutionBackwardSuitsTiles}},
};

}  // namespace

constinit const FastKernels kConvolutionKernels = kRows;

}  // namespace gradc::fast
