// im2col, col2im and their gradients: rows of columns, or planes of images, divided among threads.
// Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ops/spatial/im2col.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/core/threads.h"

using namespace llvm;

namespace gradc::fast {
namespace {

constexpr int64_t kGrain = 32768;  // fewer elements are not worth a second thread

template <class T> class ToColumns : public ThreadedKernel {
 public:
  explicit ToColumns(const KernelSite &site)
      : ThreadedKernel(site.threads), windows(columnWindows(*site.kind, site.in[0].shape)) {}

  void run(const KernelCall &call) override {
    const int64_t grain = std::max<int64_t>(kGrain / windows.positions, 1);
    parallelFor(threads, windows.planes * windows.window, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) windows.copyRow(row, call.in[0].as<const T>(), call.out[0].as<T>());
    });
  }

 private:
  ColumnWindows windows;
};

template <class T> class ToImage : public PreparedKernel {
 public:
  explicit ToImage(const KernelSite &site)
      : windows(columnWindows(*site.kind, site.out[0].shape)), parts(std::min<int64_t>(site.threads, windows.planes)) {}

  void run(const KernelCall &call) override {
    auto *sums = static_cast<double *>(call.workspace);
    const bool isSmall = windows.planes * windows.window * windows.positions <= kGrain;
    parallelFor(static_cast<unsigned>(parts), parts, isSmall ? parts : 1, [&](int64_t first, int64_t last) {
      for (int64_t part = first; part < last; ++part)
        for (int64_t plane = part * windows.planes / parts; plane < (part + 1) * windows.planes / parts; ++plane)
          windows.sumPlane(plane, call.in[0].as<const T>(), sums + part * windows.pixels(), call.out[0].as<T>());
    });
  }
  size_t workspaceBytes() const override { return static_cast<size_t>(parts * windows.pixels()) * sizeof(double); }

 private:
  ColumnWindows windows;
  int64_t parts;
};

template <template <class> class Kernel> std::unique_ptr<PreparedKernel> make(const KernelSite &site) {
  if (site.in[0].size() == 0) return nullptr;
  return floatingKernel<Kernel>(site.out[0].dtype, site);
}

std::unique_ptr<PreparedKernel> toColumns(const KernelSite &site) { return make<ToColumns>(site); }
std::unique_ptr<PreparedKernel> toImage(const KernelSite &site) { return make<ToImage>(site); }

constexpr FastKernelRow kRows[] = {
    {"_backward_col2im", toColumns, LayoutRole::Plain},
    {"_backward_im2col", toImage, LayoutRole::Plain},
    {"col2im", toImage, LayoutRole::Plain},
    {"im2col", toColumns, LayoutRole::Plain},
};

}  // namespace

constinit const FastKernels kIm2colKernels = kRows;

}  // namespace gradc::fast
