// Activation: one of five functions, chosen by an attribute, element by element, and its fused gradient.
//
// The gradient is written as a function of the inputs MXNet gives it: of y where that suffices, of x for softsign.
// Differentiating that function, with y differentiated through the forward node, gives every higher order.
// Tested by tests/ops/nn_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/elementwise/activation.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/formula.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

struct ActivationParams {
  ActType actType = ActType::Relu;
};

constexpr AttrSpec kAttrs[] = {required<&ActivationParams::actType>("act_type", "the function")};

ActType typeOf(const NodeKind &kind) { return kind.params<ActivationParams>().actType; }

// |x| on the piece that `at` selects. At 0 the pieces meet, and |x| has the slope 0 there, as in its gradient.
template <class T> T magnitude(T x, T at) { return at < T{0} ? -x : at == T{0} ? T{0} : x; }

// `at` selects the piece of relu and softsign; outside piece kernels it is x itself. NaN stays NaN.
template <class T> T activate(ActType type, T x, T at) {
  switch (type) {
    case ActType::Relu: return at > T{0} || std::isnan(at) ? x : T{0};
    case ActType::Sigmoid: return sigmoid(x);
    // log(1 + exp x) without overflow.
    case ActType::Softrelu: return std::isnan(x) ? x : std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
    case ActType::Softsign: return std::isinf(x) ? softsign(x) : x / (T{1} + magnitude(x, at));
    case ActType::Tanh: return std::tanh(x);
  }
  return x;
}

// dy times the derivative, which is computed from y (softsign: from x); `at` selects the piece as above. Where relu is
// flat nothing flows back, not even from infinity or NaN: as in `_backward_relu` and PyTorch, where MXNet multiplies by
// 0.
template <class T> T gradient(ActType type, T dy, T v, T at) {
  switch (type) {
    case ActType::Relu: return at > T{0} ? dy : T{0};
    case ActType::Sigmoid: return dy * (v * (T{1} - v));
    case ActType::Softrelu: return dy * -std::expm1(-v);
    case ActType::Softsign: {
      const T root = T{1} + magnitude(v, at);
      return dy * (T{1} / (root * root));
    }
    case ActType::Tanh: return dy * ((T{1} - v) * (T{1} + v));
  }
  return dy;
}

void activateAll(const KernelCall &call, const TensorRef &base) {
  if (!call.wants(0)) return;
  const ActType type = typeOf(*call.kind);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[0].as<const T>(), *at = base.as<const T>();
    T *y = call.out[0].as<T>();
    for (int64_t i = 0, size = call.out[0].size(); i < size; ++i) y[i] = activate(type, x[i], at[i]);
  });
}

// The input from which the gradient computes its slope: y, or x for softsign.
size_t slopeInput(const NodeKind &kind) { return typeOf(kind) == ActType::Softsign ? 2 : 1; }

void gradientOfAll(const KernelCall &call, ArrayRef<TensorRef> base) {
  if (!call.wants(0)) return;
  const ActType type = typeOf(*call.kind);
  const size_t from = slopeInput(*call.kind);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *dy = call.in[0].as<const T>(), *v = call.in[from].as<const T>(), *at = base[from].as<const T>();
    T *dx = call.out[0].as<T>();
    for (int64_t i = 0, size = call.out[0].size(); i < size; ++i) dx[i] = gradient(type, dy[i], v[i], at[i]);
  });
}

bool isUnused(const NodeKind &kind, size_t input) { return input != 0 && input != slopeInput(kind); }

// The slope in operators that have gradients themselves.
Value emitSlope(DecomposeRule &d) {
  const Value v = d.x(slopeInput(d.kind()));
  switch (typeOf(d.kind())) {
    case ActType::Relu: return d.emit(kGreaterScalar, {v}, {{"scalar", "0"}});
    case ActType::Sigmoid: return d.emit(kElemwiseMul, {v, d.emit(kRminusScalar, {v}, {{"scalar", "1"}})});
    case ActType::Softrelu: return d.emit(kNegative, {d.emit(kExpm1, {d.emit(kNegative, {v})})});
    case ActType::Softsign: {
      const Value root = d.emit(kPlusScalar, {d.emit(kAbs, {v})}, {{"scalar", "1"}});
      return d.emit(kReciprocal, {d.emit(kSquare, {root})});
    }
    case ActType::Tanh: return d.emit(kRminusScalar, {d.emit(kSquare, {v})}, {{"scalar", "1"}});
  }
  return v;
}

Value activated(DecomposeRule &d, Value x) {
  switch (typeOf(d.kind())) {
    case ActType::Relu: return d.emit(kRelu, {x});
    case ActType::Sigmoid: return d.emit(kSigmoid, {x});
    case ActType::Softrelu: {
      // At 0 the slope is that of x < 0: relu has none, and the tie goes to x.
      const Value below = d.emit(kBroadcastMinimum, {x, d.emit(kNegative, {x})});
      const Value tail = d.emit(kLog1p, {d.emit(kExp, {below})});
      return d.emit(kElemwiseAdd, {d.emit(kRelu, {x}), tail});
    }
    case ActType::Softsign: return d.emit(kSoftsign, {x});
    case ActType::Tanh: return d.emit(kTanh, {x});
  }
  return x;
}

// dx = dy · f'(x), with f' from y (relu, sigmoid, softrelu, tanh) or x (softsign)
constinit const OpDef kBackwardActivation = {
    .name = "_backward_Activation",
    .summary = "gradient of Activation: dx = dy·[y > 0], dy·y·(1 − y), dy·(1 − exp(−y)), dy/(1 + |x|)², dy·(1 − y²)",
    .inputs = {{"ograd", "output", "data"}, [](const NodeKind &k) { return typeOf(k) == ActType::Relu ? 2u : 3u; }},
    .attrs = kAttrs,
    .params = paramsOf<ActivationParams>(),
    .shape = shapes::same,
    .inplace = kInplaceEither,
    .ignored = isUnused,
    .flags = {.isBackward = true, .isElementwise = true},
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kElemwiseMul, {d.x(0), emitSlope(d)})); },
    .kernel = [](const KernelCall &call) { gradientOfAll(call, call.in); },
    .piece = [](const PieceCall &call) { gradientOfAll(call, call.base); },
};

}  // namespace

extern const OpDef kActivation;

constinit const OpDef kActivation = asFunction({
    .name = "Activation",
    .aliases = {"_npx_activation"},
    .summary = "y = max(x, 0), 1/(1 + exp(−x)), log(1 + exp x), x/(1 + |x|) or tanh x, element by element",
    .attrs = kAttrs,
    .params = paramsOf<ActivationParams>(),
    .gradient =
        [](GradRule &g) {
          if (typeOf(g.kind()) == ActType::Relu) g.fused(kBackwardActivation, {g.dy(0), g.y(0)});
          else g.fused(kBackwardActivation, {g.dy(0), g.y(0), g.x(0)});
        },
    .decompose = [](DecomposeRule &d) { d.y(0, activated(d, d.x(0))); },
    .kernel = [](const KernelCall &call) { activateAll(call, call.in[0]); },
    .piece = [](const PieceCall &call) { activateAll(call, call.base[0]); },
});

namespace {}  // namespace

ActType activationType(const NodeKind &kind) { return typeOf(kind); }

constinit const OpFamily kActivationFamily = kOps<kActivation, kBackwardActivation>;

}  // namespace gradc
