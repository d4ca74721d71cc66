// Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "runtime/kernels/convolution/convolution_parts.h"

#include "ops/spatial/convolution.h"
#include "ops/spatial/convolution_kernel.h"

using namespace llvm;
using dnnl::memory;

namespace gradc::fast {
namespace {

/// Drops the first axis of filters (groups, filters, channels, …) if there is only one group.
Dims withoutOneGroup(Dims w) { return w[0] == 1 ? w.drop_front() : w; }

/// Filters of nodes whose attribute `layout` puts channels last; the filters have them last too.
memory::desc channelsLastFilters(Dims w) {
  const Dims shape = withoutOneGroup(w);
  return memory::desc(memory::dims(shape.begin(), shape.end()), memory::data_type::f32,
                      shape.size() == 4 ? memory::format_tag::acdb : memory::format_tag::abdec);
}

}  // namespace

memory::desc insideDesc(Dims shape, bool isLast) {
  return isLast ? denseDesc(shape, Layout::ChannelsLast) : anyDesc(shape);
}

ConvolutionDescs describe(const NodeKind &kind, const ConvolutionOperands &operands) {
  const ConvGeometry g = convolutionGeometry(kind, operands.x, operands.y);
  ConvolutionDescs d;
  const int64_t x[] = {g.in.batch, g.in.channels, g.in.extent[1], g.in.extent[2]};
  const int64_t y[] = {g.out.batch, g.out.channels, g.out.extent[1], g.out.extent[2]};
  const int64_t w[] = {g.groups, g.groupFilters(), g.groupChannels(), g.kernel[1], g.kernel[2]};
  const Layout xLayout = g.channelsLast ? Layout::ChannelsLast : operands.xLayout;
  const Layout yLayout = g.channelsLast ? Layout::ChannelsLast : operands.yLayout;
  d.isXLast = xLayout == Layout::ChannelsLast;
  d.isYLast = yLayout == Layout::ChannelsLast;
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
  d.padLow = d.padHigh = {g.pad[1], g.pad[2]};
  return d;
}

dnnl::convolution_forward::primitive_desc forwardDesc(const ConvolutionDescs &d, bool hasBias, const memory::desc &w) {
  using Forward = dnnl::convolution_forward;
  constexpr dnnl::prop_kind kKind = dnnl::prop_kind::forward_training;
  if (hasBias)
    return forwardDescOf<Forward>(kKind, kConvolution, d.anyX, w, d.b, d.anyY, d.stride, d.dilate, d.padLow, d.padHigh);
  return forwardDescOf<Forward>(kKind, kConvolution, d.anyX, w, d.anyY, d.stride, d.dilate, d.padLow, d.padHigh);
}

void ConvolutionKernel::add(DnnlStep step, std::vector<uint8_t> operands) {
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

void ConvolutionKernel::run(const KernelCall &call) {
  for (Part &part : parts) part.run(call);
}

Reorders ConvolutionKernel::reorders() const {
  Reorders count;
  for (const Part &part : parts) count += part.reorders;
  return count;
}

size_t ConvolutionKernel::workspaceBytes() const {
  size_t most = 0;
  for (const Part &part : parts) most = std::max(most, part.bytes);
  return most;
}

}  // namespace gradc::fast
