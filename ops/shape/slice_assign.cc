// Writing to data[begin:end:step]: a tensor or a number in the place of the part that slice reads. MXNet has no
// gradients for these operators. Tested by tests/ops/indexing_ops_test.cc
#include "ir/base/number.h"
#include "ir/rules/grad_rule.h"
#include "ir/tensor/dim.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/shape/slice.h"

using namespace llvm;

namespace gradc {
namespace {

struct SliceAssignParams : SliceParams {
  double scalar = 0;
};
constexpr AttrSpec kScalarAttrs[] = {
    kSliceAttrs[0],
    kSliceAttrs[1],
    kSliceAttrs[2],
    attr<&SliceAssignParams::scalar>("scalar", "0", "what is written"),
};

void assignKernel(const KernelCall &call) {
  copyBytes(call);
  if (call.wants(0)) scatterView(call.out[0], call.in[1], viewOfSlice(call.params<SliceParams>(), call.out[0].shape));
}

void assignScalarKernel(const KernelCall &call) {
  copyBytes(call);
  if (!call.wants(0)) return;
  const SliceAssignParams &p = call.params<SliceAssignParams>();
  const StridedView view = viewOfSlice(p, call.out[0].shape);
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T value = convertNumber<T>(p.scalar);
    StridedWalk walk(view.dims, view.strides);
    for (int64_t i = 0, size = productOf(view.dims).nearest(); i < size; ++i, walk.next())
      call.out[0].as<T>()[view.offset + walk.offset()] = value;
  });
}

void decomposeAssign(DecomposeRule &d) {
  const auto cuts = cutsOf(d.params<SliceParams>());
  const Value isPart = amongZeros(d, d.emit(kOnesLike, {d.x(1)}), d.x(0), cuts);
  d.y(0, d.emit(kWhere, {isPart, amongZeros(d, d.x(1), d.x(0), cuts), d.x(0)}));
}

// The part that is written; slice has no attribute `scalar`.
Value partOf(DecomposeRule &d) {
  const StringRef keys[] = {"begin", "end", "step"};
  SmallVector<AttrText, 3> attrs;
  for (StringRef key : keys)
    if (std::optional<StringRef> text = d.attrs().get(key)) attrs.push_back({key, *text});
  return d.emit(kSlice, SmallVector<Value, 1>{d.x(0)}, d.context().attrs(attrs));
}

void decomposeAssignScalar(DecomposeRule &d) {
  const SliceAssignParams &p = d.params<SliceAssignParams>();
  const Value ones = d.emit(kOnesLike, {partOf(d)}), isPart = amongZeros(d, ones, d.x(0), cutsOf(p));
  const Value value = d.emit(kFull, {}, {{"shape", "(1,)"}, {"dtype", "float64"}, {"value", d.number(p.scalar)}});
  const Value line = d.emit(kReshape, {d.x(0)}, {{"shape", "(-1,)"}});
  const Value values = d.emit(kBroadcastLike, {d.emit(kCastLike, {value, d.x(0)}), line});
  d.y(0, d.emit(kWhere, {isPart, d.emit(kReshapeLike, {values, d.x(0)}), d.x(0)}));
}

extern const OpDef kSliceAssignScalar;

constinit const OpDef kSliceAssign = asMovement({
    .name = "_slice_assign",
    .aliases = {"_crop_assign", "_npi_slice_assign"},
    .summary = "lhs with lhs[begin:end:step] = rhs, as in Python axis by axis",
    .inputs = {"lhs", "rhs"},
    .attrs = kSliceAttrs,
    .params = paramsOf<SliceParams>(),
    .check = checkSlice,
    .shape =
        [](ShapeInference &s) {
          s.sameInOut(0, 0);
          relateSlice(s, {0}, {1});
          s.sameInOut(0, 0);
        },
    .inplace = kInplaceFirst,
    .gradient =
        [](GradRule &g) {
          if (g.wants(0)) g.dx(0, g.emit(kSliceAssignScalar, SmallVector<Value, 1>{g.dy(0)}, g.attrs()));
          if (g.wants(1)) g.dx(1, g.emit(kSlice, SmallVector<Value, 1>{g.dy(0)}, g.attrs()));
        },
    .decompose = decomposeAssign,
    .kernel = assignKernel,
});

constinit const OpDef kSliceAssignScalar = {
    .name = "_slice_assign_scalar",
    .aliases = {"_crop_assign_scalar", "_npi_slice_assign_scalar"},
    .summary = "data with data[begin:end:step] = scalar, as in Python axis by axis",
    .inputs = {"data"},
    .attrs = kScalarAttrs,
    .params = paramsOf<SliceAssignParams>(),
    .check = checkSlice,
    .shape =
        [](ShapeInference &s) {
          s.sameAll();
          if (!s.hasFailed() && s.in(0).hasRank()) checkSliceRank(s, s.params<SliceAssignParams>(), s.in(0));
        },
    .inplace = kInplaceFirst,
    .kernelTypes = kFloatingAndIntegers,
    .gradient =
        [](GradRule &g) {
          const Attrs zero = g.context().withAttrs(g.attrs(), AttrText{"scalar", "0"});
          g.dx(0, g.emit(kSliceAssignScalar, SmallVector<Value, 1>{g.dy(0)}, zero));
        },
    .decompose = decomposeAssignScalar,
    .kernel = assignScalarKernel,
};

}  // namespace

constinit const OpFamily kSliceAssignFamily = kOps<kSliceAssign, kSliceAssignScalar>;

}  // namespace gradc
