// GroupNorm: channels in groups; every group of every image centred and scaled to unit deviation, then y = γ·x̂ + β per
// group.
//
// Outputs 1 and 2 are the mean and the deviation s = (var + eps)^(1/2) of each (image, group); the gradient computes
// from them. They depend on the data, so the rule of GroupNorm adds the gradient through them if something
// differentiates them: that makes second and higher orders right. γ and β are those of MXNet 1.9.1, one number per
// group. Sums run in float64. Tested by tests/ops/network_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/normalization/group_norm.h"
#include "ops/normalization/normalization.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

struct GroupNormParams {
  int64_t groups = 1;
  double eps = 1e-5;
  bool outputMeanVar = false;
};

constexpr AttrSpec kAttrs[] = {
    attr<&GroupNormParams::groups>("num_groups", "1", "into how many groups the channels are divided")
        .atLeast(1)
        .atMost(0x7fffffff),
    attr<&GroupNormParams::eps>("eps", "9.99999975e-06", "added to the variance").atLeast(0),
    attr<&GroupNormParams::outputMeanVar>("output_mean_var", "False",
                                          "make the mean and the deviation visible outputs"),
};

void relateShapes(ShapeInference &s, NormPorts ports) {
  const int64_t groups = s.params<GroupNormParams>().groups;
  for (int pass = 0; pass < 2; ++pass) {
    s.sameInOut(ports.data, 0);
    s.sameInOut(0, 0);
  }
  for (size_t i : ports.vectorInputs) s.setIn(i, {groups});
  for (size_t o : ports.vectorOutputs) s.setOut(o, {groups});
  if (s.hasFailed() || !s.in(ports.data).hasRank()) return;
  DimsBuffer dims(s.in(ports.data).dims());
  if (dims.size() < 3)
    return s.fail("data has shape " + toString(s.in(ports.data)) +
                  ", expected axes of images, of channels and of pixels");
  if (dims[1] != kUnknownDim && dims[1] % groups != 0)
    return s.fail("data has shape " + toString(s.in(ports.data)) + ", expected a multiple of num_groups " +
                  Twine(groups) + " channels");
  for (size_t i : ports.rowInputs) s.setIn(i, {dims[0], groups});
  for (size_t o : ports.rowOutputs) s.setOut(o, {dims[0], groups});
  if (s.hasFailed()) return;
  for (size_t i : ports.rowInputs) dims[0] = std::max(dims[0], s.in(i)[0]);
  for (size_t o : ports.rowOutputs) dims[0] = std::max(dims[0], s.out(o)[0]);
  s.setIn(ports.data, dims);
  s.setOut(0, dims);
  s.setIn(0, dims);
}

constexpr size_t kFirstAndSecond[] = {1, 2}, kGamma[] = {2}, kStatistics[] = {3, 4};
constexpr NormPorts kForwardPorts = {
    .data = 0, .vectorInputs = kFirstAndSecond, .vectorOutputs = {}, .rowInputs = {}, .rowOutputs = kFirstAndSecond};
constexpr NormPorts kBackwardPorts = {
    .data = 1, .vectorInputs = kGamma, .vectorOutputs = kFirstAndSecond, .rowInputs = kStatistics, .rowOutputs = {}};

}  // namespace

double groupNormEps(const NodeKind &kind) { return kind.params<GroupNormParams>().eps; }

namespace {

// A tensor as one row of elements per image and group.
struct GroupRows {
  int64_t groups, count, length = 1;

