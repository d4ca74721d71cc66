// CTCLoss: −log of the probability of a sequence of labels, over all paths through (time, batch, classes) that spell it
// with repetitions and blanks. The data are logits, of which it takes the softmax.
//
// The hidden second output is the gradient, which _backward_ctc_loss multiplies by the head gradient. For higher orders
// it is differentiated as _ctc_loss_grad of the same operands. A sequence with fewer steps than its labels need has the
// loss 0. Tested by tests/ops/ctc_loss_test.cc
#include "ops/loss/ctc_loss.h"

#include "ir/base/number.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ir/tensor/dim.h"
#include "ops/kit/families.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/kit/primitives.h"
#include "ops/loss/ctc_scan.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

constexpr AttrSpec kAttrs[] = {
    attr<&CtcParams::useDataLengths>("use_data_lengths", "False", "whether there is an input of the numbers of steps"),
    attr<&CtcParams::useLabelLengths>("use_label_lengths", "False",
                                      "whether there is an input of the numbers of labels; without it they end at the "
                                      "first 0, or -1 where the blank is last"),
    attr<&CtcParams::blank>("blank_label", "first", "which class is the blank"),
};

const CtcParams &paramsOfCtc(const NodeKind &kind) { return kind.params<CtcParams>(); }
uint32_t numInputs(const NodeKind &kind) {
  return 2u + paramsOfCtc(kind).useDataLengths + paramsOfCtc(kind).useLabelLengths;
}

// ---- shapes

// Data (time, batch, classes), labels (batch, labels), lengths (batch,); the gradient has the data's shape.
void relateShapes(ShapeInference &s, size_t gradient) {
  for (int pass = 0; pass < 2 && !s.hasFailed(); ++pass) {
    s.setIn(0, {kUnknownDim, kUnknownDim, kUnknownDim});
    if (!s.hasFailed()) s.sameInOut(0, gradient);
    if (!s.hasFailed()) s.setIn(1, {s.in(0)[1], kUnknownDim});
    if (!s.hasFailed()) s.setIn(0, {kUnknownDim, s.in(1)[0], kUnknownDim});
    for (size_t i = 2; i < s.numInputs() && !s.hasFailed(); ++i) {
      s.setIn(i, {s.in(0)[1]});
      if (!s.hasFailed()) s.setIn(0, {kUnknownDim, s.in(i)[0], kUnknownDim});
    }
    if (s.hasFailed() || gradient == 0) continue;
    s.setOut(0, {s.in(0)[1]});
    if (!s.hasFailed()) s.setIn(0, {kUnknownDim, s.out(0)[0], kUnknownDim});
  }
  if (s.hasFailed()) return;
  const int64_t time = s.in(0)[0], labels = s.in(1)[1];
  if (s.in(0)[2] == 0)
    return s.fail("data of shape " + toString(s.in(0)) + " has no classes, expected at least the blank");
  if (time != kUnknownDim && labels > time)
    s.fail("labels of shape " + toString(s.in(1)) + " are more than the steps of data of shape " + toString(s.in(0)));
}

// Labels and lengths are of any type.
void relateTypes(DTypeInference &t) {
  for (size_t o = 0; o < t.numOutputs(); ++o) t.sameInOut(0, o);
}

// ---- kernels

constexpr double kImpossible = -HUGE_VAL;

double logSum(double a, double b) {
  const double high = std::max(a, b), low = std::min(a, b);
  return low == kImpossible ? high : high + std::log1p(std::exp(low - high));
}

// Labels and lengths of floating types are rounded, as MXNet rounds them.
int64_t roundToInt64(const TensorRef &from, int64_t i) {
  int64_t number = 0;
  dispatchNumeric(from.dtype, [&](auto zero) {
    const auto value = from.as<const decltype(zero)>()[i];
    if constexpr (std::is_integral_v<decltype(zero)>) number = convertNumber<int64_t>(value);
    else number = convertNumber<int64_t>(std::floor(static_cast<double>(value) + 0.5));
  });
  return number;
}

// One sequence of a batch, in logarithms. Places are the labels with a blank before each and one at the end.
class Sequence {
 public:
  Sequence(const KernelCall &call, int64_t n, double *scratch)
      : p(call.params<CtcParams>()), n(n), time(call.in[0].shape[0]), batch(call.in[0].shape[1]),
        classes(call.in[0].shape[2]), label(call.in[1]), blank(p.blankOf(classes)), steps(numSteps(call)),
        labels(numLabels(call)), places(2 * labels + 1), logits(scratch), difference(logits + time * classes),
        forwards(difference + classes), backwards(forwards + time * places), next(backwards + places) {
    readLogits(call.in[0]);
  }

  static Dim scratchOf(ArrayRef<TensorRef> in) {
    const Dim time = in[0].shape[0], classes = in[0].shape[2], places = Dim(2) * in[1].shape[1] + 1;
    return (time + 1) * classes + (time + 2) * places;
  }

