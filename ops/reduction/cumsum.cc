// Running sums along an axis. Tested by tests/ops/ordering_ops_test.cc
#include "ir/base/number.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ir/tensor/dim.h"
#include "ops/control/scan_builder.h"
#include "ops/kit/attrs.h"
#include "ops/kit/axis_rows.h"
#include "ops/kit/broadcast_loops.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/reduction/cumsum.h"
#include "ops/shape/axes.h"

using namespace llvm;

namespace gradc {
namespace {

struct CumsumParams {
  std::optional<int64_t> axis;
  DType dtype = DType::Unknown;
};
constexpr AttrSpec kAttrs[] = {
    ofAxis(attr<&CumsumParams::axis>("axis", "None",
                                     "the axis to sum along; None: all elements in row-major order, as a vector")),
    attr<&CumsumParams::dtype>("dtype", "None", "type of the sums; None: that of the input"),
};

// Relates the tensor and its running sums, which are input 0 and output 0 or, backward, the other way round.
void cumsumShape(ShapeInference &s, bool isBackward) {
  const CumsumParams &p = s.params<CumsumParams>();
  const ShapeRef whole = isBackward ? s.out(0) : s.in(0);
  if (p.axis) {
    s.sameInOut(0, 0);
    if (!s.hasFailed() && s.in(0).hasRank() && !normalizeAxis(*p.axis, s.in(0).rank()))
      s.fail("axis " + Twine(*p.axis) + " is out of range for an input of shape " + toString(s.in(0)));
    return;
  }
  const int64_t length = whole.isFullyKnown() ? productOf(whole.dims()).inShape() : kUnknownDim;
  if (isBackward) s.setIn(0, {length});
  else s.setOut(0, {length});
}

void cumsumDType(DTypeInference &t) {
  const DType wanted = t.params<CumsumParams>().dtype;
  if (wanted != DType::Unknown) t.setOut(0, wanted);
  else t.sameInOut(0, 0);
  if (t.out(0) == DType::Bool) t.fail("sums have type bool, expected a type of numbers as attribute dtype");
}

// Sums in the type `Sum`; from the end for the gradient.
template <class Sum, class From, class To>
void addUp(const TensorRef &from, const TensorRef &to, const AxisRows &rows, bool isReversed) {
  for (int64_t row = 0; row < rows.count(); ++row) {
    Accumulator<Sum> sum = 0;
    for (int64_t k = 0; k < rows.length; ++k) {
      const int64_t at = rows.begin(row) + (isReversed ? rows.length - 1 - k : k) * rows.inner;
      sum = wrappingAdd(sum, static_cast<Accumulator<Sum>>(convertNumber<Sum>(from.as<const From>()[at])));
      to.as<To>()[at] = convertNumber<To>(static_cast<Sum>(sum));
    }
  }
}

void cumsumKernel(const KernelCall &call, bool isBackward) {
  if (!call.wants(0)) return;
  const AxisRows rows = cumsumRows(*call.kind, call.out[0].shape);
  dispatchNumeric(call.in[0].dtype, [&](auto from) {
    dispatchNumeric(call.out[0].dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      if (isBackward) addUp<From, From, To>(call.in[0], call.out[0], rows, true);
      else addUp<To, From, To>(call.in[0], call.out[0], rows, false);
    });
  });
}

// A loop over the axis, which is moved to the front. Rows are vectors; those of a vector have one element.
void decomposeCumsum(DecomposeRule &d) {
  const CumsumParams &p = d.params<CumsumParams>();
  const int64_t axis = p.axis.value_or(0);
  Value x = d.x(0);
  if (p.dtype != DType::Unknown) x = d.emit(kCast, {x}, {{"dtype", dtypeName(p.dtype)}});
  if (!p.axis) x = d.emit(kReshape, {x}, {{"shape", "(-1,)"}});
  auto withAxisFirst = [&](Value v) {
    return axis == 0 ? v : d.emit(kSwapAxis, {v}, {{"dim1", "0"}, {"dim2", d.number(axis)}});
  };
  const Value first = withAxisFirst(x), rows = d.emit(kFlatten, {first});
  ScanBuilder loop(d);
  const Value sum = loop.state(d.emit(kZerosLike, {d.emit(kSum, {rows}, {{"axis", "0"}})}));
  const Value next = loop.emit(kElemwiseAdd, {sum, loop.row(rows)});
  loop.setNext(sum, next);
  const size_t sums = loop.stack(next);
  loop.finish();
  if (!d.hasFailed()) d.y(0, withAxisFirst(d.emit(kReshapeLike, {loop.stacked(sums), first})));
}

// Linear in dy, and its adjoint is the forward operator.
constinit const OpDef kBackwardCumsum = {
    .name = "_backward_np_cumsum",
    .summary = "gradient of _np_cumsum: dx[i] = Σ over j >= i of dy[j], in the type of x",
    .inputs = {"dy"},
    .attrs = kAttrs,
    .params = paramsOf<CumsumParams>(),
    .shape = [](ShapeInference &s) { cumsumShape(s, true); },
    .dtype =
        [](DTypeInference &t) {
          const DType given = t.params<CumsumParams>().dtype;
          if (given != DType::Unknown) t.setIn(0, given);
          else t.sameInOut(0, 0);
        },
    .flags = {.isBackward = true},
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kCumsum, g.dy(0), g.attrs())); },
    .decompose =
        [](DecomposeRule &d) {
          const CumsumParams &p = d.params<CumsumParams>();
          const StringRef axis = d.number(p.axis.value_or(0));
          auto reversed = [&](Value v) { return d.emit(kReverse, {v}, {{"axis", axis}}); };
          Value dx = reversed(d.emit(kCumsum, {reversed(d.x(0))}, {{"axis", axis}}));
          if (!p.axis) dx = d.emit(kReshapeLike, {dx, d.forwardInput(0)});
          d.y(0, p.dtype == DType::Unknown ? dx : d.emit(kCastLike, {dx, d.forwardInput(0)}));
        },
    .kernel = [](const KernelCall &call) { cumsumKernel(call, true); },
};

}  // namespace

// dx[i] = Σ over j >= i of dy[j]. MXNet refuses negative axes at run time.
constinit const OpDef kCumsum = {
    .name = "_np_cumsum",
    .aliases = {"cumsum"},
    .summary = "running sums along an axis: y[i] = Σ over j <= i of x[j]",
    .inputs = {"a"},
    .attrs = kAttrs,
    .params = paramsOf<CumsumParams>(),
    .shape = [](ShapeInference &s) { cumsumShape(s, false); },
    .dtype = cumsumDType,
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.fused(kBackwardCumsum, {g.dy(0)}); },
    .decompose = decomposeCumsum,
    .kernel = [](const KernelCall &call) { cumsumKernel(call, false); },
};

AxisRows cumsumRows(const NodeKind &kind, Dims shape) {
  const std::optional<int64_t> axis = kind.params<CumsumParams>().axis;
  if (axis) return AxisRows(shape, *normalizeAxis(*axis, shape.size()));
  const int64_t size = productOf(shape).nearest();
  return AxisRows(size, 0);
}

constinit const OpFamily kCumsumFamily = kOps<kCumsum, kBackwardCumsum>;

}  // namespace gradc
