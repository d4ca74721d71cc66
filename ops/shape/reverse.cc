// Elements in reversed order along axes.
//
// Linear, and its own adjoint. Tested by tests/ops/movement_ops_test.cc
#include "ops/shape/reverse.h"

#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

struct ReverseParams {
  Dims axis;
};
constexpr AttrSpec kReverseAttrs[] = {
    ofAxis(required<&ReverseParams::axis>("axis", "axes to run backwards, negative ones count from the end")),
};

void reverseShape(ShapeInference &s) {
  s.sameAll();
  if (s.hasFailed() || !s.in(0).hasRank()) return;
  for (int64_t axis : s.params<ReverseParams>().axis)
    if (!normalizeAxis(axis, s.in(0).rank()))
      return s.fail("axis " + Twine(axis) + " is outside the shape " + toString(s.in(0)));
}

}  // namespace

// An axis named twice is reversed twice.
StridedView reverseView(const NodeKind &kind, Dims whole, Dims) {
  StridedView view = wholeView(whole);
  for (int64_t axis : kind.params<ReverseParams>().axis) {
    const size_t at = *normalizeAxis(axis, whole.size());
    view.offset += (whole[at] - 1) * view.strides[at];
    view.strides[at] = -view.strides[at];
  }
  return view;
}

namespace {

extern const OpDef kBackwardReverse;

// An axis named twice is reversed twice.
void reverseBySlicing(DecomposeRule &d) {
  const size_t rank = d.rank(d.x(0));
  DimsBuffer step(rank, 1);
  for (int64_t axis : d.params<ReverseParams>().axis) {
    const std::optional<size_t> at = normalizeAxis(axis, rank);
    if (!at) return d.refuse(ErrorKind::InferConflict, "reverses an axis that its input does not have");
    step[*at] = -step[*at];
  }
  std::string all;
  for (size_t axis = 0; axis < rank; ++axis) all += "None,";
  const std::string bounds = "(" + all + ")";
  if (rank == 0) return d.y(0, d.x(0));
  d.y(0, d.emit(kSlice, {d.x(0)}, {{"begin", bounds}, {"end", bounds}, {"step", d.tuple(step)}}));
}

}  // namespace

// dx = dy reversed along the same axes
constinit const OpDef kReverse = {
    .name = "reverse",
    .aliases = {"flip", "_npi_flip"},
    .summary = "data with the order of elements reversed along axes: y[..., i, ...] = x[..., n - 1 - i, ...]",
    .inputs = {"data"},
    .attrs = kReverseAttrs,
    .params = paramsOf<ReverseParams>(),
    .shape = reverseShape,
    .flags = {.movesElements = true},
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.fused(kBackwardReverse, {g.dy(0)}); },
    .decompose = reverseBySlicing,
    .kernel = gatherKernel<reverseView>,
};

namespace {

constinit const OpDef kBackwardReverse = {
    .name = "_backward_reverse",
    .summary = "gradient of reverse: dx = dy reversed along the same axes",
    .inputs = {"dy"},
    .attrs = kReverseAttrs,
    .params = paramsOf<ReverseParams>(),
    .shape = reverseShape,
    .flags = {.isBackward = true, .movesElements = true},
    .kernelTypes = kFloatingAndIntegers,
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kReverse, d.x(0), d.attrs())); },
    .kernel = gatherKernel<reverseView>,
};

}  // namespace

constinit const OpFamily kReverseFamily = kOps<kReverse, kBackwardReverse>;

}  // namespace gradc