  GroupRows(const KernelCall &call, Dims shape)
      : groups(call.params<GroupNormParams>().groups), count(shape[0] * groups) {
    for (int64_t dim : shape.drop_front()) length *= dim;
    length /= groups;
  }
};

template <class T> void forwardRows(const KernelCall &call) {
  const GroupRows rows(call, call.in[0].shape);
  const double eps = call.params<GroupNormParams>().eps;
  const T *gamma = call.in[1].as<const T>(), *beta = call.in[2].as<const T>();
  for (int64_t row = 0; row < rows.count; ++row) {
    const T *x = call.in[0].as<const T>() + row * rows.length;
    const auto [mean, variance] = momentsOf(rows.length, [=](int64_t k) { return x[k]; });
    const double deviation = std::sqrt(variance + eps);
    if (call.wants(1)) call.out[1].as<T>()[row] = static_cast<T>(mean);
    if (call.wants(2)) call.out[2].as<T>()[row] = static_cast<T>(deviation);
    if (!call.wants(0)) continue;
    const double scale = static_cast<double>(gamma[row % rows.groups]) / deviation;
    const double shift = static_cast<double>(beta[row % rows.groups]);
    T *y = call.out[0].as<T>() + row * rows.length;
    for (int64_t k = 0; k < rows.length; ++k) y[k] = static_cast<T>((static_cast<double>(x[k]) - mean) * scale + shift);
  }
}

// dγ = Σ dy·x̂ and dβ = Σ dy over images and the group; dx = γ·(dy − mean dy − x̂·mean(dy·x̂))/s with means over the
// group.
template <class T> void backwardRows(const KernelCall &call) {
  const GroupRows rows(call, call.in[1].shape);
  const double count = static_cast<double>(rows.length);
  SmallVector<double, 32> heads(static_cast<size_t>(rows.groups), 0), products(heads);
  for (int64_t row = 0; row < rows.count; ++row) {
    const size_t group = static_cast<size_t>(row % rows.groups);
    const T *dy = call.in[0].as<const T>() + row * rows.length, *x = call.in[1].as<const T>() + row * rows.length;
    const double mean = static_cast<double>(call.in[3].as<const T>()[row]);
    const double deviation = static_cast<double>(call.in[4].as<const T>()[row]);
    auto normal = [&](int64_t k) { return (static_cast<double>(x[k]) - mean) / deviation; };
    double sum = 0, product = 0;
    for (int64_t k = 0; k < rows.length; ++k) {
      sum += static_cast<double>(dy[k]);
      product += static_cast<double>(dy[k]) * normal(k);
    }
    heads[group] += sum;
    products[group] += product;
    if (!call.wants(0)) continue;
    const double scale = static_cast<double>(call.in[2].as<const T>()[group]) / deviation;
    T *dx = call.out[0].as<T>() + row * rows.length;
    for (int64_t k = 0; k < rows.length; ++k)
      dx[k] = static_cast<T>((static_cast<double>(dy[k]) - sum / count - normal(k) * (product / count)) * scale);
  }
  for (size_t group = 0; group < heads.size(); ++group) {
    if (call.wants(1)) call.out[1].as<T>()[group] = static_cast<T>(products[group]);
    if (call.wants(2)) call.out[2].as<T>()[group] = static_cast<T>(heads[group]);
  }
}

// The same with tensors viewed as (image, group, elements).
class Groups : public ChannelSums {
 public:
  explicit Groups(RuleContext &rule)
      : ChannelSums(rule), shape("(0,-4," + std::to_string(rule.params<GroupNormParams>().groups) + ",-1,-2)") {}

  /// `keep` undoes it.
  Value split(Value v) { return rule.emit(kReshape, {v}, {{"shape", shape}}); }

