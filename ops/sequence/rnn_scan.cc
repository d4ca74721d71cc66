// RNN and its gradient in simpler operators: a loop over the steps for each direction of a layer and, for the gradient,
// another one in reverse. No size has to be known.
//
// What does not need the state of the previous step is computed outside the loops, for all steps at once: the gates'
// shares of the input; in the gradient, where the states are stacked, also their shares of the state and the gradients
// of the parameters. A step is the formula of its cell (rnn_cells.h). Tested by tests/ops/rnn_test.cc
#include "ops/sequence/rnn_scan.h"

#include "ir/base/error.h"

using namespace llvm;

namespace gradc {

void ScannedRnn::emitOutputs() {
  const Value rows = run();
  if (d.hasFailed()) return;
  d.y(0, rows);
  if (!p.stateOutputs) return;
  d.y(1, stacked(lastStates));
  if (s.isLstm) d.y(2, stacked(lastCells));
}

Value ScannedRnn::run() {
  Value rows = d.x(0);
  for (int64_t layer = 0; layer < s.layers && !d.hasFailed(); ++layer) {
    SmallVector<Value, 2> outputs;
    for (int64_t direction = 0; direction < s.directions && !d.hasFailed(); ++direction)
      outputs.push_back(runCell(RnnCell(s, layer, direction), rows));
    if (d.hasFailed()) break;
    layerInputs.push_back(rows);
    rows = joined(outputs, "2");
    if (p.drops() && layer + 1 < s.layers) rows = emit(kDropout, {rows}, {{"p", d.number(p.p)}});
  }
  return rows;
}

SmallVector<Value, kMaxGates> ScannedRnn::split(Value shares) {
  const int64_t count = numGates(p.mode);
  if (count == 1) return {shares};
  auto columnBefore = [&](int64_t gate) { return ("(None," + Twine(gate * s.state) + ")").str(); };
  SmallVector<Value, kMaxGates> gates;
  for (int64_t g = 0; g < count; ++g)
    gates.push_back(emit(kSlice, {shares}, {{"begin", columnBefore(g)}, {"end", columnBefore(g + 1)}}));
  return gates;
}

CellPoint<Term> ScannedRnn::pointOf(Formula &formula, const Step &step) {
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

// Lengths are truncated to integers and compared in float64; steps count from 1.
Value ScannedRnn::rowsInside() {
  const Value whole = emit(kCast, {d.x(ports.lengths)}, {{"dtype", "int64"}});
  const Value first = emit(kCast, {reshape(slice(d.x(0), 2, 0, 1), "(0, -3)")}, {{"dtype", "float64"}});
  const Value steps = emit(kCumsum, {emit(kOnesLike, {first})}, {{"axis", "0"}});
  return emit(kBroadcastGreaterEqual, {emit(kCast, {whole}, {{"dtype", "float64"}}), steps});
}

// ---- parameters

// Turns `begin`, which is counted as if data had no features, into an index from the end of the vector: negative.
int64_t ScannedRnn::fromEnd(int64_t begin) const { return begin - s.weightsBefore(s.layers) - 2 * s.cells() * s.gates; }

// The matrices of one direction of a layer, as a vector.
Value ScannedRnn::matricesOf(const RnnCell &cell) {
  if (cell.layer > 0) {
    const int64_t begin = fromEnd(cell.inputWeight);
    return slice(d.x(1), 0, begin, begin + s.weightsOf(cell.layer));
  }
  const Value first = slice(d.x(1), 0, 0, fromEnd(s.weightsBefore(1)));
  return s.directions == 1 ? first : row(reshape(first, "(2, -1)"), cell.direction);
}
Value ScannedRnn::matrix(Value vector, int64_t begin, int64_t end, int64_t rows) {
  const int64_t shape[] = {rows, -1};
  return reshape(slice(vector, 0, begin, end), d.tuple(shape));
}
ScannedRnn::CellValues ScannedRnn::parametersOf(const RnnCell &cell) {
  const Value matrices = matricesOf(cell);
  const int64_t projection = s.hasProjection ? s.output * s.state : 0, rest = s.gates * s.output + projection;
  CellValues values;
  values.inputWeight = matrix(matrices, 0, -rest, s.gates);
  values.stateWeight = matrix(matrices, -rest, -projection, s.gates);
  if (s.hasProjection) values.projection = matrix(matrices, -projection, 0, s.output);
  const int64_t inputBias = fromEnd(cell.inputBias), stateBias = fromEnd(cell.stateBias);
  values.inputBias = slice(d.x(1), 0, inputBias, inputBias + s.gates);
  values.stateBias = slice(d.x(1), 0, stateBias, stateBias + s.gates);
  return values;
}

// ---- steps

Value ScannedRnn::runCell(const RnnCell &cell, Value rows) {
  CellRun &kept = runs.emplace_back();
  kept.parameters = parametersOf(cell);
  kept.shares = dense(rows, kept.parameters.inputWeight, kept.parameters.inputBias, "False");
  const Value start = row(d.x(ports.state), cell.index),
              cellStart = s.isLstm ? row(d.x(ports.stateCell), cell.index) : Value();
  ScanBuilder scan(d, directionOf(cell));
  Step step;
  step.state = scan.state(start);
  if (s.isLstm) step.cell = scan.state(cellStart);
  loop = &scan;
  step.x = split(scan.row(kept.shares));
  step.h = split(dense(step.state, given(kept.parameters.stateWeight), given(kept.parameters.stateBias), "True"));
  Formula formula(d, scan, Formula::Shapes::Equal);
  const CellResult<Term> result = cellStep(rules, pointOf(formula, step));
  const Value hidden = result.state.value();
  Value after = hidden, cellAfter = s.isLstm ? result.cell.value() : Value();
  if (s.hasProjection) after = emit(kDot, {after, given(kept.parameters.projection)}, {{"transpose_b", "True"}});
  Value output = after;
  if (hasLengths()) {
    const Value inside = scan.row(insideRows);
    output = choose(inside, after, zeros(after));
    after = choose(inside, after, step.state);
    if (s.isLstm) cellAfter = choose(inside, cellAfter, step.cell);
  }
  loop = nullptr;
  scan.setNext(step.state, after);
  if (s.isLstm) scan.setNext(step.cell, cellAfter);
  return finish(scan, step, output, hidden, kept);
}

Value ScannedRnn::finish(ScanBuilder &scan, const Step &step, Value output, Value hidden, CellRun &kept) {
  const size_t outputs = scan.stack(output);
  size_t states = 0, cells = 0, hiddens = 0;
  if (keepsStates) {
    states = scan.stack(step.state);
    if (s.isLstm) cells = scan.stack(step.cell);
    if (s.hasProjection) hiddens = scan.stack(hidden);
  }
  scan.finish();
  if (d.hasFailed()) return Value();
  lastStates.push_back(scan.final(step.state));
  if (s.isLstm) lastCells.push_back(scan.final(step.cell));
  if (keepsStates) {
    kept.states = scan.stacked(states);
    if (s.isLstm) kept.cells = scan.stacked(cells);
    if (s.hasProjection) kept.hidden = scan.stacked(hiddens);
  }
  return scan.stacked(outputs);
}

void decomposeRnn(DecomposeRule &d) { ScannedRnn(d, RnnPorts::ofForward(d.params<RnnParams>())).emitOutputs(); }

namespace {

// The gradient of what ScannedRnn emits.
class ScannedRnnGradient : public ScannedRnn {
 public:
  ScannedRnnGradient(DecomposeRule &d, const RnnPorts &ports) : ScannedRnn(d, ports) { keepsStates = true; }

  void decompose() {
    run();
    Value head = d.x(ports.head);
    gradients.resize(static_cast<size_t>(s.cells()));
    for (int64_t layer = s.layers; layer-- > 0 && !d.hasFailed();) {
      Value input;
      for (int64_t direction = 0; direction < s.directions && !d.hasFailed(); ++direction) {
        const Value share = runCellBack(RnnCell(s, layer, direction), head);
        input = direction == 0 ? share : sum(input, share);
      }
      head = input;
    }
    if (d.hasFailed()) return;
    d.y(0, head);
    d.y(1, parametersGradient());
    d.y(2, stacked(listed(&CellGradient::state)));
    if (s.isLstm) d.y(3, stacked(listed(&CellGradient::cell)));
  }

 private:
  struct CellGradient {
    CellValues parameters;
    Value state, cell;  // of the initial ones
  };
  // Gradients for all steps: of the shares of the input and of the state (they differ only for gru), and of the
  // projection's result.
  template <class T> struct Shares {
    T ofInput = {}, ofState = {}, projected = {};
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
        if (v.isValid()) parts.push_back(reshape(v, "(-1,)"));
    for (const CellGradient &gradient : gradients)
      parts.append({gradient.parameters.inputBias, gradient.parameters.stateBias});
    return joined(parts, "0");
  }

  // (time, batch, n) as (time · batch, n)
  Value asRows(Value v) { return reshape(v, "(-3, -2)"); }
  // dyᵀ · x for rows of both.
  Value weightGradient(Value dy, Value x) { return emit(kDot, {dy, x}, {{"transpose_a", "True"}}); }
  Value columnSums(Value rows) { return emit(kSum, {rows}, {{"axis", "0"}}); }

  // The gradient of the layer's input.
  Value runCellBack(const RnnCell &cell, Value head) {
    if (s.directions > 1) head = slice(head, 2, cell.direction * s.output, (cell.direction + 1) * s.output);
    const CellRun &ran = runs[static_cast<size_t>(cell.index)];
    const Shares<Value> shares = scanBack(cell, ran, head);
    if (d.hasFailed()) return Value();
    CellValues &parameters = gradients[static_cast<size_t>(cell.index)].parameters;
    const Value inputRows = asRows(shares.ofInput), stateRows = isGru() ? asRows(shares.ofState) : inputRows;
    const Value layerInput = layerInputs[static_cast<size_t>(cell.layer)];
    parameters.inputWeight = weightGradient(inputRows, asRows(layerInput));
    parameters.stateWeight = weightGradient(stateRows, asRows(ran.states));
    if (s.hasProjection) parameters.projection = weightGradient(asRows(shares.projected), asRows(ran.hidden));
    parameters.inputBias = columnSums(inputRows);
    parameters.stateBias = columnSums(stateRows);
    return emit(kDot, {shares.ofInput, ran.parameters.inputWeight});
  }

  // The value with which the gradient of a state starts: that of the last state.
  Value startOf(size_t headPort, size_t statePort, const RnnCell &cell) {
    return headPort == RnnPorts::kNone ? zeros(row(d.x(statePort), cell.index)) : row(d.x(headPort), cell.index);
  }

  // The loop against the cell's direction; its states are the gradients of the cell's.
  Shares<Value> scanBack(const RnnCell &cell, const CellRun &ran, Value head) {
    const Value stateShares = dense(ran.states, ran.parameters.stateWeight, ran.parameters.stateBias, "False");
    const Value start = startOf(ports.stateHead, ports.state, cell);
    const Value cellStart = s.isLstm ? startOf(ports.cellHead, ports.stateCell, cell) : Value();
    ScanBuilder scan(d, directionOf(cell) == Direction::Up ? Direction::Down : Direction::Up);
    const States last{scan.state(start), s.isLstm ? scan.state(cellStart) : Value()};
    loop = &scan;
    Step step;
    step.x = split(scan.row(ran.shares));
    step.h = split(scan.row(stateShares));
    step.state = scan.row(ran.states);
    if (s.isLstm) step.cell = scan.row(ran.cells);
    const Shares<size_t> stacks = stepBack(scan, step, scan.row(head), last, ran.parameters);
    loop = nullptr;
    scan.finish();
    if (d.hasFailed()) return {};
    CellGradient &gradient = gradients[static_cast<size_t>(cell.index)];
    gradient.state = scan.final(last.state);
    if (s.isLstm) gradient.cell = scan.final(last.cell);
    Shares<Value> shares;
    shares.ofInput = scan.stacked(stacks.ofInput);
    if (isGru()) shares.ofState = scan.stacked(stacks.ofState);
    if (s.hasProjection) shares.projected = scan.stacked(stacks.projected);
    return shares;
  }

  // Takes the gradients of the states from after a step to before it.
  Shares<size_t> stepBack(ScanBuilder &scan, const Step &step, Value head, const States &last,
                          const CellValues &parameters) {
    Value after = sum(head, last.state), cellAfter = last.cell;
    Value beyond, cellBeyond;  // what bypasses a step beyond the end of its sequence
    if (hasLengths()) {
      const Value inside = scan.row(insideRows), none = zeros(after);
      beyond = choose(inside, none, last.state);
      after = choose(inside, after, none);
      if (s.isLstm) {
        const Value noCell = zeros(cellAfter);
        cellBeyond = choose(inside, noCell, cellAfter);
        cellAfter = choose(inside, cellAfter, noCell);
      }
    }
    Shares<size_t> stacks;
    if (s.hasProjection) {
      stacks.projected = scan.stack(after);
      after = emit(kDot, {after, given(parameters.projection)});
    }
    Formula formula(d, scan, Formula::Shapes::Equal);
    const CellResult<Term> heads{Term(formula, after), s.isLstm ? Term(formula, cellAfter) : Term(0)};
    const CellSlope<Term> slope = cellSlope(rules, pointOf(formula, step), heads);
    const Value ofInput = joinedShares(slope.x), ofState = isGru() ? joinedShares(slope.h) : ofInput;
    stacks.ofInput = scan.stack(ofInput);
    if (isGru()) stacks.ofState = scan.stack(ofState);
    Value before = sum(emit(kDot, {ofState, given(parameters.stateWeight)}), beyond);
    if (isGru()) before = sum(before, slope.state.value());
    scan.setNext(last.state, before);
    if (s.isLstm) scan.setNext(last.cell, sum(slope.cell.value(), cellBeyond));
    return stacks;
  }

  Value joinedShares(const Term *shares) {
    SmallVector<Value, kMaxGates> gates;
    for (int64_t g = 0; g < numGates(p.mode); ++g) gates.push_back(shares[g].value());
    return joined(gates, "1");
  }

  SmallVector<CellGradient, 2> gradients;  // by cell
};

}  // namespace

void decomposeRnnGradient(DecomposeRule &d, bool hasLengths) {
  const RnnParams &p = d.params<RnnParams>();
  if (p.drops())
    return d.refuse(ErrorKind::UnsupportedOption, "repeats the draws of its forward node, which no other operator can");
  ScannedRnnGradient(d, RnnPorts::ofBackward(p, hasLengths)).decompose();
}

}  // namespace gradc
