// softmax_cross_entropy and its gradient. Rows are divided among threads; their losses are added up in order.
// Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ops/loss/softmax_parts.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/reduction/softmax_rows.h"

#include <cmath>
#include <cstring>

using namespace llvm;

namespace gradc::fast {
namespace {

/// Logits (rows, classes) and a label for each row.
template <class T> struct LabelledRows {
  AxisRows rows;
  const T *x, *labels;

  LabelledRows(const TensorRef &logits, const TensorRef &label)
      : rows(logits.shape, 1), x(logits.as<const T>()), labels(label.as<const T>()) {}

  /// Calls visit(row, class) for each row, -1 if its label is out of range.
  template <class F> void forEach(unsigned threads, F visit) const {
    forRowBlocks(rows, threads, [=, this](RowBlock block) {
      const int64_t row = block.first / rows.length, label = classOf(static_cast<double>(labels[row]));
      visit(row, label >= 0 && label < rows.length ? label : -1);
    });
  }
};

template <class T> class LossKernel : public ThreadedKernel {
 public:
  explicit LossKernel(const KernelSite &site) : ThreadedKernel(site.threads), numRows(site.in[0].shape[0]) {}

  void run(const KernelCall &call) override {
    const LabelledRows<T> all(call.in[0], call.in[1]);
    double *losses = static_cast<double *>(call.workspace), loss = 0;
    all.forEach(threads, [=](int64_t row, int64_t label) { losses[row] = label < 0 ? 0 : lossOf(all, row, label); });
    for (int64_t row = 0; row < numRows; ++row) loss += losses[row];
    call.out[0].as<T>()[0] = static_cast<T>(loss);
  }
  size_t workspaceBytes() const override { return static_cast<size_t>(numRows) * sizeof(double); }

 private:
  static double lossOf(const LabelledRows<T> &all, int64_t row, int64_t label) {
    const RowBlock block{row * all.rows.length, 1};
    T largest;
    double total;
    largestOfRows(all.rows, block, all.x, T{1}, &largest);
    sumRows<T>(
        all.rows, block, [x = all.x, largest](int64_t i) { return math::expOfNonPositive(x[i] - largest); }, &total);
    const double logarithm =
        static_cast<double>(all.x[block.first + label]) - static_cast<double>(largest) - std::log(total);
    return -std::max(logarithm, std::log(kLeastProbability));
  }

  int64_t numRows;
};

// Inputs dy, data, label; outputs ddata, dlabel.
template <class T> class LossBackward : public ThreadedKernel {
 public:
  explicit LossBackward(const KernelSite &site) : ThreadedKernel(site.threads) {}

  void run(const KernelCall &call) override {
    if (call.wants(1)) std::memset(call.out[1].data, 0, call.out[1].bytes());
    if (!call.wants(0)) return;
    const LabelledRows<T> all(call.in[1], call.in[2]);
    const T dy = call.in[0].as<const T>()[0];
    T *dx = call.out[0].as<T>();
    all.forEach(threads, [=](int64_t row, int64_t label) {
      const RowBlock block{row * all.rows.length, 1};
      T *const to = dx + block.first;
      if (label < 0) return std::fill_n(to, all.rows.length, T{0}), void();
      RowSoftmax<T>{all.x, dx, T{1}, false}.run(all.rows, block);
      to[label] -= T{1};
      forElements(all.rows, block, [=](int64_t i, int64_t) { dx[i] *= dy; });
    });
  }
};

template <template <class> class Kernel> std::unique_ptr<PreparedKernel> make(const KernelSite &site, size_t data) {
  const DType type = site.in[data].dtype;
  if (site.in[data].size() == 0 || site.in[data + 1].dtype != type) return nullptr;
  return floatingKernel<Kernel>(type, site);
}

std::unique_ptr<PreparedKernel> softmaxCrossEntropy(const KernelSite &site) { return make<LossKernel>(site, 0); }
std::unique_ptr<PreparedKernel> softmaxCrossEntropyBackward(const KernelSite &site) {
  return make<LossBackward>(site, 1);
}

constexpr FastKernelRow kRows[] = {
    {"_backward_softmax_cross_entropy", softmaxCrossEntropyBackward, LayoutRole::Plain},
    {"softmax_cross_entropy", softmaxCrossEntropy, LayoutRole::Plain},
};

}  // namespace

constinit const FastKernels kSoftmaxCrossEntropyKernels = kRows;

}  // namespace gradc::fast
