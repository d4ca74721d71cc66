// Element-wise operators on operands of one shape, by their reference kernels: slices of the operands, seen as vectors,
// are divided among threads. Layouts do not matter as long as all operands have the same one.
//
// Loops over elements in ops/ are compiled for every instruction set (ops/kit/loops.h). Where all of a loop is
// arithmetic, the compiler vectorises it, and there is nothing that another kernel would do faster; not where it calls
// the C library. Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ops/kit/kernel_dispatch.h"
#include "runtime/kernels/core/sliced.h"
#include "runtime/kernels/core/threads.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc::fast {
namespace {

constexpr int64_t kGrain = 8192;  // fewer elements are not worth a second thread

class SlicedKernel : public PartwiseKernel {
 public:
  SlicedKernel(const KernelSite &site, int64_t grain, bool isVectorised)
      : PartwiseKernel(site), grain(grain), isVectorised(isVectorised) {}

  void run(const KernelCall &call) override {
    parallelFor(threads, call.out[0].size(), grain, [&](int64_t begin, int64_t end) { runSlice(call, begin, end); });
  }
  bool isFast() const override { return isVectorised; }

 private:
  static void runSlice(const KernelCall &call, int64_t begin, int64_t end) {
    const int64_t size = call.out[0].size(), length[] = {end - begin};
    SmallVector<TensorRef, 6> in, out;
    auto slice = [&](const TensorRef &whole) {
      if (!whole.data || whole.size() != size) return whole;
      return TensorRef{whole.as<char>() + static_cast<size_t>(begin) * dtypeBytes(whole.dtype), whole.dtype, length};
    };
    for (const TensorRef &operand : call.in) in.push_back(slice(operand));
    for (const TensorRef &operand : call.out) out.push_back(slice(operand));
    KernelCall part = call;
    part.in = in;
    part.out = out;
    call.kind->op->kernel(part);
  }

  const int64_t grain;
  const bool isVectorised;
};

std::unique_ptr<PreparedKernel> make(const KernelSite &site, bool isVectorised) {
  const int64_t size = site.out[0].size();
  const Layout layout = site.in[0].layout;
  for (size_t i = 0; i < site.in.size(); ++i)
    if (!site.kind->isIgnored(i) && (site.in[i].size() != size || site.in[i].layout != layout)) return nullptr;
  for (size_t o = 0; o < site.out.size(); ++o) {
    if (site.out[o].size() != size || !isFloatingKernelType(site.out[o].dtype)) return nullptr;
    if (site.wants(o) && site.out[o].layout != layout) return nullptr;
  }
  return std::make_unique<SlicedKernel>(site, kGrain, isVectorised);
}

}  // namespace

std::unique_ptr<PreparedKernel> referenceSlices(const KernelSite &site, int64_t grain) {
  return std::make_unique<SlicedKernel>(site, grain, true);
}

std::unique_ptr<PreparedKernel> sliced(const KernelSite &site) { return make(site, false); }
std::unique_ptr<PreparedKernel> referenceLoop(const KernelSite &site) { return make(site, true); }

std::unique_ptr<PreparedKernel> optimizerStep(const KernelSite &site) {
  const TensorRef &weight = site.out[0];
  if (!site.wants(0) || !isFloatingKernelType(weight.dtype)) return nullptr;
  for (const TensorRef &operand : site.in)
    if (operand.size() == weight.size() ? operand.layout != weight.layout : operand.size() != 1) return nullptr;
  return referenceSlices(site, kGrain * 2);
}

}  // namespace gradc::fast
