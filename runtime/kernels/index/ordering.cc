// topk, sort, argsort and _sort_order, and the gradient of the first three. Elements become integers of the same order,
// with their positions beside them, which a radix sort puts in order; where few are taken, a heap keeps them. Rows are
// divided among threads, or, where there are few long ones, their parts are, which are merged. The order is total
// (ops/index/sort_rows.h), so the result is that of the reference kernels. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#include "ops/index/along_axis.h"
#include "ops/index/ordering.h"
#include "ops/kit/kernel_dispatch.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/core/threads.h"

#include <algorithm>
#include <bit>

using namespace llvm;

namespace gradc::fast {
namespace {

constexpr int64_t kRowsAtOnce = 16;  // adjacent rows that are read together
constexpr int64_t kEntriesAtOnce = int64_t{1} << 20;
constexpr int64_t kGrain = 4096;                // fewer elements are not worth a second thread
constexpr int64_t kDivided = int64_t{1} << 16;  // rows of fewer elements are not divided
constexpr int64_t kFewOf = 8;                   // one element of as many is few
constexpr int64_t kShort = 256;                 // rows of fewer elements are sorted by comparison

/// The order of the keys is that of the elements.
template <class Bits> struct Entry {
  Bits key;
  uint32_t at;
  bool operator<(const Entry &other) const { return key != other.key ? key < other.key : at < other.at; }
};

/// Sorts entries whose positions ascend, with `spare` as memory of the same size. Returns where the result is.
template <class Bits> Entry<Bits> *radixSort(Entry<Bits> *entries, Entry<Bits> *spare, int64_t size) {
  if (size < kShort) {
    std::sort(entries, entries + size);
    return entries;
  }
  uint32_t counts[sizeof(Bits)][256] = {};
  for (int64_t i = 0; i < size; ++i)
    for (size_t digit = 0; digit < sizeof(Bits); ++digit) ++counts[digit][entries[i].key >> 8 * digit & 255];
  for (size_t digit = 0; digit < sizeof(Bits); ++digit) {
    uint32_t *count = counts[digit], before = 0;
    if (count[entries[0].key >> 8 * digit & 255] == size) continue;
    for (int value = 0; value < 256; ++value) before += std::exchange(count[value], before);
    for (int64_t i = 0; i < size; ++i) spare[count[entries[i].key >> 8 * digit & 255]++] = entries[i];
    std::swap(entries, spare);
  }
  return entries;
}

/// How many of the first `count` of two sorted lists together are from the first list.
template <class E> int64_t ofFirst(ArrayRef<E> a, ArrayRef<E> b, int64_t count) {
  const auto sizeA = static_cast<int64_t>(a.size()), sizeB = static_cast<int64_t>(b.size());
  int64_t low = std::max<int64_t>(0, count - sizeB), high = std::min(count, sizeA);
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (a[static_cast<size_t>(middle)] < b[static_cast<size_t>(count - middle - 1)]) low = middle + 1;
    else high = middle;
  }
  return low;
}

template <class T> class OrderKernel : public ThreadedKernel {
 public:
  OrderKernel(const KernelSite &site, const OrderAttrs &order) : ThreadedKernel(site.threads), order(order) {
    const AxisRows &rows = order.rows;
    isDivided = rows.count() < threads && rows.length >= kDivided;
    const int64_t perThread = std::max<int64_t>(rows.count() / threads, 1);
    width = isDivided
                ? 1
                : std::min({rows.inner, kRowsAtOnce, perThread, std::max(kEntriesAtOnce / rows.length, int64_t{1})});
    perOuter = (rows.inner + width - 1) / width;
    blocks = rows.outer * perOuter;
    parts = isDivided ? threads : std::min({int64_t{threads}, blocks, 1 + rows.count() * rows.length / kGrain});
    isFew = order.taken <= rows.length / (isDivided ? kFewOf * parts : kFewOf);
  }

  void run(const KernelCall &call) override {
    E *scratch = static_cast<E *>(call.workspace);
    if (isDivided) {
      for (int64_t block = 0; block < blocks; ++block) {
        const RowBlock at = blockAt(block);
        const E *sorted = isFew ? fewOfParts(call, at, scratch) : sortedParts(call, at, scratch);
        forParts(order.taken, [&](int64_t begin, int64_t end, int64_t) { write(call, at, {sorted, 0}, begin, end); });
      }
      return;
    }
    parallelFor(threads, parts, 1, [&](int64_t first, int64_t last) {
      for (int64_t part = first; part < last; ++part)
        for (int64_t block = part * blocks / parts; block < (part + 1) * blocks / parts; ++block)
          runBlock(call, blockAt(block), scratch + part * entriesOfPart());
    });
  }

  size_t workspaceBytes() const override {
    const int64_t entries = isDivided && !isFew ? 2 * order.rows.length : parts * entriesOfPart();
    return static_cast<size_t>(entries) * sizeof(E);
  }

 private:
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  using E = Entry<Bits>;
  /// Row r of `width` begins at first + r.
  struct RowBlock {
    int64_t first, width, firstTaken;
  };
  /// The ordered entries of row r of a block.
  struct Sorted {
    const E *first;
    int64_t stride;
    const E *row(int64_t r) const { return first + r * stride; }
  };

  int64_t entriesOfPart() const { return isFew ? width * order.taken : (width + 1) * order.rows.length; }
  RowBlock blockAt(int64_t block) const {
    const int64_t inner = order.rows.inner, outer = block / perOuter, row = block % perOuter * width;
    return {outer * order.rows.length * inner + row, std::min(width, inner - row), outer * order.taken * inner + row};
  }

  // NaN has the largest key in either direction.
  Bits keyOf(T x) const {
    constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1);
    if (x != x) return ~Bits{0};
    const Bits bits = std::bit_cast<Bits>(x + T{0});  // -0 is 0
    const Bits ascending = bits & kSign ? ~bits : bits | kSign;
    return order.isAscending ? ascending : ~ascending;
  }
  E entryAt(const T *row, int64_t k) const { return {keyOf(row[k * order.rows.inner]), static_cast<uint32_t>(k)}; }

