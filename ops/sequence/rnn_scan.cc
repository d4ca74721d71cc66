// RNN and its gradient in simpler operators: a loop over the steps for each direction of a layer and, for the gradient,
// another one in reverse. No size has to be known.
//
// What does not need the state of the previous step is computed outside the loops, for all steps at once: the gates'
// shares of the input; in the gradient, where the states are stacked, also their shares of the state and the gradients
// of the parameters. A step is the formula of its cell (rnn_cells.h). Tested by tests/ops/rnn_test.cc
#include "ops/sequence/rnn_scan.h"

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

}  // namespace gradc
