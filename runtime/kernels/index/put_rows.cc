// Rows put at numbered rows, on all threads. Each thread has a range of the result's elements and goes through all rows
// in order, so the last of those put in the same place is kept, as on one thread. Tested by
// tests/runtime/kernels/row_kernels_test.cc
#include "ops/index/gather_nd.h"
#include "ops/index/rows.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/core/threads.h"
#include "runtime/kernels/index/rows.h"

#include <algorithm>

using namespace llvm;

namespace gradc::fast {
namespace {

constexpr int64_t kGrainBytes = 1 << 17;  // fewer are not worth a second thread

int64_t grainOf(int64_t bytes) { return std::max<int64_t>(kGrainBytes / std::max<int64_t>(bytes, 1), 1); }

/// The bytes of the result that a thread writes.
struct Range {
  int64_t begin, end;

  /// Calls visit(first byte, their number, the first one's place in the row) for those that are in row r.
  template <class F> void ofRow(int64_t r, int64_t rowBytes, F visit) const {
    const int64_t first = std::max(begin, r * rowBytes), last = std::min(end, (r + 1) * rowBytes);
    if (first < last) visit(first, static_cast<size_t>(last - first), first - r * rowBytes);
  }
};

/// Fills `to` with the base, or with zeros, and calls write(range) on each thread.
void overBase(unsigned threads, const TensorRef &to, const char *base, function_ref<void(Range)> write) {
  parallelFor(threads, static_cast<int64_t>(to.bytes()), kGrainBytes, [&](int64_t begin, int64_t end) {
    char *at = to.as<char>();
    const size_t size = static_cast<size_t>(end - begin);
    if (!base) std::memset(at + begin, 0, size);
    else if (base != at) std::memcpy(at + begin, base + begin, size);
    write({begin, end});
  });
}

/// Which operands an operator that puts rows has where.
struct PutPorts {
  int base;  // -1: zeros
  size_t rows, numbers;
  bool isTuples;
};

template <PutPorts ports> class PutRows : public ThreadedKernel {
 public:
  using ThreadedKernel::ThreadedKernel;

  void run(const KernelCall &call) override {
    const TensorRef &to = call.out[0];
    if (!call.wants(0) || to.size() == 0) return;
    if constexpr (ports.isTuples) {
      const TupleIndices indices(call.in[ports.numbers], to.shape);
      put(call, indices, tupleRows(to.shape, indices).inner);
    } else {
      put(call, copiedRows(call.in[ports.numbers], to.shape), AxisRows(to.shape, 0).inner);
    }
  }

 private:
  template <class Indices> void put(const KernelCall &call, const Indices &indices, int64_t inner) const {
    const TensorRef &to = call.out[0];
    const int64_t rowBytes = inner * static_cast<int64_t>(dtypeBytes(to.dtype));
    const char *rows = call.in[ports.rows].as<const char>();
    overBase(threads, to, ports.base < 0 ? nullptr : call.in[static_cast<size_t>(ports.base)].as<const char>(),
             [&](Range range) {
               indices.forEach([&](int64_t j, int64_t at) {
                 range.ofRow(at, rowBytes, [&](int64_t first, size_t size, int64_t place) {
                   std::memcpy(to.as<char>() + first, rows + j * rowBytes + place, size);
                 });
               });
             });
  }
};

// Inputs dy, old, numbers, new: dy without the replaced rows, zeros, and those of the rows that were not replaced
// again.
class IndexCopyBackward : public ThreadedKernel {
 public:
  explicit IndexCopyBackward(const KernelSite &site)
      : ThreadedKernel(site.threads), bytes(site.kind->op->workspace(*site.kind, site.in, site.out)) {}

  void run(const KernelCall &call) override {
    const TensorRef &dy = call.in[0];
    const AxisIndices indices = copiedRows(call.in[2], dy.shape);
    const int64_t rowBytes = AxisRows(dy.shape, 0).inner * static_cast<int64_t>(dtypeBytes(dy.dtype));
    if (call.wants(1)) std::memset(call.out[1].data, 0, call.out[1].bytes());
    if (call.wants(2) && call.out[2].size() > 0) writeRows(call, indices, rowBytes);
    if (!call.wants(0) || dy.size() == 0) return;
    overBase(threads, call.out[0], dy.as<const char>(), [&](Range range) {
      indices.forEach([&](int64_t, int64_t at) {
        range.ofRow(at, rowBytes,
                    [&](int64_t first, size_t size, int64_t) { std::memset(call.out[0].as<char>() + first, 0, size); });
      });
    });
  }
  size_t workspaceBytes() const override { return bytes; }

 private:
  void writeRows(const KernelCall &call, const AxisIndices &indices, int64_t rowBytes) const {
    const RowGroups groups(call.workspace, indices.size, indices);
    parallelFor(threads, indices.count(), grainOf(rowBytes), [&](int64_t begin, int64_t end) {
      const int64_t count = end - begin;
      indices.part(begin, count).forEach([&](int64_t i, int64_t at) {
        char *to = call.out[2].as<char>() + (begin + i) * rowBytes;
        const size_t size = static_cast<size_t>(rowBytes);
        if (groups[at].back() == begin + i) std::memcpy(to, call.in[0].as<const char>() + at * rowBytes, size);
        else std::memset(to, 0, size);
      });
    });
  }

  size_t bytes;
};

template <PutPorts ports> std::unique_ptr<PreparedKernel> puttingRows(const KernelSite &site) {
  return std::make_unique<PutRows<ports>>(site.threads);
}

constexpr KernelFactory putAtTuples = puttingRows<PutPorts{0, 1, 2, true}>;
std::unique_ptr<PreparedKernel> scatterNd(const KernelSite &site) {
  return addsUpdates(*site.kind) ? addAtTuples(site) : putAtTuples(site);
}
std::unique_ptr<PreparedKernel> indexCopyBackward(const KernelSite &site) {
  return std::make_unique<IndexCopyBackward>(site);
}

constexpr FastKernelRow kRows[] = {
    {"_contrib_backward_index_copy", indexCopyBackward, LayoutRole::Plain},
    {"_contrib_index_copy", puttingRows<PutPorts{0, 2, 1, false}>, LayoutRole::Plain},
    {"_scatter_nd", scatterNd, LayoutRole::Plain},
    {"_scatter_set_nd", putAtTuples, LayoutRole::Plain},
    {"scatter_nd", puttingRows<PutPorts{-1, 0, 1, true}>, LayoutRole::Plain},
};

}  // namespace

constinit const FastKernels kPutRowsKernels = kRows;

}  // namespace gradc::fast
