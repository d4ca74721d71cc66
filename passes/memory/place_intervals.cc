// Stage three of memory planning: offsets of values, then of workspaces.
//
// Two methods: in time order, best fit with coalescing, in n log n; and, if the graph is small enough for a quadratic
// method, largest first, at the lowest offset that is free over the whole lifetime. The smaller arena wins.
// Tested by tests/passes/plan_memory_test.cc
#include "passes/memory/place_intervals.h"

#include "llvm/ADT/STLExtras.h"

#include <map>
#include <numeric>
#include <set>

using namespace llvm;

namespace gradc {
namespace {

constexpr size_t kMaxQuadratic = 6000;

// Free bytes of a growing arena, by offset for coalescing and by (size, offset) for best fit without ties (MEM-19).
class FreeList {
 public:
  FreeList() = default;
  /// An arena of this size, all free.
  explicit FreeList(int64_t size) : end(size) {
    if (size) insert(0, size);
  }

  /// Where `take` would put the bytes.
  int64_t look(int64_t bytes) const {
    auto fit = bySize.lower_bound({bytes, 0});
    if (fit != bySize.end()) return fit->second;
    if (byOffset.empty()) return end;
    auto [offset, size] = *std::prev(byOffset.end());
    return offset + size == end ? offset : end;
  }

  /// Takes bytes at an offset that is free.
  void takeAt(int64_t offset, int64_t bytes) {
    auto [begin, size] = *std::prev(byOffset.upper_bound(offset));
    erase(begin, size);
    if (begin < offset) insert(begin, offset - begin);
    if (offset + bytes < begin + size) insert(offset + bytes, begin + size - offset - bytes);
  }

  int64_t take(int64_t bytes) {
    auto fit = bySize.lower_bound({bytes, 0});
    if (fit == bySize.end()) return takeAtEnd(bytes);
    auto [size, offset] = *fit;
    erase(offset, size);
    if (size > bytes) insert(offset + bytes, size - bytes);
    return offset;
  }

  void give(int64_t offset, int64_t bytes) {
    auto next = byOffset.lower_bound(offset);
    if (next != byOffset.end() && offset + bytes == next->first) {
      bytes += next->second;
      erase(next->first, next->second);
      next = byOffset.lower_bound(offset);
    }
    if (next != byOffset.begin()) {
      auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        offset = previous->first;
        bytes += previous->second;
        erase(previous->first, previous->second);
      }
    }
    insert(offset, bytes);
  }

  int64_t arenaBytes() const { return end; }

 private:
  // A free block at the end of the arena is grown rather than left behind.
  int64_t takeAtEnd(int64_t bytes) {
    int64_t offset = end;
    if (!byOffset.empty()) {
      auto last = std::prev(byOffset.end());
      if (last->first + last->second == end) {
        offset = last->first;
        erase(last->first, last->second);
      }
    }
    end = offset + bytes;
    return offset;
  }

  void insert(int64_t offset, int64_t bytes) {
    byOffset[offset] = bytes;
    bySize.insert({bytes, offset});
  }
  void erase(int64_t offset, int64_t bytes) {
    byOffset.erase(offset);
    bySize.erase({bytes, offset});
  }

  std::map<int64_t, int64_t> byOffset;
  std::set<std::pair<int64_t, int64_t>> bySize;
  int64_t end = 0;
};

// Intervals by their last step, as CSR.
struct Endings {
  std::vector<uint32_t> begin, list;