  /// Whether there are enough steps: equal neighbours need a blank between them.
  bool fits() const {
    int64_t repeats = 0;
    for (int64_t i = 1; i < labels; ++i) repeats += labelAt(i) == labelAt(i - 1);
    return labels + repeats <= steps;
  }

  double loss() const {
    if (steps == 0) return 0;
    for (int64_t s = 0; s < places; ++s) forwards[s] = s < 2 ? logit(0, s) : kImpossible;
    for (int64_t t = 1; t < steps; ++t)
      for (int64_t s = 0; s < places; ++s) {
        const double *before = forwards + (t - 1) * places;
        double sum = before[s];
        if (s > 0) sum = logSum(sum, before[s - 1]);
        if (skipsTo(s)) sum = logSum(sum, before[s - 2]);
        forwards[t * places + s] = sum + logit(t, s);
      }
    const double *last = forwards + (steps - 1) * places;
    return -(places > 1 ? logSum(last[places - 1], last[places - 2]) : last[0]);
  }

  /// The gradient of the loss: for each step and class, its probability minus that of the paths through it. `loss` has
  /// to be called before.
  template <class T> void writeGradient(double loss, T *gradient) {
    for (int64_t s = 0; s < places; ++s) backwards[s] = s + 2 < places ? kImpossible : 0;
    for (int64_t t = steps; t-- > 0; stepBack(t)) {
      for (int64_t c = 0; c < classes; ++c) difference[c] = std::exp(logits[t * classes + c]);
      for (int64_t s = 0; s < places; ++s)
        if (isClass(placeAt(s))) difference[placeAt(s)] -= std::exp(forwards[t * places + s] + backwards[s] + loss);
      for (int64_t c = 0; c < classes; ++c) gradient[(t * batch + n) * classes + c] = static_cast<T>(difference[c]);
    }
  }

 private:
  int64_t numSteps(const KernelCall &call) const {
    return p.useDataLengths ? std::clamp<int64_t>(roundToInt64(call.in[2], n), 0, time) : time;
  }
  int64_t numLabels(const KernelCall &call) const {
    const int64_t most = label.shape[1];
    if (p.useLabelLengths) return std::clamp<int64_t>(roundToInt64(call.in.back(), n), 0, most);
    int64_t count = 0;
    while (count < most && labelAt(count) != p.padding()) ++count;
    return count;
  }

  int64_t labelAt(int64_t i) const { return roundToInt64(label, n * label.shape[1] + i); }
  int64_t placeAt(int64_t s) const { return s % 2 == 0 ? blank : labelAt(s / 2); }
  bool isClass(int64_t c) const { return c >= 0 && c < classes; }
  /// Whether a path may come from the label before, without a blank between.
  bool skipsTo(int64_t s) const {
    return s % 2 == 1 && s > 1 && s < places && placeAt(s) != blank && placeAt(s) != placeAt(s - 2);
  }

  // log softmax
  void readLogits(const TensorRef &data) {
    dispatchFloating(data.dtype, [&](auto zero) {
      for (int64_t t = 0; t < steps; ++t) {
        const auto *row = data.as<const decltype(zero)>() + (t * batch + n) * classes;
        const double high = static_cast<double>(*std::max_element(row, row + classes));
        double sum = 0;
        for (int64_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(row[c]) - high);
        for (int64_t c = 0; c < classes; ++c)
          logits[t * classes + c] = static_cast<double>(row[c]) - high - std::log(sum);
      }
    });
  }
  double logit(int64_t t, int64_t s) const {
    const int64_t c = placeAt(s);
    return isClass(c) ? logits[t * classes + c] : kImpossible;
  }

  // Moves `backwards` from after step t to before it.
  void stepBack(int64_t t) {
    for (int64_t s = 0; s < places; ++s) {
      next[s] = backwards[s] + logit(t, s);
      if (s + 1 < places) next[s] = logSum(next[s], backwards[s + 1] + logit(t, s + 1));
      if (skipsTo(s + 2)) next[s] = logSum(next[s], backwards[s + 2] + logit(t, s + 2));
    }
    std::swap(backwards, next);
  }

  const CtcParams &p;
  const int64_t n, time, batch, classes;
  const TensorRef &label;
  const int64_t blank, steps, labels, places;
  double *logits, *difference, *forwards, *backwards, *next;
};

/// Computes the losses and their gradients, each unless it is null.
void computeLosses(const KernelCall &call, const TensorRef *losses, const TensorRef *gradients) {
  if (gradients) std::memset(gradients->data, 0, gradients->bytes());
  for (int64_t n = 0; n < call.in[0].shape[1] && (losses || gradients); ++n) {
    Sequence sequence(call, n, static_cast<double *>(call.workspace));
    const bool fits = sequence.fits();
    const double loss = fits ? sequence.loss() : 0;
    dispatchFloating(call.in[0].dtype, [&](auto zero) {
      using T = decltype(zero);
      if (losses) losses->as<T>()[n] = static_cast<T>(loss);
      // A label out of range makes every path impossible, and there is no gradient.
      if (gradients && fits && loss != HUGE_VAL) sequence.writeGradient(loss, gradients->as<T>());
    });
  }
}

