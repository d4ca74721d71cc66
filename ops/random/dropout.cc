// Dropout: elements are zeroed with probability p and the others scaled by 1/(1 − p), in training or always.
//
// The mask, already scaled, is a hidden output and carries all randomness: forward and gradient are products with it.
// Where nothing is dropped the mask is ones, so both forms share one definition. Tested by tests/ops/nn_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/kernel.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/kit/primitives.h"
#include "ops/kit/strided_walk.h"
#include "ops/random/dropout.h"
#include "ops/spatial/spatial.h"

using namespace llvm;

namespace gradc {
namespace {

enum class DropoutMode : uint8_t { Training, Always };
constexpr StringRef kModeNames[] = {"training", "always"};
constexpr ArrayRef<StringRef> enumNames(DropoutMode) { return kModeNames; }

struct DropoutParams {
  double p = 0.5;
  DropoutMode mode = DropoutMode::Training;
  Dims axes;
  Tristate cudnnOff = Tristate::None;
};

constexpr AttrSpec kAttrs[] = {
    attr<&DropoutParams::p>("p", "0.5", "probability of an element to be zeroed").atLeast(0).atMost(1),
    attr<&DropoutParams::mode>("mode", "training", "when elements are zeroed"),
    ofAxis(attr<&DropoutParams::axes>("axes", "()", "axes along which all elements share one draw")).atLeast(0),
    attr<&DropoutParams::cudnnOff>("cudnn_off", "False", "accepted and not used"),
};

Error checkParams(const OpDef &, void *params) {
  DropoutParams &p = *static_cast<DropoutParams *>(params);
  p.cudnnOff = settle(p.cudnnOff);
  return Error::success();
}

// Shape of the mask, output 1 or input 1: the data's, with length 1 on the shared axes.
void relateMask(ShapeInference &s, bool isOutput) {
  const DropoutParams &p = s.params<DropoutParams>();
  const ShapeRef data = s.in(0);
  if (s.hasFailed() || !data.hasRank()) return;
  DimsBuffer mask(data.dims());
  for (int64_t axis : p.axes) {
    if (axis >= static_cast<int64_t>(mask.size()))
      return s.fail("axis " + Twine(axis) + " of 'axes' is outside data of shape " + toString(data));
    mask[static_cast<size_t>(axis)] = 1;
  }
  if (isOutput) s.setOut(1, mask);
  else s.setIn(1, mask);
}

bool drawsInTraining(const NodeKind &kind) {
  const DropoutParams &p = kind.params<DropoutParams>();
  return p.p > 0 && p.mode == DropoutMode::Training;
}

bool drops(const KernelCall &call) {
  const DropoutParams &p = call.params<DropoutParams>();
  return p.p > 0 && (call.isTraining || p.mode == DropoutMode::Always);
}

// Offsets into the mask for each element of the data in row-major order.
StridedWalk maskWalk(Dims data, Dims mask) { return StridedWalk(data, broadcastStrides(data, mask)); }

// Element i of the mask: 1/(1 − p) with probability 1 − p, else 0. With p = 1 everything is zeroed.
double draw(const KernelCall &call, int64_t i) {
  const double keep = 1 - call.params<DropoutParams>().p;
  return call.random.uniform(static_cast<uint64_t>(i)) < keep ? 1 / keep : 0;
}

void forward(const KernelCall &call) {
  const bool isDropping = drops(call);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    auto maskAt = [&](int64_t i) { return isDropping ? static_cast<T>(draw(call, i)) : T{1}; };
    if (call.wants(0)) {
      const T *x = call.in[0].as<const T>();
      T *y = call.out[0].as<T>();
      StridedWalk walk = maskWalk(call.out[0].shape, call.out[1].shape);
      for (int64_t i = 0, size = call.out[0].size(); i < size; ++i, walk.next()) y[i] = x[i] * maskAt(walk.offset());
    }
    if (call.wants(1))
      for (int64_t i = 0, size = call.out[1].size(); i < size; ++i) call.out[1].as<T>()[i] = maskAt(i);
  });
}

