// The attributes of reductions over axes and what they imply for shapes, as in MXNet: no axis means all of them, even
// under `exclude`; a result without axes left has shape (1,). Tested by tests/ops/reduce_ops_test.cc
#pragma once

#include "ir/op/attr_spec.h"
#include "ir/rules/inference.h"
#include "ops/kit/attrs.h"
#include "ops/kit/op_def.h"

#include <optional>

namespace gradc {

struct ReduceParams {
  Dims axis;
  bool keepDims;
  bool exclude;
};
inline constexpr AttrSpec kReduceAttrs[] = {
    ofAxis(
        attr<&ReduceParams::axis>("axis", "None", "axes to reduce, negative ones count from the end; none given: all")),
    attr<&ReduceParams::keepDims>("keepdims", "False", "whether reduced axes stay, with one element"),
    attr<&ReduceParams::exclude>("exclude", "False", "whether to reduce the axes that are not listed"),
};

/// In both directions: dimensions that are kept are the same in input `whole` and in its reduction, which is input
/// `part` or, without one, the output.
void relateReduction(ShapeInference &s, size_t whole, std::optional<size_t> part);
inline void reduceShape(ShapeInference &s) { relateReduction(s, 0, std::nullopt); }

/// Whether each axis is reduced; none if `axis` does not fit the rank.
std::optional<llvm::SmallVector<bool, 6>> reducedAxes(const ReduceParams &params, size_t rank);

/// The shape of a reduced tensor with one element on each reduced axis, which broadcasts to `whole`.
DimsBuffer keptShape(const ReduceParams &params, Dims whole);

/// The common part of the definitions of reductions, and of their fused gradients; callers add rules and kernels.
constexpr OpDef reduction(llvm::StringRef name, llvm::StringRef summary) {
  OpDef op = named({name}, summary);
  op.inputs = {"data"};
  op.attrs = kReduceAttrs;
  op.params = paramsOf<ReduceParams>();
  op.shape = reduceShape;
  op.kernelTypes = kFloatingAndIntegers;
  return op;
}
constexpr OpDef reductionGradient(llvm::StringRef name, llvm::StringRef summary) {
  OpDef op = named({name}, summary);
  op.attrs = kReduceAttrs;
  op.params = paramsOf<ReduceParams>();
  op.flags.isBackward = true;
  return op;
}

}  // namespace gradc
