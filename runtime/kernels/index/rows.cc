// Picks rows by number, and adds up rows, on all threads. Results are divided among threads, but no single sum is, so
// the bits are those of one thread. Tested by tests/runtime/kernels/row_kernels_test.cc
#include "ops/index/take.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/core/threads.h"
#include "runtime/kernels/index/rows.h"

#include <algorithm>

using namespace llvm;

namespace gradc::fast {
namespace {

constexpr int64_t kGrainBytes = 1 << 17;  // fewer are not worth a second thread

/// How rows are numbered: as in take, in Embedding, or in gather_nd.
enum class Picks { Axis, Table, Tuples };

template <Picks by> auto indicesOf(const NodeKind &kind, const TensorRef &numbers, Dims data) {
  if constexpr (by == Picks::Tuples) return TupleIndices(numbers, data);
  else return by == Picks::Table ? tableRows(numbers, data) : takenIndices(kind, numbers, data);
}
AxisRows rowsOf(Dims data, const AxisIndices &indices) { return AxisRows(data, static_cast<size_t>(indices.axis)); }
AxisRows rowsOf(Dims data, const TupleIndices &indices) { return tupleRows(data, indices); }

/// take, gather_nd; or Embedding, whose table is operand 1.
template <Picks by> class PickRows : public ThreadedKernel {
 public:
  using ThreadedKernel::ThreadedKernel;

  void run(const KernelCall &call) override {
    if (!call.wants(0) || call.out[0].size() == 0) return;
    const TensorRef &whole = call.in[by == Picks::Table], &numbers = call.in[by != Picks::Table];
    const auto indices = indicesOf<by>(*call.kind, numbers, whole.shape);
    const AxisRows rows = rowsOf(whole.shape, indices);
    const int64_t bytes = rows.inner * static_cast<int64_t>(dtypeBytes(whole.dtype));
    parallelFor(threads, rows.outer * indices.count(), std::max<int64_t>(kGrainBytes / bytes, 1),
                [&](int64_t begin, int64_t end) { pick(call.out[0], whole, rows, indices, begin, end); });
  }

 private:
  // Rows [begin, end) of the result, one stretch per outer index.
  template <class Indices>
  static void pick(const TensorRef &to, const TensorRef &from, const AxisRows &rows, const Indices &indices,
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
};

/// The gradient of take or gather_nd, in output 0, or of Embedding, in output 1; another output is zero. `hasBase`:
/// adds rows to operand 0, as _scatter_nd does, and the other operands follow.
template <Picks by, bool hasBase> class AddRows : public ThreadedKernel {
 public:
  AddRows(unsigned threads, size_t bytes) : ThreadedKernel(threads), bytes(bytes) {}

  void run(const KernelCall &call) override {
    constexpr size_t kSum = by == Picks::Table;
    const TensorRef &to = call.out[kSum], &from = call.in[hasBase];
    if (by != Picks::Tuples && call.wants(1 - kSum))
      std::memset(call.out[1 - kSum].data, 0, call.out[1 - kSum].bytes());
    if (!call.wants(kSum) || to.size() == 0) return;
    const auto indices = indicesOf<by>(*call.kind, call.in[hasBase + 1], to.shape);
    const AxisRows rows = rowsOf(to.shape, indices);
    const RowGroups groups(call.workspace, rows.length, indices);
    divide(rows, groups, dtypeBytes(to.dtype), [&](RowRange range) {
      dispatchNumeric(to.dtype, [&](auto zero) {
        using T = decltype(zero);
        const T *base = hasBase ? call.in[0].as<const T>() : nullptr;
        addRows<T>(to.as<T>(), base, from.as<const T>(), rows, indices.count(), groups, range);
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
  size_t bytes;
};

template <Picks by> std::unique_ptr<PreparedKernel> pickingRows(const KernelSite &site) {
  return std::make_unique<PickRows<by>>(site.threads);
}
template <Picks by, bool hasBase = false> std::unique_ptr<PreparedKernel> addingRows(const KernelSite &site) {
  return std::make_unique<AddRows<by, hasBase>>(site.threads, site.kind->op->workspace(*site.kind, site.in, site.out));
}

}  // namespace

std::unique_ptr<PreparedKernel> addAtTuples(const KernelSite &site) { return addingRows<Picks::Tuples, true>(site); }

namespace {

constexpr FastKernelRow kRows[] = {
    {"Embedding", pickingRows<Picks::Table>, LayoutRole::Plain},
    {"_backward_Embedding", addingRows<Picks::Table>, LayoutRole::Plain},
    {"_backward_gather_nd", addingRows<Picks::Tuples>, LayoutRole::Plain},
    {"_backward_take", addingRows<Picks::Axis>, LayoutRole::Plain},
    {"gather_nd", pickingRows<Picks::Tuples>, LayoutRole::Plain},
    {"take", pickingRows<Picks::Axis>, LayoutRole::Plain},
};

}  // namespace

constinit const FastKernels kRowsKernels = kRows;

}  // namespace gradc::fast
