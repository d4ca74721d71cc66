// Indices into a flat tensor and the indices along its axes, computed from each other. Tested by
// tests/ops/indexing_ops_test.cc
#include "ir/base/number.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/kit/families.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

struct MultiIndexParams {
  Dims shape;

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
};
constexpr AttrSpec kAttrs[] = {
    required<&MultiIndexParams::shape>("shape", "shape of the indexed tensor, of which the first length is not used"),
};

// An index beyond the first axis counts on there, so its length never matters and may be -1.
Error checkShape(const OpDef &, void *params) {
  const Dims shape = static_cast<const MultiIndexParams *>(params)->shape;
  if (shape.empty()) return Failure(ErrorKind::BadAttribute, "attribute 'shape' is (), expected one axis at least");
  for (int64_t length : shape.drop_front())
    if (length <= 0)
      return Failure(ErrorKind::BadAttribute, "attribute 'shape' is " + toString(ShapeRef(shape)) +
                                                  ", expected lengths above 0 on all axes but the first");
  return Error::success();
}

// One column of `rank` indices for each flat index.
void relateIndices(ShapeInference &s, ShapeRef columns, ShapeRef flat, function_ref<void(Dims)> setColumns,
                   function_ref<void(Dims)> setFlat) {
  int64_t count = flat.hasRank() && flat.rank() == 1 ? flat[0] : kUnknownDim;
  if (count == kUnknownDim && columns.hasRank() && columns.rank() == 2) count = columns[1];
  setColumns({s.params<MultiIndexParams>().rank(), count});
  if (!s.hasFailed()) setFlat({count});
}

void ravelShape(ShapeInference &s) {
  relateIndices(s, s.in(0), s.out(0), [&](Dims dims) { s.setIn(0, dims); }, [&](Dims dims) { s.setOut(0, dims); });
}
void unravelShape(ShapeInference &s) {
  relateIndices(s, s.out(0), s.in(0), [&](Dims dims) { s.setOut(0, dims); }, [&](Dims dims) { s.setIn(0, dims); });
}

// Whatever a file has as an index, arithmetic wraps around instead of overflowing.
void ravelKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const MultiIndexParams &p = call.params<MultiIndexParams>();
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *columns = call.in[0].as<const T>();
    for (int64_t i = 0, count = call.out[0].size(); i < count; ++i) {
      uint64_t flat = 0;
      for (int64_t axis = 0; axis < p.rank(); ++axis)
        flat = flat * static_cast<uint64_t>(p.shape[axis]) +
               static_cast<uint64_t>(convertNumber<int64_t>(columns[axis * count + i]));
      call.out[0].as<T>()[i] = convertNumber<T>(static_cast<int64_t>(flat));
    }
  });
}

void unravelKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const MultiIndexParams &p = call.params<MultiIndexParams>();
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *flat = call.in[0].as<const T>();
    T *columns = call.out[0].as<T>();
    for (int64_t i = 0, count = call.in[0].size(); i < count; ++i) {
      int64_t rest = convertNumber<int64_t>(flat[i]);
      for (int64_t axis = p.rank() - 1; axis > 0; rest /= p.shape[axis--])
        columns[axis * count + i] = convertNumber<T>(rest % p.shape[axis]);
      columns[i] = convertNumber<T>(rest);
    }
  });
}

Value truncated(DecomposeRule &d, Value v) {
  return d.emit(kCast, {d.emit(kCast, {v}, {{"dtype", "int64"}})}, {{"dtype", "float64"}});
}

void decomposeRavel(DecomposeRule &d) {
  const MultiIndexParams &p = d.params<MultiIndexParams>();
  Value flat;
  for (int64_t axis = 0; axis < p.rank(); ++axis) {
    const AttrText bounds[] = {{"axis", "0"}, {"begin", d.number(axis)}, {"end", d.number(axis + 1)}};
    const Value index = truncated(d, d.emit(kSliceAxis, {d.x(0)}, {bounds[0], bounds[1], bounds[2]}));
    flat = axis == 0 ? index
                     : d.emit(kElemwiseAdd, {d.emit(kMulScalar, {flat}, {{"scalar", d.number(p.shape[axis])}}), index});
  }
  d.y(0, d.emit(kCastLike, {d.emit(kReshape, {flat}, {{"shape", "(-1,)"}}), d.x(0)}));
}

void decomposeUnravel(DecomposeRule &d) {
  const MultiIndexParams &p = d.params<MultiIndexParams>();
  Value rest = d.emit(kExpandDims, {truncated(d, d.x(0))}, {{"axis", "0"}});
  SmallVector<Value, 6> rows(p.shape.size());
  for (int64_t axis = p.rank() - 1; axis > 0; --axis) {
    const AttrText length{"scalar", d.number(p.shape[axis])};
    const Value above = truncated(d, d.emit(kDivScalar, {rest}, {length}));
    rows[axis] = d.emit(kElemwiseSub, {rest, d.emit(kMulScalar, {above}, {length})});
    rest = above;
  }
  rows[0] = rest;
  const AttrText count{"num_args", d.number(p.rank())};
  const Value columns = d.emit(kConcat, rows, d.context().attrs({count, {"dim", "0"}}));
  d.y(0, d.emit(kCastLike, {columns, d.x(0)}));
}

constexpr OpDef indexing(OpDef op) {
  op.inputs = {"data"};
  op.attrs = kAttrs;
  op.params = paramsOf<MultiIndexParams>();
  op.check = checkShape;
  op.kernelTypes = kFloatingAndIntegers;
  op.gradient = [](GradRule &g) { g.dx(0, g.emit(kZerosLike, {g.x(0)})); };
  return op;
}
constexpr Domain kIndices[] = {Domain::ClassIndex};

constinit const OpDef kRavelMultiIndex = indexing({
    .name = "_ravel_multi_index",
    .aliases = {"ravel_multi_index"},
    .summary =
        "the flat index of each column of data, whose row k has the indices along axis k; indices are cut to whole "
        "numbers",
    .shape = ravelShape,
    .domains = kIndices,
    .decompose = decomposeRavel,
    .kernel = ravelKernel,
});

constinit const OpDef kUnravelIndex = indexing({
    .name = "_unravel_index",
    .aliases = {"unravel_index"},
    .summary =
        "for each flat index a column with the indices along the axes of shape; the inverse of _ravel_multi_index",
    .shape = unravelShape,
    .domains = kIndices,
    .decompose = decomposeUnravel,
    .kernel = unravelKernel,
});

}  // namespace

constinit const OpFamily kMultiIndexFamily = kOps<kRavelMultiIndex, kUnravelIndex>;

}  // namespace gradc
