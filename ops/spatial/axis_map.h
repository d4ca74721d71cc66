// Maps of images (N, C, H, W) that are linear along each axis: y = R · x · Kᵀ for every image, R a matrix of (rows of
// y) × (rows of x), K likewise of columns. Tested by tests/ops/conformance_test.cc
#pragma once

#include "ir/rules/grad_rule.h"

#include "llvm/ADT/STLExtras.h"

namespace gradc {

/// A vector 0, 1, …, n − 1 in float64: along axis 0 of (n, 1) or along axis 1 of (1, n).
Value countAlong(DecomposeRule &d, int64_t axis, int64_t n);

/// The first output of a node that is such a map of its first input or, for the gradient of such a node, the adjoint
/// map. `matrix` makes R or K from the extents of an axis of x and of y.
Value mapImages(DecomposeRule &d, llvm::function_ref<Value(int64_t in, int64_t out)> matrix);

}  // namespace gradc
