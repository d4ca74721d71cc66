// Batch normalisation by oneDNN, in training and inference form, and its gradient.
//
// oneDNN works with the variance, the operator's hidden output is r = (var + eps)^(-1/2): one is computed from the other
// per channel. Moving statistics are moved here. Tested by tests/fast_kernels_test.cc
#include "ops/layer_attrs.h"
#include "runtime/kernels/dnnl_step.h"
#include "runtime/kernels/factories.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <cstring>

using namespace llvm;
using dnnl::memory;

namespace gradc::fast {
namespace {

using Flags = dnnl::normalization_flags;

/// The data as (outer, channels, inner), or as it is when that is an image.
struct NormShape {
  memory::desc data, channel;
  int64_t channels;
};

std::optional<NormShape> shapeOf(Dims shape, int64_t axis, Layout layout) {
  const size_t at = static_cast<size_t>(*normalizeAxis(axis, shape.size()));
  NormShape found;
  found.channels = shape[at];
  found.channel = denseDesc(shape[at], Layout::Plain);
  if (layout == Layout::ChannelsLast) {
    if (at != 1) return std::nullopt;
    found.data = denseDesc(shape, layout);
    return found;
  }
  int64_t dims[] = {1, shape[at], 1, 1};
  for (size_t i = 0; i < shape.size(); ++i)
    if (i != at) dims[i < at ? 0 : 2] *= shape[i];
  found.data = denseDesc(dims, layout);
  return found;
}

/// Per-channel scratch in front of the primitive's own.
size_t channelBytes(int64_t channels) { return alignTo(static_cast<size_t>(channels) * sizeof(float), 64); }

class ForwardKernel : public PreparedKernel {
 public:
  ForwardKernel(const KernelSite &site, const BatchNormAttrs &attrs, const NormShape &shape)
      : attrs(attrs), channels(shape.channels), usesBatch(site.isTraining && !attrs.useGlobalStats) {
    using Forward = dnnl::batch_normalization_forward;
    Flags flags = Flags::use_shift;
    if (!attrs.fixGamma) flags = flags | Flags::use_scale;
    if (!usesBatch) flags = flags | Flags::use_global_stats;
    const dnnl::prop_kind kind =
        usesBatch ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    const Forward::desc how(kind, shape.data, static_cast<float>(attrs.eps), flags);
    const Forward::primitive_desc desc(how, userScratchpad(), dnnlEngine());
    step.reserve(2 * channelBytes(channels));
    step.input(DNNL_ARG_SRC, shape.data, shape.data);
    step.input(DNNL_ARG_MEAN, shape.channel, shape.channel);
    step.input(DNNL_ARG_VARIANCE, shape.channel, shape.channel);
    step.input(DNNL_ARG_SHIFT, shape.channel, shape.channel);
    step.output(DNNL_ARG_DST, shape.data, shape.data);
    if (!attrs.fixGamma) step.input(DNNL_ARG_SCALE, shape.channel, shape.channel);
    step.finish(Forward(desc), desc.scratchpad_desc());
  }

  void run(const KernelCall &call) override {
    float *movingMean = call.in[3].as<float>(), *movingVar = call.in[4].as<float>();
    float *mean = movingMean, *variance = movingVar;
    if (usesBatch) {
      variance = static_cast<float *>(call.workspace);
      mean = call.wants(1) ? call.out[1].as<float>() : variance + channelBytes(channels) / sizeof(float);
    }
    void *data[] = {call.in[0].data, mean, variance, call.in[2].data, call.out[0].data, call.in[1].data};
    step.run(ArrayRef(data, attrs.fixGamma ? 5 : 6), call.workspace);
    if (usesBatch) {
      move(movingMean, mean);
      move(movingVar, variance);
    } else if (call.wants(1)) {
      std::memcpy(call.out[1].data, mean, call.out[1].bytes());
    }
    if (!call.wants(2)) return;
    float *deviation = call.out[2].as<float>();
    for (int64_t c = 0; c < channels; ++c)
      deviation[c] = static_cast<float>(1 / std::sqrt(static_cast<double>(variance[c]) + attrs.eps));
  }

  size_t workspaceBytes() const override { return step.bytes(); }

 private:
  void move(float *moving, const float *batch) const {
    for (int64_t c = 0; c < channels; ++c)
      moving[c] = static_cast<float>(static_cast<double>(moving[c]) * attrs.momentum +
                                     static_cast<double>(batch[c]) * (1 - attrs.momentum));
  }