  template <class F> void forParts(int64_t size, F body) const {
    parallelFor(threads, parts, size < kGrain ? parts : 1, [&](int64_t first, int64_t last) {
      for (int64_t part = first; part < last; ++part) body(part * size / parts, (part + 1) * size / parts, part);
    });
  }

  // The first `taken` of the elements from `begin` to `end` of a row, in order.
  void few(const T *row, int64_t begin, int64_t end, E *heap) const {
    const int64_t full = begin + order.taken;
    for (int64_t k = begin; k < full; ++k) heap[k - begin] = entryAt(row, k);
    E *const last = heap + order.taken;
    std::make_heap(heap, last);
    for (int64_t k = full; k < end; ++k) {
      const E entry = entryAt(row, k);
      if (!(entry < heap[0])) continue;
      std::pop_heap(heap, last);
      last[-1] = entry;
      std::push_heap(heap, last);
    }
    std::sort_heap(heap, last);
  }

  void runBlock(const KernelCall &call, RowBlock block, E *scratch) const {
    const T *x = call.in[0].as<const T>() + block.first;
    const int64_t length = order.rows.length;
    if (isFew) {
      for (int64_t r = 0; r < block.width; ++r) few(x + r, 0, length, scratch + r * order.taken);
      return write(call, block, {scratch, order.taken}, 0, order.taken);
    }
    for (int64_t k = 0; k < length; ++k)
      for (int64_t r = 0; r < block.width; ++r) scratch[r * length + k] = entryAt(x + r, k);
    E *const spare = scratch + width * length;
    for (int64_t r = 0; r < block.width; ++r) {
      E *const row = scratch + r * length;
      if (radixSort(row, spare, length) != row) std::copy(spare, spare + length, row);
    }
    write(call, block, {scratch, length}, 0, order.taken);
  }

