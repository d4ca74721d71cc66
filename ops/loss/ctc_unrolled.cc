// CTCLoss and its gradient in simpler operators, unrolled over steps and labels, whose numbers have to be known.
//
// Sums over paths are those of probabilities, scaled at each step to add up to 1; the loss is what the scales' logarithms
// add up to. Places between labels (blanks, one more than labels) and those of labels are two matrices, (batch, places).
// Tested by tests/ctc_loss_test.cc
#include "ir/grad_rule.h"
#include "ops/loss/ctc_loss.h"
#include "ops/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr int64_t kMostSteps = 1 << 16;  // and labels

class UnrolledCtc {
 public:
  explicit UnrolledCtc(DecomposeRule &d)
      : d(d), p(d.params<CtcParams>()), time(d.size(d.x(0), 0)), numLabels(d.size(d.x(1), 1)),
        blank(p.blankOf(p.blank == CtcBlank::First ? 1 : d.size(d.x(0), 2))) {
    if (time > kMostSteps || numLabels > kMostSteps)
      d.refuse("has " + Twine(time) + " steps and " + Twine(numLabels) + " labels, expected at most " +
               Twine(kMostSteps) + " of each");
  }

  void sayLoss(size_t output) {
    if (d.hasFailed()) return;
    if (time == 0) return d.y(output, d.emit(kSum, {zeros(d.x(0))}, {{"axis", "(0, 2)"}}));
    if (!prepare()) return;
    Value logarithms;
    for (int64_t t = 0; t < time; ++t) {
      takeStep(t);
      const Value term = d.emit(kLog, {steps.back().scale});
      logarithms = logarithms.isValid() ? d.emit(kElemwiseAdd, {logarithms, term}) : term;
    }
    Value total = d.emit(kSum, {logarithms}, {{"axis", "1"}});
    if (numLabels > 0) {
      const Value ends = rowSum(times(steps.back().blanks, lastBlank), times(steps.back().labels, lastLabel), false);
      total = d.emit(kElemwiseAdd, {total, d.emit(kLog, {choose(fits, ends, d.emit(kOnesLike, {ends}))})});
    }
    d.y(output, choose(fits, d.emit(kNegative, {total}), zeros(total)));
  }

  void sayGradient() {
    if (d.hasFailed()) return;
    if (time == 0) return d.y(0, zeros(d.x(0)));
    if (!prepare()) return;
    for (int64_t t = 0; t < time; ++t) takeStep(t);
    SmallVector<Value, 8> rows(static_cast<size_t>(time));
    Value blanks = lastBlank, labels = lastLabel;
    for (int64_t t = time; t-- > 0;) {
      const Step &step = steps[static_cast<size_t>(t)];
      const Value row = d.emit(kElemwiseSub, {step.probabilities, spelled(step, blanks, labels)});
      rows[static_cast<size_t>(t)] = within(t, choose(fits, row, zeros(row)), zeros(row));
      if (numLabels > 0 && t > 0) stepBack(t, blanks, labels);
    }
    const StringRef count = d.number(time);
    d.y(0, d.emit(kStack, rows, d.context().attrs(ArrayRef<AttrText>{{"axis", "0"}, {"num_args", count}})));
  }

 private:
  struct Step {
    Value probabilities;      // (batch, classes)
    Value ofBlank, ofLabels;  // (batch, 1), (batch, labels): the probabilities of places
    Value blanks, labels;     // of paths up to here, scaled
    Value scale;              // (batch, 1)
  };

  // ---- emitting

  Value slice(Value v, int64_t axis, int64_t begin, int64_t end) {
    return d.emit(kSliceAxis, {v}, {{"axis", d.number(axis)}, {"begin", d.number(begin)}, {"end", d.number(end)}});
  }
  Value zeros(Value like) { return d.emit(kZerosLike, {like}); }
  Value times(Value a, Value b) { return d.emit(kElemwiseMul, {a, b}); }
  Value expand(Value v, StringRef axis) { return d.emit(kExpandDims, {v}, {{"axis", axis}}); }
  Value choose(Value condition, Value a, Value b) { return d.emit(kWhere, {condition, a, b}); }
  Value wide(Value v) { return d.emit(kCast, {v}, {{"dtype", "float64"}}); }
  // Rounded, NaN to 0. Arithmetic with a number is that of floating types.
  Value whole(Value v) {
    const Value rounded = d.emit(kFloor, {d.emit(kPlusScalar, {wide(v)}, {{"scalar", "0.5"}})});
    return wide(d.emit(kCast, {rounded}, {{"dtype", "int64"}}));
  }
  Value indices(Value like, StringRef axis) { return wide(d.emit(kIndexLike, {like}, {{"axis", axis}})); }
  Value asData(Value v) { return d.emit(kCastLike, {v, d.x(0)}); }
  Value beside(Value a, Value b) {
    return d.emit(kConcat, SmallVector<Value, 2>{a, b},
                  d.context().attrs(ArrayRef<AttrText>{{"dim", "1"}, {"num_args", "2"}}));
  }
  Value rowSum(Value a, Value b, bool keepsAxis) {
    auto sum = [&](Value v) { return d.emit(kSum, {v}, {{"axis", "1"}, {"keepdims", keepsAxis ? "True" : "False"}}); };
    return d.emit(kElemwiseAdd, {sum(a), sum(b)});
  }
  // The first value where step t is one of the sequence's.
  Value within(int64_t t, Value inside, Value outside) {
    if (!p.useDataLengths) return inside;
    return choose(d.emit(kGreaterScalar, {numSteps}, {{"scalar", d.number(t)}}), inside, outside);
  }

