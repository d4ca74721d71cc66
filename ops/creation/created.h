// Shared by operators without inputs: the attributes shape, ctx and dtype of their one output. P has the members shape,
// device and dtype.
#pragma once

#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/tensor/shape.h"
#include "ops/kit/primitives.h"

#include "llvm/ADT/STLExtras.h"

namespace gradc {

template <class P>
constexpr AttrSpec kShapeAttr =
    attr<&P::shape>("shape", "()", "shape of the result; -1, in legacy files 0, is an unknown dimension")
        .atLeast(kUnknownDim)
        .givingShape();
template <class P>
constexpr AttrSpec kDeviceAttr = attr<&P::device>("ctx", "", "device, as the file spells it; not used");
template <class P> constexpr AttrSpec kDTypeAttr = attr<&P::dtype>("dtype", "float32", "element type");

// An empty list leaves the shape unknown. Legacy files write an unknown dimension as 0: their RNNs start from zeros of
// shape (0, units).
template <class P> void createdShape(ShapeInference &s) {
  Dims given = s.params<P>().shape;
  if (given.empty()) return;
  DimsBuffer dims;
  for (int64_t dim : given) dims.push_back(dim == 0 && s.zeroIsUnknown() ? kUnknownDim : dim);
  s.setOut(0, dims);
}

template <class P> void createdDType(DTypeInference &t) { t.setOut(0, t.params<P>().dtype); }

/// An operator without inputs. P has its dtype.
template <class P> constexpr OpDef asCreation(OpDef op) {
  op.params = paramsOf<P>();
  op.dtype = createdDType<P>;
  op.kernelTypes = kFloatingAndIntegers;
  op.gradient = [](GradRule &) {};
  return op;
}

/// The shape of a node without inputs; dimensions that no attribute gives must be known.
inline DimsBuffer createdDims(DecomposeRule &d) {
  const Value self = d.self(0);
  DimsBuffer dims;
  for (size_t axis = 0, rank = d.rank(self); axis < rank; ++axis)
    dims.push_back(d.size(self, static_cast<int64_t>(axis)));
  return dims;
}

/// A tensor of that shape, for operators that take theirs from an operand. A constant if the shape has a 0, which
/// `_full` might take as unknown.
inline Value placeOf(DecomposeRule &d, Dims dims, llvm::StringRef type = "float32") {
  if (llvm::is_contained(dims, 0))
    return d.emit(kConstant, {}, {{"dtype", type}, {"shape", d.tuple(dims)}, {"values", "()"}});
  return d.emit(kFull, {}, {{"shape", d.tuple(dims)}, {"dtype", type}, {"value", "0"}});
}

}  // namespace gradc
