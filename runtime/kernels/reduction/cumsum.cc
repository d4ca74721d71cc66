// Running sums along an axis, and their gradient, which runs from the end. Rows are divided among threads, adjacent
// ones are computed side by side; elements are added in order, as in the reference kernel. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#include "ops/kit/axis_rows.h"
#include "ops/reduction/cumsum.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/reduction/softmax_rows.h"

using namespace llvm;

namespace gradc::fast {
namespace {

template <class T, bool isReversed> class CumsumKernel : public ThreadedKernel {
 public:
  CumsumKernel(const AxisRows &rows, unsigned threads) : ThreadedKernel(threads), rows(rows) {}

  void run(const KernelCall &call) override {
    const T *x = call.in[0].as<const T>();
    T *y = call.out[0].as<T>();
    forRowBlocks(rows, threads, [=, this](RowBlock block) {
      if (rows.inner == 1) return alongRow(x + block.first, y + block.first);
      double sums[kRowBlock] = {};
      for (int64_t k = 0; k < rows.length; ++k) {
        const int64_t at = block.first + index(k) * rows.inner;
        GRADC_INDEPENDENT
        for (int64_t r = 0; r < block.width; ++r) {
          sums[r] += static_cast<double>(x[at + r]);
          y[at + r] = static_cast<T>(sums[r]);
        }
      }
    });
  }

 private:
  int64_t index(int64_t k) const { return isReversed ? rows.length - 1 - k : k; }
  void alongRow(const T *x, T *y) const {
    double sum = 0;
    for (int64_t k = 0; k < rows.length; ++k) {
      sum += static_cast<double>(x[index(k)]);
      y[index(k)] = static_cast<T>(sum);
    }
  }

  AxisRows rows;
};
template <class T> using FromFirst = CumsumKernel<T, false>;
template <class T> using FromLast = CumsumKernel<T, true>;

template <template <class> class Kernel> std::unique_ptr<PreparedKernel> make(const KernelSite &site) {
  const DType type = site.out[0].dtype;
  if (site.in[0].dtype != type) return nullptr;
  const AxisRows rows = cumsumRows(*site.kind, site.out[0].shape);
  return floatingKernel<Kernel>(type, rows, site.threads);
}

constexpr FastKernelRow kRows[] = {
    {"_backward_np_cumsum", make<FromLast>, LayoutRole::Plain},
    {"_np_cumsum", make<FromFirst>, LayoutRole::Plain},
};

}  // namespace

constinit const FastKernels kCumsumKernels = kRows;

}  // namespace gradc::fast
