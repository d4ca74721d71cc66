// L2Normalization: groups of elements divided by their Euclidean norm n = (Σ x² + eps)^(1/2).
//
// A group is an image (instance), the channels of one pixel (channel) or the pixels of one channel (spatial). The norm
// is a hidden output; the gradient reads it and y. Differentiating the gradient reaches the norm, so the rule adds the
// gradient through it. Sums run in float64. Tested by tests/ops/layer_ops_test.cc
#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/attrs.h"
#include "ops/kit/axis_rows.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/normalization/l2_normalization.h"
#include "ops/normalization/normalization.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

enum class NormMode : uint8_t { Channel, Instance, Spatial };
constexpr StringRef kModeNames[] = {"channel", "instance", "spatial"};
constexpr ArrayRef<StringRef> enumNames(NormMode) { return kModeNames; }

struct L2Params {
  double eps = 1e-10;
  NormMode mode = NormMode::Instance;
};

constexpr AttrSpec kAttrs[] = {
    attr<&L2Params::eps>("eps", "1.00000001e-10", "added to the sum of squares").atLeast(0),
    attr<&L2Params::mode>("mode", "instance",
                          "what is normalised together: image, channels of a pixel, pixels of a channel"),
};

NormMode modeOf(const NodeKind &kind) { return kind.params<L2Params>().mode; }

}  // namespace

AxisRows l2Rows(const NodeKind &kind, Dims shape) {
  if (modeOf(kind) == NormMode::Channel) return AxisRows(shape, 1);
  AxisRows rows({}, 0);
  const size_t numLeading = modeOf(kind) == NormMode::Instance ? 1 : 2;
  for (size_t i = 0; i < shape.size(); ++i) (i < numLeading ? rows.outer : rows.length) *= shape[i];
  return rows;
}

double l2Eps(const NodeKind &kind) { return kind.params<L2Params>().eps; }

namespace {

// Data, y and dy have one shape; the norm one element per group.
void relateShapes(ShapeInference &s, size_t data, bool normIsOutput) {
  s.sameInOut(data, 0);
  if (s.hasFailed() || !s.in(data).hasRank()) return;
  const NormMode mode = modeOf(s.kind());
  const size_t least = mode == NormMode::Instance ? 1 : 3;
  DimsBuffer dims(s.in(data).dims());
  if (dims.size() < least)
    return s.fail("data has shape " + toString(s.in(data)) + ", expected " + countOf(least, "axis", "axes") +
                  " at least");
  if (mode == NormMode::Channel) dims[1] = 1;
  else dims.resize(mode == NormMode::Instance ? 1 : 2);
  if (normIsOutput) s.setOut(1, dims);
  else s.setIn(2, dims);
}

void forward(const KernelCall &call) {
  const AxisRows rows = l2Rows(*call.kind, call.in[0].shape);
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t row = 0; row < rows.count(); ++row) {
      const int64_t begin = rows.begin(row), end = begin + rows.length * rows.inner;
      const T *x = call.in[0].as<const T>();
      double squares = l2Eps(*call.kind);
      for (int64_t i = begin; i < end; i += rows.inner)
        squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
      const double norm = std::sqrt(squares);
      if (call.wants(1)) call.out[1].as<T>()[row] = static_cast<T>(norm);
      if (!call.wants(0)) continue;
      for (int64_t i = begin; i < end; i += rows.inner)
        call.out[0].as<T>()[i] = static_cast<T>(static_cast<double>(x[i]) / norm);
    }
  });
}

void backward(const KernelCall &call) {
  if (!call.wants(0)) return;
  const AxisRows rows = l2Rows(*call.kind, call.in[0].shape);
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *dy = call.in[0].as<const T>(), *y = call.in[1].as<const T>();
    for (int64_t row = 0; row < rows.count(); ++row) {
      const int64_t begin = rows.begin(row), end = begin + rows.length * rows.inner;
      const double norm = static_cast<double>(call.in[2].as<const T>()[row]);
      double sum = 0;
      for (int64_t i = begin; i < end; i += rows.inner) sum += static_cast<double>(dy[i]) * static_cast<double>(y[i]);
      for (int64_t i = begin; i < end; i += rows.inner)
        call.out[0].as<T>()[i] = static_cast<T>((static_cast<double>(dy[i]) - static_cast<double>(y[i]) * sum) / norm);
    }
  });
}

