// CTCLoss and its gradient in simpler operators: a loop over the steps and, for the gradient, another one in reverse.
// No size has to be known.
//
// Paths are summed in logarithms, as in the kernel: where blanks are likely, as early in training, the share of the
// paths that spell many labels may be below the smallest number. They are float64 whatever the type of the data. What
// has no path has the logarithm kImpossible or less, which unlike -inf has gradients. Blanks (one more than labels) and
// labels are separate matrices, (batch, places).
// Tested by tests/ops/ctc_loss_test.cc
#include "ops/loss/ctc_scan.h"

#include "ir/rules/grad_rule.h"
#include "ops/control/scan_builder.h"
#include "ops/kit/primitives.h"
#include "ops/loss/ctc_loss.h"

using namespace llvm;

namespace gradc {
namespace {

using Direction = ScanBuilder::Direction;

constexpr StringRef kImpossible = "-1e30", kImprobable = "-1e29";

class ScannedCtc {
 public:
  explicit ScannedCtc(DecomposeRule &d) : d(d), p(d.params<CtcParams>()) { prepare(); }

  void emitLoss(size_t output) {
    runForward();
    if (d.hasFailed()) return;
    const Value ends = beside(plus(finalBlanks, only(lastBlank)), plus(finalLabels, only(lastLabel)));
    const Value highest = highestOf(ends);
    const Value total = plus(sum(highest, "1"), emit(kLog, {sum(relative(ends, highest), "1")}));
    const Value isPossible = emit(kGreaterScalar, {total}, {{"scalar", kImprobable}});
    const Value loss = emit(kNegative, {choose(isPossible, total, emit(kLog, {zeros(total)}))});
    d.y(output, asData(choose(fits, loss, zeros(total))));
  }

  void emitGradient() {
    runForward();
    if (d.hasFailed()) return;
    ScanBuilder scan(d, Direction::Down);
    const Value after[] = {scan.state(only(lastBlank)), scan.state(only(lastLabel))};
    loop = &scan;
    Step step = nextStep();
    const Value blanks = plus(scan.row(pathBlanks), after[0]), labels = plus(scan.row(pathLabels), after[1]);
    const Value highest = highestOf(beside(blanks, labels));
    const Value gradient = emit(
        kElemwiseSub, {emit(kExp, {step.logits}), spelled(step, relative(blanks, highest), relative(labels, highest))});
    const Value isUsed = given(hasPath), row = choose(isUsed, gradient, zeros(gradient));
    const size_t rows = scan.stack(within(step, row, zeros(row)));
    stepBack(scan, step, after);
    loop = nullptr;
    scan.finish();
    if (!d.hasFailed()) d.y(0, asData(scan.stacked(rows)));
  }

 private:
  struct Step {
    Value logits;             // (batch, classes): logarithms of probabilities
    Value inside;             // (batch,): whether the step belongs to the sequence; invalid: always
    Value classOf;            // (batch, labels, classes)
    Value ofBlank, ofLabels;  // (batch, 1), (batch, labels): logarithms of probabilities
  };

  // ---- emitting, within the loop where there is one

  Value emit(const OpDef &op, std::initializer_list<Value> operands, std::initializer_list<AttrText> attrs = {}) {
    if (!loop) return d.emit(op, operands, attrs);
    return loop->emit(op, ArrayRef<Value>(operands.begin(), operands.size()),
                      ArrayRef<AttrText>(attrs.begin(), attrs.size()));
  }
  Value given(Value v) { return loop->whole(v); }
  // Columns of a matrix.
  Value columns(Value v, StringRef begin, StringRef end) {
    const std::string from = ("(None," + begin + ")").str(), to = ("(None," + end + ")").str();
    return emit(kSlice, {v}, {{"begin", from}, {"end", to}});
  }
  Value beside(Value a, Value b) { return emit(kConcat, {a, b}, {{"dim", "1"}, {"num_args", "2"}}); }
  Value withoutFirst(Value v) { return columns(v, "1", "None"); }
  Value withoutLast(Value v) { return columns(v, "None", "-1"); }
  Value zeros(Value like) { return emit(kZerosLike, {like}); }
  Value times(Value a, Value b) { return emit(kElemwiseMul, {a, b}); }
  Value plus(Value a, Value b) { return emit(kElemwiseAdd, {a, b}); }
  Value expand(Value v, StringRef axis) { return emit(kExpandDims, {v}, {{"axis", axis}}); }
  Value choose(Value condition, Value a, Value b) { return emit(kWhere, {condition, a, b}); }
  Value wide(Value v) { return emit(kCast, {v}, {{"dtype", "float64"}}); }
  // Rounded, NaN to 0. In float64, because arithmetic with a number takes floating types.
  Value whole(Value v) {
    const Value rounded = emit(kFloor, {emit(kPlusScalar, {wide(v)}, {{"scalar", "0.5"}})});
    return wide(emit(kCast, {rounded}, {{"dtype", "int64"}}));
  }
  Value indices(Value like, StringRef axis) { return wide(emit(kIndexLike, {like}, {{"axis", axis}})); }
  Value asData(Value v) { return emit(kCastLike, {v, d.x(0)}); }
  Value sum(Value v, StringRef axis, StringRef keepsAxis = "False") {
    return emit(kSum, {v}, {{"axis", axis}, {"keepdims", keepsAxis}});
  }
  Value rowSum(Value a, Value b, StringRef keepsAxis) {
    return emit(kElemwiseAdd, {sum(a, "1", keepsAxis), sum(b, "1", keepsAxis)});
  }

