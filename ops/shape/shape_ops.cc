// Operators that only reshape: the bytes of the result are the input's. Tested by tests/ops/reduce_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

struct ReshapeLikeParams {
  std::optional<int64_t> lhsBegin, lhsEnd, rhsBegin, rhsEnd;
};
constexpr AttrSpec kReshapeLikeAttrs[] = {
    ofAxis(attr<&ReshapeLikeParams::lhsBegin>("lhs_begin", "None", "first axis of lhs that is replaced; None: 0")),
    ofAxis(attr<&ReshapeLikeParams::lhsEnd>("lhs_end", "None", "axis of lhs after the replaced ones; None: all")),
    ofAxis(attr<&ReshapeLikeParams::rhsBegin>("rhs_begin", "None", "first axis of rhs that replaces; None: 0")),
    ofAxis(attr<&ReshapeLikeParams::rhsEnd>("rhs_end", "None", "axis of rhs after the replacing ones; None: all")),
};

// A bound of a range of axes, counted from the end when negative; none outside [0, rank].
std::optional<size_t> axisBound(std::optional<int64_t> given, int64_t fallback, size_t rank) {
  int64_t bound = given.value_or(fallback);
  if (bound < 0) bound += static_cast<int64_t>(rank);
  if (bound < 0 || bound > static_cast<int64_t>(rank)) return std::nullopt;
  return static_cast<size_t>(bound);
}

// Fully known shapes must have equally many elements.
void checkElements(ShapeInference &s, size_t input, size_t output) {
  if (s.hasFailed() || !s.in(input).isFullyKnown() || !s.out(output).isFullyKnown()) return;
  if (numElements(s.in(input).dims()) != numElements(s.out(output).dims()))
    s.fail("shape " + toString(s.in(input)) + " cannot be reshaped to " + toString(s.out(output)) +
           ": the numbers of elements differ");
}

void reshapeLikeShape(ShapeInference &s) {
  const ReshapeLikeParams &params = s.params<ReshapeLikeParams>();
  if (!params.lhsBegin && !params.lhsEnd && !params.rhsBegin && !params.rhsEnd) {
    s.sameInOut(1, 0);
    return checkElements(s, 0, 0);
  }
  if (!s.in(0).hasRank() || !s.in(1).hasRank()) return;
  Dims lhs = s.in(0).dims(), rhs = s.in(1).dims();
  std::optional<size_t> lhsBegin = axisBound(params.lhsBegin, 0, lhs.size());
  std::optional<size_t> lhsEnd = axisBound(params.lhsEnd, static_cast<int64_t>(lhs.size()), lhs.size());
  std::optional<size_t> rhsBegin = axisBound(params.rhsBegin, 0, rhs.size());
  std::optional<size_t> rhsEnd = axisBound(params.rhsEnd, static_cast<int64_t>(rhs.size()), rhs.size());
  if (!lhsBegin || !lhsEnd || !rhsBegin || !rhsEnd || *lhsBegin > *lhsEnd || *rhsBegin > *rhsEnd)
    return s.fail("a range of axes is outside the shapes " + toString(s.in(0)) + " and " + toString(s.in(1)));
  DimsBuffer out(lhs.take_front(*lhsBegin));
  out.append(rhs.begin() + *rhsBegin, rhs.begin() + *rhsEnd);
  out.append(lhs.begin() + *lhsEnd, lhs.end());
  s.setOut(0, out);
  checkElements(s, 0, 0);
}

// (d0, d1·d2·…). The batch dimension is inferred in both directions; so is the other one if it is single.
void flattenShape(ShapeInference &s) {
  if (s.out(0).hasRank() && s.out(0).rank() != 2)
    return s.fail("output 0 has shape " + toString(s.out(0)) + ", expected 2 dimensions");
  if (!s.in(0).hasRank()) return;
  if (s.in(0).rank() == 0) return s.fail("input 0 has no dimensions, expected at least one");
  DimsBuffer in(s.in(0).dims()), out = {in[0], kUnknownDim};
  if (std::optional<int64_t> rest = numElements(Dims(in).drop_front())) out[1] = *rest;
  s.setOut(0, out);
  if (s.hasFailed()) return;
  in[0] = s.out(0)[0];
  if (in.size() == 2) in[1] = s.out(0)[1];
  s.setIn(0, in);
}

}  // namespace

// dlhs = dy in the shape of lhs
constinit const OpDef kReshapeLike = asMovement({
    .name = "reshape_like",
    .aliases = {"_npx_reshape_like"},
    .summary = "the elements of lhs in the shape of rhs, or a range of lhs's axes replaced by a range of rhs's",
    .inputs = {"lhs", "rhs"},
    .attrs = kReshapeLikeAttrs,
    .params = paramsOf<ReshapeLikeParams>(),
    .shape = reshapeLikeShape,
    .dtype = [](DTypeInference &t) { t.sameInOut(0, 0); },
    .inplace = kInplaceIdentity,
    .ignored = {1},
    .gradient =
        [](GradRule &g) {
          g.fused(kBackwardCopy, {g.dy(0)});
          if (g.wants(1)) g.dx(1, g.emit(kZerosLike, {g.x(1)}));
        },
    .primitive = {.onnx = "Shape, Slice, Concat, Reshape", .c = "the same memory, or memcpy"},
    .kernel = copyBytes,
});

// dx = dy in the shape of x
constinit const OpDef kFlatten = asMovementOfData({
    .name = "Flatten",
    .aliases = {"flatten", "_npx_batch_flatten"},
    .summary = "x as a matrix: (d0, d1, d2, ...) becomes (d0, d1 * d2 * ...)",
    .shape = flattenShape,
    .inplace = kInplaceIdentity,
    .gradient = [](GradRule &g) { g.fused(kBackwardCopy, {g.dy(0)}); },
    .primitive = {.onnx = "Flatten", .c = "the same memory, or memcpy"},
    .kernel = copyBytes,
});

constinit const OpFamily kShapeOpsFamily = kOps<kReshapeLike, kFlatten>;

}  // namespace gradc
