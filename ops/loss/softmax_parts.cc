// The operators SoftmaxOutput's gradient is made of: weight · (softmax(x) - target).
//
// Only the softmax is differentiable; target and weight are functions of the label and constants (counts inside
// normalization too). Tested by tests/ops/loss_ops_test.cc
#include "ops/loss/softmax_parts.h"

#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ir/tensor/dim.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/loss/softmax_loss.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

// Writes f(row, class) to every element of output 0.
template <class F> void fillRows(const KernelCall &call, F f) {
  if (!call.wants(0)) return;
  const SoftmaxLabels labels(call.params<SoftmaxOutputParams>(), call.out[0].shape, call.in[1]);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t row = 0; row < labels.rows.count(); ++row)
      for (int64_t k = 0; k < labels.rows.classes; ++k)
        call.out[0].as<T>()[labels.rows.begin(row) + k * labels.rows.inner] = static_cast<T>(f(labels, row, k));
  });
}

void noGradients(GradRule &g) {
  for (size_t i = 0; i < g.numInputs(); ++i) g.noGrad(i);
}

// `sum` or `max` of each row, with the axes kept.
Value reduceRows(RuleContext &r, const OpDef &reduction, Value v) {
  const SoftmaxOutputParams &params = r.params<SoftmaxOutputParams>();
  if (params.multiOutput) return r.emit(reduction, {v}, {{"axis", "1"}, {"keepdims", "True"}});
  if (params.preserveShape) return r.emit(reduction, {v}, {{"axis", "-1"}, {"keepdims", "True"}});
  return r.emit(reduction, {v}, {{"axis", "0"}, {"exclude", "True"}, {"keepdims", "True"}});
}

void decomposeSoftmax(DecomposeRule &d) {
  const Value z = d.emit(kBroadcastSub, {d.x(0), reduceRows(d, kMax, d.x(0))}), e = d.emit(kExp, {z});
  d.y(0, d.emit(kBroadcastDiv, {e, reduceRows(d, kSum, e)}));
}

// The operands (data, label) as decompositions read them.
struct LabelRows {
  Value data;      // flattened to (rows, classes) where rows run over all axes but the first
  Value label;     // in the shape of data with one class
  StringRef axis;  // of the classes
};

// Labels of the data's rank are probabilities; under multi_output, only if they have as many classes.
bool hasProbabilities(DecomposeRule &d) {
  if (d.rank(d.x(0)) != d.rank(d.x(1))) return false;
  return !d.params<SoftmaxOutputParams>().multiOutput || d.size(d.x(0), 1) == d.size(d.x(1), 1);
}

// The data's first class only, with all other axes whole.
Value firstClass(DecomposeRule &d, Value data, bool isLast) {
  const size_t axis = isLast ? d.rank(data) - 1 : 1;
  std::string kept;
  for (size_t i = 0; i < axis; ++i) kept += "None,";
  return d.emit(kSlice, {data}, {{"begin", "(" + kept + "0)"}, {"end", "(" + kept + "1)"}});
}

LabelRows labelRowsOf(DecomposeRule &d) {
  const SoftmaxOutputParams &p = d.params<SoftmaxOutputParams>();
  const Value data = d.x(0), label = d.x(1);
  if (p.multiOutput || p.preserveShape) {
    const bool isLast = !p.multiOutput;
    return {data, d.emit(kReshapeLike, {label, firstClass(d, data, isLast)}), isLast ? "-1" : "1"};
  }
  // Labels are numbered like rows; there may be more of them.
  const Value flat = d.emit(kFlatten, {data}), column = d.emit(kReshape, {label}, {{"shape", "(-1,1)"}});
  return {flat, d.emit(kSliceLike, {column, flat}, {{"axes", "(0,)"}}), "1"};
}

// 1 where the label, without its fraction, is that class. NaN is not a class.
Value isClass(DecomposeRule &d, Value label, const OpDef &equal, ArrayRef<Value> others, const Attrs &attrs) {
  SmallVector<Value, 2> operands = {d.emit(kCast, {label}, {{"dtype", "int64"}})};
  operands.append(others.begin(), others.end());
  const Value found = d.emit(kCastLike, {d.emit(equal, operands, attrs), label});
  return d.emit(kBroadcastMul, {found, d.emit(kEqual, {label, label})});
}

void decomposeTarget(DecomposeRule &d) {
  if (hasProbabilities(d)) return d.y(0, d.emit(kCopy, {d.x(1)}));
  const SoftmaxOutputParams &p = d.params<SoftmaxOutputParams>();
  const LabelRows rows = labelRowsOf(d);
  const Value index = d.emit(kIndexLike, {rows.data}, {{"axis", rows.axis}});
  Value target = isClass(d, rows.label, kBroadcastEqual, index, Attrs());
  if (!p.multiOutput && p.smoothAlpha != 0) {
    const size_t rank = d.rank(d.x(0)), first = p.preserveShape ? rank - 1 : 1;
    Dim classes = 1;
    for (size_t axis = first; axis < rank; ++axis) classes = classes * d.size(d.x(0), static_cast<int64_t>(axis));
    const ClassShares shares = classSharesOf(p, classes.nearest());
    target = d.emit(kMulScalar, {target}, {{"scalar", d.number(shares.onLabel - shares.offLabel)}});
    target = d.emit(kPlusScalar, {target}, {{"scalar", d.number(shares.offLabel)}});
  }
  d.y(0, d.emit(kReshapeLike, {target, d.x(0)}));
}