  BatchNormAttrs attrs;
  int64_t channels;
  bool usesBatch;
  DnnlStep step;
};

// Inputs dy, mean, r, x, gamma, …; outputs dx, dgamma, dbeta.
class BackwardKernel : public PreparedKernel {
 public:
  BackwardKernel(const KernelSite &site, const BatchNormAttrs &attrs, const NormShape &shape)
      : attrs(attrs), channels(shape.channels) {
    using Backward = dnnl::batch_normalization_backward;
    Flags flags = Flags::use_shift;
    if (!attrs.fixGamma) flags = flags | Flags::use_scale;
    if (!site.isTraining || attrs.useGlobalStats) flags = flags | Flags::use_global_stats;
    const float eps = static_cast<float>(attrs.eps);
    const dnnl::batch_normalization_forward::desc forward(dnnl::prop_kind::forward_training, shape.data, eps, flags);
    const dnnl::batch_normalization_forward::primitive_desc hint(forward, userScratchpad(), dnnlEngine());
    const Backward::desc how(dnnl::prop_kind::backward, shape.data, shape.data, eps, flags);
    const Backward::primitive_desc desc(how, userScratchpad(), dnnlEngine(), hint);
    step.reserve(3 * channelBytes(channels));
    step.input(DNNL_ARG_SRC, shape.data, shape.data);
    step.input(DNNL_ARG_DIFF_DST, shape.data, shape.data);
    step.input(DNNL_ARG_MEAN, shape.channel, shape.channel);
    step.input(DNNL_ARG_VARIANCE, shape.channel, shape.channel);
    step.output(DNNL_ARG_DIFF_SRC, shape.data, shape.data);
    step.output(DNNL_ARG_DIFF_SHIFT, shape.channel, shape.channel);
    step.input(DNNL_ARG_SHIFT, shape.channel, shape.channel);
    if (!attrs.fixGamma) step.input(DNNL_ARG_SCALE, shape.channel, shape.channel);
    if (!attrs.fixGamma) step.output(DNNL_ARG_DIFF_SCALE, shape.channel, shape.channel);
    step.finish(Backward(desc), desc.scratchpad_desc());
  }

  void run(const KernelCall &call) override {
    const size_t stride = channelBytes(channels) / sizeof(float);
    float *variance = static_cast<float *>(call.workspace);
    const float *deviation = call.in[2].as<const float>();
    for (int64_t c = 0; c < channels; ++c) {
      const double r = static_cast<double>(deviation[c]);
      variance[c] = static_cast<float>(1 / (r * r) - attrs.eps);
    }
    void *scale = call.wants(1) ? call.out[1].data : variance + stride;
    void *shift = call.wants(2) ? call.out[2].data : variance + 2 * stride;
    // oneDNN insists on beta, which nothing depends on: any memory of its size will do.
    void *beta = call.in[1].data;
    void *data[] = {call.in[3].data, call.in[0].data, call.in[1].data, variance,         call.out[0].data,
                    shift,           beta,            call.in[4].data, scale};
    step.run(ArrayRef(data, attrs.fixGamma ? 7 : 9), call.workspace);
    if (attrs.fixGamma && call.wants(1)) std::memset(call.out[1].data, 0, call.out[1].bytes());
  }

  size_t workspaceBytes() const override { return step.bytes(); }

 private:
  BatchNormAttrs attrs;
  int64_t channels;
  DnnlStep step;
};

template <class Kernel> std::unique_ptr<PreparedKernel> make(const KernelSite &site, size_t data) {
  if (site.in[data].dtype != DType::Float32 || !site.wants(0)) return nullptr;
  const BatchNormAttrs attrs = batchNormAttrs(*site.kind);
  const std::optional<NormShape> shape = shapeOf(site.in[data].shape, attrs.axis, site.inLayout[data]);
  if (!shape) return nullptr;
  std::unique_ptr<PreparedKernel> kernel;
  if (!guarded([&] { kernel = std::make_unique<Kernel>(site, attrs, *shape); })) return nullptr;
  return kernel;
}

}  // namespace

std::unique_ptr<PreparedKernel> batchNorm(const KernelSite &site) { return make<ForwardKernel>(site, 0); }
std::unique_ptr<PreparedKernel> batchNormBackward(const KernelSite &site) { return make<BackwardKernel>(site, 3); }

}  // namespace gradc::fast
