// Element-wise arithmetic with numbers, powers, extrema, clipping and choices, and their gradients: the same bits as
// the reference kernels, in loops for every instruction set. Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ir/base/number.h"
#include "ops/binary/extrema.h"
#include "ops/elementwise/scalar_params.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/core/sliced.h"
#include "runtime/kernels/elementwise/arithmetic.h"
#include "runtime/kernels/elementwise/element_kernels.h"

#include <cmath>
#include <limits>

using namespace llvm;

namespace gradc::fast {
namespace {

/// Makes Kernel<T> for the type of output 0; null unless that is a floating type.
template <template <class> class Kernel> std::unique_ptr<PreparedKernel> ofFloating(const KernelSite &site) {
  return floatingKernel<Kernel>(site.out[0].dtype, site);
}

/// y = F(a[, b], scalar), where `scalar` is an attribute.
template <auto F> struct WithScalar {
  template <class T> class Kernel : public PartwiseKernel {
   public:
    explicit Kernel(const KernelSite &site)
        : PartwiseKernel(site), scalar(convertNumber<T>(site.kind->params<ScalarParams>().scalar)) {}
    void run(const KernelCall &call) override {
      const T *a = call.in[0].as<const T>(), s = scalar;
      T *y = call.out[0].as<T>();
      if constexpr (std::is_invocable_v<decltype(F), T, T>) {
        mapElements(call.out[0].size(), threads, [=](int64_t i) { y[i] = static_cast<T>(F(a[i], s)); });
      } else {
        const T *b = call.in[1].as<const T>();
        mapElements(call.out[0].size(), threads, [=](int64_t i) { y[i] = static_cast<T>(F(a[i], b[i], s)); });
      }
    }

   private:
    T scalar;
  };
};
template <auto F> std::unique_ptr<PreparedKernel> withScalar(const KernelSite &site) {
  return ofFloating<WithScalar<F>::template Kernel>(site);
}

// Powers that take a few multiplications or a root, in two roundings at most besides the first: a product that
// overflows or underflows on the way does so in the end.
template <class T> T squareOf(T x) { return x * x; }
template <class T> T rootOf(T x) {
  // Unlike the root, a power of −0 is 0, and one of −∞ is ∞.
  const T root = std::sqrt(x) + T{0};
  return x == -std::numeric_limits<T>::infinity() ? -x : root;
}

/// Calls `make` with the function x ↦ x^exponent, if it is one of those.
template <class Make> std::unique_ptr<PreparedKernel> withPower(double exponent, Make make) {
  if (exponent == 0) return make([](auto x) { return decltype(x)(1); });
  if (exponent == 0.5) return make([](auto x) { return rootOf(x); });
  if (exponent == 1) return make([](auto x) { return x; });
  if (exponent == 2) return make([](auto x) { return squareOf(x); });
  if (exponent == 3) return make([](auto x) { return squareOf(x) * x; });
  if (exponent == 4) return make([](auto x) { return squareOf(squareOf(x)); });
  if (exponent == -0.5) return make([](auto x) { return 1 / rootOf(x); });
  if (exponent == -1) return make([](auto x) { return 1 / x; });
  if (exponent == -2) return make([](auto x) { return squareOf(1 / x); });
  return nullptr;
}

/// Outputs F0(dy, a, b) and F1(dy, a, b); one operand may share memory with an output.
template <auto F0, auto F1> struct TwoOutputs {
  template <class T> class Kernel : public PartwiseKernel {
   public:
    using PartwiseKernel::PartwiseKernel;
    void run(const KernelCall &call) override {
      const T *dy = call.in[0].as<const T>(), *a = call.in[1].as<const T>(), *b = call.in[2].as<const T>();
      T *first = call.wants(0) ? call.out[0].as<T>() : nullptr, *second = call.wants(1) ? call.out[1].as<T>() : nullptr;
      const int64_t size = call.in[0].size();
      if (first && second)
        mapElements(size, threads, [=](int64_t i) {
          const T x = F0(dy[i], a[i], b[i]), y = F1(dy[i], a[i], b[i]);
          first[i] = x;
          second[i] = y;
        });
      else if (first) mapElements(size, threads, [=](int64_t i) { first[i] = F0(dy[i], a[i], b[i]); });
      else if (second) mapElements(size, threads, [=](int64_t i) { second[i] = F1(dy[i], a[i], b[i]); });
    }
  };
};
template <auto F0, auto F1> std::unique_ptr<PreparedKernel> twoOutputs(const KernelSite &site) {
  return ofFloating<TwoOutputs<F0, F1>::template Kernel>(site);
}

template <class T> T signOf(T x) { return static_cast<T>((x > T{0}) - (x < T{0})); }

/// The gradient of a choice, inputs dy and the condition. Output 0 is dy where the condition holds, output 1 dy where
/// it does not.
template <class T> class ChoiceBackward : public PartwiseKernel {
 public:
  using PartwiseKernel::PartwiseKernel;
  void run(const KernelCall &call) override {
    const T *dy = call.in[0].as<const T>(), *condition = call.in[1].as<const T>();
    for (size_t output = 0; output < 2; ++output) {
      if (!call.wants(output)) continue;
      T *to = call.out[output].as<T>();
      const bool wanted = output == 0;
      mapElements(call.in[0].size(), threads, [=](int64_t i) {
        const T head = dy[i];
        to[i] = (condition[i] != T{0}) == wanted ? head : T{0};
      });
    }
  }
};

/// Bounds of an interval. An x of type T is below the double `clip.low` exactly if it is below `atLeast`, the smallest
/// T that is not; likewise for `clip.high` and `atMost`.
template <class T> struct Interval {
  T low, high, atLeast, atMost;

  explicit Interval(const ClipAttrs &clip)
      : low(convertNumber<T>(clip.low)), high(convertNumber<T>(clip.high)), atLeast(low), atMost(high) {
    constexpr T infinity = std::numeric_limits<T>::infinity();
    if (static_cast<double>(atLeast) < clip.low) atLeast = std::nextafter(atLeast, infinity);
    if (static_cast<double>(atMost) > clip.high) atMost = std::nextafter(atMost, -infinity);
  }
};

template <class T> class Clip : public PartwiseKernel {
 public:
  explicit Clip(const KernelSite &site) : PartwiseKernel(site), interval(clipAttrs(*site.kind)) {}
  void run(const KernelCall &call) override {
    const T *x = call.in[0].as<const T>();
    T *y = call.out[0].as<T>();
    const Interval<T> to = interval;
    mapElements(call.out[0].size(), threads, [=](int64_t i) {
      const T value = x[i], notBelow = value < to.atLeast ? to.low : value;
      y[i] = value > to.atMost ? to.high : notBelow;
    });
  }

 private:
  Interval<T> interval;
};

template <class T> class ClipBackward : public PartwiseKernel {
 public:
  explicit ClipBackward(const KernelSite &site) : PartwiseKernel(site), interval(clipAttrs(*site.kind)) {}
  void run(const KernelCall &call) override {
    const T *dy = call.in[0].as<const T>(), *x = call.in[1].as<const T>();
    T *dx = call.out[0].as<T>();
    const T low = interval.atLeast, high = interval.atMost;
    mapElements(call.out[0].size(), threads, [=](int64_t i) {
      const T value = x[i], head = dy[i];
      dx[i] = ((value < low) | (value > high)) ? T{0} : head;
    });
  }

 private:
  Interval<T> interval;
};

/// Whether the condition has the operands' type, size and layout.
bool isPlainCondition(const TensorRef &condition, const TensorRef &like) {
  return condition.dtype == like.dtype && condition.size() == like.size() && condition.layout == like.layout &&
         isFloatingKernelType(like.dtype);
}

}  // namespace

constexpr KernelFactory timesScalar = withScalar<[](auto x, auto s) { return x * s; }>;
constexpr KernelFactory overScalar = withScalar<[](auto x, auto s) { return x / s; }>;
constexpr KernelFactory scalarOverBackward = withScalar<[](auto dy, auto x, auto s) {
  const auto inverse = 1 / x;
  return dy * (-s * inverse * inverse);
}>;
// A NaN on either side is the result.
constexpr KernelFactory maximumScalar = withScalar<[](auto x, auto s) { return ((x < s) | (s != s)) ? s : x; }>;
constexpr KernelFactory maximumScalarBackward =
    withScalar<[](auto dy, auto x, auto s) { return s <= x ? dy : decltype(dy)(0); }>;
constexpr KernelFactory minimumScalar = withScalar<[](auto x, auto s) { return ((s < x) | (s != s)) ? s : x; }>;
constexpr KernelFactory minimumScalarBackward =
    withScalar<[](auto dy, auto x, auto s) { return x <= s ? dy : decltype(dy)(0); }>;
constexpr KernelFactory greaterScalar =
    withScalar<[](auto x, auto s) { return s < x ? decltype(x)(1) : decltype(x)(0); }>;

std::unique_ptr<PreparedKernel> powerScalar(const KernelSite &site) {
  std::unique_ptr<PreparedKernel> kernel = withPower(
      site.kind->params<ScalarParams>().scalar, [&](auto power) { return elementKernel<decltype(power){}>(site); });
  return kernel ? std::move(kernel) : sliced(site);
}
// Inputs dy, x. Of x^0 the gradient is 0, also where x^-1 is infinite.
std::unique_ptr<PreparedKernel> powerScalarBackward(const KernelSite &site) {
  const double exponent = site.kind->params<ScalarParams>().scalar;
  if (exponent == 0) return sliced(site);
  std::unique_ptr<PreparedKernel> kernel = withPower(exponent - 1, [&](auto power) {
    return withScalar<[](auto dy, auto x, auto s) { return dy * (decltype(power){}(x)*s); }>(site);
  });
  return kernel ? std::move(kernel) : sliced(site);
}

constexpr KernelFactory squareRootBackward =
    elementKernel<[](auto dy, auto y) { return dy * static_cast<decltype(y)>(0.5) / y; }>;
constexpr KernelFactory reciprocalBackward = elementKernel<[](auto dy, auto x) {
  const auto inverse = 1 / x;  // x^2 may be 0 or infinite where x is not
  return -(dy * (inverse * inverse));
}>;
std::unique_ptr<PreparedKernel> sigmoidBackward(const KernelSite &site) {
  return elementKernel<[](auto dy, auto y) { return dy * (y * (1 - y)); }>(site);
}
std::unique_ptr<PreparedKernel> tangentBackward(const KernelSite &site) {
  return elementKernel<[](auto dy, auto y) { return dy * ((1 - y) * (1 + y)); }>(site);
}

constexpr KernelFactory divideBackward =
    twoOutputs<[](auto dy, auto, auto b) { return dy / b; }, [](auto dy, auto a, auto b) { return -dy * (a / b / b); }>;
constexpr KernelFactory multiplyBackward =
    twoOutputs<[](auto dy, auto, auto b) { return dy * b; }, [](auto dy, auto a, auto) { return dy * a; }>;
// A NaN on either side is the result.
constexpr KernelFactory maximum = elementKernel<[](auto a, auto b) { return ((a >= b) | (a != a)) ? a : b; }>;
constexpr KernelFactory minimum = elementKernel<[](auto a, auto b) { return ((a <= b) | (a != a)) ? a : b; }>;
// Where the operands are equal, the gradient goes to lhs.
constexpr KernelFactory maximumBackward =
    twoOutputs<[](auto dy, auto a, auto b) { return a >= b ? dy : decltype(dy)(0); },
               [](auto dy, auto a, auto b) { return a >= b ? decltype(dy)(0) : dy; }>;
constexpr KernelFactory minimumBackward =
    twoOutputs<[](auto dy, auto a, auto b) { return a <= b ? dy : decltype(dy)(0); },
               [](auto dy, auto a, auto b) { return a <= b ? decltype(dy)(0) : dy; }>;

// where, and its gradient.
std::unique_ptr<PreparedKernel> choose(const KernelSite &site) {
  const bool isBackward = site.in.size() == 2;
  if (!isPlainCondition(site.in[isBackward], isBackward ? site.in[0] : site.out[0])) return sliced(site);
  if (isBackward) return ofFloating<ChoiceBackward>(site);
  return elementKernel<[](auto condition, auto x, auto y) { return condition != 0 ? x : y; }>(site);
}

namespace {

constexpr FastKernelRow kRows[] = {
    {"_backward_abs", elementKernel<[](auto dy, auto x) { return dy * signOf(x); }>, LayoutRole::Elements},
    {"_backward_clip", ofFloating<ClipBackward>, LayoutRole::Elements},
    {"_backward_div", divideBackward, LayoutRole::Elements},
    {"_backward_div_scalar", overScalar, LayoutRole::Elements},
    {"_backward_log", elementKernel<[](auto dy, auto x) { return dy / x; }>, LayoutRole::Elements},
    {"_backward_maximum", maximumBackward, LayoutRole::Elements},
    {"_backward_maximum_scalar", maximumScalarBackward, LayoutRole::Elements},
    {"_backward_minimum", minimumBackward, LayoutRole::Elements},
    {"_backward_minimum_scalar", minimumScalarBackward, LayoutRole::Elements},
    {"_backward_mul", multiplyBackward, LayoutRole::Elements},
    {"_backward_mul_scalar", timesScalar, LayoutRole::Elements},
    {"_backward_power_scalar", powerScalarBackward, LayoutRole::Elements},
    {"_backward_rdiv_scalar", scalarOverBackward, LayoutRole::Elements},
    {"_backward_reciprocal", reciprocalBackward, LayoutRole::Elements},
    {"_backward_sigmoid", sigmoidBackward, LayoutRole::Elements},
    {"_backward_sqrt", squareRootBackward, LayoutRole::Elements},
    {"_backward_square", elementKernel<[](auto dy, auto x) { return dy * x * 2; }>, LayoutRole::Elements},
    {"_backward_tanh", tangentBackward, LayoutRole::Elements},
    {"_backward_where", choose, LayoutRole::Elements},
    {"_contrib_backward_gradientmultiplier", timesScalar, LayoutRole::Elements},
    {"_div_scalar", overScalar, LayoutRole::Elements},
    {"_greater_scalar", greaterScalar, LayoutRole::Elements},
    {"_maximum", maximum, LayoutRole::Elements},
    {"_maximum_scalar", maximumScalar, LayoutRole::Elements},
    {"_minimum", minimum, LayoutRole::Elements},
    {"_minimum_scalar", minimumScalar, LayoutRole::Elements},
    {"_minus_scalar", withScalar<[](auto x, auto s) { return x - s; }>, LayoutRole::Elements},
    {"_mul_scalar", timesScalar, LayoutRole::Elements},
    {"_plus_scalar", withScalar<[](auto x, auto s) { return x + s; }>, LayoutRole::Elements},
    {"_power_scalar", powerScalar, LayoutRole::Elements},
    {"_rdiv_scalar", withScalar<[](auto x, auto s) { return s / x; }>, LayoutRole::Elements},
    {"_rminus_scalar", withScalar<[](auto x, auto s) { return s - x; }>, LayoutRole::Elements},
    {"abs", elementKernel<[](auto x) { return std::abs(x); }>, LayoutRole::Elements},
    {"clip", ofFloating<Clip>, LayoutRole::Elements},
    {"elemwise_div", elementKernel<[](auto a, auto b) { return a / b; }>, LayoutRole::Elements},
    {"negative", elementKernel<[](auto x) { return -x; }>, LayoutRole::Elements},
    {"reciprocal", elementKernel<[](auto x) { return 1 / x; }>, LayoutRole::Elements},
    {"sqrt", elementKernel<[](auto x) { return std::sqrt(x); }>, LayoutRole::Elements},
    {"square", elementKernel<[](auto x) { return x * x; }>, LayoutRole::Elements},
    {"where", choose, LayoutRole::Elements},
};

}  // namespace

constinit const FastKernels kArithmeticKernels = kRows;

}  // namespace gradc::fast
