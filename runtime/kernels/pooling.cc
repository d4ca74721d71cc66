// Maximum and mean pooling over two spatial axes, and their gradients: in float32 by oneDNN, else by pooling_loops.h.
//
// The gradient of the maximum needs the positions of the maxima. oneDNN's forward primitive writes them, so the backward
// kernel runs it once more into scratch rather than keep them from the forward pass. Padding that the operator and
// oneDNN count differently is left to the reference kernel. Tested by tests/fast_kernels_test.cc
#include "ops/kernel_dispatch.h"
#include "ops/spatial/pooling_params.h"
#include "runtime/kernels/dnnl_descs.h"
#include "runtime/kernels/factories.h"
#include "runtime/kernels/pooling_loops.h"

#include <limits>

using namespace llvm;
using dnnl::memory;

namespace gradc::fast {
namespace {

std::optional<PoolingPlan> planOf(const PoolingParams &p, Dims x, Dims y) {
  if (p.channelsLast() || x.size() != 4) return std::nullopt;
  if (p.poolType != PoolType::Max && p.poolType != PoolType::Avg) return std::nullopt;
  PoolingPlan plan;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t kernel = p.globalPool ? x[2 + i] : p.kernel[i];
    const int64_t stride = p.globalPool ? 1 : p.stride[i], low = p.globalPool ? 0 : p.pad[i];
    const int64_t high = (y[2 + i] - 1) * stride + kernel - x[2 + i] - low;
    // Beyond the operator's own padding taps do not count toward a mean; windows in the padding alone are special.
    if (p.poolType == PoolType::Avg && high > low) return std::nullopt;
    if (low >= kernel || high >= kernel) return std::nullopt;
    // Windows that are mostly padding: the reference kernel does not visit it.
    if (low > x[2 + i] || high > x[2 + i]) return std::nullopt;
    plan.kernel[i] = kernel;
    plan.stride[i] = stride;
    plan.padLow[i] = low;
    plan.padHigh[i] = high;
  }
  if (plan.kernel[0] * plan.kernel[1] > std::numeric_limits<int32_t>::max())
    return std::nullopt;  // oneDNN counts in int
  plan.isMax = p.poolType == PoolType::Max;
  plan.countsPadding = p.countsPadding();
  return plan;
}

dnnl::algorithm algorithmOf(const PoolingPlan &plan) {
  if (plan.isMax) return dnnl::algorithm::pooling_max;
  return plan.countsPadding ? dnnl::algorithm::pooling_avg_include_padding
                            : dnnl::algorithm::pooling_avg_exclude_padding;
}

memory::dims pair(const int64_t (&values)[2]) { return {values[0], values[1]}; }

/// Both operands are computed in one layout: channels-last when one of them has it and it makes a difference.
struct PoolingDescs {
  memory::desc x, y;  // outside
  memory::desc insideX, insideY;
};

PoolingDescs describe(const TensorRef &x, const TensorRef &y, Layout xLayout, Layout yLayout) {
  const bool isOnePixel = y.shape[2] * y.shape[3] == 1;
  const Layout inside = isOnePixel ? xLayout : std::max(xLayout, yLayout);
  return {denseDesc(x.shape, xLayout), denseDesc(y.shape, isOnePixel ? inside : yLayout), denseDesc(x.shape, inside),
          denseDesc(y.shape, inside)};
}

using Forward = dnnl::pooling_forward;
using Backward = dnnl::pooling_backward;

PoolingWindow windowOf(const PoolingPlan &plan) {
  return {pair(plan.stride), pair(plan.kernel), pair(plan.padLow), pair(plan.padHigh)};
}

Forward::primitive_desc forwardDesc(const PoolingPlan &plan, const PoolingDescs &d, dnnl::prop_kind kind) {
  return poolingDescOf(kind, algorithmOf(plan), d.insideX, d.insideY, windowOf(plan));
}

class ForwardKernel : public PreparedKernel {
 public:
  ForwardKernel(const PoolingPlan &plan, const PoolingDescs &d) {
    const Forward::primitive_desc desc = forwardDesc(plan, d, dnnl::prop_kind::forward_inference);
    step.input(DNNL_ARG_SRC, d.x, d.insideX);
    step.output(DNNL_ARG_DST, d.y, d.insideY);
    step.finish(Forward(desc), desc.scratchpad_desc());
  }
  void run(const KernelCall &call) override { step.run({call.in[0].data, call.out[0].data}, call.workspace); }
  size_t workspaceBytes() const override { return step.bytes(); }
  Reorders reorders() const override { return step.reorders(); }

