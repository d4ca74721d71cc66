// Tested by tests/ops/indexing_ops_test.cc, tests/ops/conformance_test.cc
#include "ops/index/rows.h"

#include "ops/kit/primitives.h"
#include "ops/kit/slice_rules.h"

using namespace llvm;

namespace gradc {

void failIndex(int64_t index, int64_t axis, int64_t size) {
  throw KernelError{
      ("index " + Twine(index) + " is out of range for axis " + Twine(axis) + " of size " + Twine(size)).str(),
      ErrorKind::BindingMismatch};
}

void checkNotEmpty(ShapeInference &s, ShapeRef data, size_t axis, ShapeRef indices) {
  if (s.hasFailed() || !data.hasRank() || data[axis] != 0 || !indices.isFullyKnown()) return;
  if (!is_contained(indices.dims(), 0))
    s.fail("axis " + Twine(axis) + " of shape " + toString(data) + " has no elements, but indices of shape " +
           toString(indices) + " pick from it");
}

// Wrapping takes two passes: the first quotient may be rounded up to the next integer.
Value indicesInRange(DecomposeRule &d, Value numbers, Value size, IndexMode mode) {
  Value whole = d.emit(kCast, {numbers}, {{"dtype", "int64"}}), index = d.emit(kCast, {whole}, {{"dtype", "float64"}});
  if (mode == IndexMode::Clip) {
    const Value last = d.emit(kMinusScalar, {size}, {{"scalar", "1"}});
    index = d.emit(kRelu, {d.emit(kBroadcastSub, {last, d.emit(kRelu, {index})})});  // 0 beyond the end
    index = d.emit(kBroadcastSub, {last, index});
  } else {
    for (int pass = 0; pass < 2; ++pass) {
      const Value quotient = d.emit(kFloor, {d.emit(kBroadcastDiv, {index, size})});
      index = d.emit(kBroadcastSub, {index, d.emit(kBroadcastMul, {quotient, size})});
    }
  }
  return d.emit(kReshapeLike, {index, numbers});  // rank 0 if the numbers have rank 0
}

// Counts along a slice that has at most one element on every other axis: cheap for data of any size.
Value sizeOfAxis(DecomposeRule &d, Value data, size_t axis) {
  SmallVector<Bound, 6> begin(d.rank(data), 0), end(begin.size(), 1);
  if (axis >= begin.size()) return data;
  begin[axis] = end[axis] = Bound();
  const Value thin = sliceOf(d, data, begin, end);
  const Value line = d.emit(kSum, {thin}, {{"axis", d.number(static_cast<int64_t>(axis))}, {"exclude", "True"}});
  return d.emit(kSum, {d.emit(kCast, {d.emit(kOnesLike, {line})}, {{"dtype", "float64"}})});
}

void zeroGradientOf(GradRule &g, size_t input) {
  if (g.wants(input)) g.dx(input, g.emit(kZerosLike, {g.x(input)}));
  else g.noGrad(input);
}

}  // namespace gradc
