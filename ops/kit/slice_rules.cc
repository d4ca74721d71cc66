// Tested by tests/ops/conformance_test.cc
#include "ops/kit/slice_rules.h"

#include "ops/kit/primitives.h"

#include "llvm/ADT/SmallString.h"

#include <limits>

using namespace llvm;

namespace gradc {
namespace {

// Longer steps are limited to the size of the axis: a part spread out further than that would be longer than `whole`.
constexpr int64_t kLongStep = 1024;

std::string boundsText(ArrayRef<Bound> bounds) {
  SmallString<32> text;
  raw_svector_ostream os(text);
  printAttr(os, bounds);
  return std::string(text);
}

// Zeros of the shape of `whole`, but as long as the part along the axes that are still to be restored.
Value zerosBeside(DecomposeRule &d, Value part, Value whole, ArrayRef<AxisCut> later) {
  DimsBuffer axes;
  for (const AxisCut &cut : later) axes.push_back(cut.axis);
  if (!axes.empty()) whole = d.emit(kSliceLike, {whole, part}, {{"axes", d.tuple(axes)}});
  return d.emit(kZerosLike, {whole});
}

// (…, n, …) as (…, n·step, …): step − 1 zeros after each element.
Value spreadOut(DecomposeRule &d, Value part, int64_t axis, int64_t step) {
  const StringRef next = d.number(axis + 1);
  const Value column = d.emit(kExpandDims, {part}, {{"axis", next}});
  const Value zeros =
      d.emit(kBroadcastAxis, {d.emit(kZerosLike, {column})}, {{"axis", next}, {"size", d.number(step - 1)}});
  const Value rows = d.emit(kConcat, {column, zeros}, {{"num_args", "2"}, {"dim", next}});
  DimsBuffer codes(static_cast<size_t>(axis), 0);
  codes.append({-3, -2});
  return d.emit(kReshape, {rows}, {{"shape", d.tuple(codes)}});
}

// The distance at which the elements of a part are put.
int64_t distanceOf(DecomposeRule &d, Value whole, const AxisCut &cut) {
  const int64_t distance = cut.step > 0 ? cut.step : -std::max(cut.step, -std::numeric_limits<int64_t>::max());
  if (distance < kLongStep) return distance;
  return std::min(distance, std::max<int64_t>(d.size(whole, cut.axis), 1));
}

// Whether zeros come first: those before the part or, if it is reversed, those after it.
bool hasFront(const AxisCut &cut) {
  if (!cut.begin) return false;
  return cut.step > 0 ? *cut.begin != 0 : *cut.begin != -1 && *cut.begin != std::numeric_limits<int64_t>::max();
}

// With a negative step the axis is restored from its last element on.
Value restoreAxis(DecomposeRule &d, Value part, Value whole, const AxisCut &cut, ArrayRef<AxisCut> later) {
  const Value zeros = zerosBeside(d, part, whole, later);
  SmallVector<Value, 3> pieces;
  if (hasFront(cut))
    pieces.push_back(cut.step > 0 ? sliceOfAxis(d, zeros, cut.axis, {}, cut.begin)
                                  : sliceOfAxis(d, zeros, cut.axis, *cut.begin + 1, {}));
  const int64_t distance = distanceOf(d, whole, cut);
  pieces.push_back(distance == 1 ? part : spreadOut(d, part, cut.axis, distance));
  pieces.push_back(zeros);
  const StringRef axis = d.number(cut.axis), count = d.number(static_cast<int64_t>(pieces.size()));
  const Attrs joining = d.context().attrs(ArrayRef<AttrText>{{"num_args", count}, {"dim", axis}});
  return d.emit(kSliceLike, {d.emit(kConcat, pieces, joining), whole}, {{"axes", d.tuple({cut.axis})}});
}

}  // namespace

Value sliceOf(DecomposeRule &d, Value data, ArrayRef<Bound> begin, ArrayRef<Bound> end) {
  return d.emit(kSlice, {data}, {{"begin", boundsText(begin)}, {"end", boundsText(end)}});
}

Value sliceOfAxis(DecomposeRule &d, Value data, int64_t axis, Bound begin, Bound end) {
  SmallVector<Bound, 6> first(static_cast<size_t>(axis)), last(first);
  first.push_back(begin);
  last.push_back(end);
  return sliceOf(d, data, first, last);
}

Value amongZeros(DecomposeRule &d, Value part, Value whole, ArrayRef<AxisCut> cuts) {
  DimsBuffer steps;
  for (size_t i = 0; i < cuts.size(); ++i) {
    part = restoreAxis(d, part, whole, cuts[i], cuts.drop_front(i + 1));
    if (cuts[i].step > 0) continue;
    const size_t axis = static_cast<size_t>(cuts[i].axis);
    steps.resize(std::max(steps.size(), axis + 1), 1);
    steps[axis] = -1;
  }
  if (steps.empty()) return part;
  const std::string all = boundsText(SmallVector<Bound, 6>(steps.size()));
  return d.emit(kSlice, {part}, {{"begin", all}, {"end", all}, {"step", d.tuple(steps)}});
}

}  // namespace gradc
