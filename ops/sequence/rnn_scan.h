// RNN and its gradient as loops over the steps for each direction of a layer. Tested by tests/ops/rnn_test.cc
#pragma once

#include "ir/rules/grad_rule.h"
#include "ops/control/scan_builder.h"
#include "ops/kit/primitives.h"
#include "ops/sequence/rnn.h"

namespace gradc {

/// Emits the loops of the forward operator.
class ScannedRnn {
 public:
  using Direction = ScanBuilder::Direction;

  ScannedRnn(DecomposeRule &d, const RnnPorts &ports)
      : d(d), p(d.params<RnnParams>()), rules(p.rules()), ports(ports), s(p, kUnknownDim, kUnknownDim, 0) {
    if (hasLengths()) insideRows = rowsInside();
  }

  void emitOutputs();

 protected:
  // Parameters of one direction of a layer, or their gradients.
  struct CellValues {
    Value inputWeight, stateWeight, projection, inputBias, stateBias;
  };

  // What one direction of a layer computes for all steps, (time, batch, ·): shares of the gates and, for each step, the
  // states before it and the hidden state before the projection.
  struct CellRun {
    CellValues parameters;
    Value shares, states, cells, hidden;
  };

  struct States {
    Value state, cell;
  };

  // One step of a cell: the operands of the gates, and the states before it.
  struct Step {
    llvm::SmallVector<Value, kMaxGates> x, h;
    Value state, cell;
  };

  /// The output of the last layer.
  Value run();

  DecomposeRule &d;
  const RnnParams &p;
  const CellRules rules;
  const RnnPorts ports;
  const RnnSizes s;             // as if data had no features: offsets in parameters are from their end
  ScanBuilder *loop = nullptr;  // whose body is being built
  bool keepsStates = false;     // in `runs`
  Value insideRows;             // (time, batch): whether a step belongs to its sequence; invalid: always
  llvm::SmallVector<Value, 4> layerInputs, lastStates, lastCells;
  llvm::SmallVector<CellRun, 2> runs;  // by cell

  // ---- emitting, within the loop where there is one

  Value emit(const OpDef &op, llvm::ArrayRef<Value> operands, std::initializer_list<AttrText> attrs = {}) {
    const llvm::ArrayRef<AttrText> texts(attrs.begin(), attrs.size());
    return loop ? loop->emit(op, operands, texts) : d.emit(op, operands, d.context().attrs(texts));
  }
  Value given(Value v) { return loop->whole(v); }
  // An end of 0 is the end of the axis.
  Value slice(Value v, int64_t axis, int64_t begin, int64_t end) {
    return emit(kSliceAxis, {v},
                {{"axis", d.number(axis)}, {"begin", d.number(begin)}, {"end", end == 0 ? "None" : d.number(end)}});
  }
  Value reshape(Value v, llvm::StringRef shape) { return emit(kReshape, {v}, {{"shape", shape}}); }
  // (1, n, …) of (k, n, …) as (n, …)
  Value row(Value v, int64_t k) { return reshape(slice(v, 0, k, k + 1), "(-3, -2)"); }
  Value joined(llvm::ArrayRef<Value> parts, llvm::StringRef axis) {
    if (parts.size() == 1) return parts[0];
    return emit(kConcat, parts, {{"dim", axis}, {"num_args", d.number(static_cast<int64_t>(parts.size()))}});
  }
  Value stacked(llvm::ArrayRef<Value> parts) {
    return emit(kStack, parts, {{"axis", "0"}, {"num_args", d.number(static_cast<int64_t>(parts.size()))}});
  }
  Value sum(Value a, Value b) { return b.isValid() ? emit(kElemwiseAdd, {a, b}) : a; }
  Value zeros(Value like) { return emit(kZerosLike, {like}); }
  Value choose(Value condition, Value inside, Value outside) { return emit(kWhere, {condition, inside, outside}); }
  Value dense(Value x, Value weight, Value bias, llvm::StringRef flatten) {
    return emit(kFullyConnected, {x, weight, bias}, {{"num_hidden", d.number(s.gates)}, {"flatten", flatten}});
  }

  bool hasLengths() const { return ports.lengths != RnnPorts::kNone; }
  bool isGru() const { return p.mode == RnnMode::Gru; }
  static Direction directionOf(const RnnCell &cell) { return cell.direction == 0 ? Direction::Up : Direction::Down; }

  // Splits the shares of all gates into those of each; slices need no shape.
  llvm::SmallVector<Value, kMaxGates> split(Value shares);

  CellPoint<Term> pointOf(Formula &formula, const Step &step);

 private:
  Value rowsInside();
  int64_t fromEnd(int64_t begin) const;
  Value matricesOf(const RnnCell &cell);
  Value matrix(Value vector, int64_t begin, int64_t end, int64_t rows);
  CellValues parametersOf(const RnnCell &cell);
  /// The output of all steps, (time, batch, output). Beyond the end of a sequence the states do not change, and the
  /// output is 0.
  Value runCell(const RnnCell &cell, Value rows);
  Value finish(ScanBuilder &scan, const Step &step, Value output, Value hidden, CellRun &kept);
};

void decomposeRnn(DecomposeRule &d);
/// The loops of RNN again, then others in reverse. `hasLengths`: whether the last input is the lengths of the
/// sequences.
void decomposeRnnGradient(DecomposeRule &d, bool hasLengths);

}  // namespace gradc
