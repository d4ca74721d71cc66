// RNN and its gradient in simpler operators, unrolled over time: the number of steps has to be known.
//
// The shares of the input are computed for all steps at once; each step is the formula of its cell (rnn_cells.h). The
// gradient emits the steps, and their slopes from the last one back. Tested by tests/rnn_test.cc
#include "ir/grad_rule.h"
#include "ops/primitives.h"
#include "ops/sequence/rnn.h"

#include <algorithm>

using namespace llvm;

namespace gradc {

Term clipped(const Term &x, const Term &, const CellRules &rules) {
  static constexpr Term::Operators kAtLeast = {nullptr, nullptr, &kMaximumScalar, &kMaximumScalar,
                                               [](double a, double b) { return std::max(a, b); }};
  static constexpr Term::Operators kAtMost = {nullptr, nullptr, &kMinimumScalar, &kMinimumScalar,
                                              [](double a, double b) { return std::min(a, b); }};
  return Term::combine(kAtMost, Term::combine(kAtLeast, x, *rules.clipMin), *rules.clipMax);
}
Term rectified(const Term &x, const Term &) { return Term::apply(kRelu, x); }

namespace {

constexpr size_t kMostOperands = 1 << 16;  // of a stack

// One step of a cell: what it received, and the states before it.
struct Step {
  SmallVector<Value, kMaxGates> x, h;
  Value state, cell;
  Value hidden;  // before the projection
};

// Parameters of one direction of a layer.
struct CellValues {
  Value inputWeight, stateWeight, projection, inputBias, stateBias;
};

class Unrolled {
 public:
  Unrolled(DecomposeRule &d, const RnnPorts &ports)
      : d(d), p(d.params<RnnParams>()), rules(p.rules()), ports(ports), s(knownSizes(d)) {
    if (s.time > static_cast<int64_t>(kMostOperands))
      d.refuse("has " + Twine(s.time) + " steps, expected at most 65536");
  }

  /// The output of the last layer.
  Value run() {
    Value rows = d.x(0);
    for (int64_t layer = 0; layer < s.layers && !d.hasFailed(); ++layer) {
      SmallVector<Value, 2> outputs;
      for (int64_t direction = 0; direction < s.directions && !d.hasFailed(); ++direction)
        outputs.push_back(runCell(RnnCell(s, layer, direction), rows));
      layerInputs.push_back(rows);
      rows = joined(outputs, "2");
      if (p.drops() && layer + 1 < s.layers) rows = d.emit(kDropout, {rows}, {{"p", d.number(p.p)}});
    }
    return rows;
  }

  void sayOutputs() {
    const Value rows = run();
    d.y(0, rows);
    if (!p.stateOutputs) return;
    d.y(1, stacked(lastStates));
    if (s.isLstm) d.y(2, stacked(lastCells));
  }

 protected:
  // The batch need not be known.
  static RnnSizes knownSizes(DecomposeRule &d) {
    const int64_t time = d.size(d.x(0), 0), input = d.size(d.x(0), 2);
    return RnnSizes(d.params<RnnParams>(), time, kUnknownDim, input);
  }

  DecomposeRule &d;
  const RnnParams &p;
  const CellRules rules;
  const RnnPorts ports;
  const RnnSizes s;
  SmallVector<Value, 4> layerInputs, lastStates, lastCells;
  SmallVector<CellValues, 2> parameters;       // by cell
  SmallVector<SmallVector<Step, 2>, 2> steps;  // by cell

  // ---- emitting

