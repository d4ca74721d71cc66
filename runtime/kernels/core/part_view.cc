// Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "runtime/kernels/core/part_view.h"

#include "llvm/ADT/SmallVector.h"

using namespace llvm;

namespace gradc::fast {
namespace {

/// Neighbouring axes in memory order over which the part is repeated, or which it all has.
struct AxisGroup {
  bool isOwn;
  int64_t size;
};

/// Groups of the axes longer than 1, in the memory order `order`.
SmallVector<AxisGroup, 6> groupsOf(Dims whole, Dims part, ArrayRef<size_t> order) {
  SmallVector<AxisGroup, 6> groups;
  for (size_t axis : order) {
    if (whole[axis] == 1) continue;
    const size_t missing = whole.size() - part.size();
    const bool isOwn = axis >= missing && part[axis - missing] == whole[axis];
    if (groups.empty() || groups.back().isOwn != isOwn) groups.push_back({isOwn, 1});
    groups.back().size *= whole[axis];
  }
  return groups;
}

/// Whether the part has axes longer than 1 other than the first two.
bool hasPixels(Dims whole, Dims part) {
  for (size_t back = 1; back <= std::min<size_t>(part.size(), whole.size() - 2); ++back)
    if (part[part.size() - back] != 1) return true;
  return false;
}

}  // namespace

std::optional<PartView> partView(Dims whole, Dims part, Layout layout) {
  if (part.size() > whole.size()) return std::nullopt;
  SmallVector<size_t, 6> order;
  if (layout == Layout::ChannelsLast) {
    if (hasPixels(whole, part)) return std::nullopt;
    order.push_back(0);
    for (size_t axis = 2; axis < whole.size(); ++axis) order.push_back(axis);
    order.push_back(1);
  } else {
    for (size_t axis = 0; axis < whole.size(); ++axis) order.push_back(axis);
  }
  ArrayRef<AxisGroup> groups;
  const SmallVector<AxisGroup, 6> all = groupsOf(whole, part, order);
  groups = all;
  PartView parts;
  auto take = [&](bool isOwn, int64_t &size) {
    if (groups.empty() || groups.front().isOwn != isOwn) return;
    size = groups.front().size;
    groups = groups.drop_front();
  };
  if (groups.size() > 2 && groups.front().isOwn) take(true, parts.batch);
  take(false, parts.view.outer);
  take(true, parts.view.channels);
  take(false, parts.view.inner);
  if (!groups.empty()) return std::nullopt;
  // A single number, repeated everywhere: one run.
  if (parts.view.channels == 1) std::swap(parts.view.outer, parts.view.inner);
  return parts;
}

}  // namespace gradc::fast