 private:
  const std::string shape;
};

void decomposeBackward(DecomposeRule &d) {
  Groups groups(d);
  const Value dy = groups.split(d.x(0)), x = groups.split(d.x(1));
  if (d.wants(2)) d.y(2, groups.perChannel(dy));
  if (!d.wants(0) && !d.wants(1)) return;
  const Value shift = groups.mean(dy), deviation = groups.keep(d.x(4), shift);
  const Value centred = d.emit(kBroadcastSub, {x, groups.keep(d.x(3), shift)});
  const Value normal = d.emit(kBroadcastDiv, {centred, deviation});
  const Value product = d.emit(kElemwiseMul, {dy, normal});
  if (d.wants(1)) d.y(1, groups.perChannel(product));
  if (!d.wants(0)) return;
  const Value slope = d.emit(kBroadcastMul, {normal, groups.mean(product)});
  const Value inner = d.emit(kElemwiseSub, {d.emit(kBroadcastSub, {dy, shift}), slope});
  const Value dx = d.emit(kElemwiseMul, {d.emit(kBroadcastDiv, {inner, deviation}), groups.spread(d.x(2), x)});
  d.y(0, groups.keep(dx, d.x(1)));
}

constinit const OpDef kBackwardGroupNorm = {
    .name = "_backward_GroupNorm",
    .summary = "gradients of GroupNorm: dx = γ·(dy − mean dy − x̂·mean(dy·x̂))/s with means over the group, "
               "dγ = Σ dy·x̂, dβ = Σ dy",
    .inputs = {"ograd", "data", "gamma", "mean", "std"},
    .outputs = {"data_grad", "gamma_grad", "beta_grad"},
    .attrs = kAttrs,
    .params = paramsOf<GroupNormParams>(),
    .check = roundEps<GroupNormParams>,
    .shape = [](ShapeInference &s) { relateShapes(s, kBackwardPorts); },
    .flags = {.isBackward = true},
    .decompose = decomposeBackward,
    .kernel = normalizationKernel<[](auto zero, const KernelCall &call) { backwardRows<decltype(zero)>(call); }>,
};

// The gradient through the statistics, from theirs, dm and ds: (dm + x̂·ds)/n, because d m = 1/n and d s = x̂/n.
Value throughStatistics(GradRule &g) {
  Groups groups(g);
  const Value x = groups.split(g.x(0)), count = groups.sum(g.emit(kOnesLike, {x}));
  auto share = [&](Value v) { return g.emit(kElemwiseDiv, {groups.keep(v, count), count}); };
  Value total;
  if (!g.isZero(1)) total = g.emit(kBroadcastLike, {share(g.dy(1)), x});
  if (!g.isZero(2)) {
    const Value centred = g.emit(kBroadcastSub, {x, groups.keep(g.y(1), count)});
    const Value normal = g.emit(kBroadcastDiv, {centred, groups.keep(g.y(2), count)});
    const Value term = g.emit(kBroadcastMul, {normal, share(g.dy(2))});
    total = total.isValid() ? g.emit(kElemwiseAdd, {total, term}) : term;
  }
  return groups.keep(total, g.x(0));
}

void groupNormGradient(GradRule &g) {
  auto fused = [&] { return g.fused(kBackwardGroupNorm, {g.dy(0), g.x(0), g.x(1), g.y(1), g.y(2)}); };
  normalizationGradient(g, false, fused, [&] { return throughStatistics(g); });
}

void decomposeForward(DecomposeRule &d) {
  Groups groups(d);
  const Value x = groups.split(d.x(0)), mean = groups.mean(x), centred = d.emit(kBroadcastSub, {x, mean});
  const Value variance = groups.mean(d.emit(kSquare, {centred}));
  const StringRef eps = d.number(d.params<GroupNormParams>().eps);
  const Value deviation = d.emit(kSqrt, {d.emit(kPlusScalar, {variance}, {{"scalar", eps}})});
  if (d.wants(1)) d.y(1, groups.perRow(mean));
  if (d.wants(2)) d.y(2, groups.perRow(deviation));
  if (!d.wants(0)) return;
  const Value normal = d.emit(kBroadcastDiv, {centred, deviation});
  const Value scaled = d.emit(kElemwiseMul, {normal, groups.spread(d.x(1), x)});
  d.y(0, groups.keep(d.emit(kElemwiseAdd, {scaled, groups.spread(d.x(2), x)}), d.x(0)));
}

constinit const OpDef kGroupNorm = {
    .name = "GroupNorm",
    .summary = "y = γ·(x − mean)/s + β, mean and s = (var + eps)^(1/2) of each group of channels of each image, "
               "var the biased variance; γ and β have one number per group",
    .inputs = {"data", "gamma", "beta"},
    .outputs = {"output", "mean", "std"},
    .visibleOutputs = [](const NodeKind &k) { return k.params<GroupNormParams>().outputMeanVar ? 3u : 1u; },
    .attrs = kAttrs,
    .params = paramsOf<GroupNormParams>(),
    .check = roundEps<GroupNormParams>,
    .shape = [](ShapeInference &s) { relateShapes(s, kForwardPorts); },
    .inplace = kInplaceFirst,
    .gradient = groupNormGradient,
    .decompose = decomposeForward,
    .kernel = normalizationKernel<[](auto zero, const KernelCall &call) { forwardRows<decltype(zero)>(call); }>,
};

}  // namespace

constinit const OpFamily kGroupNormFamily = kOps<kGroupNorm, kBackwardGroupNorm>;

}  // namespace gradc
