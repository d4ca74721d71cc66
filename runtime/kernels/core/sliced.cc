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

class SlicedKernel : public PreparedKernel {
 public:
  SlicedKernel(unsigned threads, bool isVectorised) : threads(threads), isVectorised(isVectorised) {}

  void run(const KernelCall &call) override {
    parallelFor(threads, call.out[0].size(), kGrain, [&](int64_t begin, int64_t end) { runSlice(call, begin, end); });
  }
  bool isFast() const override { return isVectorised; }
  bool takesParts() const override { return true; }

 private:
  static void runSlice(const KernelCall &call, int64_t begin, int64_t end) {
    const int64_t length[] = {end - begin};
    SmallVector<TensorRef, 4> in, out;
    auto slice = [&](const TensorRef &whole) {
      char *data = whole.as<char>();
      return TensorRef{data ? data + static_cast<size_t>(begin) * dtypeBytes(whole.dtype) : nullptr, whole.dtype,
                       length};
    };
    for (const TensorRef &operand : call.in) in.push_back(slice(operand));
    for (const TensorRef &operand : call.out) out.push_back(slice(operand));
    KernelCall part = call;
    part.in = in;
    part.out = out;
    call.kind->op->kernel(part);
  }

  unsigned threads;
  bool isVectorised;
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
  return std::make_unique<SlicedKernel>(site.threads, isVectorised);
}

}  // namespace

std::unique_ptr<PreparedKernel> sliced(const KernelSite &site) { return make(site, false); }
std::unique_ptr<PreparedKernel> referenceLoop(const KernelSite &site) { return make(site, true); }

}  // namespace gradc::fast