  // ---- what does not depend on the step

  bool prepare() {
    if (d.hasFailed()) return false;
    probabilities = d.emit(kSoftmax, {d.x(0)}, {{"axis", "-1"}});
    if (p.useDataLengths) numSteps = whole(d.x(2));
    const Value first = row(probabilities, 0);
    isBlank = asData(d.emit(kEqualScalar, {indices(first, "1")}, {{"scalar", d.number(blank)}}));
    none = zeros(slice(first, 1, 0, 1));
    if (numLabels > 0) prepareLabels(first);
    else fits = d.emit(kSum, {d.emit(kOnesLike, {none})}, {{"axis", "1"}});
    return !d.hasFailed();
  }

  Value row(Value v, int64_t t) { return d.emit(kReshape, {slice(v, 0, t, t + 1)}, {{"shape", "(-3, -2)"}}); }

  void prepareLabels(Value first) {
    const Value labels = whole(d.x(1)), index = indices(labels, "1");
    const Value isLabel = labelsInUse(labels, index);
    const Value classes = indices(expand(first, "1"), "2");
    const Value isClass = asData(d.emit(kBroadcastEqual, {expand(labels, "2"), classes}));
    classOf = d.emit(kBroadcastMul, {isClass, expand(isLabel, "2")});
    const Value count = d.emit(kSum, {isLabel}, {{"axis", "1"}, {"keepdims", "True"}}), wideCount = wide(count);
    const Value places = indices(beside(labels, slice(labels, 1, 0, 1)), "1");
    lastBlank = asData(d.emit(kBroadcastEqual, {wideCount, places}));
    lastLabel = asData(d.emit(kBroadcastEqual, {wideCount, d.emit(kPlusScalar, {index}, {{"scalar", "1"}})}));
    firstBlank = asData(d.emit(kEqualScalar, {places}, {{"scalar", "0"}}));
    firstLabel = zeros(isLabel);
    Value needed = d.emit(kSum, {count}, {{"axis", "1"}});
    if (numLabels > 1) {
      const Value left = slice(labels, 1, 0, numLabels - 1), right = slice(labels, 1, 1, numLabels);
      const Value differs = asData(d.emit(kNotEqual, {right, left}));
      skips = times(differs, asData(d.emit(kNotEqualScalar, {right}, {{"scalar", d.number(blank)}})));
      const Value isEqual = d.emit(kRminusScalar, {differs}, {{"scalar", "1"}});
      const Value repeats = times(isEqual, slice(isLabel, 1, 1, numLabels));
      needed = d.emit(kElemwiseAdd, {needed, d.emit(kSum, {repeats}, {{"axis", "1"}})});
    }
    if (p.useDataLengths) {
      const Value most = d.emit(kMinimumScalar, {numSteps}, {{"scalar", d.number(time)}});
      needed = d.emit(kElemwiseSub, {needed, asData(most)});
    } else {
      needed = d.emit(kMinusScalar, {needed}, {{"scalar", d.number(time)}});
    }
    fits = d.emit(kLesserScalar, {needed}, {{"scalar", "0.5"}});
  }

  // 1 for labels before the end of the sequence.
  Value labelsInUse(Value labels, Value index) {
    if (p.useLabelLengths) {
      const Value count = expand(whole(d.x(d.numInputs() - 1)), "1");
      return asData(d.emit(kBroadcastGreater, {count, index}));
    }
    const Value isNoPadding = asData(d.emit(kNotEqualScalar, {labels}, {{"scalar", d.number(p.padding())}}));
    Value last = slice(isNoPadding, 1, 0, 1), inUse = last;
    for (int64_t i = 1; i < numLabels; ++i) {
      last = times(last, slice(isNoPadding, 1, i, i + 1));
      inUse = beside(inUse, last);
    }
    return inUse;
  }

  // ---- steps