  Value slice(Value v, int64_t axis, int64_t begin, int64_t end) {
    return d.emit(kSliceAxis, {v}, {{"axis", d.number(axis)}, {"begin", d.number(begin)}, {"end", d.number(end)}});
  }
  // (1, n, …) of (k, n, …) as (n, …)
  Value row(Value v, int64_t k) { return d.emit(kReshape, {slice(v, 0, k, k + 1)}, {{"shape", "(-3, -2)"}}); }
  Value flat(Value v) { return d.emit(kReshape, {v}, {{"shape", "(-1,)"}}); }
  // (time, batch, n) as (time · batch, n)
  Value asRows(Value v) { return d.emit(kReshape, {v}, {{"shape", "(-3, -2)"}}); }
  Value joined(ArrayRef<Value> parts, StringRef axis) {
    if (parts.size() == 1) return parts[0];
    const StringRef count = d.number(static_cast<int64_t>(parts.size()));
    return d.emit(kConcat, parts, d.context().attrs(ArrayRef<AttrText>{{"dim", axis}, {"num_args", count}}));
  }
  Value stacked(ArrayRef<Value> parts) {
    const StringRef count = d.number(static_cast<int64_t>(parts.size()));
    return d.emit(kStack, parts, d.context().attrs(ArrayRef<AttrText>{{"axis", "0"}, {"num_args", count}}));
  }
  Value sum(Value a, Value b) {
    return a.isValid() && b.isValid() ? d.emit(kElemwiseAdd, {a, b}) : a.isValid() ? a : b;
  }
  Value zeros(Value like) { return d.emit(kZerosLike, {like}); }

  // Where a step is within its sequence: one element for each of these.
  Value within(int64_t time) { return d.emit(kGreaterScalar, {lengths()}, {{"scalar", d.number(time)}}); }
  bool hasLengths() const { return ports.lengths != RnnPorts::kNone; }
  Value choose(Value condition, Value inside, Value outside) { return d.emit(kWhere, {condition, inside, outside}); }

  // The shares of all gates, of one each.
  SmallVector<Value, kMaxGates> split(Value shares) {
    const int64_t count = numGates(p.mode);
    if (count == 1) return {shares};
    const Value parts = d.emit(kSliceChannel, {shares}, {{"num_outputs", d.number(count)}, {"axis", "1"}});
    SmallVector<Value, kMaxGates> gates;
    for (int64_t g = 0; g < count; ++g) gates.push_back(d.at(parts, static_cast<size_t>(g)));
    return gates;
  }

  CellPoint<Term> pointOf(Formula &formula, const Step &step) {
    CellPoint<Term> point;
    for (size_t g = 0; g < step.x.size(); ++g) {
      point.x[g] = Term(formula, step.x[g]);
      point.h[g] = Term(formula, step.h[g]);
    }
    if (!s.hasProjection) point.state = Term(formula, step.state);
    if (s.isLstm) point.cell = Term(formula, step.cell);
    if (rules.isPiecewise()) point.at = selectorOf(rules, point);
    return point;
  }

 private:
  // Cut to whole numbers, once. Comparisons with a number are of floating types.
  Value lengths() {
    if (wholeLengths.isValid()) return wholeLengths;
    const Value whole = d.emit(kCast, {d.x(ports.lengths)}, {{"dtype", "int64"}});
    return wholeLengths = d.emit(kCast, {whole}, {{"dtype", "float64"}});
  }

  Value parameter(int64_t begin, int64_t count) { return slice(d.x(1), 0, begin, begin + count); }
  Value matrix(int64_t begin, int64_t rows, int64_t columns) {
    const int64_t shape[] = {rows, columns};
    return d.emit(kReshape, {parameter(begin, rows * columns)}, {{"shape", d.tuple(shape)}});
  }
  CellValues parametersOf(const RnnCell &cell) {
    CellValues values;
    values.inputWeight = matrix(cell.inputWeight, s.gates, cell.input);
    values.stateWeight = matrix(cell.stateWeight, s.gates, s.output);
    if (s.hasProjection) values.projection = matrix(cell.projection, s.output, s.state);
    values.inputBias = parameter(cell.inputBias, s.gates);
    values.stateBias = parameter(cell.stateBias, s.gates);
    return values;
  }

  Value dense(Value x, Value weight, Value bias, StringRef flatten) {
    return d.emit(kFullyConnected, {x, weight, bias}, {{"num_hidden", d.number(s.gates)}, {"flatten", flatten}});
  }

