// softmax_cross_entropy: the cross entropy of rows of logits and class numbers, summed to one number.
//
// Probabilities below 10⁻⁸ count as 10⁻⁸, so that no row is infinite. The gradient is that of the cross entropy without
// this guard, as in MXNet: rows that are far off learn too. Rows whose label is out of range contribute 0 (MXNet reads
// outside the row). Tested by tests/ops/network_ops_test.cc
#include "ir/op/hidden_keys.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/kit/families.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/kit/primitives.h"
#include "ops/loss/softmax_parts.h"
#include "ops/normalization/softmax.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

// Data (rows, classes) has one label per row.
void relateRows(ShapeInference &s, size_t data, size_t label) {
  s.setIn(data, {kUnknownDim, kUnknownDim});
  s.setIn(label, {kUnknownDim});
  if (s.hasFailed()) return;
  const int64_t rows = std::max(s.in(data)[0], s.in(label)[0]);
  s.setIn(data, {rows, s.in(data)[1]});
  s.setIn(label, {rows});
}

// Logits of one row, in float64.
template <class T> struct LogitsRow {
  const T *x;
  int64_t classes;
  double largest = -HUGE_VAL, total = 0;

  LogitsRow(const T *x, int64_t classes) : x(x), classes(classes) {
    for (int64_t k = 0; k < classes; ++k) largest = std::max(largest, static_cast<double>(x[k]));
    for (int64_t k = 0; k < classes; ++k) total += std::exp(static_cast<double>(x[k]) - largest);
  }
  double probability(int64_t k) const { return std::exp(static_cast<double>(x[k]) - largest) / total; }
  double logarithm(int64_t k) const { return static_cast<double>(x[k]) - largest - std::log(total); }
};

// Calls visit(row, class) for every row whose label is a class.
template <class T, class F> void forLabels(const TensorRef &label, int64_t classes, F visit) {
  for (int64_t row = 0; row < label.size(); ++row) {
    const int64_t k = classOf(static_cast<double>(label.as<const T>()[row]));
    if (k >= 0 && k < classes) visit(row, k);
  }
}

template <bool isGuarded> void sumOfRows(const KernelCall &call) {
  if (!call.wants(0)) return;
  const int64_t classes = call.in[0].shape[1];
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    double loss = 0;
    forLabels<T>(call.in[1], classes, [&](int64_t row, int64_t k) {
      const LogitsRow<T> logits(call.in[0].as<const T>() + row * classes, classes);
      loss -= isGuarded ? std::max(logits.logarithm(k), std::log(kLeastProbability)) : logits.logarithm(k);
    });
    call.out[0].as<T>()[0] = static_cast<T>(loss);
  });
}

void backwardKernel(const KernelCall &call) {
  if (call.wants(1)) std::memset(call.out[1].data, 0, call.out[1].bytes());
  if (!call.wants(0)) return;
  std::memset(call.out[0].data, 0, call.out[0].bytes());
  const int64_t classes = call.in[1].shape[1];
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const double dy = static_cast<double>(call.in[0].as<const T>()[0]);
    forLabels<T>(call.in[2], classes, [&](int64_t row, int64_t label) {
      const LogitsRow<T> logits(call.in[1].as<const T>() + row * classes, classes);
      T *dx = call.out[0].as<T>() + row * classes;
      for (int64_t k = 0; k < classes; ++k) dx[k] = static_cast<T>((logits.probability(k) - (k == label)) * dy);
    });
  });
}

// What is missing up to the least logarithm is added as a constant: the gradient does not see the guard. An infinite
// logarithm cannot be added to.
void decomposeForward(DecomposeRule &d) {
  const StringRef least = d.number(std::log(kLeastProbability));
  const Value logs = d.emit(kLogSoftmax, {d.x(0)}, {{"axis", "-1"}});
  const Value ofClass = d.emit(kWhere, {classTargets(d, d.x(0), d.x(1)), logs, d.emit(kZerosLike, {logs})});
  const Value own = d.emit(kSum, {ofClass}, {{"axis", "-1"}});
  const Value missing = d.emit(kRminusScalar, {own}, {{"scalar", least}});
  const Value added = d.emit(kMaximumScalar, {missing}, {{"scalar", "0"}, {kStopMark, "True"}});
  const Value isFinite = d.emit(kGreaterScalar, {own}, {{"scalar", "-inf"}});
  const Value guarded = d.emit(kMaximumScalar, {own}, {{"scalar", least}});
  const Value rows = d.emit(kWhere, {isFinite, d.emit(kElemwiseAdd, {own, added}), guarded});
  d.y(0, d.emit(kReshape, {d.emit(kNegative, {d.emit(kSum, {rows})})}, {{"shape", "(1,)"}}));
}

// dy · (Σ t · p − t): t has no 1 in rows without a class.
void decomposeBackward(DecomposeRule &d) {
  if (d.wants(1)) d.y(1, d.emit(kZerosLike, {d.x(2)}));
  if (!d.wants(0)) return;
  const Value target = classTargets(d, d.x(1), d.x(2));
  const Value hasClass = d.emit(kSum, {target}, {{"axis", "-1"}, {"keepdims", "True"}});
  const Value p = d.emit(kBroadcastMul, {d.emit(kSoftmax, {d.x(1)}, {{"axis", "-1"}}), hasClass});
  const Value dy = d.emit(kReshape, {d.x(0)}, {{"shape", "(1,1)"}});
  d.y(0, d.emit(kBroadcastMul, {d.emit(kElemwiseSub, {p, target}), dy}));
}

constexpr Domain kDomains[] = {Domain::Any, Domain::ClassIndex};
constexpr Domain kBackwardDomains[] = {Domain::Any, Domain::Any, Domain::ClassIndex};

constinit const OpDef kBackwardSoftmaxCrossEntropy = {
    .name = "_backward_softmax_cross_entropy",
    .summary = "gradient of softmax_cross_entropy: ddata[n,k] = dy · (softmax(data)[n,k] − (1 where k = label[n])), 0 "
               "in rows whose label is out of range",
    .inputs = {"dy", "data", "label"},
    .outputs = {"ddata", "dlabel"},
    .shape =
        [](ShapeInference &s) {
          s.setIn(0, {1});
          for (int pass = 0; pass < 2; ++pass) {
            s.sameInOut(1, 0);
            s.sameInOut(2, 1);
            if (pass == 0 && !s.hasFailed()) relateRows(s, 1, 2);
          }
        },
    .stopped = {2},
    .flags = {.isBackward = true},
    .domains = kBackwardDomains,
    .decompose = decomposeBackward,
    .kernel = backwardKernel,
};

constinit const OpDef kSoftmaxCrossEntropy = {
    .name = "softmax_cross_entropy",
    .summary = "y = −Σ ln max(softmax(data)[n,label[n]], 10⁻⁸) over rows n, one number; the gradient is that "
               "without the max",
    .inputs = {"data", "label"},
    .shape =
        [](ShapeInference &s) {
          relateRows(s, 0, 1);
          s.setOut(0, {1});
        },
    .stopped = {1},
    .domains = kDomains,
    .gradient =
        [](GradRule &g) {
          g.noGrad(1);
          g.fused(kBackwardSoftmaxCrossEntropy, {g.dy(0), g.x(0), g.x(1)});
        },
    .decompose = decomposeForward,
    .kernel = sumOfRows<true>,
    .piece = [](const PieceCall &call) { sumOfRows<false>(call); },
};

}  // namespace

constinit const OpFamily kSoftmaxCrossEntropyFamily = kOps<kSoftmaxCrossEntropy, kBackwardSoftmaxCrossEntropy>;

}  // namespace gradc
