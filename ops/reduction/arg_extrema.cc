// Positions of largest and smallest elements.
//
// As in MXNet the first of equal elements counts, a NaN counts as the extremum, and positions have the type of the
// data. Without an axis positions are those in row-major order. Tested by tests/ops/ordering_ops_test.cc
#include "ir/base/number.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/pieces.h"
#include "ops/kit/primitives.h"
#include "ops/reduction/grouped_loops.h"

#include <limits>

using namespace llvm;

namespace gradc {
namespace {

struct ArgParams : ReduceParams {
  std::optional<int64_t> along;
};
constexpr AttrSpec kArgAttrs[] = {
    ofAxis(attr<&ArgParams::along>("axis", "None",
                                   "the axis to search, a negative one counts from the end; None: all elements")),
    attr<&ArgParams::keepDims>("keepdims", "False", "whether searched axes stay, with one element"),
};

// The reduction's list of axes refers to the parameter itself.
Error checkArg(const OpDef &, void *params) {
  ArgParams &p = *static_cast<ArgParams *>(params);
  if (p.along) p.axis = Dims(&*p.along, 1);
  return Error::success();
}

constexpr int64_t kChannelAxis = 1;
Error checkChannel(const OpDef &, void *params) {
  static_cast<ArgParams *>(params)->axis = Dims(kChannelAxis);
  return Error::success();
}

void argShape(ShapeInference &s) {
  reduceShape(s);
  if (s.hasFailed() || !s.in(0).isFullyKnown() || !is_contained(s.in(0).dims(), 0)) return;
  if (!is_contained(s.out(0).dims(), 0))
    s.fail("data of shape " + toString(s.in(0)) + " has no element to find along " +
           (s.params<ReduceParams>().axis.empty() ? "its axes"
                                                  : "axis " + std::to_string(s.params<ReduceParams>().axis[0])));
}

// The position in type T; integer types saturate.
template <class T> T positionAs(int64_t position) {
  if constexpr (std::is_integral_v<T>) {
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<T>::max());
    return static_cast<T>(std::min(static_cast<uint64_t>(position), kMost));
  } else {
    return static_cast<T>(position);
  }
}

template <auto isBetter> void argKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  dispatchNumeric(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[0].as<const T>();
    forEachGroup(call.params<ReduceParams>(), call.in[0].shape, [&](int64_t i, auto &forEach) {
      T best = 0;
      int64_t position = 0, count = 0;
      forEach([&](int64_t at) {
        if (count == 0 || isBetter(x[at], best)) {
          best = x[at];
          position = count;
        }
        ++count;
      });
      call.out[0].as<T>()[i] = positionAs<T>(position);
    });
  });
}

// The least position at which x is the extremum.
template <const OpDef &Extremum> void decomposeArg(DecomposeRule &d) {
  const ReduceParams &p = d.params<ReduceParams>();
  const Value x = d.x(0);
  const Attrs axes =
      d.context().attrs(ArrayRef<AttrText>{{"axis", d.tuple(p.axis)}, {"keepdims", p.keepDims ? "True" : "False"}});
  const Value best = d.emit(kRepeatAxesLike, {d.emit(Extremum, {x}, axes), x}, axes);
  const Value isBest = d.emit(kElemwiseAdd, {d.emit(kEqual, {x, best}), d.emit(kNotEqual, {x, x})});
  Value position;
  if (p.axis.empty()) {
    const Value flat = d.emit(kReshape, {x}, {{"shape", "(-1,)"}});
    position = d.emit(kReshapeLike, {d.emit(kIndexLike, {flat}, {{"axis", "0"}}), x});
  } else {
    position = d.emit(kIndexLike, {x}, {{"axis", d.number(p.axis[0])}});
  }
  const Value beyondAll = d.emit(kPlusScalar, {position}, {{"scalar", d.number(kMaxElements)}});
  d.y(0, d.emit(kCastLike, {d.emit(kMin, {d.emit(kWhere, {isBest, position, beyondAll})}, axes), x}));
}

template <auto isBetter, const OpDef &Extremum> constexpr OpDef argExtremum(StringRef name, StringRef summary) {
  OpDef op = named({name}, summary);
  op.inputs = {"data"};
  op.attrs = kArgAttrs;
  op.params = paramsOf<ArgParams>();
  op.check = checkArg;
  op.shape = argShape;
  op.kernelTypes = kFloatingAndIntegers;
  op.gradient = [](GradRule &g) { g.dx(0, g.emit(kZerosLike, {g.x(0)})); };
  op.decompose = decomposeArg<Extremum>;
  op.kernel = argKernel<isBetter>;
  op.piece = holdAtBase;
  return op;
}

constinit const OpDef kArgmax =
    argExtremum<kIsLarger, kMax>("argmax", "position of the largest element along an axis, of the first of equal ones");
constinit const OpDef kArgmin = argExtremum<kIsSmaller, kMin>(
    "argmin", "position of the smallest element along an axis, of the first of equal ones");

constinit const OpDef kArgmaxChannel = [] {
  OpDef op = argExtremum<kIsLarger, kMax>("argmax_channel", "argmax along axis 1");
  op.attrs = {};
  op.params.construct = nullptr;
  op.check = checkChannel;
  op.flags.hasNoGradient = true;
  op.gradient = [](GradRule &g) { g.noGrad(0); };
  return op;
}();

}  // namespace

constinit const OpFamily kArgExtremaFamily = kOps<kArgmax, kArgmin, kArgmaxChannel>;

}  // namespace gradc
