// Optimizer steps on slices of the weight, its gradient and the states, divided among threads. The loop is that of the
// reference kernel (ops/optimizer/step.h), compiled for every instruction set, and so are the bits. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#include "ops/kit/kernel_dispatch.h"
#include "runtime/kernels/core/threads.h"
#include "runtime/kernels/elementwise/optimizer_steps.h"

#include "llvm/ADT/SmallVector.h"

using namespace llvm;

namespace gradc::fast {
namespace {

constexpr int64_t kGrain = 16384;  // fewer elements are not worth a second thread

/// Learning rates, norms and the like are operands of one element, which every slice reads whole.
class StepKernel : public PreparedKernel {
 public:
  explicit StepKernel(const KernelSite &site) : threads(site.threads) {}

  void run(const KernelCall &call) override {
    const int64_t size = call.out[0].size();
    parallelFor(threads, size, kGrain, [&](int64_t begin, int64_t end) {
      const int64_t length[] = {end - begin};
      SmallVector<TensorRef, 6> in;
      auto slice = [&](const TensorRef &whole) {
        if (whole.size() != size) return whole;
        return TensorRef{whole.as<char>() + static_cast<size_t>(begin) * dtypeBytes(whole.dtype), whole.dtype, length};
      };
      for (const TensorRef &operand : call.in) in.push_back(slice(operand));
      const TensorRef out = slice(call.out[0]);
      KernelCall part = call;
      part.in = in;
      part.out = out;
      call.kind->op->kernel(part);
    });
  }
  bool takesParts() const override { return true; }

 private:
  unsigned threads;
};

}  // namespace

std::unique_ptr<PreparedKernel> optimizerStep(const KernelSite &site) {
  const TensorRef &weight = site.out[0];
  if (!site.wants(0) || !isFloatingKernelType(weight.dtype)) return nullptr;
  for (const TensorRef &operand : site.in)
    if (operand.size() == weight.size() ? operand.layout != weight.layout : operand.size() != 1) return nullptr;
  return std::make_unique<StepKernel>(site);
}

}  // namespace gradc::fast