  Endings(ArrayRef<Interval> intervals, uint32_t numSteps) : begin(size_t{numSteps} + 1, 0), list(intervals.size()) {
    for (const Interval &interval : intervals) ++begin[interval.end + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::vector<uint32_t> next(begin.begin(), begin.end() - 1);
    for (uint32_t i = 0; i < intervals.size(); ++i) list[next[intervals[i].end]++] = i;
  }
};

Placement placeInTimeOrder(ArrayRef<Interval> intervals, uint32_t numSteps) {
  Placement placement;
  placement.offsets.resize(intervals.size());
  Endings endings(intervals, numSteps);
  FreeList free;
  size_t next = 0;
  for (uint32_t step = 0; step < numSteps; ++step) {
    for (; next < intervals.size() && intervals[next].begin == step; ++next)
      placement.offsets[next] = intervals[next].bytes ? free.take(intervals[next].bytes) : 0;
    for (uint32_t i = endings.begin[step]; i < endings.begin[step + 1]; ++i)
      if (uint32_t ended = endings.list[i]; intervals[ended].bytes)
        free.give(placement.offsets[ended], intervals[ended].bytes);
  }
  placement.bytes = free.arenaBytes();
  return placement;
}

Placement placeLargestFirst(ArrayRef<Interval> intervals) {
  std::vector<uint32_t> order(intervals.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::sort(order, [&](uint32_t a, uint32_t b) {
    if (intervals[a].bytes != intervals[b].bytes) return intervals[a].bytes > intervals[b].bytes;
    return a < b;
  });
  Placement placement;
  placement.offsets.resize(intervals.size());
  std::vector<uint32_t> placed;  // by offset
  for (uint32_t i : order) {
    const Interval &interval = intervals[i];
    int64_t offset = 0;
    for (uint32_t other : placed) {
      if (intervals[other].end < interval.begin || intervals[other].begin > interval.end) continue;
      if (placement.offsets[other] >= offset + interval.bytes) break;
      offset = std::max(offset, placement.offsets[other] + intervals[other].bytes);
    }
    placement.offsets[i] = offset;
    placement.bytes = std::max(placement.bytes, offset + interval.bytes);
    auto at = llvm::upper_bound(placed, offset, [&](int64_t key, uint32_t p) { return key < placement.offsets[p]; });
    placed.insert(at, i);
  }
  return placement;
}

}  // namespace

Placement placeIntervals(ArrayRef<Interval> intervals, uint32_t numSteps) {
  Placement best = placeInTimeOrder(intervals, numSteps);
  if (intervals.size() > kMaxQuadratic || best.bytes == liveBound(intervals, numSteps).bytes) return best;
  Placement other = placeLargestFirst(intervals);
  return other.bytes < best.bytes ? std::move(other) : std::move(best);
}

namespace {

Placement placeMomentary(ArrayRef<Interval> scratch, ArrayRef<Interval> values, const Placement &placed,
                         uint32_t numSteps) {
  Placement placement;
  placement.bytes = placed.bytes;
  if (scratch.empty()) return placement;
  Endings endings(values, numSteps);
  FreeList free(placed.bytes);
  size_t next = 0, nextScratch = 0;
  for (uint32_t step = 0; step < numSteps && nextScratch < scratch.size(); ++step) {
    for (; next < values.size() && values[next].begin == step; ++next)
      if (values[next].bytes) free.takeAt(placed.offsets[next], values[next].bytes);
    if (scratch[nextScratch].begin == step) {
      const int64_t bytes = scratch[nextScratch++].bytes;
      placement.offsets.push_back(free.look(bytes));
      placement.bytes = std::max(placement.bytes, placement.offsets.back() + bytes);
    }
    for (uint32_t i = endings.begin[step]; i < endings.begin[step + 1]; ++i)
      if (uint32_t ended = endings.list[i]; values[ended].bytes) free.give(placed.offsets[ended], values[ended].bytes);
  }
  return placement;
}

}  // namespace

Placement placeScratch(ArrayRef<Interval> scratch, ArrayRef<Interval> values, const Placement &placed,
                       uint32_t numSteps) {
  auto isKept = [](const Interval &interval) { return interval.end > interval.begin; };
  std::vector<Interval> kept, momentary;
  for (const Interval &interval : scratch) (isKept(interval) ? kept : momentary).push_back(interval);
  if (kept.empty()) return placeMomentary(scratch, values, placed, numSteps);

  Placement behind = placeIntervals(kept, numSteps);
  for (int64_t &offset : behind.offsets) offset += placed.bytes;
  std::vector<Interval> lasting;  // values and kept workspaces, ordered by begin
  Placement all;
  all.bytes = placed.bytes + behind.bytes;
  for (size_t v = 0, k = 0; v < values.size() || k < kept.size();) {
    const bool isValue = k == kept.size() || (v < values.size() && values[v].begin <= kept[k].begin);
    lasting.push_back(isValue ? values[v] : kept[k]);
    all.offsets.push_back(isValue ? placed.offsets[v++] : behind.offsets[k++]);
  }
  const Placement rest = placeMomentary(momentary, lasting, all, numSteps);
  Placement placement;
  placement.bytes = rest.bytes;
  size_t nextKept = 0, nextMomentary = 0;
  for (const Interval &interval : scratch)
    placement.offsets.push_back(isKept(interval) ? behind.offsets[nextKept++] : rest.offsets[nextMomentary++]);
  return placement;
}

}  // namespace gradc