  // The output of all steps, (time, batch, output).
  Value runCell(const RnnCell &cell, Value rows) {
    const CellValues values = parametersOf(cell);
    Value state = row(d.x(ports.state), cell.index),
          cellState = s.isLstm ? row(d.x(ports.stateCell), cell.index) : Value();
    const Value shares = dense(rows, values.inputWeight, values.inputBias, "False");
    SmallVector<Value, 8> outputs(static_cast<size_t>(s.time));
    SmallVector<Step, 2> kept;
    for (int64_t k = 0; k < s.time && !d.hasFailed(); ++k) {
      const int64_t time = cell.timeOf(s, k);
      const Value stateShares = dense(state, values.stateWeight, values.stateBias, "True");
      Step step = {split(row(shares, time)), split(stateShares), state, cellState, Value()};
      outputs[static_cast<size_t>(time)] = runStep(step, values, time, state, cellState);
      kept.push_back(std::move(step));
    }
    lastStates.push_back(state);
    if (s.isLstm) lastCells.push_back(cellState);
    parameters.push_back(values);
    steps.push_back(std::move(kept));
    return s.time == 0 ? slice(shares, 2, 0, s.output) : stacked(outputs);
  }

  // Beyond the end of a sequence the states stay as they are, and the output is 0.
  Value runStep(Step &step, const CellValues &values, int64_t time, Value &state, Value &cellState) {
    Formula formula(d, Formula::Shapes::Equal);
    const CellResult<Term> result = cellStep(rules, pointOf(formula, step));
    step.hidden = result.state.value();
    Value after = step.hidden, cellAfter = s.isLstm ? result.cell.value() : Value();
    if (s.hasProjection) after = d.emit(kDot, {after, values.projection}, {{"transpose_b", "True"}});
    Value output = after;
    if (hasLengths()) {
      const Value inside = within(time);
      output = choose(inside, after, zeros(after));
      after = choose(inside, after, state);
      if (s.isLstm) cellAfter = choose(inside, cellAfter, cellState);
    }
    state = after;
    cellState = cellAfter;
    return output;
  }

  Value wholeLengths;
};

// The gradient of what Unrolled emits.
class UnrolledGradient : public Unrolled {
 public:
  UnrolledGradient(DecomposeRule &d, const RnnPorts &ports) : Unrolled(d, ports) {}

  void say() {
    run();
    Value head = d.x(ports.head);
    gradients.resize(static_cast<size_t>(s.cells()));
    for (int64_t layer = s.layers; layer-- > 0 && !d.hasFailed();) {
      Value input;
      for (int64_t direction = 0; direction < s.directions && !d.hasFailed(); ++direction)
        input = sum(input, runCellBack(RnnCell(s, layer, direction), head));
      head = input;
    }
    if (d.hasFailed()) return;
    d.y(0, head);
    d.y(1, s.time == 0 ? zeros(d.x(1)) : parametersGradient());
    d.y(2, stacked(listed(&CellGradient::state)));
    if (s.isLstm) d.y(3, stacked(listed(&CellGradient::cell)));
  }

 private:
  struct CellGradient {
    CellValues parameters;
    Value state, cell;
  };
  // Gradients of the shares of each step: of the input by time, of the state by step.
  struct ShareGradients {
    SmallVector<Value, 8> input, state;
  };

  SmallVector<Value, 4> listed(Value CellGradient::*member) const {
    SmallVector<Value, 4> values;
    for (const CellGradient &gradient : gradients) values.push_back(gradient.*member);
    return values;
  }

  Value parametersGradient() {
    SmallVector<Value, 16> parts;
    for (const CellGradient &gradient : gradients)
      for (Value v : {gradient.parameters.inputWeight, gradient.parameters.stateWeight, gradient.parameters.projection})
        if (v.isValid()) parts.push_back(flat(v));
    for (const CellGradient &gradient : gradients)
      parts.append({gradient.parameters.inputBias, gradient.parameters.stateBias});
    return joined(parts, "0");
  }

  // dyᵀ · x for rows of both.
  Value weightGradient(Value dy, Value x) { return d.emit(kDot, {dy, x}, {{"transpose_a", "True"}}); }
  Value columnSums(Value rows) { return d.emit(kSum, {rows}, {{"axis", "0"}}); }

  Value headOf(size_t port, const RnnCell &cell) {
    return port == RnnPorts::kNone ? Value() : row(d.x(port), cell.index);
  }

