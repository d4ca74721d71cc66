// SoftmaxActivation: a softmax over the last axis or over the channels, as networks had it before `softmax`.
//
// Mode instance runs along the last axis, mode channel along axis 1. For data of more than two axes, MXNet's gradient
// of mode instance sums over axis 1 and does not match MXNet's forward pass; here the two match.
// Tested by tests/ops/layer_ops_test.cc
#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/axis_rows.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/normalization/softmax.h"
#include "ops/normalization/softmax_activation.h"
#include "ops/normalization/softmax_rows.h"

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

bool isChannel(const NodeKind &kind) { return kind.params<SoftmaxActivationParams>().mode == SoftmaxMode::Channel; }

StringRef rowAxis(const NodeKind &kind) { return isChannel(kind) ? "1" : "-1"; }

SoftmaxRows rowsOf(const NodeKind &kind, Dims shape) {
  return {AxisRows(shape, isChannel(kind) ? 1 : shape.size() - 1), 1, false};
}

void rowShape(ShapeInference &s) {
  s.sameAll();
  const size_t least = isChannel(s.kind()) ? 3 : 1;
  if (s.hasFailed() || !s.in(0).hasRank() || s.in(0).rank() >= least) return;
  s.fail("data has shape " + toString(s.in(0)) + ", expected " + countOf(least, "axis", "axes") + " at least");
}

void forward(const KernelCall &call) {
  if (!call.wants(0)) return;
  const SoftmaxRows softmax = rowsOf(*call.kind, call.in[0].shape);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t row = 0; row < softmax.count(); ++row)
      softmax.forward(call.in[0].as<const T>(), call.out[0].as<T>(), row, softmax.rows.length);
  });
}

void backward(const KernelCall &call) {
  if (!call.wants(0)) return;
  const SoftmaxRows softmax = rowsOf(*call.kind, call.out[0].shape);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t row = 0; row < softmax.count(); ++row)
      softmax.backward(call.in[0].as<const T>(), call.in[1].as<const T>(), call.out[0].as<T>(), row);
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
          const Value sum = d.emit(kSum, {product}, {{"axis", rowAxis(d.kind())}, {"keepdims", "True"}});
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
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kSoftmax, {d.x(0)}, {{"axis", rowAxis(d.kind())}})); },
    .kernel = forward,
};

}  // namespace

SoftmaxAttrs softmaxActivationAttrs(const NodeKind &kind) { return {isChannel(kind) ? 1 : -1, 1, false, false}; }

constinit const OpFamily kSoftmaxActivationFamily = kOps<kSoftmaxActivation, kBackwardSoftmaxActivation>;

}  // namespace gradc
