// SoftmaxActivation: a softmax over the last axis or over the channels, as networks had it before `softmax`.
//
// Mode instance runs along the last axis, mode channel along axis 1. For data of more than two axes MXNet's gradient of
// mode instance sums over axis 1 and does not fit its own forward pass; here it fits. Tested by tests/layer_ops_test.cc
#include "ir/grad_rule.h"
#include "ir/inference.h"
#include "ops/axis_rows.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/primitives.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

enum class SoftmaxMode : uint8_t { Channel, Instance };
constexpr StringRef kModeNames[] = {"channel", "instance"};
constexpr ArrayRef<StringRef> enumNames(SoftmaxMode) { return kModeNames; }

struct SoftmaxActivationParams {
  SoftmaxMode mode = SoftmaxMode::Instance;
};

constexpr AttrSpec kAttrs[] = {
    attr<&SoftmaxActivationParams::mode>("mode", "instance", "rows along the last axis (instance) or axis 1 (channel)"),
};

bool isChannel(const NodeKind &kind) {
  return kind.params<SoftmaxActivationParams>().mode == SoftmaxMode::Channel;
}

AxisRows rowsOf(const NodeKind &kind, Dims shape) { return AxisRows(shape, isChannel(kind) ? 1 : shape.size() - 1); }

void rowShape(ShapeInference &s) {
  s.sameAll();
  const size_t least = isChannel(s.kind()) ? 3 : 2;
  if (s.hasFailed() || !s.in(0).hasRank() || s.in(0).rank() >= least) return;
  s.fail("data has shape " + toString(s.in(0)) + ", expected " + Twine(least) + " axes at least");
}

void forward(const KernelCall &call) {
  if (!call.wants(0)) return;
  const AxisRows rows = rowsOf(*call.kind, call.in[0].shape);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t row = 0; row < rows.count(); ++row) {
      const T *x = call.in[0].as<const T>() + rows.begin(row);
      T *y = call.out[0].as<T>() + rows.begin(row);
      double largest = -HUGE_VAL, total = 0;
      const int64_t end = rows.length * rows.inner;
      for (int64_t i = 0; i < end; i += rows.inner) largest = std::max(largest, static_cast<double>(x[i]));
      for (int64_t i = 0; i < end; i += rows.inner) total += std::exp(static_cast<double>(x[i]) - largest);
      for (int64_t i = 0; i < end; i += rows.inner)
        y[i] = static_cast<T>(std::exp(static_cast<double>(x[i]) - largest) / total);
    }
  });
}

void backward(const KernelCall &call) {
  if (!call.wants(0)) return;
  const AxisRows rows = rowsOf(*call.kind, call.out[0].shape);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *dy = call.in[0].as<const T>(), *y = call.in[1].as<const T>();
    T *dx = call.out[0].as<T>();
    for (int64_t row = 0; row < rows.count(); ++row) {
      const int64_t begin = rows.begin(row), end = begin + rows.length * rows.inner;
      double sum = 0;
      for (int64_t i = begin; i < end; i += rows.inner) sum += static_cast<double>(dy[i]) * static_cast<double>(y[i]);
      for (int64_t i = begin; i < end; i += rows.inner)
        dx[i] = static_cast<T>(static_cast<double>(y[i]) * (static_cast<double>(dy[i]) - sum));
    }
  });
}

constinit const OpDef kBackwardSoftmaxActivation = {
    .name = "_backward_SoftmaxActivation",
    .summary = "gradient of SoftmaxActivation: dx = y·(dy − Σ dy·y) along the rows",
    .inputs = {"ograd", "output"},
    .attrs = kAttrs,
    .params = paramsOf<SoftmaxActivationParams>(),
    .shape = rowShape,
    .inplace = kInplaceEither,
    .flags = {.isBackward = true},
    .decompose =
        [](DecomposeRule &d) {
          const Value product = d.emit(kElemwiseMul, {d.x(0), d.x(1)});
          const Value sum = d.emit(kSum, {product}, {{"axis", isChannel(d.kind()) ? "1" : "-1"}, {"keepdims", "True"}});
          d.y(0, d.emit(kElemwiseMul, {d.x(1), d.emit(kBroadcastSub, {d.x(0), sum})}));
        },
    .kernel = backward,
};

constinit const OpDef kSoftmaxActivation = {
    .name = "SoftmaxActivation",
    .summary = "y[k] = exp x[k] / Σ over j of exp x[j], along the last axis (instance) or axis 1 (channel)",
    .inputs = {"data"},
    .attrs = kAttrs,
    .params = paramsOf<SoftmaxActivationParams>(),
    .shape = rowShape,
    .inplace = kInplaceFirst,
    .gradient = [](GradRule &g) { g.fused(kBackwardSoftmaxActivation, {g.dy(0), g.y(0)}); },
    .kernel = forward,
};

constexpr const OpDef *kOps[] = {&kSoftmaxActivation, &kBackwardSoftmaxActivation};

}  // namespace
constinit const OpFamily kSoftmaxActivationFamily = kOps;

}  // namespace gradc
