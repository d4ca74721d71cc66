#include "ops/reduction/reduce_axes.h"

#include "ops/shape/axes.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {

std::optional<SmallVector<bool, 6>> reducedAxes(const ReduceParams &params, size_t rank) {
  if (params.axis.empty()) return SmallVector<bool, 6>(rank, true);
  // As in NumPy, a scalar may be reduced along axis 0, which changes nothing.
  if (rank == 0 && all_of(params.axis, [](int64_t axis) { return axis == 0 || axis == -1; }))
    return SmallVector<bool, 6>();
  SmallVector<bool, 6> isReduced(rank, params.exclude);
  for (int64_t axis : params.axis) {
    std::optional<size_t> at = normalizeAxis(axis, rank);
    if (!at || isReduced[*at] != params.exclude) return std::nullopt;
    isReduced[*at] = !params.exclude;
  }
  return isReduced;
}

void relateReduction(ShapeInference &s, size_t whole, std::optional<size_t> part) {
  if (!s.in(whole).hasRank()) return;
  const ReduceParams &params = s.params<ReduceParams>();
  const size_t rank = s.in(whole).rank();
  std::optional<SmallVector<bool, 6>> isReduced = reducedAxes(params, rank);
  if (!isReduced)
    return s.fail("axis " + tupleText(params.axis) + " names an axis twice or one that shape " + toString(s.in(whole)) +
                  " does not have");
  DimsBuffer reduced;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (!(*isReduced)[axis]) reduced.push_back(s.in(whole)[axis]);
    else if (params.keepDims) reduced.push_back(1);
  }
  const bool isScalar = reduced.empty() && !(rank == 0 && params.keepDims);
  if (isScalar) reduced.push_back(1);
  part ? s.setIn(*part, reduced) : s.setOut(0, reduced);
  if (s.hasFailed() || isScalar) return;
  const ShapeRef known = part ? s.in(*part) : s.out(0);
  DimsBuffer dims(rank, kUnknownDim);
  size_t next = 0;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (!(*isReduced)[axis]) dims[axis] = known[next++];
    else if (params.keepDims) ++next;
  }
  s.setIn(whole, dims);
}

DimsBuffer keptShape(const ReduceParams &params, Dims whole) {
  std::optional<SmallVector<bool, 6>> isReduced = reducedAxes(params, whole.size());
  assert(isReduced && "inference has checked the axes");
  DimsBuffer part(whole.begin(), whole.end());
  for (size_t axis = 0; axis < part.size(); ++axis)
    if ((*isReduced)[axis]) part[axis] = 1;
  return part;
}

}  // namespace gradc