  // Paths one step longer: from a blank or label to itself or the next one, or from a label to the next one but a blank.
  void takeStep(int64_t t) {
    Step step;
    step.probabilities = row(probabilities, t);
    step.ofBlank = slice(step.probabilities, 1, blank, blank + 1);
    if (numLabels == 0) {
      step.scale = within(t, step.ofBlank, d.emit(kOnesLike, {step.ofBlank}));
      return void(steps.push_back(step));
    }
    step.ofLabels = d.emit(kSum, {d.emit(kBroadcastMul, {classOf, expand(step.probabilities, "1")})}, {{"axis", "2"}});
    const Value oldBlanks = t > 0 ? steps.back().blanks : firstBlank,
                oldLabels = t > 0 ? steps.back().labels : firstLabel;
    Value labels = d.emit(kElemwiseAdd, {oldLabels, slice(oldBlanks, 1, 0, numLabels)});
    if (numLabels > 1)
      labels = d.emit(kElemwiseAdd, {labels, beside(none, times(skips, slice(oldLabels, 1, 0, numLabels - 1)))});
    labels = times(labels, step.ofLabels);
    const Value reached = d.emit(kElemwiseAdd, {oldBlanks, beside(none, oldLabels)});
    const Value blanks = d.emit(kBroadcastMul, {reached, step.ofBlank});
    const Value sum = rowSum(blanks, labels, true);
    step.scale = within(t, sum, d.emit(kOnesLike, {sum}));
    step.blanks = within(t, d.emit(kBroadcastDiv, {blanks, step.scale}), oldBlanks);
    step.labels = within(t, d.emit(kBroadcastDiv, {labels, step.scale}), oldLabels);
    steps.push_back(step);
  }

  // The share of each class in the paths that spell the labels, given what follows the step.
  Value spelled(const Step &step, Value blanks, Value labels) {
    if (numLabels == 0) return isBlank;
    const Value ofBlanks = times(step.blanks, blanks), ofLabels = times(step.labels, labels);
    const Value all = rowSum(ofBlanks, ofLabels, true);
    const Value total = choose(fits, all, d.emit(kOnesLike, {all}));
    const Value perClass = d.emit(kSum, {d.emit(kBroadcastMul, {classOf, expand(ofLabels, "2")})}, {{"axis", "1"}});
    const Value blankSum = d.emit(kSum, {ofBlanks}, {{"axis", "1"}, {"keepdims", "True"}});
    const Value shares = d.emit(kElemwiseAdd, {perClass, d.emit(kBroadcastMul, {isBlank, blankSum})});
    return d.emit(kBroadcastDiv, {shares, total});
  }

  // What follows step t − 1 from what follows step t.
  void stepBack(int64_t t, Value &blanks, Value &labels) {
    const Step &step = steps[static_cast<size_t>(t)];
    const Value fromBlanks = d.emit(kBroadcastMul, {blanks, step.ofBlank}), fromLabels = times(labels, step.ofLabels);
    const Value newBlanks = d.emit(kElemwiseAdd, {fromBlanks, beside(fromLabels, none)});
    Value newLabels = d.emit(kElemwiseAdd, {fromLabels, slice(fromBlanks, 1, 1, numLabels + 1)});
    if (numLabels > 1)
      newLabels = d.emit(kElemwiseAdd, {newLabels, beside(times(skips, slice(fromLabels, 1, 1, numLabels)), none)});
    blanks = within(t, d.emit(kBroadcastDiv, {newBlanks, step.scale}), blanks);
    labels = within(t, d.emit(kBroadcastDiv, {newLabels, step.scale}), labels);
  }

  DecomposeRule &d;
  const CtcParams &p;
  const int64_t time, numLabels, blank;
  Value probabilities, numSteps;
  Value isBlank, none;  // (batch, classes): 1 at the blank; (batch, 1): 0
  Value classOf;        // (batch, labels, classes): 1 at a label's class
  Value skips;          // (batch, labels − 1): 1 where a label differs from the one before
  Value firstBlank, firstLabel, lastBlank, lastLabel;  // where paths begin and end, (batch, places)
  Value fits;                                          // (batch,): whether there are enough steps
  SmallVector<Step, 8> steps;
};

}  // namespace

void unrollCtcLoss(DecomposeRule &d) {
  if (d.wants(1)) {
    SmallVector<Value, 4> operands;
    for (size_t i = 0; i < d.numInputs(); ++i) operands.push_back(d.x(i));
    d.y(1, d.emit(kCtcLossGrad, operands, d.attrs()));
  }
  if (d.wants(0)) UnrolledCtc(d).sayLoss(0);
}

void unrollCtcLossGrad(DecomposeRule &d) { UnrolledCtc(d).sayGradient(); }

}  // namespace gradc
