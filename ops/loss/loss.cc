// Operators that stop differentiation or start it: BlockGrad, make_loss, MakeLoss. The forward pass of each is the
// identity.
// Tested by tests/ops/loss_ops_test.cc
#include "ir/base/number.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/loss/softmax_loss.h"

#include <algorithm>
using namespace llvm;

namespace gradc {
namespace {

struct MakeLossParams {
  double gradScale;
  double validThreshold;
  LossNormalization normalization;
};
constexpr AttrSpec kMakeLossAttrs[] = {
    attr<&MakeLossParams::gradScale>("grad_scale", "1", "factor of the gradient"),
    attr<&MakeLossParams::validThreshold>("valid_thresh", "0", "elements above it count under normalization 'valid'"),
    attr<&MakeLossParams::normalization>(
        "normalization", "null",
        "divide by nothing, the number of rows (the product of all axes but the last), or the number of valid "
        "elements"),
};

bool isValidNormalized(const NodeKind &kind) {
  return kind.params<MakeLossParams>().normalization == LossNormalization::Valid;
}

template <class T> double sumOf(const TensorRef &tensor) {
  double total = 0;
  for (int64_t i = 0; i < tensor.size(); ++i) total += static_cast<double>(tensor.as<const T>()[i]);
  return total;
}

double sumLoss(const KernelCall &call) {
  double total = 0;
  dispatchNumeric(call.in[0].dtype, [&](auto zero) { total = sumOf<decltype(zero)>(call.in[0]); });
  return total;
}

// The gradient of each element. `data` is read only under normalization 'valid'; the count is a constant.
double makeLossFactor(const MakeLossParams &params, Dims shape, const TensorRef *data) {
  const float scale = static_cast<float>(params.gradScale);
  if (params.normalization == LossNormalization::Null) return scale;
  if (params.normalization == LossNormalization::Batch) {
    int64_t rows = 1;
    for (int64_t dim : shape.empty() ? shape : shape.drop_back()) rows *= dim;
    return scale / static_cast<float>(std::max<int64_t>(rows, 1));
  }
  int64_t numValid = 0;
  dispatchNumeric(data->dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = data->as<const T>(), threshold = convertNumber<T>(static_cast<float>(params.validThreshold));
    numValid = std::count_if(x, x + data->size(), [&](T value) { return value > threshold; });
  });
  return static_cast<double>(scale) / static_cast<double>(std::max<int64_t>(numValid, 1));
}

void makeLossGradient(const KernelCall &call) {
  if (!call.wants(0)) return;
  const TensorRef *data = call.in.empty() ? nullptr : &call.in[0];
  const double factor = makeLossFactor(call.params<MakeLossParams>(), call.out[0].shape, data);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    std::fill_n(call.out[0].as<T>(), call.out[0].size(), static_cast<T>(factor));
  });
}

// The factor everywhere; its divisor is counted when the graph runs.
void decomposeMakeLoss(DecomposeRule &d) {
  const MakeLossParams &p = d.params<MakeLossParams>();
  const Value x = d.numInputs() ? d.x(0) : d.forwardInput(0), ones = d.emit(kOnesLike, {x});
  const StringRef scale = d.number(static_cast<float>(p.gradScale));
  if (p.normalization == LossNormalization::Null || (p.normalization == LossNormalization::Batch && d.rank(x) <= 1))
    return d.y(0, d.emit(kMulScalar, {ones}, {{"scalar", scale}}));
  const bool isBatch = p.normalization == LossNormalization::Batch;
  const Value counted =
      isBatch ? ones : d.emit(kGreaterScalar, {x}, {{"scalar", d.number(static_cast<float>(p.validThreshold))}});
  const Value number = d.emit(kCast, {counted}, {{"dtype", isBatch ? "float32" : "float64"}});
  Value count = isBatch ? d.emit(kSum, {number}, {{"axis", "-1"}, {"exclude", "True"}, {"keepdims", "True"}})
                        : d.emit(kReshape, {d.emit(kSum, {number})}, {{"shape", "(1,)"}});
  count = d.emit(kMaximumScalar, {count}, {{"scalar", "1"}});
  const Value factor = d.emit(kCastLike, {d.emit(kRdivScalar, {count}, {{"scalar", scale}}), x});
  d.y(0, d.emit(kBroadcastMul, {ones, factor}));
}

