// Dropout with one draw per element, and its gradient, a product with the mask. As in the reference kernel, the draw of
// an element depends only on its index. Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ir/tensor/random_stream.h"
#include "ops/random/dropout.h"
#include "runtime/kernels/core/channel_loops.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/elementwise/elementwise.h"

using namespace llvm;

namespace gradc::fast {
namespace {

constexpr int64_t kBlock = 512;   // elements of the mask in an array
constexpr int64_t kGrain = 2048;  // fewer elements are not worth a second thread

template <class T> class DropoutKernel : public ThreadedKernel {
 public:
  DropoutKernel(const DropoutAttrs &attrs, unsigned threads) : ThreadedKernel(threads), attrs(attrs) {}

  void run(const KernelCall &call) override {
    parallelFor(threads, call.in[0].size(), kGrain, [&](int64_t begin, int64_t end) {
      for (; begin < end; begin += kBlock) runBlock(call, begin, std::min(kBlock, end - begin));
    });
  }

 private:
  void runBlock(const KernelCall &call, int64_t begin, int64_t size) const {
    T mask[kBlock];
    draw(call, begin, size, mask);
    const T *x = call.in[0].as<const T>() + begin;
    if (call.wants(0)) {
      T *y = call.out[0].as<T>() + begin;
      GRADC_INDEPENDENT
      for (int64_t i = 0; i < size; ++i) y[i] = x[i] * mask[i];
    }
    if (call.wants(1)) std::copy(mask, mask + size, call.out[1].as<T>() + begin);
  }

  void draw(const KernelCall &call, int64_t begin, int64_t size, T *mask) const {
    const bool isDropping = attrs.keep < 1 && (call.isTraining || attrs.alwaysDrops);
    if (!isDropping) return std::fill(mask, mask + size, T{1});
    const RandomStream random(call.random);
    const double keep = attrs.keep;
    const T factor = static_cast<T>(1 / keep);
    for (int64_t i = 0; i < size; ++i)
      mask[i] = random.uniform(static_cast<uint64_t>(begin + i)) < keep ? factor : T{0};
  }

  DropoutAttrs attrs;
};

std::unique_ptr<PreparedKernel> dropout(const KernelSite &site) {
  if (site.out[1].size() != site.in[0].size()) return nullptr;
  return floatingKernel<DropoutKernel>(site.out[0].dtype, dropoutAttrs(*site.kind), site.threads);
}

// Inputs dy, mask.
std::unique_ptr<PreparedKernel> dropoutBackward(const KernelSite &site) {
  return site.in[1].size() == site.out[0].size() ? multiply(site) : nullptr;
}

constexpr FastKernelRow kRows[] = {
    {"Dropout", dropout, LayoutRole::Plain},
    {"_backward_Dropout", dropoutBackward, LayoutRole::Same},
};

}  // namespace

constinit const FastKernels kDropoutKernels = kRows;

}  // namespace gradc::fast
