// Tested by tests/ops/conformance_test.cc
#include "ops/spatial/axis_map.h"

#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {

Value countAlong(DecomposeRule &d, int64_t axis, int64_t n) {
  const StringRef shape = axis == 0 ? d.tuple({n, 1}) : d.tuple({1, n});
  const Value base = d.emit(kFull, {}, {{"shape", shape}, {"value", "0"}});
  return d.emit(kCast, {d.emit(kIndexLike, {base}, {{"axis", d.number(axis)}})}, {{"dtype", "float64"}});
}

// Columns first; each product leaves the new axis in last place.
Value mapImages(DecomposeRule &d, function_ref<Value(int64_t in, int64_t out)> matrix) {
  const bool isAdjoint = d.kind().op->flags.isBackward;
  const Value x = isAdjoint ? d.forwardInput(0) : d.x(0), y = isAdjoint ? d.x(0) : d.self(0);
  Value image = d.x(0);
  for (int64_t axis : {3, 2}) {
    const Value weights = d.emit(kCastLike, {matrix(d.size(x, axis), d.size(y, axis)), image});
    image = d.emit(kDot, {image, weights}, {{"transpose_b", isAdjoint ? "False" : "True"}});
    image = d.emit(kTranspose, {image}, {{"axes", "(0, 1, 3, 2)"}});
  }
  return image;
}

}  // namespace gradc
