// Tested by tests/ops/rnn_test.cc
#include "ops/sequence/rnn_scan_gradient.h"

#include "ops/sequence/rnn_scan.h"

#include "ir/base/error.h"

using namespace llvm;

namespace gradc {
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