// Counts and quotients in float32, as in MXNet.
void decomposeWeight(DecomposeRule &d) {
  const SoftmaxOutputParams &p = d.params<SoftmaxOutputParams>();
  const StringRef scale = d.number(static_cast<float>(p.gradScale));
  if (hasProbabilities(d)) return d.y(0, d.emit(kMulScalar, {d.emit(kOnesLike, {d.x(0)})}, {{"scalar", scale}}));
  const LabelRows rows = labelRowsOf(d);
  auto single = [&](Value v) { return d.emit(kCast, {v}, {{"dtype", "float32"}}); };
  auto sum = [&](Value v, StringRef axes, StringRef exclude) {
    return d.emit(kSum, {v}, {{"axis", axes}, {"exclude", exclude}, {"keepdims", "True"}});
  };
  const Value ones = single(d.emit(kOnesLike, {rows.label}));
  Value weight = d.emit(kMulScalar, {ones}, {{"scalar", scale}});
  auto divideBy = [&](Value count) { weight = d.emit(kBroadcastDiv, {weight, count}); };
  if (p.multiOutput && p.normalization != LossNormalization::Valid && d.rank(d.x(0)) > 2)
    divideBy(sum(ones, "(0,1)", "True"));
  if (p.normalization == LossNormalization::Batch) divideBy(sum(ones, p.multiOutput ? "0" : "()", "False"));
  if (p.normalization == LossNormalization::Valid) {
    const StringRef ignored = d.number(static_cast<float>(p.ignoreLabel));
    const Value count = sum(single(d.emit(kNotEqualScalar, {rows.label}, {{"scalar", ignored}})), "()", "False");
    divideBy(d.emit(kMaximumScalar, {count}, {{"scalar", "1"}}));
  }
  weight = d.emit(kCastLike, {weight, rows.label});
  if (p.useIgnore) {
    const AttrText number{"scalar", d.number(classOf(p.ignoreLabel))};
    const Value isIgnored = isClass(d, rows.label, kEqualScalar, {}, d.context().attrs(number));
    weight = d.emit(kElemwiseMul, {weight, d.emit(kRminusScalar, {isIgnored}, {{"scalar", "1"}})});
  }
  d.y(0, d.emit(kReshapeLike, {d.emit(kBroadcastMul, {d.emit(kOnesLike, {rows.data}), weight}), d.x(0)}));
}

}  // namespace

// dx = y · (dy - Σ dy · y), summed over the row
constinit const OpDef kSoftmaxOutputSoftmax = {
    .name = "_SoftmaxOutput_softmax",
    .summary = "softmax of the rows SoftmaxOutput's attributes describe: y[k] = exp(x[k]) / sum over j of exp(x[j])",
    .inputs = {"data"},
    .attrs = kSoftmaxOutputAttrs,
    .params = paramsOf<SoftmaxOutputParams>(),
    .shape = softmaxDataShape,
    .inplace = kInplaceFirst,
    .gradient =
        [](GradRule &g) {
          Value inRow = reduceRows(g, kSum, g.emit(kElemwiseMul, {g.dy(0), g.y(0)}));
          g.dx(0, g.emit(kElemwiseMul, {g.y(0), g.emit(kBroadcastSub, {g.dy(0), inRow})}));
        },
    .decompose = decomposeSoftmax,
    .kernel = softmaxOfRows,
};

constinit const OpDef kSoftmaxOutputTarget = {
    .name = "_SoftmaxOutput_target",
    .summary = "the distribution that SoftmaxOutput's label means, in the shape of data",
    .inputs = {"data", "label"},
    .attrs = kSoftmaxOutputAttrs,
    .params = paramsOf<SoftmaxOutputParams>(),
    .shape = softmaxOutputShape,
    .ignored = {0},
    .stopped = {0, 1},
    .flags = {.hasNoGradient = true},
    .gradient = noGradients,
    .decompose = decomposeTarget,
    .kernel =
        [](const KernelCall &call) {
          fillRows(call, [](const SoftmaxLabels &labels, int64_t row, int64_t k) { return labels.target(row, k); });
        },
};

constinit const OpDef kSoftmaxOutputWeight = {
    .name = "_SoftmaxOutput_weight",
    .summary = "the factor SoftmaxOutput gives each row: grad_scale / n, 0 for ignored labels, in the shape of data",
    .inputs = {"data", "label"},
    .attrs = kSoftmaxOutputAttrs,
    .params = paramsOf<SoftmaxOutputParams>(),
    .shape = softmaxOutputShape,
    .ignored = {0},
    .stopped = {0, 1},
    .flags = {.hasNoGradient = true},
    .gradient = noGradients,
    .decompose = decomposeWeight,
    .kernel =
        [](const KernelCall &call) {
          fillRows(call, [](const SoftmaxLabels &labels, int64_t row, int64_t) { return labels.weight(row); });
        },
};

constinit const OpFamily kSoftmaxPartsFamily = kOps<kSoftmaxOutputSoftmax, kSoftmaxOutputTarget, kSoftmaxOutputWeight>;

}  // namespace gradc
