#include "runtime/executor/head_ranges.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <limits>

using namespace llvm;

namespace gradc {

HeadRanges::Range HeadRanges::rangeOf(size_t head, const TensorRef &memory) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(memory.data);
  return {Log2_64(memory.bytes()), begin, begin + memory.bytes(), head};
}

HeadRanges::HeadRanges(ArrayRef<TensorRef> heads, BitVector added) : isAdded(std::move(added)) {
  for (size_t i = 0; i < heads.size(); ++i) {
    if (!heads[i].data || heads[i].bytes() == 0) continue;
    const Range range = rangeOf(i, heads[i]);
    (isAdded[static_cast<unsigned>(i)] ? this->added : written).insert(range);
    sizeClasses |= uint64_t{1} << range.sizeClass;
  }
}

void HeadRanges::findFirst(const Ranges &ranges, const Range &wanted, std::optional<size_t> &first) const {
  constexpr size_t kLast = std::numeric_limits<size_t>::max();
  for (unsigned sizeClass = 0; sizeClass < 64; ++sizeClass) {
    if (!(sizeClasses >> sizeClass & 1)) continue;
    const uintptr_t longest = (uintptr_t{2} << sizeClass) - 1;
    const uintptr_t lowest = wanted.begin - std::min(wanted.begin, longest);
    Ranges::const_iterator at = ranges.lower_bound({sizeClass, lowest, 0, 0});
    while (at != ranges.end() && at->sizeClass == sizeClass && at->begin < wanted.end) {
      const Range here = *at;
      if (here.end > wanted.begin && here.head == wanted.head) ++at;
      const bool isSame = at != ranges.end() && at->begin == here.begin && at->end == here.end;
      if (here.end > wanted.begin && isSame && (!first || at->head < *first)) first = at->head;
      at = ranges.upper_bound({sizeClass, here.begin, here.end, kLast});
    }
  }
}

std::optional<size_t> HeadRanges::conflict(size_t head, const TensorRef &memory) const {
  std::optional<size_t> first;
  if (memory.bytes() == 0) return first;
  const Range wanted = rangeOf(head, memory);
  findFirst(written, wanted, first);
  if (!isAdded[static_cast<unsigned>(head)]) findFirst(added, wanted, first);
  return first;
}

void HeadRanges::move(size_t head, const TensorRef &from, const TensorRef &to) {
  if (from.bytes() == 0) return;
  Ranges &ranges = isAdded[static_cast<unsigned>(head)] ? added : written;
  Ranges::node_type node = ranges.extract(rangeOf(head, from));
  node.value() = rangeOf(head, to);
  ranges.insert(std::move(node));
}

}  // namespace gradc
