// Operators over jets that overwrite a variable, and those of whole numbers. Tested by
// tests/networks/differential_test.cc
#include "tests/support/drawn/jet_states.h"

#include "tests/support/drawn/jet_arithmetic.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;

namespace gradc::testing {
namespace {

using Inputs = ArrayRef<const JetTensor *>;
using Outputs = std::vector<JetTensor>;

bool haveOneShape(Inputs in) {
  return all_of(in, [&](const JetTensor *x) { return x->shape == in[0]->shape; });
}

template <class F> JetTensor mapped(Inputs in, F &&combine) {
  JetTensor y{in[0]->shape, {}};
  for (size_t i = 0; i < in[0]->jets.size(); ++i) y.jets.push_back(combine(i));
  return y;
}

// ---- batch norm: axis 1 of data, gamma, beta, moving mean, moving variance

constexpr double kEpsilon = 0.25, kMomentum = 0.5;  // as the attributes say

struct Channel {
  std::vector<Jet> jets;
  Jet mean, variance;
};

size_t channelOf(const JetTensor &x, size_t element) {
  size_t inner = 1;
  for (int64_t d : ArrayRef(x.shape).drop_front(2)) inner *= static_cast<size_t>(d);
  return element / inner % static_cast<size_t>(x.shape[1]);
}

std::vector<Channel> channelsOf(const JetTensor &x) {
  std::vector<Channel> channels(static_cast<size_t>(x.shape[1]));
  for (size_t i = 0; i < x.jets.size(); ++i) channels[channelOf(x, i)].jets.push_back(x.jets[i]);
  for (Channel &c : channels) {
    const Jet share(1.0 / static_cast<double>(c.jets.size()));
    for (const Jet &jet : c.jets) c.mean = c.mean + jet * share;
    for (const Jet &jet : c.jets) c.variance = c.variance + minus(jet, c.mean) * minus(jet, c.mean) * share;
  }
  return channels;
}

bool fitsBatchNorm(Inputs in) {
  if (in[0]->shape.size() < 2) return false;
  return all_of(in.drop_front(), [&](const JetTensor *x) { return x->shape == std::vector<int64_t>{in[0]->shape[1]}; });
}

// `flag`: gamma counts as 1; `count`: whether the node runs in training form.
Outputs batchNorm(const SketchNode &n, Inputs in) {
  if (!fitsBatchNorm(in)) return {};
  const std::vector<Channel> channels = channelsOf(*in[0]);
  JetTensor means{{in[0]->shape[1]}, {}}, deviations = means;
  for (size_t c = 0; c < channels.size(); ++c) {
    if (n.count == 0 && in[4]->jets[c].v < 0.1) return {};
    const Jet variance = n.count ? channels[c].variance : in[4]->jets[c];
    means.jets.push_back(n.count ? channels[c].mean : in[3]->jets[c]);
    deviations.jets.push_back(exponential(Jet(-0.5) * logarithm(variance + Jet(kEpsilon))));
  }
  JetTensor y = mapped(in, [&](size_t i) {
    const size_t c = channelOf(*in[0], i);
    const Jet normal = minus(in[0]->jets[i], means.jets[c]) * deviations.jets[c];
    return (n.flag ? normal : normal * in[1]->jets[c]) + in[2]->jets[c];
  });
  return {y, means, deviations};
}

Outputs movedStatistics(const SketchNode &n, Inputs in) {
  Outputs moved = {*in[3], *in[4]};
  const std::vector<Channel> channels = channelsOf(*in[0]);
  for (size_t c = 0; n.count && c < channels.size(); ++c) {
    moved[0].jets[c] = moved[0].jets[c] * Jet(kMomentum) + channels[c].mean * Jet(1 - kMomentum);
    moved[1].jets[c] = moved[1].jets[c] * Jet(kMomentum) + channels[c].variance * Jet(1 - kMomentum);
  }
  return moved;
}

// ---- an optimizer's step: weight, gradient, momentum

constexpr double kRate = 0.5, kKept = 0.25;  // as the attributes say

JetTensor movedMomentum(Inputs in) {
  return mapped(in, [&](size_t i) { return minus(in[2]->jets[i] * Jet(kKept), in[1]->jets[i] * Jet(kRate)); });
}

Outputs momentumStep(Inputs in) {
  if (!haveOneShape(in)) return {};
  const JetTensor momentum = movedMomentum(in);
  return {mapped(in, [&](size_t i) { return (in[0]->jets[i] + momentum.jets[i]).held(); })};
}

// ---- whole numbers

// `count`: to whole numbers, cut toward 0; else to float32, which all of a run takes for float64.
Outputs cast(const SketchNode &n, Inputs in) {
  JetTensor y = *in[0];
  y.isInteger = n.count;
  if (in[0]->isInteger || !n.count) return {y};
  for (Jet &jet : y.jets) {
    if (std::abs(jet.v - std::round(jet.v)) < 1e-3) return {};
    jet = Jet(std::trunc(jet.v));
  }
  return {y};
}

// Numbers outside the table count as its nearest row.
Outputs embedding(Inputs in) {
  if (!in[0]->isInteger || in[1]->isInteger || in[1]->shape.size() != 2) return {};
  const int64_t rows = in[1]->shape[0], columns = in[1]->shape[1];
  JetTensor y{in[0]->shape, {}};
  y.shape.push_back(columns);
  for (const Jet &jet : in[0]->jets) {
    const int64_t row = std::min(std::max(static_cast<int64_t>(jet.v), int64_t{0}), rows - 1);
    y.jets.insert(y.jets.end(), in[1]->jets.begin() + row * columns, in[1]->jets.begin() + (row + 1) * columns);
  }
  return {y};
}

Outputs isGreater(Inputs in) {
  if (!haveOneShape(in) || in[0]->isInteger != in[1]->isInteger) return {};
  for (size_t i = 0; i < in[0]->jets.size() && !in[0]->isInteger; ++i)
    if (std::abs(in[0]->jets[i].v - in[1]->jets[i].v) < 1e-3) return {};
  JetTensor y = mapped(in, [&](size_t i) { return Jet(in[0]->jets[i].v > in[1]->jets[i].v ? 1 : 0); });
  y.isInteger = in[0]->isInteger;
  return {y};
}

// Whether an operator that takes floating numbers takes whole ones just so.
bool isNumeric(StringRef op) {
  return is_contained({"_copy", "negative", "Reshape", "Flatten", "transpose", "expand_dims", "reverse", "SliceChannel",
                       "slice_axis", "repeat", "Concat", "stack", "elemwise_add", "elemwise_sub", "elemwise_mul",
                       "zeros_like", "ones_like"},
                      op);
}

}  // namespace

bool SketchNode::overwrites(size_t i) const {
  if (flow) return flow->isMutated[i];
  if (op == "test_accumulate" || op == "test_scale") return i == 1;
  if (op == "sgd_mom_update") return i == 2;
  return op == "BatchNorm" && i >= 3;
}

std::optional<Outputs> evaluateSpecial(const SketchNode &n, Inputs in) {
  if (n.op == "test_accumulate" || n.op == "test_scale") {
    if (!haveOneShape(in)) return Outputs();
    const bool isSum = n.op == "test_accumulate";
    return Outputs{mapped(
        in, [&](size_t i) { return isSum ? in[0]->jets[i] + in[1]->jets[i] : in[0]->jets[i] * in[1]->jets[i]; })};
  }
  if (n.op == "BatchNorm") return batchNorm(n, in);
  if (n.op == "sgd_mom_update") return momentumStep(in);
  if (n.op == "Cast") return cast(n, in);
  if (n.op == "Embedding") return embedding(in);
  if (n.op == "_greater") return isGreater(in);
  return std::nullopt;
}

std::vector<JetTensor> overwrittenStates(const SketchNode &n, Inputs in) {
  Outputs states;
  if (n.flow) states = evaluateFlow(*n.flow, in)->states;
  if (n.op == "test_accumulate") states = {mapped(in, [&](size_t i) { return in[0]->jets[i] + in[1]->jets[i]; })};
  if (n.op == "test_scale") states = {mapped(in, [&](size_t i) { return in[1]->jets[i] + Jet(1); })};
  if (n.op == "BatchNorm") states = movedStatistics(n, in);
  if (n.op == "sgd_mom_update") states = {movedMomentum(in)};
  for (JetTensor &state : states) state.hold();
  return states;
}

bool takesIntegers(const SketchNode &n, Inputs in) {
  auto isInteger = [](const JetTensor *x) { return x->isInteger; };
  if (none_of(in, isInteger)) return true;
  if (n.op == "Cast" || n.op == "Embedding" || n.op == "_greater") return true;
  if (n.op == "where") return in[0]->isInteger && none_of(in.drop_front(), isInteger);
  return isNumeric(n.op) && all_of(in, isInteger);
}

}  // namespace gradc::testing
