// Picks rows by number, and adds up rows, on all threads. Results are divided among threads, but no single sum is, so the
// bits are those of one thread. Tested by tests/fast_kernels_test.cc
#include "ops/index/rows.h"
#include "runtime/kernels/factories.h"
#include "runtime/kernels/threads.h"

#include <algorithm>

using namespace llvm;

namespace gradc::fast {
namespace {

constexpr int64_t kGrainBytes = 1 << 17;  // fewer are not worth a second thread

/// take; or Embedding, whose table is operand 1.
template <bool isTable> class PickRows : public PreparedKernel {
 public:
  explicit PickRows(unsigned threads) : threads(threads) {}

  void run(const KernelCall &call) override {
    if (!call.wants(0) || call.out[0].size() == 0) return;
    const TensorRef &whole = call.in[isTable], &numbers = call.in[!isTable];
    const AxisIndices indices =
        isTable ? tableRows(numbers, whole.shape) : takenIndices(*call.kind, numbers, whole.shape);
    const AxisRows rows(whole.shape, static_cast<size_t>(indices.axis));
    const int64_t bytes = rows.inner * static_cast<int64_t>(dtypeBytes(whole.dtype));
    parallelFor(threads, rows.outer * indices.count(), std::max<int64_t>(kGrainBytes / bytes, 1),
                [&](int64_t begin, int64_t end) { pick(call.out[0], whole, rows, indices, begin, end); });
  }

 private:
  // Rows [begin, end) of the result, one stretch per outer index.
  static void pick(const TensorRef &to, const TensorRef &from, const AxisRows &rows, const AxisIndices &indices,
                   int64_t begin, int64_t end) {
    const int64_t bytes = rows.inner * static_cast<int64_t>(dtypeBytes(to.dtype)), count = indices.count();
    AxisRows one = rows;
    one.outer = 1;
    while (begin < end) {
      const int64_t o = begin / count, first = begin % count, size = std::min(count - first, end - begin);
      const TensorRef part{to.as<char>() + begin * bytes, to.dtype, {}};
      const TensorRef whole{from.as<char>() + o * rows.length * bytes, to.dtype, {}};
      pickRows(part, whole, one, indices.part(first, size));
      begin += size;
    }
  }

  unsigned threads;
};

/// The gradient of take, in output 0, or of Embedding, in output 1. The other output is zero.
template <bool isTable> class AddRows : public PreparedKernel {
 public:
  AddRows(unsigned threads, size_t bytes) : threads(threads), bytes(bytes) {}

  void run(const KernelCall &call) override {
    const TensorRef &to = call.out[isTable], &numbers = call.in[1];
    if (call.wants(!isTable)) std::memset(call.out[!isTable].data, 0, call.out[!isTable].bytes());
    if (!call.wants(isTable) || to.size() == 0) return;
    const AxisIndices indices = isTable ? tableRows(numbers, to.shape) : takenIndices(*call.kind, numbers, to.shape);
    const AxisRows rows(to.shape, static_cast<size_t>(indices.axis));
    const RowGroups groups(call.workspace, rows.length, indices);
    divide(rows, groups, dtypeBytes(to.dtype), [&](RowRange range) {
      dispatchNumeric(to.dtype, [&](auto zero) {
        using T = decltype(zero);
        addRows<T>(to.as<T>(), nullptr, call.in[0].as<const T>(), rows, indices.count(), groups, range);
      });
    });
  }

  size_t workspaceBytes() const override { return bytes; }

 private:
  // Divides by rows, weighted by their work; by columns if one row has more than a thread's share.
  void divide(const AxisRows &rows, const RowGroups &groups, size_t elementBytes,
              function_ref<void(RowRange)> add) const {
    const int64_t work = groups.workBefore(rows.length);
    const int64_t columnBytes = rows.outer * static_cast<int64_t>(elementBytes);
    int64_t largest = 0;
    for (int64_t r = 0; r < rows.length; ++r)
      largest = std::max<int64_t>(largest, static_cast<int64_t>(groups[r].size()));
    if (largest > work / threads && rows.inner >= kMinColumns * threads)
      return parallelFor(threads, rows.inner, std::max<int64_t>(kGrainBytes / (work * columnBytes), kMinColumns),
                         [&](int64_t begin, int64_t end) { add({0, rows.length, begin, end}); });
    auto rowAt = [&](int64_t before) {
      int64_t low = 0, high = rows.length;
      while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (groups.workBefore(middle) < before) low = middle + 1;
        else high = middle;
      }
      return low;
    };
    parallelFor(threads, work, std::max<int64_t>(kGrainBytes / (rows.inner * columnBytes), 1),
                [&](int64_t begin, int64_t end) { add({rowAt(begin), rowAt(end), 0, rows.inner}); });
  }

  static constexpr int64_t kMinColumns = 32;
  unsigned threads;
  size_t bytes;
};

template <bool isTable> std::unique_ptr<PreparedKernel> addingRows(const KernelSite &site) {
  return std::make_unique<AddRows<isTable>>(site.threads, site.kind->op->workspace(*site.kind, site.in, site.out));
}

}  // namespace

std::unique_ptr<PreparedKernel> take(const KernelSite &site) { return std::make_unique<PickRows<false>>(site.threads); }
std::unique_ptr<PreparedKernel> takeBackward(const KernelSite &site) { return addingRows<false>(site); }
std::unique_ptr<PreparedKernel> embedding(const KernelSite &site) {
  return std::make_unique<PickRows<true>>(site.threads);
}
std::unique_ptr<PreparedKernel> embeddingBackward(const KernelSite &site) { return addingRows<true>(site); }

}  // namespace gradc::fast
