// Norms, sums that leave out NaN, means with variances.
//
// The gradient of the Euclidean norm is dy·x/y, and 0 where the norm is 0, as the subgradient of smallest norm is;
// MXNet has NaN there. Sums and means are in ops/reduction/reduce.cc. Tested by tests/ops/ordering_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/pieces.h"
#include "ops/kit/primitives.h"
#include "ops/reduction/grouped_loops.h"
#include "ops/reduction/norm.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

Value repeated(DecomposeRule &d, Value v, Value x, const Attrs &axes) { return d.emit(kRepeatAxesLike, {v, x}, axes); }

// The attributes of the reductions to which a norm or moments decompose.
Attrs axesOf(DecomposeRule &d) {
  const ReduceParams &p = d.params<ReduceParams>();
  return d.context().attrs(ArrayRef<AttrText>{{"axis", d.tuple(p.axis)}, {"keepdims", p.keepDims ? "True" : "False"}});
}

// ---- norm

struct NormParams : ReduceParams {
  int64_t ord = 2;
  DType outDtype = DType::Unknown;
};
constexpr AttrSpec kNormAttrs[] = {
    attr<&NormParams::ord>("ord", "2", "1: sum of absolute values; 2: Euclidean").atLeast(1).atMost(2),
    kReduceAttrs[0],
    attr<&NormParams::outDtype>("out_dtype", "None", "type of the output; kernels support only that of data"),
    kReduceAttrs[1],
};

void normDType(DTypeInference &t) {
  t.sameAll();
  const DType wanted = t.params<NormParams>().outDtype;
  if (wanted == DType::Unknown || t.hasFailed()) return;
  if (t.in(0) != DType::Unknown && t.in(0) != wanted)
    return t.fail("out_dtype is " + dtypeName(wanted) + " and data is " + dtypeName(t.in(0)) +
                  ", expected the same type");
  t.setIn(0, wanted);
  t.sameAll();
}

// Scaled by the largest element if squares would overflow or vanish.
template <class T, class F> double euclidean(const T *x, F forEach) {
  double sum = 0, largest = 0;
  forEach([&](int64_t at) {
    const double value = std::abs(static_cast<double>(x[at]));
    sum += value * value;
    if (value > largest) largest = value;
  });
  const bool isPlain = sum != sum || (sum > 0x1p-900 && sum < HUGE_VAL) || largest == 0 || largest == HUGE_VAL;
  if (isPlain) return std::sqrt(sum);
  sum = 0;
  forEach([&](int64_t at) {
    const double value = static_cast<double>(x[at]) / largest;
    sum += value * value;
  });
  return largest * std::sqrt(sum);
}

void normKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const NormParams &p = call.params<NormParams>();
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[0].as<const T>();
    forEachGroup(p, call.in[0].shape, [&](int64_t i, auto &forEach) {
      double norm = 0;
      if (p.ord == 2) norm = euclidean(x, forEach);
      else forEach([&](int64_t at) { norm += std::abs(static_cast<double>(x[at])); });
      call.out[0].as<T>()[i] = static_cast<T>(norm);
    });
  });
}

template <class T> constexpr T signOf(T x) { return static_cast<T>((x > T(0)) - (x < T(0))); }

// The sum of absolute values with the signs at the base point; 0 where all of them are 0 there, as a Euclidean norm,
// too.
void normPiece(const PieceCall &call) {
  const NormParams &p = call.params<NormParams>();
  if (!call.wants(0)) return;
  if (p.ord == 2) normKernel(call);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[0].as<const T>(), *base = call.base[0].as<const T>();
    T *y = call.out[0].as<T>();
    forEachGroup(p, call.in[0].shape, [&](int64_t i, auto &forEach) {
      double norm = 0;
      bool isZero = true;
      forEach([&](int64_t at) {
        norm += static_cast<double>(signOf(base[at]) * x[at]);
        isZero &= base[at] == T(0);
      });
      if (p.ord == 1 || isZero) y[i] = static_cast<T>(norm);
    });
  });
}

void normBackward(const KernelCall &call) {
  if (call.params<NormParams>().ord == 1)
    return repeatedKernel<[](auto dy, auto x, auto) { return dy * signOf(x); }>(call);
  repeatedKernel<[](auto dy, auto x, auto y) { return y == decltype(y)(0) ? y : dy * (x / y); }>(call);
}

// Where the norm is 0 at the base point, the gradient is dy * x, as in the decomposition: 0 there, with the slope dy.
void normBackwardPiece(const PieceCall &call) {
  const NormParams &p = call.params<NormParams>();
  if (p.ord == 1) return chooseAtBase<0>(call);
  if (!call.wants(0)) return;
  const DimsBuffer part = keptShape(p, call.out[0].shape);
  const TensorRef operands[] = {{call.in[0].data, call.in[0].dtype, part},
                                call.in[1],
                                {call.in[2].data, call.in[2].dtype, part},
                                {call.base[2].data, call.base[2].dtype, part}};
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    mapBroadcast<T>(call.out[0], operands, [](const T *v) {
      return v[3] == T(0) ? v[0] * v[1] : v[2] == T(0) ? T(0) : v[0] * (v[1] / v[2]);
    });
  });
}

