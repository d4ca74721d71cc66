// Shapes of prelu's slope, and the two operators that spread it and sum it. Tested by tests/ops/layer_ops_test.cc
#include "ops/elementwise/prelu_gamma.h"

#include "ir/rules/grad_rule.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

// The axis gamma runs along.
size_t channelAxis(size_t rank) { return rank < 2 ? 0 : 1; }

// y = gamma of each element's channel, in the shape of data; sum is its adjoint
void spreadGamma(const KernelCall &call) {
  if (!call.wants(0)) return;
  const AxisRows rows = gammaRows(call.out[0].shape, call.in[0].shape);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t c = 0; c < rows.length; ++c)
      rows.forEachAcross(c, [&](int64_t i) { call.out[0].as<T>()[i] = call.in[0].as<const T>()[c]; });
  });
}

void sumToGamma(const KernelCall &call) {
  if (!call.wants(0)) return;
  const AxisRows rows = gammaRows(call.in[0].shape, call.out[0].shape);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t c = 0; c < rows.length; ++c) {
      double sum = 0;
      rows.forEachAcross(c, [&](int64_t i) { sum += static_cast<double>(call.in[0].as<const T>()[i]); });
      call.out[0].as<T>()[c] = static_cast<T>(sum);
    }
  });
}

// Gamma with the data's rank: every axis but that of the channels has one element.
Value shapedGamma(DecomposeRule &d, Value gamma, Value data) {
  DimsBuffer dims(d.rank(data), 1);
  if (!dims.empty()) dims[channelAxis(dims.size())] = -1;
  return d.emit(kReshape, {gamma}, {{"shape", d.tuple(dims)}});
}

}  // namespace

void relateGamma(ShapeInference &s, size_t data, size_t gamma) {
  s.setIn(gamma, {kUnknownDim});
  if (s.hasFailed() || !s.in(data).hasRank()) return;
  const ShapeRef whole = s.in(data);
  const int64_t channels = whole.rank() == 0 ? 1 : whole[channelAxis(whole.rank())], length = s.in(gamma)[0];
  if (length == kUnknownDim) return s.setIn(gamma, {channels});
  if (length != 1 && channels != kUnknownDim && length != channels)
    s.fail("gamma has " + Twine(length) + " elements, expected 1 or " + Twine(channels) +
           ", the channels of data of shape " + toString(whole));
}

AxisRows gammaRows(Dims data, Dims gamma) {
  if (gamma[0] != 1 || data.empty()) return AxisRows(data, data.empty() ? 0 : channelAxis(data.size()));
  AxisRows rows({}, 0);
  rows.inner = TensorRef{nullptr, DType::Unknown, data}.size();
  return rows;
}

constinit const OpDef kGammaSpread = linearInFirst<kGammaSum>({
    .name = "_prelu_gamma_spread",
    .summary = "y = gamma of the channel of each element, in the shape of data, of which only the shape is used",
    .inputs = {"gamma", "data"},
    .shape =
        [](ShapeInference &s) {
          s.sameInOut(1, 0);
          if (!s.hasFailed()) relateGamma(s, 1, 0);
        },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kBroadcastLike, {shapedGamma(d, d.x(0), d.x(1)), d.x(1)})); },
    .kernel = spreadGamma,
});

constinit const OpDef kGammaSum = linearInFirst<kGammaSpread>({
    .name = "_prelu_gamma_sum",
    .summary = "Σ of v over the elements that share an element of gamma, of which only the shape is used",
    .inputs = {"v", "gamma"},
    .shape =
        [](ShapeInference &s) {
          s.sameInOut(1, 0);
          if (!s.hasFailed()) relateGamma(s, 0, 1);
          s.sameInOut(1, 0);
        },
    .decompose =
        [](DecomposeRule &d) {
          const Value sum = d.emit(kSumLike, {d.x(0), shapedGamma(d, d.x(1), d.x(0))});
          d.y(0, d.emit(kReshapeLike, {sum, d.x(1)}));
        },
    .kernel = sumToGamma,
});

}  // namespace gradc