  const E *fewOfParts(const KernelCall &call, RowBlock block, E *scratch) const {
    const T *row = call.in[0].as<const T>() + block.first;
    forParts(order.rows.length,
             [&](int64_t begin, int64_t end, int64_t part) { few(row, begin, end, scratch + part * order.taken); });
    std::sort(scratch, scratch + parts * order.taken);
    return scratch;
  }

  const E *sortedParts(const KernelCall &call, RowBlock block, E *scratch) const {
    const T *row = call.in[0].as<const T>() + block.first;
    const int64_t length = order.rows.length;
    E *from = scratch, *to = scratch + length;
    forParts(length, [&](int64_t begin, int64_t end, int64_t) {
      for (int64_t k = begin; k < end; ++k) from[k] = entryAt(row, k);
      if (radixSort(from + begin, to + begin, end - begin) != from + begin)
        std::copy(to + begin, to + end, from + begin);
    });
    for (int64_t merged = 1; merged < parts; merged *= 2) {
      forParts(length, [&](int64_t begin, int64_t end, int64_t part) { merge(from, to, begin, end, part, merged); });
      std::swap(from, to);
    }
    return from;
  }

  // Elements `begin` to `end`, which are those of `part`, of what pairs of lists of `merged` parts become.
  void merge(const E *from, E *to, int64_t begin, int64_t end, int64_t part, int64_t merged) const {
    auto partBegin = [&](int64_t p) { return std::min(p, parts) * order.rows.length / parts; };
    const int64_t pair = part / (2 * merged) * 2 * merged, low = partBegin(pair), middle = partBegin(pair + merged);
    const ArrayRef<E> a(from + low, from + middle), b(from + middle, from + partBegin(pair + 2 * merged));
    const int64_t a0 = ofFirst(a, b, begin - low), a1 = ofFirst(a, b, end - low);
    const int64_t b0 = begin - low - a0, b1 = end - low - a1;
    std::merge(a.begin() + a0, a.begin() + a1, b.begin() + b0, b.begin() + b1, to + begin);
  }

  // The elements of the block's rows that are ordered from `begin` to `end`.
  void write(const KernelCall &call, RowBlock block, Sorted sorted, int64_t begin, int64_t end) const {
    const int64_t inner = order.rows.inner;
    auto forTaken = [&](auto put) {
      for (int64_t k = begin; k < end; ++k)
        for (int64_t r = 0; r < block.width; ++r)
          put(block.firstTaken + k * inner + r, int64_t{sorted.row(r)[k].at}, block.first + r);
    };
    if (order.values && call.wants(*order.values)) {
      const T *x = call.in[0].as<const T>();
      T *y = call.out[*order.values].as<T>();
      forTaken([=](int64_t i, int64_t at, int64_t row) { y[i] = x[row + at * inner]; });
    }
    if (!order.positions || !call.wants(*order.positions)) return;
    const TensorRef &positions = call.out[*order.positions];
    dispatchNumeric(positions.dtype, [&](auto zero) {
      auto *to = positions.as<decltype(zero)>();
      forTaken([=](int64_t i, int64_t at, int64_t) { to[i] = static_cast<decltype(zero)>(at); });
    });
  }

  OrderAttrs order;
  bool isFew, isDivided;
  int64_t width, perOuter, blocks, parts;
};

