// Tested by tests/passes/lowering/lower_loops_test.cc
#include "passes/targets/mxnet/mxnet_indices.h"

#include "ir/op/attr_spec.h"
#include "ops/kit/axis_rows.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

bool isFull(ShapeRef shape) { return shape.hasRank() && shape.numUnknown() == 0; }

int64_t axisOf(DecomposeRule &d, StringRef otherwise) {
  int64_t axis = 0;
  ParamsArena unused;
  [[maybe_unused]] const bool isNumber = parseAttr(d.attrs().get("axis").value_or(otherwise), unused, axis);
  assert(isNumber && "the kind was checked");
  return axis;
}

// Indices of elements of `whole`, as gather_nd takes them, for positions along an axis of it. Positions beyond an end
// mean the last element there.
Value indicesAlong(DecomposeRule &d, Value positions, ShapeRef whole) {
  const size_t axis = *normalizeAxis(axisOf(d, "-1"), whole.rank());
  SmallVector<Value, 4> indices;
  for (size_t i = 0; i < whole.rank(); ++i)
    if (i != axis) indices.push_back(d.emit(kIndexLike, {positions}, {{"axis", d.number(static_cast<int64_t>(i))}}));
    else
      indices.push_back(d.emit(*d.context().ops.find("clip"), {d.emit(kCast, {positions}, {{"dtype", "int64"}})},
                               {{"a_min", "0"}, {"a_max", d.number(whole[axis] - 1)}}));
  const StringRef count = d.number(static_cast<int64_t>(indices.size()));
  return d.emit(kStack, indices, d.context().attrs({{"axis", "0"}, {"num_args", count}}));
}

// Zeros like the third value, of that shape, plus the values at these indices. MXNet reads a 0 in `shape` as unknown.
Value addedTogether(DecomposeRule &d, Value values, Value indices, Value like) {
  const ShapeRef shape = d.shape(like);
  if (is_contained(shape.dims(), 0)) return d.emit(kZerosLike, {like});
  return d.emit(*d.context().ops.find("_backward_gather_nd"), {values, indices}, {{"shape", d.tuple(shape.dims())}});
}

}  // namespace

void mxnetIndexLike(DecomposeRule &d) {
  int64_t axis = axisOf(d, "0");
  const ShapeRef shape = d.shape(d.x(0));
  if (shape.hasRank()) axis = static_cast<int64_t>(*normalizeAxis(axis, shape.rank()));
  const bool isFromEnd = axis < 0;
  const StringRef number = d.number(axis);
  auto swapped = [&](Value v) { return isFromEnd ? d.emit(kSwapAxis, {v}, {{"dim1", "0"}, {"dim2", number}}) : v; };
  const Value ones = swapped(d.emit(kOnesLike, {d.x(0)}));
  const Attrs along = d.context().attrs({{"axis", isFromEnd ? StringRef("0") : number}, {"dtype", "int64"}});
  const Value counted = d.emit(*d.context().ops.find("_np_cumsum"), ones, along);
  d.y(0, d.emit(*d.context().ops.find("_minus_scalar"), {swapped(counted)}, {{"scalar", "1"}}));
}

void mxnetScatterAdd(DecomposeRule &d) {
  if (d.attrs().get("reduction") != std::optional<StringRef>("add") || !isFull(d.shape(d.x(0)))) return;
  d.y(0, d.emit(kElemwiseAdd, {d.x(0), addedTogether(d, d.x(1), d.x(2), d.x(0))}));
}

void mxnetScatterAlong(DecomposeRule &d) {
  const ShapeRef shape = d.shape(d.x(2));
  if (isFull(shape)) d.y(0, addedTogether(d, d.x(0), indicesAlong(d, d.x(1), shape), d.x(2)));
}

void mxnetTakeAlong(DecomposeRule &d) {
  const ShapeRef shape = d.shape(d.x(0));
  if (isFull(shape)) d.y(0, d.emit(kGatherNd, {d.x(0), indicesAlong(d, d.x(1), shape)}));
}

}  // namespace gradc