extern const OpDef kBackwardMakeLoss;

// y = x
constexpr OpDef passing(OpDef op) {
  op.shape = shapes::same;
  op.inplace = kInplaceIdentity;
  op.flags.isConstantInGradcheck = true;
  op.kernel = copyBytes;
  return asMovementOfData(op);
}

// y = x; dx = 0 (STOP-01)
constinit const OpDef kBlockGrad = passing({
    .name = "BlockGrad",
    .aliases = {"stop_gradient", "_sparse_stop_gradient"},
    .summary = "y = x, through which no gradient flows",
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kZerosLike, {g.x(0)})); },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kCopy, {d.x(0)}, {{kStopMark, "True"}})); },
});

// y = x; dx = 1 whatever the head (STOP-02)
constinit const OpDef kMakeLoss = passing({
    .name = "make_loss",
    .aliases = {"_sparse_make_loss"},
    .summary = "y = x, a loss: its gradient is 1 whatever the head gradient; loss = sum of x",
    .outputs = {"loss"},
    .gradient = [](GradRule &g) { g.dx(0, g.emit(g.isZero(0) ? kZerosLike : kOnesLike, {g.x(0)})); },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kCopy, {d.x(0)}, {loweredFrom(d)})); },
    .impliedLoss = sumLoss,
    .ignoresHead = true,
});

// y = x; dx = grad_scale / n whatever the head
constinit const OpDef kMakeLossOutput = passing({
    .name = "MakeLoss",
    .summary =
        "y = x, a loss: its gradient is grad_scale / n whatever the head gradient; loss = grad_scale / n * sum of x,"
        " n = 1, the number of rows (the product of all axes but the last), or the number of elements above "
        "valid_thresh",
    .attrs = kMakeLossAttrs,
    .params = paramsOf<MakeLossParams>(),
    .gradient =
        [](GradRule &g) {
          if (g.isZero(0)) return g.dx(0, g.emit(kZerosLike, {g.x(0)}));
          SmallVector<Value, 1> operands;
          if (isValidNormalized(g.kind())) operands.push_back(g.x(0));
          g.fused(kBackwardMakeLoss, operands);
        },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kCopy, {d.x(0)}, {loweredFrom(d)})); },
    .impliedLoss =
        [](const KernelCall &call) {
          return makeLossFactor(call.params<MakeLossParams>(), call.in[0].shape, &call.in[0]) * sumLoss(call);
        },
    .ignoresHead = true,
});

// Has an input only if the count needs it; otherwise only the forward node gives its shape.
constinit const OpDef kBackwardMakeLoss = {
    .name = "_backward_MakeLoss",
    .summary = "gradient of MakeLoss: grad_scale / n everywhere; counts are constants",
    .inputs = {{"data"}, [](const NodeKind &kind) { return uint32_t{isValidNormalized(kind)}; }},
    .attrs = kMakeLossAttrs,
    .params = paramsOf<MakeLossParams>(),
    .shape = shapes::same,
    .flags = {.isBackward = true},
    .gradient =
        [](GradRule &g) {
          if (g.numInputs()) g.dx(0, g.emit(kZerosLike, {g.x(0)}));
        },
    .decompose = decomposeMakeLoss,
    .kernel = makeLossGradient,
};

}  // namespace

constinit const OpFamily kLossFamily = kOps<kBlockGrad, kMakeLoss, kMakeLossOutput, kBackwardMakeLoss>;

}  // namespace gradc