extern const OpDef kBackwardNorm;

constinit const OpDef kNorm = [] {
  OpDef op = reduction("norm", "norm of the elements over axes: the sum of absolute values, or Euclidean");
  op.aliases = {"_sparse_norm"};
  op.attrs = kNormAttrs;
  op.params = paramsOf<NormParams>();
  op.dtype = normDType;
  op.kernelTypes = kFloatingTypes;
  op.gradient = [](GradRule &g) { g.fused(kBackwardNorm, {g.dy(0), g.x(0), g.y(0)}); };
  op.decompose = [](DecomposeRule &d) {
    if (d.params<NormParams>().ord == 1) return d.y(0, d.emit(kSum, {d.emit(kAbs, {d.x(0)})}, axesOf(d)));
    // The slope of the root is infinite at 0, where that of the norm is 0.
    const Value sum = d.emit(kSum, {d.emit(kSquare, {d.x(0)})}, axesOf(d));
    const Value isZero = d.emit(kEqualScalar, {sum}, {{"scalar", "0"}});
    d.y(0, d.emit(kElemwiseSub, {d.emit(kSqrt, {d.emit(kElemwiseAdd, {sum, isZero})}), isZero}));
  };
  op.kernel = normKernel;
  op.piece = normPiece;
  return op;
}();

constinit const OpDef kBackwardNorm = [] {
  OpDef op =
      reductionGradient("_backward_norm", "gradient of norm: dx = dy * sign x, or dy * x / y and 0 where y = 0, dy "
                                          "and y repeated over the reduced axes");
  op.inputs = {"dy", "x", "y"};
  op.attrs = kNormAttrs;
  op.params = paramsOf<NormParams>();
  op.shape = gradientShape;
  op.dtype = normDType;
  op.decompose = [](DecomposeRule &d) {
    const Attrs axes = axesOf(d);
    const Value x = d.x(1), dy = repeated(d, d.x(0), x, axes);
    if (d.params<NormParams>().ord == 1) return d.y(0, d.emit(kElemwiseMul, {dy, d.emit(kSign, {x})}));
    // Where y is 0, so is x.
    const Value divisor = d.emit(kElemwiseAdd, {d.x(2), d.emit(kEqualScalar, {d.x(2)}, {{"scalar", "0"}})});
    d.y(0, d.emit(kElemwiseMul, {dy, d.emit(kElemwiseDiv, {x, repeated(d, divisor, x, axes)})}));
  };
  op.kernel = normBackward;
  op.piece = normBackwardPiece;
  return op;
}();

// ---- sums without NaN

void nansumKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const DimsBuffer part = keptShape(call.params<ReduceParams>(), call.in[0].shape);
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    sumOnto<T>(call.out[0].as<T>(), part, call.in[0].shape, call.in,
               [](const T *v) { return v[0] == v[0] ? v[0] : T(0); });
  });
}

// v where x is a number, else 0.
Value numbersOnly(DecomposeRule &d, Value x, Value v) {
  return d.emit(kWhere, {d.emit(kEqual, {x, x}), v, d.emit(kZerosLike, {x})});
}

// MXNet passes y as an operand; it is not read.
constinit const OpDef kBackwardNansum = [] {
  OpDef op =
      reductionGradient("_backward_nansum", "gradient of nansum: dx = dy, repeated over the reduced axes, 0 where x "
                                            "is NaN");
  op.inputs = {"dy", "x", "y"};
  op.shape = gradientShape;
  op.ignored = {2};
  op.stopped = {2};
  op.decompose = [](DecomposeRule &d) { d.y(0, numbersOnly(d, d.x(1), repeated(d, d.x(0), d.x(1), d.attrs()))); };
  op.kernel = [](const KernelCall &call) {
    if (!call.wants(0)) return;
    const DimsBuffer part = keptShape(call.params<ReduceParams>(), call.out[0].shape);
    const TensorRef operands[] = {{call.in[0].data, call.in[0].dtype, part}, call.in[1]};
    dispatchFloating(call.out[0].dtype, [&](auto zero) {
      using T = decltype(zero);
      mapBroadcast<T>(call.out[0], operands, [](const T *v) { return v[1] == v[1] ? v[0] : T(0); });
    });
  };
  return op;
}();

constinit const OpDef kNansum = [] {
  OpDef op = reduction("nansum", "sum over axes, NaN taken as 0");
  op.gradient = [](GradRule &g) { g.fused(kBackwardNansum, {g.dy(0), g.x(0), g.y(0)}); };
  op.decompose = [](DecomposeRule &d) { d.y(0, d.emit(kSum, {numbersOnly(d, d.x(0), d.x(0))}, d.attrs())); };
  op.kernel = nansumKernel;
  return op;
}();

// ---- moments