void backward(const KernelCall &call) {
  if (!call.wants(0)) return;
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *dy = call.in[0].as<const T>(), *mask = call.in[1].as<const T>();
    T *dx = call.out[0].as<T>();
    StridedWalk walk = maskWalk(call.out[0].shape, call.in[1].shape);
    for (int64_t i = 0, size = call.out[0].size(); i < size; ++i, walk.next()) dx[i] = dy[i] * mask[walk.offset()];
  });
}

// The mask has one draw per element. It is ones for p = 0 and, in mode training, in inference.
void decompose(DecomposeRule &d) {
  const DropoutParams &p = d.params<DropoutParams>();
  const Value x = d.x(0);
  Value place = x;
  for (int64_t axis : p.axes)
    place = d.emit(kSliceAxis, {place}, {{"axis", d.number(axis)}, {"begin", "0"}, {"end", "1"}});
  const Value ones = d.emit(kOnesLike, {place});
  Value mask = ones;
  if (p.p > 0) {
    const double keep = 1 - p.p;
    const Value kept = d.emit(kLesserScalar, {d.emit(kUniformLike, {place})}, {{"scalar", d.number(keep)}});
    const Value scaled = d.emit(kMulScalar, {kept}, {{"scalar", d.number(keep > 0 ? 1 / keep : 0)}});
    mask = d.emit(kCastLike, {scaled, x});
    if (p.mode == DropoutMode::Training) mask = d.emit(kWhere, {d.emit(kInTraining, {ones}), mask, ones});
  }
  d.y(0, d.emit(kBroadcastMul, {x, mask}));
  d.y(1, mask);
}

// dx = dy · mask; linear in dy, and the mask is a constant
constinit const OpDef kBackwardDropout = {
    .name = "_backward_Dropout",
    .summary = "gradient of Dropout: dx = dy·mask",
    .inputs = {"ograd", "mask"},
    .attrs = kAttrs,
    .params = paramsOf<DropoutParams>(),
    .check = checkParams,
    .shape =
        [](ShapeInference &s) {
          s.sameInOut(0, 0);
          relateMask(s, false);
        },
    .inplace = kInplaceFirst,
    .stopped = {1},
    .flags = {.isBackward = true},
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kBroadcastMul, {d.x(0), d.x(1)})); },
    .kernel = backward,
};

}  // namespace

constinit const OpDef kDropout = {
    .name = "Dropout",
    .aliases = {"_npx_dropout"},
    .summary = "y = x·mask, mask = 0 with probability p, else 1/(1 − p), in training; y = x in inference",
    .inputs = {"data"},
    .outputs = {"output", "mask"},
    .visibleOutputs = [](const NodeKind &) { return 1u; },
    .attrs = kAttrs,
    .params = paramsOf<DropoutParams>(),
    .check = checkParams,
    .shape =
        [](ShapeInference &s) {
          s.sameInOut(0, 0);
          relateMask(s, true);
        },
    .inplace = kInplaceFirst,
    .flags = {.isRandom = true},
    .readsForm = drawsInTraining,
    .gradient =
        [](GradRule &g) {
          // The mask does not depend on the data: without a gradient of the output there is none.
          if (g.isZero(0)) return g.noGrad(0);
          g.fused(kBackwardDropout, {g.dy(0), g.y(1)});
        },
    .decompose = decompose,
    .kernel = forward,
};

DropoutAttrs dropoutAttrs(const NodeKind &kind) {
  const DropoutParams &p = kind.params<DropoutParams>();
  return {p.mode == DropoutMode::Always, 1 - p.p};
}

constinit const OpFamily kDropoutFamily = kOps<kDropout, kBackwardDropout>;

}  // namespace gradc