size_t scratchBytes(const NodeKind &, ArrayRef<TensorRef> in, ArrayRef<TensorRef>) {
  return static_cast<size_t>((Sequence::scratchOf(in) * int64_t{sizeof(double)}).nearest());
}

// dx[t,n,c] = dy[n]·g[t,n,c]
void scaleRows(const KernelCall &call) {
  if (!call.wants(0)) return;
  const Dims dims = call.in[3].shape;
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *dy = call.in[0].as<const T>(), *gradient = call.in[3].as<const T>();
    T *dx = call.out[0].as<T>();
    for (int64_t row = 0; row < dims[0] * dims[1]; ++row)
      for (int64_t c = 0; c < dims[2]; ++c) dx[row * dims[2] + c] = dy[row % dims[1]] * gradient[row * dims[2] + c];
  });
}

// The gradient depends on the operands of the forward node, not only on its second output.
void decomposeBackward(DecomposeRule &d) {
  Value gradient = d.x(3);
  if (d.forward(0).isValid()) {
    SmallVector<Value, 4> operands;
    for (uint32_t i = 0; i < numInputs(d.kind()); ++i) operands.push_back(d.forwardInput(i));
    gradient = d.emit(kCtcLossGrad, operands, d.attrs());
  }
  const Value head = d.emit(kExpandDims, {d.emit(kExpandDims, {d.x(0)}, {{"axis", "0"}})}, {{"axis", "2"}});
  d.y(0, d.emit(kBroadcastMul, {gradient, head}));
}

constinit const OpDef kBackwardCtcLoss = {
    .name = "_backward_ctc_loss",
    .summary = "gradient of CTCLoss: dx[t,n,c] = dy[n]·grad[t,n,c]",
    .inputs = {"ograd", "grad_ograd", "loss", "grad"},
    .outputs = {"data_grad"},
    .attrs = kAttrs,
    .params = paramsOf<CtcParams>(),
    .shape =
        [](ShapeInference &s) {
          for (int pass = 0; pass < 2 && !s.hasFailed(); ++pass) {
            s.setIn(3, {kUnknownDim, kUnknownDim, kUnknownDim});
            s.sameInOut(3, 0);
            s.sameInIn(1, 3);
            s.sameInIn(0, 2);
            if (!s.hasFailed()) s.setIn(0, {s.in(3)[1]});
            if (!s.hasFailed()) s.setIn(3, {kUnknownDim, s.in(0)[0], kUnknownDim});
          }
        },
    .ignored = {1, 2},
    .stopped = {1, 2},
    .flags = {.isBackward = true},
    .decompose = decomposeBackward,
    .kernel = scaleRows,
};

}  // namespace

constexpr Domain kDomains[] = {Domain::Any, Domain::ClassIndex, Domain::Length, Domain::Length};
constexpr NameList kInputs = {"data", "label", "data_lengths", "label_lengths"};

constinit const OpDef kCtcLossGrad = {
    .name = "_ctc_loss_grad",
    .summary = "the gradient of each sequence's CTCLoss: the probability of a class less that of the paths through it",
    .inputs = {kInputs, numInputs},
    .attrs = kAttrs,
    .params = paramsOf<CtcParams>(),
    .shape = [](ShapeInference &s) { relateShapes(s, 0); },
    .dtype = relateTypes,
    .stopped = {1, 2, 3},
    .domains = kDomains,
    .decompose = decomposeCtcLossGrad,
    .kernel = [](const KernelCall &call) { computeLosses(call, nullptr, call.wants(0) ? &call.out[0] : nullptr); },
    .workspace = scratchBytes,
};

namespace {

constinit const OpDef kCtcLoss = {
    .name = "CTCLoss",
    .aliases = {"ctc_loss", "_npx_ctc_loss", "_contrib_CTCLoss", "_contrib_ctc_loss"},
    .summary = "y = −log of the probability that softmax of the data spells the labels, with repetitions and blanks",
    .inputs = {kInputs, numInputs},
    .outputs = {"output0", "output1"},  // as MXNet names them
    .visibleOutputs = [](const NodeKind &) { return 1u; },
    .attrs = kAttrs,
    .params = paramsOf<CtcParams>(),
    .shape = [](ShapeInference &s) { relateShapes(s, 1); },
    .dtype = relateTypes,
    .stopped = {1, 2, 3},
    .domains = kDomains,
    .gradient = [](GradRule &g) { g.fused(kBackwardCtcLoss, {g.dy(0), g.dy(1), g.y(0), g.y(1)}); },
    .decompose = decomposeCtcLoss,
    .kernel =
        [](const KernelCall &call) {
          computeLosses(call, call.wants(0) ? &call.out[0] : nullptr, call.wants(1) ? &call.out[1] : nullptr);
        },
    .workspace = scratchBytes,
};

}  // namespace

constinit const OpFamily kCtcLossFamily = kOps<kCtcLoss, kBackwardCtcLoss, kCtcLossGrad>;

}  // namespace gradc