  // The gradient of the layer's input.
  Value runCellBack(const RnnCell &cell, Value head) {
    const size_t at = static_cast<size_t>(cell.index);
    CellGradient &gradient = gradients[at];
    gradient.state = headOf(ports.stateHead, cell);
    gradient.cell = headOf(ports.cellHead, cell);
    if (s.directions > 1) head = slice(head, 2, cell.direction * s.output, (cell.direction + 1) * s.output);
    ShareGradients shares{SmallVector<Value, 8>(static_cast<size_t>(s.time)),
                          SmallVector<Value, 8>(static_cast<size_t>(s.time))};
    for (int64_t k = s.time; k-- > 0 && !d.hasFailed();) runStepBack(cell, k, head, shares);
    if (d.hasFailed()) return Value();
    if (!gradient.state.isValid()) gradient.state = zeros(row(d.x(ports.state), cell.index));
    if (s.isLstm && !gradient.cell.isValid()) gradient.cell = zeros(row(d.x(ports.stateCell), cell.index));
    const Value rows = layerInputs[static_cast<size_t>(cell.layer)];
    if (s.time == 0) return zeros(rows);
    SmallVector<Value, 8> states;
    for (const Step &step : steps[at]) states.push_back(step.state);
    const Value ofInput = stacked(shares.input), inputRows = asRows(ofInput), stateRows = asRows(stacked(shares.state));
    gradient.parameters.inputWeight = weightGradient(inputRows, asRows(rows));
    gradient.parameters.stateWeight = weightGradient(stateRows, asRows(stacked(states)));
    gradient.parameters.inputBias = columnSums(inputRows);
    gradient.parameters.stateBias = columnSums(stateRows);
    return d.emit(kDot, {ofInput, parameters[at].inputWeight});
  }

  // Takes the gradients of the states from after a step to before it.
  void runStepBack(const RnnCell &cell, int64_t k, Value head, ShareGradients &shares) {
    const size_t at = static_cast<size_t>(cell.index);
    CellGradient &gradient = gradients[at];
    const Step &step = steps[at][static_cast<size_t>(k)];
    Value after = sum(row(head, cell.timeOf(s, k)), gradient.state), cellAfter = gradient.cell;
    Value beyond, cellBeyond;  // what passes a step beyond the end of its sequence
    if (hasLengths()) {
      const Value inside = within(cell.timeOf(s, k)), none = zeros(after);
      if (gradient.state.isValid()) beyond = choose(inside, none, gradient.state);
      after = choose(inside, after, none);
      if (cellAfter.isValid()) {
        cellBeyond = choose(inside, zeros(cellAfter), cellAfter);
        cellAfter = choose(inside, cellAfter, zeros(cellAfter));
      }
    }
    if (s.hasProjection) {
      gradient.parameters.projection = sum(gradient.parameters.projection, weightGradient(after, step.hidden));
      after = d.emit(kDot, {after, parameters[at].projection});
    }
    Formula formula(d, Formula::Shapes::Equal);
    CellResult<Term> heads{Term(formula, after), cellAfter.isValid() ? Term(formula, cellAfter) : Term(0)};
    const CellSlope<Term> slope = cellSlope(rules, pointOf(formula, step), heads);
    const Value ofInput = joinedShares(slope.x), ofState = isGru() ? joinedShares(slope.h) : ofInput;
    shares.input[static_cast<size_t>(cell.timeOf(s, k))] = ofInput;
    shares.state[static_cast<size_t>(k)] = ofState;
    gradient.state = sum(d.emit(kDot, {ofState, parameters[at].stateWeight}), beyond);
    if (isGru()) gradient.state = sum(gradient.state, slope.state.value());
    if (s.isLstm) gradient.cell = sum(slope.cell.value(), cellBeyond);
  }

  bool isGru() const { return p.mode == RnnMode::Gru; }
  Value joinedShares(const Term *shares) {
    SmallVector<Value, kMaxGates> gates;
    for (int64_t g = 0; g < numGates(p.mode); ++g) gates.push_back(shares[g].value());
    return joined(gates, "1");
  }

  SmallVector<CellGradient, 2> gradients;  // by cell
};

}  // namespace

void unrollRnn(DecomposeRule &d) { Unrolled(d, RnnPorts::ofForward(d.params<RnnParams>())).sayOutputs(); }

void unrollRnnGradient(DecomposeRule &d, bool hasLengths) {
  const RnnParams &p = d.params<RnnParams>();
  if (p.drops()) return d.refuse("draws what its forward node drew, which no other operator does");
  UnrolledGradient(d, RnnPorts::ofBackward(p, hasLengths)).say();
}

}  // namespace gradc
