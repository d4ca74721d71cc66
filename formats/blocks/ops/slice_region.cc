// Tested by tests/formats/blocks/block_rules_test.cc
#include "formats/blocks/ops/slice_region.h"

#include "llvm/ADT/StringExtras.h"

#include <limits>

using namespace llvm;

namespace gradc {
namespace {

/// Where a slice ends. Backwards, −1 means behind the first element, and an end before that is the first element
/// itself.
int64_t endOf(OpTranslation &op, size_t axis, int64_t end, int64_t stride) {
  if (stride > 0 || end >= 0) return end;
  if (end == -1) return std::numeric_limits<int64_t>::min();
  const int64_t size = std::max<int64_t>(op.dim("Input", static_cast<int64_t>(axis)), 0);
  return std::max(end, -size) + size;
}

}  // namespace

std::string tupleOf(ArrayRef<std::string> parts) {
  return "(" + llvm::join(parts, ", ") + (parts.size() == 1 ? ",)" : ")");
}

std::optional<SliceRegion> sliceRegion(OpTranslation &op, StringRef stepsName, ArrayRef<int64_t> steps) {
  const std::vector<int64_t> axes = op.integers("axes"), starts = op.integers("starts"), ends = op.integers("ends");
  if (starts.size() != axes.size() || ends.size() != axes.size() || steps.size() != axes.size()) {
    op.fail(ErrorKind::BadAttribute, "attributes 'axes', 'starts', 'ends' and '" + stepsName + "' differ in length");
    return std::nullopt;
  }
  const size_t rank = op.rank("Input");
  std::vector<std::string> begin(rank, "None"), end(rank, "None"), step(rank, "None");
  constexpr int64_t kFar = std::numeric_limits<int32_t>::max();
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(op.axisOf("Input", axes[i]));
    if (axis >= rank) return std::nullopt;
    if (starts[i] < kFar && starts[i] > -kFar) begin[axis] = std::to_string(starts[i]);
    if (const int64_t last = endOf(op, axis, ends[i], steps[i]); last < kFar && last > -kFar)
      end[axis] = std::to_string(last);
    if (steps[i] != 1) step[axis] = std::to_string(steps[i]);
  }
  return SliceRegion{tupleOf(begin), tupleOf(end), tupleOf(step)};
}

}  // namespace gradc
