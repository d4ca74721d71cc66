// data[begin:end:step], as slice reads it and _slice_assign writes it, and the views of slice_axis and slice_like.
// Tested by tests/ops/movement_ops_test.cc
#pragma once

#include "ir/rules/inference.h"
#include "ops/kit/slice_rules.h"
#include "ops/shape/strided_view.h"

namespace gradc {

struct SliceParams {
  OptDims begin, end, step;
};
inline constexpr AttrSpec kSliceAttrs[] = {
    required<&SliceParams::begin>("begin", "first index per axis, from axis 0 on; negative: from the end; None: all"),
    required<&SliceParams::end>("end", "index after the last one per axis"),
    attr<&SliceParams::step>("step", "()", "distance of indices per axis; negative: backwards; None: 1"),
};

/// Lists of one length, and no step of 0.
llvm::Error checkSlice(const OpDef &, void *params);
/// Fails and returns false if more axes are cut than there are.
bool checkSliceRank(ShapeInference &s, const SliceParams &params, ShapeRef whole);
/// In both directions: `part` is the slice of `whole`.
void relateSlice(ShapeInference &s, EntryPort whole, EntryPort part);
StridedView viewOfSlice(const SliceParams &params, Dims whole);
inline StridedView sliceView(const NodeKind &kind, Dims whole, Dims) {
  return viewOfSlice(kind.params<SliceParams>(), whole);
}
/// How the part was cut, for amongZeros.
llvm::SmallVector<AxisCut, 6> cutsOf(const SliceParams &params);

/// Of slice_axis and slice_like.
StridedView sliceAxisView(const NodeKind &kind, Dims whole, Dims part);
StridedView sliceLikeView(const NodeKind &kind, Dims whole, Dims part);

}  // namespace gradc