  // ---- logarithms. The largest is rounded down: what it is taken from does not depend on it, so it needs no gradient.

  // 0 where the condition is 1, and kImpossible where it is 0.
  Value only(Value condition) {
    return emit(kMulScalar, {emit(kRminusScalar, {condition}, {{"scalar", "1"}})}, {{"scalar", kImpossible}});
  }
  Value highestOf(Value rows) { return emit(kFloor, {emit(kMax, {rows}, {{"axis", "1"}, {"keepdims", "True"}})}); }
  Value relative(Value v, Value highest) { return emit(kExp, {emit(kBroadcastSub, {v, highest})}); }
  Value logSum(std::initializer_list<Value> terms) {
    Value highest, total;
    for (Value v : terms) highest = highest.isValid() ? emit(kBroadcastMaximum, {highest, v}) : v;
    highest = emit(kFloor, {highest});
    for (Value v : terms) {
      const Value share = emit(kExp, {emit(kElemwiseSub, {v, highest})});
      total = total.isValid() ? plus(total, share) : share;
    }
    return plus(highest, emit(kLog, {total}));
  }

  // ---- what does not depend on the step

  void prepareLogits() {
    const Value x = wide(d.x(0));
    const Value highest = emit(kFloor, {emit(kMax, {x}, {{"axis", "2"}, {"keepdims", "True"}})});
    const Value difference = emit(kBroadcastSub, {x, highest});
    const Value total = emit(kLog, {sum(emit(kExp, {difference}), "2", "True")});
    logits = emit(kMaximumScalar, {emit(kBroadcastSub, {difference, total})}, {{"scalar", kImpossible}});
  }

  void prepare() {
    prepareLogits();
    const Value ofStep = sum(logits, "0"), times = indices(sum(logits, "2"), "0");
    none = zeros(columns(ofStep, "None", "1"));
    impossible = emit(kPlusScalar, {none}, {{"scalar", kImpossible}});
    const Value classes = indices(ofStep, "1");
    blank = p.blank == CtcBlank::First ? none : emit(kMax, {classes}, {{"axis", "1"}, {"keepdims", "True"}});
    isBlank = emit(kBroadcastEqual, {classes, blank});
    Value numSteps = sum(emit(kOnesLike, {times}), "0");
    if (p.useDataLengths) {
      const Value given = whole(d.x(2));
      inside = emit(kBroadcastGreater, {given, times});
      numSteps = emit(kBroadcastMinimum, {given, numSteps});
    }
    prepareLabels(indices(expand(ofStep, "1"), "2"), numSteps);
  }

  void prepareLabels(Value classes, Value numSteps) {
    const Value labels = whole(d.x(1)), index = indices(labels, "1");
    const Value isLabel = labelsInUse(labels, index);
    const Value isClass = emit(kBroadcastEqual, {expand(labels, "2"), classes});
    classOf = emit(kBroadcastMul, {isClass, expand(isLabel, "2")});
    onlyClasses = only(sum(classOf, "2"));
    const Value count = sum(isLabel, "1", "True");
    const Value places = indices(beside(labels, none), "1");
    lastBlank = emit(kBroadcastEqual, {count, places});
    lastLabel = emit(kBroadcastEqual, {count, emit(kPlusScalar, {index}, {{"scalar", "1"}})});
    firstBlank = emit(kEqualScalar, {places}, {{"scalar", "0"}});
    firstLabel = zeros(isLabel);
    // The first label has none before it; its result is not used.
    const Value before = withoutLast(beside(none, labels));
    const Value differs = emit(kNotEqual, {labels, before});
    onlySkips = only(times(differs, emit(kBroadcastNotEqual, {labels, blank})));
    const Value isLater = emit(kGreaterScalar, {index}, {{"scalar", "0"}});
    const Value repeats = times(times(emit(kRminusScalar, {differs}, {{"scalar", "1"}}), isLater), isLabel);
    const Value needed = emit(kElemwiseAdd, {sum(isLabel, "1"), sum(repeats, "1")});
    fits = emit(kLesserScalar, {emit(kElemwiseSub, {needed, numSteps})}, {{"scalar", "0.5"}});
    const Value numOutside = emit(kElemwiseSub, {sum(isLabel, "1"), sum(classOf, "(1, 2)")});
    hasPath = times(fits, emit(kLesserScalar, {numOutside}, {{"scalar", "0.5"}}));
  }

