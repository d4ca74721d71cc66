// Shapes and numbers of elements as values. They carry no gradient. Tested by tests/ops/indexing_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/index/rows.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

#include <algorithm>

using namespace llvm;

namespace gradc {
namespace {

Value asInteger(DecomposeRule &d, Value count) { return d.emit(kCast, {count}, {{"dtype", "int64"}}); }

void decomposeShapeArray(DecomposeRule &d) {
  SmallVector<Value, 6> sizes;
  for (size_t axis = 0, rank = d.rank(d.x(0)); axis < rank; ++axis)
    sizes.push_back(asInteger(d, sizeOfAxis(d, d.x(0), axis)));
  if (sizes.empty()) return d.y(0, d.emit(kConstant, {}, {{"dtype", "int64"}, {"shape", "(0,)"}, {"values", "()"}}));
  const AttrText count{"num_args", d.number(static_cast<int64_t>(sizes.size()))};
  d.y(0, d.emit(kConcat, sizes, d.context().attrs({count, {"dim", "0"}})));
}

void shapeKernel(const KernelCall &call) {
  if (call.wants(0)) std::copy(call.in[0].shape.begin(), call.in[0].shape.end(), call.out[0].as<int64_t>());
}
void sizeKernel(const KernelCall &call) {
  if (call.wants(0)) *call.out[0].as<int64_t>() = call.in[0].size();
}

constexpr OpDef ofShape(OpDef op) {
  op.inputs = {"data"};
  op.dtype = [](DTypeInference &t) { t.setOut(0, DType::Int64); };
  op.ignored = {0};
  op.kernelTypes = kFloatingAndIntegers;
  op.gradient = [](GradRule &g) { g.dx(0, g.emit(kZerosLike, {g.x(0)})); };
  return op;
}

constinit const OpDef kShapeArray = ofShape({
    .name = "shape_array",
    .aliases = {"_npx_shape_array"},
    .summary = "the shape of data, a vector of int64",
    .shape =
        [](ShapeInference &s) {
          s.setOut(0, {s.in(0).hasRank() ? static_cast<int64_t>(s.in(0).rank()) : kUnknownDim});
        },
    .decompose = decomposeShapeArray,
    .kernel = shapeKernel,
});

constinit const OpDef kSizeArray = ofShape({
    .name = "size_array",
    .summary = "the number of elements of data, one int64",
    .shape = [](ShapeInference &s) { s.setOut(0, {1}); },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kSum, {asInteger(d, d.emit(kOnesLike, {d.x(0)}))})); },
    .kernel = sizeKernel,
});

}  // namespace

constinit const OpFamily kShapeArrayFamily = kOps<kShapeArray, kSizeArray>;

}  // namespace gradc