constexpr AttrSpec kMomentsAttrs[] = {
    ofAxis(attr<&ReduceParams::axis>("axes", "None", "axes to reduce, at least one; negative ones count from the end")),
    kReduceAttrs[1],
};

Error checkMoments(const OpDef &, void *params) {
  if (!static_cast<const ReduceParams *>(params)->axis.empty()) return Error::success();
  return Failure(ErrorKind::BadAttribute, "attribute 'axes' names no axis, expected at least one");
}

void momentsKernel(const KernelCall &call) {
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[0].as<const T>();
    forEachGroup(call.params<ReduceParams>(), call.in[0].shape, [&](int64_t i, auto &forEach) {
      double sum = 0, squares = 0, count = 0;
      forEach([&](int64_t at) { sum += x[at], count += 1; });
      const double mean = sum / count;  // NaN if there are no elements, as in `mean`
      if (call.wants(0)) call.out[0].as<T>()[i] = static_cast<T>(mean);
      if (!call.wants(1)) return;
      forEach([&](int64_t at) { squares += (x[at] - mean) * (x[at] - mean); });
      call.out[1].as<T>()[i] = static_cast<T>(squares / count);
    });
  });
}

// dx = (dmean + 2·dvar·(x − mean)) / n
void momentsBackward(const KernelCall &call) {
  if (!call.wants(0)) return;
  const DimsBuffer part = keptShape(call.params<ReduceParams>(), call.out[0].shape);
  const int64_t groups = elementCount(part);
  auto ofPart = [&](size_t i) { return TensorRef(call.in[i].data, call.in[i].dtype, part); };
  const TensorRef operands[] = {ofPart(0), ofPart(1), call.in[2], ofPart(3)};
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T n = static_cast<T>(groups == 0 ? 1 : call.out[0].size() / groups);
    mapBroadcast<T>(call.out[0], operands, [n](const T *v) { return v[0] / n + 2 * v[1] * (v[2] - v[3]) / n; });
  });
}

void decomposeMomentsBackward(DecomposeRule &d) {
  const Attrs axes = axesOf(d);
  const Value x = d.x(2), count = d.emit(kSum, {d.emit(kOnesLike, {x})}, axes);
  const Value twice = d.emit(kMulScalar, {d.x(1)}, {{"scalar", "2"}});
  auto spread = [&](Value v) { return repeated(d, v, x, axes); };
  const Value mean = spread(d.emit(kElemwiseDiv, {d.x(0), count})),
              slope = spread(d.emit(kElemwiseDiv, {twice, count}));
  const Value distance = d.emit(kElemwiseSub, {x, spread(d.x(3))});
  d.y(0, d.emit(kElemwiseAdd, {mean, d.emit(kElemwiseMul, {slope, distance})}));
}

// MXNet passes the variance as an operand; it is not read.
constinit const OpDef kBackwardMoments = {
    .name = "_backward_moments",
    .summary = "gradient of moments: dx = (dmean + 2 * dvar * (x - mean)) / n, all repeated over the reduced axes",
    .inputs = {"dmean", "dvar", "x", "mean", "var"},
    .attrs = kMomentsAttrs,
    .params = paramsOf<ReduceParams>(),
    .check = checkMoments,
    .shape = [](ShapeInference &s) { relateGradient(s, 2, {0, 1, 3, 4}); },
    .ignored = {4},
    .stopped = {4},
    .flags = {.isBackward = true},
    .decompose = decomposeMomentsBackward,
    .kernel = momentsBackward,
};

constinit const OpDef kMoments = {
    .name = "moments",
    .summary = "mean and variance over axes, var = mean of (x - mean)^2",
    .inputs = {"data"},
    .outputs = {"output0", "output1"},  // as MXNet names them
    .attrs = kMomentsAttrs,
    .params = paramsOf<ReduceParams>(),
    .check = checkMoments,
    .shape =
        [](ShapeInference &s) {
          s.sameOutOut(0, 1);
          reduceShape(s);
          s.sameOutOut(0, 1);
        },
    .gradient =
        [](GradRule &g) {
          if (g.isZero(0) && g.isZero(1)) return g.noGrad(0);
          const Value mean = g.dy(0), var = g.dy(1);
          g.fused(kBackwardMoments, {mean, var, g.x(0), g.y(0), g.y(1)});
        },
    .decompose =
        [](DecomposeRule &d) {
          const Attrs axes = axesOf(d);
          const Value x = d.x(0), mean = d.emit(kMean, {x}, axes);
          const Value distance = d.emit(kElemwiseSub, {x, repeated(d, mean, x, axes)});
          d.y(0, mean);
          d.y(1, d.emit(kMean, {d.emit(kSquare, {distance})}, axes));
        },
    .kernel = momentsKernel,
};

}  // namespace

int64_t normOrder(const NodeKind &kind) { return kind.params<NormParams>().ord; }

constinit const OpFamily kNormFamily = kOps<kNorm, kNansum, kMoments, kBackwardNorm, kBackwardNansum, kBackwardMoments>;

}  // namespace gradc