// Σ over each group, with one element on every reduced axis.
Value groupSum(RuleContext &rule, Value v) {
  switch (modeOf(rule.kind())) {
    case NormMode::Channel: return rule.emit(kSum, {v}, {{"axis", "1"}, {"keepdims", "True"}});
    case NormMode::Instance: return rule.emit(kSum, {v}, {{"axis", "0"}, {"exclude", "True"}, {"keepdims", "True"}});
    case NormMode::Spatial: return rule.emit(kSum, {v}, {{"axis", "(0,1)"}, {"exclude", "True"}, {"keepdims", "True"}});
  }
  return v;
}

constinit const OpDef kBackwardL2Normalization = {
    .name = "_backward_L2Normalization",
    .summary = "gradient of L2Normalization: dx = (dy − y·Σ dy·y)/n, Σ over the group",
    .inputs = {"ograd", "output", "norm"},
    .attrs = kAttrs,
    .params = paramsOf<L2Params>(),
    .check = roundEps<L2Params>,
    .shape =
        [](ShapeInference &s) {
          for (int pass = 0; pass < 2; ++pass) {
            s.sameInOut(0, 0);
            s.sameInOut(1, 0);
          }
          relateShapes(s, 0, false);
        },
    .inplace = kInplaceEither,
    .flags = {.isBackward = true},
    .decompose =
        [](DecomposeRule &d) {
          const Value dy = d.x(0), y = d.x(1);
          const Value sum = groupSum(d, d.emit(kElemwiseMul, {dy, y}));
          const Value centred = d.emit(kElemwiseSub, {dy, d.emit(kBroadcastMul, {y, sum})});
          d.y(0, d.emit(kBroadcastDiv, {centred, d.emit(kReshapeLike, {d.x(2), sum})}));
        },
    .kernel = backward,
};

void decomposeForward(DecomposeRule &d) {
  const Value squares = groupSum(d, d.emit(kSquare, {d.x(0)}));
  const StringRef eps = d.number(d.params<L2Params>().eps);
  const Value norm = d.emit(kSqrt, {d.emit(kPlusScalar, {squares}, {{"scalar", eps}})});
  if (d.wants(0)) d.y(0, d.emit(kBroadcastDiv, {d.x(0), norm}));
  if (!d.wants(1)) return;
  if (modeOf(d.kind()) == NormMode::Channel) return d.y(1, norm);
  // The norm as an output lacks the axes of one element: they are summed away.
  const StringRef kept = modeOf(d.kind()) == NormMode::Instance ? "0" : "(0,1)";
  d.y(1, d.emit(kSum, {norm}, {{"axis", kept}, {"exclude", "True"}}));
}

// dn reaches the data as y·dn, because dn/dx = x/n.
void l2Gradient(GradRule &g) {
  Value dx;
  const bool hasDirect = !g.isZero(0);
  if (hasDirect) dx = g.fused(kBackwardL2Normalization, {g.dy(0), g.y(0), g.y(1)});
  if (g.isZero(1)) return hasDirect ? void() : g.noGrad(0);
  const Value group = groupSum(g, g.y(0));
  const Value extra = g.emit(kBroadcastMul, {g.y(0), g.emit(kReshapeLike, {g.dy(1), group})});
  g.dx(0, hasDirect ? g.emit(kElemwiseAdd, {dx, extra}) : extra);
}

constinit const OpDef kL2Normalization = {
    .name = "L2Normalization",
    .summary =
        "y = x/n, n = (Σ x² + eps)^(1/2) over the image (instance), the channels of a pixel (channel) or the pixels "
        "of a channel (spatial)",
    .inputs = {"data"},
    .outputs = {"output", "norm"},
    .visibleOutputs = [](const NodeKind &) { return 1u; },
    .attrs = kAttrs,
    .params = paramsOf<L2Params>(),
    .check = roundEps<L2Params>,
    .shape = [](ShapeInference &s) { relateShapes(s, 0, true); },
    .inplace = kInplaceFirst,
    .gradient = l2Gradient,
    .decompose = decomposeForward,
    .kernel = forward,
};

}  // namespace

constinit const OpFamily kL2NormalizationFamily = kOps<kL2Normalization, kBackwardL2Normalization>;

}  // namespace gradc