  // 1 for labels before the end of the sequence.
  Value labelsInUse(Value labels, Value index) {
    if (p.useLabelLengths) return emit(kBroadcastGreater, {expand(whole(d.x(d.numInputs() - 1)), "1"), index});
    const Value isPadding = emit(kEqualScalar, {labels}, {{"scalar", d.number(p.padding())}});
    const Value soFar = emit(kCumsum, {emit(kTranspose, {isPadding})}, {{"axis", "0"}});
    return emit(kEqualScalar, {emit(kTranspose, {soFar})}, {{"scalar", "0"}});
  }

  // ---- steps

  Step nextStep() {
    Step step;
    step.logits = loop->row(logits);
    if (inside.isValid()) step.inside = loop->row(inside);
    step.classOf = given(classOf);
    step.ofBlank = sum(times(given(isBlank), step.logits), "1", "True");
    step.ofLabels = plus(sum(emit(kBroadcastMul, {step.classOf, expand(step.logits, "1")}), "2"), given(onlyClasses));
    return step;
  }

  // `isInside` where the step belongs to the sequence, else `isOutside`.
  Value within(const Step &step, Value isInside, Value isOutside) {
    return step.inside.isValid() ? choose(step.inside, isInside, isOutside) : isInside;
  }

  // Extends paths by a step: from a blank or label to itself or the next place, or from a label past the next blank.
  void runForward() {
    ScanBuilder scan(d);
    const Value oldBlanks = scan.state(only(firstBlank)), oldLabels = scan.state(only(firstLabel));
    loop = &scan;
    const Step step = nextStep();
    const Value shifted = beside(given(impossible), oldLabels);
    const Value skipping = plus(withoutLast(shifted), given(onlySkips));
    const Value labels = plus(logSum({oldLabels, withoutLast(oldBlanks), skipping}), step.ofLabels);
    const Value blanks = emit(kBroadcastAdd, {logSum({oldBlanks, shifted}), step.ofBlank});
    const Value newBlanks = within(step, blanks, oldBlanks), newLabels = within(step, labels, oldLabels);
    loop = nullptr;
    const size_t blankRows = scan.stack(newBlanks), labelRows = scan.stack(newLabels);
    scan.setNext(oldBlanks, newBlanks);
    scan.setNext(oldLabels, newLabels);
    scan.finish();
    if (d.hasFailed()) return;
    pathBlanks = scan.stacked(blankRows), pathLabels = scan.stacked(labelRows);
    finalBlanks = scan.final(oldBlanks), finalLabels = scan.final(oldLabels);
  }

  // The share of each class in the paths that spell the labels, given the paths through each place.
  Value spelled(const Step &step, Value ofBlanks, Value ofLabels) {
    const Value total = rowSum(ofBlanks, ofLabels, "True");  // at least 1: that of the likeliest place
    const Value perClass = sum(emit(kBroadcastMul, {step.classOf, expand(ofLabels, "2")}), "1");
    const Value ofBlank = emit(kBroadcastMul, {given(isBlank), sum(ofBlanks, "1", "True")});
    return emit(kBroadcastDiv, {emit(kElemwiseAdd, {perClass, ofBlank}), total});
  }

  // Derives what follows the previous step from what follows this one.
  void stepBack(ScanBuilder &scan, const Step &step, const Value (&after)[2]) {
    const Value fromBlanks = emit(kBroadcastAdd, {after[0], step.ofBlank}), fromLabels = plus(after[1], step.ofLabels);
    const Value nothing = given(impossible), skipping = beside(plus(fromLabels, given(onlySkips)), nothing);
    const Value blanks = logSum({fromBlanks, beside(fromLabels, nothing)});
    const Value labels = logSum({fromLabels, withoutFirst(fromBlanks), withoutFirst(skipping)});
    scan.setNext(after[0], within(step, blanks, after[0]));
    scan.setNext(after[1], within(step, labels, after[1]));
  }

  DecomposeRule &d;
  const CtcParams &p;
  ScanBuilder *loop = nullptr;    // whose body is being built
  Value logits;                   // (time, batch, classes): logarithms of probabilities
  Value inside;                   // (time, batch): invalid if every step belongs to its sequence
  Value none, impossible, blank;  // (batch, 1): 0, kImpossible, and the class of the blank
  Value isBlank;                  // (batch, classes): 1 at the blank
  Value classOf;                  // (batch, labels, classes): 1 at a label's class
  Value onlyClasses, onlySkips;  // (batch, labels): kImpossible at labels that are no class, or equal to the one before
  Value firstBlank, firstLabel, lastBlank, lastLabel;  // where paths begin and end, (batch, places)
  Value fits;                                          // (batch,): whether there are enough steps
  Value hasPath;                                       // (batch,): whether the labels are classes, too
  Value pathBlanks, pathLabels;                        // (time, batch, places): logarithms, of paths up to each step
  Value finalBlanks, finalLabels;
};

}  // namespace

void decomposeCtcLoss(DecomposeRule &d) {
  if (d.wants(1)) d.y(1, d.emit(kCtcLossGrad, d.operands(), d.attrs()));
  if (d.wants(0)) ScannedCtc(d).emitLoss(0);
}

void decomposeCtcLossGrad(DecomposeRule &d) { ScannedCtc(d).emitGradient(); }

}  // namespace gradc
