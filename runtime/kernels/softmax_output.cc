// SoftmaxOutput and its gradient where classes are contiguous: oneDNN's softmax, then w · (p − target) in one pass.
// Tested by tests/fast_kernels_test.cc
#include "ops/softmax_loss.h"
#include "runtime/kernels/dnnl_step.h"
#include "runtime/kernels/factories.h"

using namespace llvm;

namespace gradc::fast {
namespace {

class SoftmaxKernel : public PreparedKernel {
 public:
  SoftmaxKernel(const SoftmaxRows &rows, bool isGradient) : isGradient(isGradient) {
    using Forward = dnnl::softmax_forward;
    const dnnl::memory::desc shape = denseDesc({rows.outer, rows.classes}, Layout::Plain);
    const Forward::desc how(dnnl::prop_kind::forward_inference, shape, 1);
    const Forward::primitive_desc desc(how, userScratchpad(), dnnlEngine());
    step.input(DNNL_ARG_SRC, shape, shape);
    step.output(DNNL_ARG_DST, shape, shape);
    step.finish(Forward(desc), desc.scratchpad_desc());
  }

  void run(const KernelCall &call) override {
    step.run({call.in[0].data, call.out[0].data}, call.workspace);
    if (isGradient) toGradient(call);
  }
  size_t workspaceBytes() const override { return step.bytes(); }

 private:
  static void toGradient(const KernelCall &call) {
    const SoftmaxLabels labels(call.params<SoftmaxOutputParams>(), call.out[0].shape, call.in[1]);
    float *dx = call.out[0].as<float>();
    for (int64_t row = 0; row < labels.rows.count(); ++row, dx += labels.rows.classes) {
      const float weight = static_cast<float>(labels.weight(row));
      for (int64_t k = 0; k < labels.rows.classes; ++k)
        dx[k] = (dx[k] - static_cast<float>(labels.target(row, k))) * weight;
    }
  }

  bool isGradient;
  DnnlStep step;
};

std::unique_ptr<PreparedKernel> make(const KernelSite &site, bool isGradient) {
  if (site.out[0].dtype != DType::Float32 || !site.wants(0)) return nullptr;
  const SoftmaxRows rows(site.kind->params<SoftmaxOutputParams>(), site.out[0].shape);
  if (rows.inner != 1) return nullptr;
  std::unique_ptr<PreparedKernel> kernel;
  if (!guarded([&] { kernel = std::make_unique<SoftmaxKernel>(rows, isGradient); })) return nullptr;
  return kernel;
}

}  // namespace

std::unique_ptr<PreparedKernel> softmaxOutput(const KernelSite &site) { return make(site, false); }
/// Inputs x, label[, dy]; under out_grad the head gradient multiplies, which the reference kernel does.
std::unique_ptr<PreparedKernel> softmaxOutputGrad(const KernelSite &site) {
  return site.in.size() == 2 ? make(site, true) : nullptr;
}

}  // namespace gradc::fast
