// Tested by tests/runtime/kernels/adjoint_convolution_test.cc
#include "runtime/kernels/convolution/adjoint_convolution.h"

#include "runtime/kernels/dnnl/dnnl_descs.h"

#include "llvm/ADT/StringRef.h"

using dnnl::memory;

namespace gradc {
namespace {

using Forward = dnnl::convolution_forward;

Forward::primitive_desc adjointDesc(const UnitStrideConvolution &c, const memory::dims &adjoint) {
  const memory::dims window(adjoint.begin() + 2, adjoint.end());
  memory::dims pad = c.pad;
  for (size_t i = 0; i < pad.size(); ++i) pad[i] = (window[i] - 1) * (c.dilate[i] + 1) - c.pad[i];
  return forwardDescOf<Forward>(dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, c.insideY,
                                anyDesc(Dims(adjoint.data(), adjoint.size())), c.insideX,
                                memory::dims(window.size(), 1), c.dilate, pad, pad);
}

}  // namespace

std::optional<AdjointConvolution> AdjointConvolution::create(const UnitStrideConvolution &c) {
  const memory::dims shape = dimsOf(c.w);
  const Dims extents(shape.data(), shape.size());
  const std::optional<WeightReorder> filters = WeightReorder::create(extents);
  const bool isPlain = c.w == denseDesc(extents, Layout::Plain);
  if (!filters || (!isPlain && c.w != denseDesc(extents, Layout::FilterTiles))) return std::nullopt;
  for (size_t i = 0; i < c.pad.size(); ++i)
    if ((shape[2 + i] - 1) * (c.dilate[i] + 1) < c.pad[i]) return std::nullopt;
  const memory::dims adjoint = {shape[1], shape[0], shape[2], shape[3]};
  const Forward::primitive_desc desc = adjointDesc(c, adjoint);
  // Other code, for example that without AVX-512, has other formats and is not faster.
  if (!llvm::StringRef(desc.impl_info_str()).starts_with("brg")) return std::nullopt;
  constexpr std::pair<int64_t, memory::format_tag> kFormats[] = {{16, memory::format_tag::Acdb16a},
                                                                 {32, memory::format_tag::Acdb32a},
                                                                 {48, memory::format_tag::Acdb48a},
                                                                 {64, memory::format_tag::Acdb64a}};
  AdjointConvolution made(*filters);
  for (const auto &[block, tag] : kFormats)
    if (desc.weights_desc() == memory::desc(adjoint, memory::data_type::f32, tag)) made.block = block;
  if (made.block == 0) return std::nullopt;
  made.isPlain = isPlain;
  made.weightBytes = c.w.get_size();
  if (isPlain) made.step.reserve(c.w.get_size());  // for the tiles
  made.step.input(DNNL_ARG_SRC, c.y, desc.src_desc());
  made.step.scratch(DNNL_ARG_WEIGHTS, desc.weights_desc());
  made.step.output(DNNL_ARG_DST, c.x, desc.dst_desc());
  made.step.finish(Forward(desc), desc.scratchpad_desc());
  return made;
}

Reorders AdjointConvolution::reorders() const {
  Reorders count = step.reorders();
  ++count.numWeights;
  count.bytes += weightBytes;
  return count;
}

void AdjointConvolution::run(void *dy, void *w, void *dx, void *workspace) {
  char *scratch = static_cast<char *>(workspace);
  const float *tiles = static_cast<const float *>(w);
  if (isPlain) {
    filters.toTiles(tiles, static_cast<float *>(workspace));
    tiles = static_cast<const float *>(workspace);
  }
  filters.toAdjoint(tiles, block, reinterpret_cast<float *>(scratch + step.offsetOf(DNNL_ARG_WEIGHTS)));
  step.run({dy, dx}, workspace);
}

}  // namespace gradc