 private:
  DnnlStep step;
};

class BackwardKernel : public PreparedKernel {
 public:
  /// `data` is the position of x among the inputs.
  BackwardKernel(const PoolingPlan &plan, const PoolingDescs &d, size_t data) : data(data) {
    const Forward::primitive_desc again = forwardDesc(plan, d, dnnl::prop_kind::forward_training);
    const Backward::primitive_desc desc =
        poolingBackwardDescOf(again, algorithmOf(plan), d.insideX, d.insideY, windowOf(plan));
    if (plan.isMax) {
      positions.input(DNNL_ARG_SRC, d.x, d.insideX);
      positions.scratch(DNNL_ARG_DST, d.insideY);
      positions.scratch(DNNL_ARG_WORKSPACE, again.workspace_desc());
      positions.finish(Forward(again), again.scratchpad_desc());
      step.reserve(positions.bytes());
      step.scratchAt(DNNL_ARG_WORKSPACE, again.workspace_desc(), positions.offsetOf(DNNL_ARG_WORKSPACE));
    }
    step.input(DNNL_ARG_DIFF_DST, d.y, d.insideY);
    step.output(DNNL_ARG_DIFF_SRC, d.x, d.insideX);
    step.finish(Backward(desc), desc.scratchpad_desc());
  }
  void run(const KernelCall &call) override {
    if (positions.isReady()) positions.run({call.in[data].data}, call.workspace);
    step.run({call.in[0].data, call.out[0].data}, call.workspace);
  }
  size_t workspaceBytes() const override { return step.bytes(); }
  Reorders reorders() const override {
    Reorders count = positions.reorders();
    count += step.reorders();
    return count;
  }

 private:
  size_t data;
  DnnlStep positions, step;
};

}  // namespace

std::unique_ptr<PreparedKernel> pooling(const KernelSite &site) {
  const PoolingParams &p = site.kind->params<PoolingParams>();
  if (!isFloatingKernelType(site.in[0].dtype) || !site.wants(0)) return nullptr;
  if (site.out.size() == 2 && site.wants(1)) return nullptr;
  const std::optional<PoolingPlan> plan = planOf(p, site.in[0].shape, site.out[0].shape);
  if (!plan) return nullptr;
  if (site.in[0].dtype != DType::Float32) return poolingLoops(site, *plan);
  std::unique_ptr<PreparedKernel> kernel;
  const bool isMade = guarded([&] {
    kernel = std::make_unique<ForwardKernel>(*plan,
                                             describe(site.in[0], site.out[0], site.in[0].layout, site.out[0].layout));
  });
  return isMade ? std::move(kernel) : nullptr;
}

// Inputs dy, [zero,] x, y, [positions].
std::unique_ptr<PreparedKernel> poolingBackward(const KernelSite &site) {
  const PoolingParams &p = site.kind->params<PoolingParams>();
  const size_t data = site.in.size() == 5 ? 2 : 1;
  if (!isFloatingKernelType(site.in[0].dtype) || !site.wants(0)) return nullptr;
  const std::optional<PoolingPlan> plan = planOf(p, site.out[0].shape, site.in[0].shape);
  if (!plan) return nullptr;
  if (site.in[0].dtype != DType::Float32) return poolingLoopsBackward(site, *plan, data);
  // The maximum reads x, which has a layout apart from that of its gradient.
  if (p.poolType == PoolType::Max && site.in[data].layout != site.out[0].layout) return nullptr;
  std::unique_ptr<PreparedKernel> kernel;
  const bool isMade = guarded([&] {
    kernel = std::make_unique<BackwardKernel>(
        *plan, describe(site.out[0], site.in[0], site.out[0].layout, site.in[0].layout), data);
  });
  return isMade ? std::move(kernel) : nullptr;
}

}  // namespace gradc::fast