/// The gradient: zeros, plus dy where elements were taken. Threads divide slices, or positions on the axis; each adds
/// in order.
template <class T> class OrderBackward : public ThreadedKernel {
 public:
  OrderBackward(const KernelSite &site, const AxisRows &rows) : ThreadedKernel(site.threads), rows(rows) {}

  void run(const KernelCall &call) override {
    if (!call.wants(0)) return;
    const int64_t size = rows.outer * rows.length * rows.inner;
    if (rows.outer >= threads)
      return parallelFor(threads, rows.outer, std::max<int64_t>(kGrain * rows.outer / size, 1),
                         [&](int64_t begin, int64_t end) { add(call, begin, end, 0, rows.length); });
    parallelFor(threads, rows.length, std::max<int64_t>(kGrain * rows.length / size, 1),
                [&](int64_t begin, int64_t end) { add(call, 0, rows.outer, begin, end); });
  }
  /// Sums of float64, for positions that repeat: those of an order do not, but an operand's may.
  size_t workspaceBytes() const override {
    if (kIsExact) return 0;
    return static_cast<size_t>(rows.outer * rows.length * rows.inner) * sizeof(double);
  }

 private:
  static constexpr bool kIsExact = std::is_same_v<T, double>;  // T is what sums are in

  // The elements of slices `first` to `last` whose positions are from `begin` to `end`.
  void add(const KernelCall &call, int64_t first, int64_t last, int64_t begin, int64_t end) const {
    const int64_t inner = rows.inner;
    for (int64_t slice = first; slice < last; ++slice) {
      const int64_t at = slice * rows.length * inner;
      T *dx = call.out[0].as<T>() + at;
      if (!addSlice(call, slice, dx, begin, end) || kIsExact) continue;
      double *sums = static_cast<double *>(call.workspace) + at;
      addSlice(call, slice, sums, begin, end);
      std::transform(sums + begin * inner, sums + end * inner, dx + begin * inner,
                     [](double sum) { return static_cast<T>(sum); });
    }
  }

  // Returns whether anything was added to a number that was no longer 0.
  template <class Sum>
  bool addSlice(const KernelCall &call, int64_t slice, Sum *sums, int64_t begin, int64_t end) const {
    const TensorRef &positions = call.in[2];
    const int64_t inner = rows.inner, count = positions.size() / rows.outer;
    const T *dy = call.in[0].as<const T>() + slice * count;
    std::fill(sums + begin * inner, sums + end * inner, Sum{0});
    bool isRepeated = false;
    dispatchNumeric(positions.dtype, [&](auto zero) {
      const auto *numbers = positions.as<const decltype(zero)>() + slice * count;
      for (int64_t i = 0; i < count; i += inner)
        for (int64_t r = 0; r < inner; ++r)
          if (const int64_t at = positionOf(numbers[i + r], rows.length); at >= begin && at < end) {
            Sum &sum = sums[at * inner + r];
            isRepeated |= sum != Sum{0};
            sum += static_cast<Sum>(dy[i + r]);
          }
    });
    return isRepeated;
  }

  AxisRows rows;
};

std::unique_ptr<PreparedKernel> make(const KernelSite &site, const OrderAttrs &order) {
  if (order.isMask) return nullptr;
  if (order.rows.length > std::numeric_limits<uint32_t>::max() || order.taken < 1) return nullptr;
  return floatingKernel<OrderKernel>(site.in[0].dtype, site, order);
}

std::unique_ptr<PreparedKernel> ordering(const KernelSite &site) {
  return make(site, orderAttrs(*site.kind, site.in[0].shape));
}
std::unique_ptr<PreparedKernel> orderingBackward(const KernelSite &site) {
  if (site.in[2].size() == 0) return nullptr;
  const AxisRows rows = orderAttrs(*site.kind, site.out[0].shape).rows;
  return floatingKernel<OrderBackward>(site.out[0].dtype, site, rows);
}
std::unique_ptr<PreparedKernel> sortOrder(const KernelSite &site) {
  return make(site, sortOrderAttrs(*site.kind, site.in[0].shape));
}

constexpr FastKernelRow kRows[] = {
    {"_backward_topk", orderingBackward, LayoutRole::Plain},
    {"_sort_order", sortOrder, LayoutRole::Plain},
    {"argsort", ordering, LayoutRole::Plain},
    {"sort", ordering, LayoutRole::Plain},
    {"topk", ordering, LayoutRole::Plain},
};

}  // namespace

constinit const FastKernels kOrderingKernels = kRows;

}  // namespace gradc::fast
