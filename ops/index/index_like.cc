// The index of every element along one axis, from which masks, one-hot rows and ranges are built.
// Tested by tests/ops/conformance_test.cc, tests/ops/index_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/kit/attrs.h"
#include "ops/kit/axis_rows.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

struct IndexParams {
  int64_t axis = 0;
};
constexpr AttrSpec kAttrs[] = {
    ofAxis(attr<&IndexParams::axis>("axis", "0", "the axis; negative: counted from the end"))};

void indexShape(ShapeInference &s) {
  s.sameInOut(0, 0);
  const int64_t axis = s.params<IndexParams>().axis;
  if (!s.hasFailed() && s.in(0).hasRank() && !normalizeAxis(axis, s.in(0).rank()))
    s.fail("axis " + Twine(axis) + " is outside data of shape " + toString(s.in(0)));
}

void indexKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const Dims shape = call.out[0].shape;
  const AxisRows rows(shape, *normalizeAxis(call.params<IndexParams>().axis, shape.size()));
  int64_t *y = call.out[0].as<int64_t>();
  for (int64_t k = 0; k < rows.length; ++k) rows.forEachAcross(k, [&](int64_t i) { y[i] = k; });
}

}  // namespace

constinit const OpDef kIndexLike = {
    .name = "_index_like",
    .summary =
        "y[i0, i1, …] = the index along one axis, an int64, in the shape of data, of which only the shape is used",
    .inputs = {"data"},
    .attrs = kAttrs,
    .params = paramsOf<IndexParams>(),
    .shape = indexShape,
    .dtype = [](DTypeInference &t) { t.setOut(0, DType::Int64); },
    .ignored = {0},
    .stopped = {0},
    .flags = {.hasNoGradient = true},
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.noGrad(0); },
    .primitive = {.onnx = "Shape, Gather, Range, Reshape, Expand", .c = "y[i] = i / inner % length"},
    .kernel = indexKernel,
};

constinit const OpFamily kIndexLikeFamily = kOps<kIndexLike>;

}  // namespace gradc
