// Repetition of axes of one element: to given lengths (broadcast_axis) or to a given shape (broadcast_to).
//
// The gradient is summed over the repeated axes by `_broadcast_backward` of ops/reduction/reduce.cc.
// Tested by tests/ops/movement_ops_test.cc
#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/shape/strided_view.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

struct BroadcastAxisParams {
  Dims axis, size;
};
constexpr AttrSpec kBroadcastAxisAttrs[] = {
    ofAxis(attr<&BroadcastAxisParams::axis>("axis", "()", "axes to repeat, negative ones count from the end")),
    attr<&BroadcastAxisParams::size>("size", "()", "their lengths, one for each").atLeast(0),
};

struct BroadcastToParams {
  Dims shape;
};
constexpr AttrSpec kBroadcastToAttrs[] = {
    attr<&BroadcastToParams::shape>("shape", "()", "lengths, one for each axis of data; 0: unchanged")
        .atLeast(0)
        .givingShape(),
};

Error checkBroadcastAxis(const OpDef &, void *params) {
  const BroadcastAxisParams &given = *static_cast<const BroadcastAxisParams *>(params);
  if (given.axis.size() == given.size.size()) return Error::success();
  return Failure(ErrorKind::BadAttribute, "attribute 'axis' has " + Twine(given.axis.size()) + " elements and 'size' " +
                                              Twine(given.size.size()) + ", expected the same number");
}

// `lengths` of the output, unknown for axes that are not repeated.
void stateLengths(ShapeInference &s, Dims lengths) {
  DimsBuffer in(s.in(0).dims()), out(in);
  for (size_t axis = 0; axis < in.size(); ++axis) {
    if (lengths[axis] == kUnknownDim) continue;
    if (in[axis] != 1 && in[axis] != kUnknownDim && in[axis] != lengths[axis])
      return s.fail("axis " + Twine(axis) + " of the shape " + toString(s.in(0)) + " cannot be broadcast to " +
                    Twine(lengths[axis]) + " elements");
    out[axis] = lengths[axis];
  }
  s.setOut(0, out);
  if (s.hasFailed()) return;
  for (size_t axis = 0; axis < in.size(); ++axis)
    if (lengths[axis] == kUnknownDim || s.out(0)[axis] == 1) in[axis] = s.out(0)[axis];
  s.setIn(0, in);
}

void broadcastAxisShape(ShapeInference &s) {
  if (!s.in(0).hasRank()) return;
  const BroadcastAxisParams &params = s.params<BroadcastAxisParams>();
  DimsBuffer lengths(s.in(0).rank(), kUnknownDim);
  for (auto [axis, size] : zip(params.axis, params.size)) {
    std::optional<size_t> at = normalizeAxis(axis, lengths.size());
    if (!at || lengths[*at] != kUnknownDim)
      return s.fail("axis " + Twine(axis) + " appears twice or is outside the shape " + toString(s.in(0)));
    if (s.in(0)[*at] != 1 && s.in(0)[*at] != kUnknownDim)
      return s.fail("axis " + Twine(axis) + " of the shape " + toString(s.in(0)) + " has " + Twine(s.in(0)[*at]) +
                    " elements, expected 1");
    lengths[*at] = size;
  }
  stateLengths(s, lengths);
}

void broadcastToShape(ShapeInference &s) {
  DimsBuffer lengths(s.params<BroadcastToParams>().shape);
  s.setIn(0, DimsBuffer(lengths.size(), kUnknownDim));
  if (s.hasFailed()) return;
  for (int64_t &length : lengths)
    if (length == 0) length = kUnknownDim;
  stateLengths(s, lengths);
}

StridedView repeatedView(const NodeKind &, Dims whole, Dims part) {
  return {DimsBuffer(part), broadcastStrides(part, whole), 0};
}

// MXNet sums with its reduction kernel, whose attributes must state that the axes are kept.
void sumBack(GradRule &g) {
  g.fused(kBroadcastBackward, g.dy(0), g.context().attrs(ArrayRef<AttrText>{{"keepdims", "True"}}));
}

}  // namespace

// dx = Σ dy over the repeated axes
constinit const OpDef kBroadcastAxis = asMovementOfData({
    .name = "broadcast_axis",
    .aliases = {"broadcast_axes"},
    .summary = "data with axes of one element repeated to given lengths",
    .attrs = kBroadcastAxisAttrs,
    .params = paramsOf<BroadcastAxisParams>(),
    .check = checkBroadcastAxis,
    .shape = broadcastAxisShape,
    .gradient = sumBack,
    .primitive = {.onnx = "Expand", .c = "y[i] = x[j]; a repeated axis of x has step 0"},
    .kernel = gatherKernel<repeatedView>,
});

namespace {

// dx = Σ dy over the repeated axes
constinit const OpDef kBroadcastTo = asMovementOfData({
    .name = "broadcast_to",
    .aliases = {"_npi_broadcast_to"},
    .summary = "data with axes of one element repeated to a given shape",
    .attrs = kBroadcastToAttrs,
    .params = paramsOf<BroadcastToParams>(),
    .shape = broadcastToShape,
    .gradient = sumBack,
    .primitive = {.onnx = "Expand", .c = "y[i] = x[j]; a repeated axis of x has step 0"},
    .kernel = gatherKernel<repeatedView>,
});

}  // namespace

constinit const OpFamily kBroadcastToFamily = kOps<kBroadcastAxis, kBroadcastTo>;

}  // namespace gradc
