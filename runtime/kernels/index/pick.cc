// One element of every row, and rows that mark one class each, on all threads: each has a range of rows.
// Tested by tests/runtime/kernels/row_kernels_test.cc
#include "ops/index/pick.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/core/threads.h"

#include <algorithm>

using namespace llvm;

namespace gradc::fast {
namespace {

constexpr int64_t kGrain = 1 << 14;  // fewer elements read or written are not worth a second thread

/// pick or batch_take.
class PickElements : public ThreadedKernel {
 public:
  using ThreadedKernel::ThreadedKernel;

  void run(const KernelCall &call) override {
    const TensorRef &x = call.in[0], &y = call.out[0];
    if (!call.wants(0) || y.size() == 0) return;
    const AxisIndices indices = pickedIndices(*call.kind, call.in[1], x.shape);
    const int64_t bytes = static_cast<int64_t>(dtypeBytes(y.dtype));
    parallelFor(threads, indices.count(), kGrain, [&](int64_t begin, int64_t end) {
      withCopyOf(dtypeBytes(y.dtype), [&](auto copy) {
        forPicked(indices, x.shape, begin, end,
                  [&](int64_t row, int64_t at) { copy(y.as<char>() + row * bytes, x.as<const char>() + at * bytes); });
      });
    });
  }
};

class PickBackward : public ThreadedKernel {
 public:
  using ThreadedKernel::ThreadedKernel;

  void run(const KernelCall &call) override {
    const TensorRef &dy = call.in[0], &dx = call.out[0];
    if (!call.wants(0) || dx.size() == 0) return;
    const AxisIndices indices = pickedIndices(*call.kind, call.in[1], dx.shape);
    const AxisRows rows(dx.shape, static_cast<size_t>(indices.axis));
    const int64_t bytes = static_cast<int64_t>(dtypeBytes(dx.dtype));
    parallelFor(threads, indices.count(), std::max<int64_t>(kGrain / rows.length, 1), [&](int64_t begin, int64_t end) {
      clear(dx.as<char>(), rows, bytes, begin, end);
      withCopyOf(dtypeBytes(dx.dtype), [&](auto copy) {
        forPicked(indices, dx.shape, begin, end, [&](int64_t row, int64_t at) {
          copy(dx.as<char>() + at * bytes, dy.as<const char>() + row * bytes);
        });
      });
    });
  }

 private:
  // Writes zeros into the rows [begin, end), of which those of one outer index are side by side.
  static void clear(char *dx, const AxisRows &rows, int64_t bytes, int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t width = std::min(rows.inner - begin % rows.inner, end - begin);
      for (int64_t k = 0; k < rows.length; ++k)
        std::memset(dx + (rows.begin(begin) + k * rows.inner) * bytes, 0, static_cast<size_t>(width * bytes));
      begin += width;
    }
  }
};

class OneHot : public ThreadedKernel {
 public:
  using ThreadedKernel::ThreadedKernel;

  void run(const KernelCall &call) override {
    const int64_t rows = call.in[0].size(), size = call.out[0].size();
    if (!call.wants(0) || size == 0) return;
    parallelFor(threads, rows, std::max<int64_t>(kGrain / (size / rows), 1),
                [&](int64_t begin, int64_t end) { markClasses(call, begin, end); });
  }
};

std::unique_ptr<PreparedKernel> pick(const KernelSite &site) { return std::make_unique<PickElements>(site.threads); }
std::unique_ptr<PreparedKernel> pickBackward(const KernelSite &site) {
  return std::make_unique<PickBackward>(site.threads);
}
std::unique_ptr<PreparedKernel> oneHot(const KernelSite &site) { return std::make_unique<OneHot>(site.threads); }

constexpr FastKernelRow kRows[] = {
    {"_backward_pick", pickBackward, LayoutRole::Plain},
    {"batch_take", pick, LayoutRole::Plain},
    {"one_hot", oneHot, LayoutRole::Plain},
    {"pick", pick, LayoutRole::Plain},
};

}  // namespace

constinit const FastKernels kPickKernels = kRows;

}  // namespace gradc::fast
