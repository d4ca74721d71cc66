// Reference kernels of RNN and its gradient, in float64 whatever the type of the operands.
//
// The gradient runs the layers again, keeping what each step received, then goes through them backwards. A gradient
// check does so next to a run at the base point, whose steps select the pieces. Tested by tests/ops/rnn_test.cc
#include "ops/sequence/rnn_kernel.h"

#include "ops/kit/kernel_dispatch.h"
#include "ops/sequence/lengths.h"
#include "ops/sequence/rnn.h"

#include <algorithm>
#include <vector>

using namespace llvm;

namespace gradc {

namespace {

void readNumbers(const TensorRef &from, double *to) {
  dispatchFloating(from.dtype, [&](auto zero) {
    const auto *values = from.as<const decltype(zero)>();
    for (int64_t i = 0, size = from.size(); i < size; ++i) to[i] = static_cast<double>(values[i]);
  });
}

void writeNumbers(const double *from, const TensorRef &to, int64_t begin, int64_t count) {
  dispatchFloating(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    T *values = to.as<T>() + begin;
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<T>(from[i]);
  });
}

// y = matrix · x + y, for `rows` rows.
void addProduct(const double *matrix, const double *x, double *y, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    double sum = y[r];
    for (int64_t c = 0; c < columns; ++c) sum += matrix[r * columns + c] * x[c];
    y[r] = sum;
  }
}

// dx += matrixᵀ · dy, dmatrix += dy · xᵀ, each unless null.
void addAdjoint(const double *matrix, const double *x, const double *dy, double *dx, double *dmatrix, int64_t rows,
                int64_t columns) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      if (dx) dx[c] += matrix[r * columns + c] * dy[r];
      if (dmatrix) dmatrix[r * columns + c] += dy[r] * x[c];
    }
}

void addTo(double *sum, const double *terms, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sum[i] += terms[i];
}

using Space = RnnSpace<double>;

// The values that a run of all layers keeps. Steps are numbered in the order in which a direction takes them.
struct Tape {
  double *parameters, *data;  // data: the inputs of all layers, one after the other, and the last one's output
  double *states, *cells;     // before each step of each cell, and after the last one
  double *inputShares, *stateShares, *selectors;
  double *row;  // scratch

  bool keepsSteps;  // whether there are shares and selectors of all steps, or only of the last one

  Tape(Space &space, const RnnSizes &s, const CellRules &rules, Dim numParameters, bool keepsSteps)
      : keepsSteps(keepsSteps) {
    const Dim rows = Dim(s.time) * s.batch, steps = keepsSteps ? rows * s.cells() : Dim(1);
    const Dim points = (rows + s.batch) * s.cells();
    parameters = space.take(numParameters);
    data = space.take(rows * (Dim(s.input) + Dim(s.layers) * s.width()));
    states = space.take(points * s.output);
    cells = s.isLstm ? space.take(points * s.state) : nullptr;
    inputShares = space.take(steps * s.gates);
    stateShares = space.take(steps * s.gates);
    selectors = rules.isPiecewise() ? space.take(steps * s.state) : nullptr;
    row = space.take(s.state);
  }
};

/// Sizes of a call whose data is operand 0.
RnnSizes sizesOf(const NodeKind &kind, ArrayRef<TensorRef> in) {
  return RnnSizes(kind.params<RnnParams>(), in[0].shape[0], in[0].shape[1], in[0].shape[2]);
}

class Run {
 public:
  Run(const KernelCall &call, ArrayRef<TensorRef> in, const RnnPorts &ports, Space &space, bool keepsSteps,
      const Run *base = nullptr)
      : call(call), params(call.params<RnnParams>()), rules(params.rules()), in(in), ports(ports),
        s(sizesOf(*call.kind, in)), tape(space, s, rules, in[1].size(), keepsSteps), base(base ? base : this) {
    readNumbers(in[1], tape.parameters);
    readNumbers(in[0], tape.data);
  }

  void forward() {
    for (int64_t layer = 0; layer < s.layers; ++layer) {
      for (int64_t direction = 0; direction < s.directions; ++direction) runCell(RnnCell(s, layer, direction));
      if (layer + 1 < s.layers) drop(layer, inputOf(layer + 1));
    }
  }

  void writeOutputs() const {
    if (call.wants(0)) writeNumbers(inputOf(s.layers), call.out[0], 0, s.time * s.batch * s.width());
    for (int64_t cell = 0; params.stateOutputs && cell < s.cells(); ++cell) {
      const int64_t states = s.batch * s.output, cells = s.batch * s.state;
      if (call.wants(1)) writeNumbers(stateAt(cell, s.time, 0), call.out[1], cell * states, states);
      if (s.isLstm && call.wants(2)) writeNumbers(cellAt(cell, s.time, 0), call.out[2], cell * cells, cells);
    }
  }

  /// Gradients of all operands, from the kept steps.
  void backward(Space &space) {
    Adjoint a(space, s, in[1].size());
    std::fill_n(a.parameters, in[1].size(), 0.0);
    readNumbers(in[ports.head], a.output);
    for (int64_t layer = s.layers; layer-- > 0;) {
      std::fill_n(a.input, s.time * s.batch * s.inputOf(layer), 0.0);
      for (int64_t direction = 0; direction < s.directions; ++direction) runCellBack(RnnCell(s, layer, direction), a);
      if (layer > 0) drop(layer - 1, a.input);
      std::swap(a.input, a.output);
    }
    if (call.wants(0)) writeNumbers(a.output, call.out[0], 0, s.time * s.batch * s.input);
    if (call.wants(1)) writeNumbers(a.parameters, call.out[1], 0, in[1].size());
  }

  static void countBackward(Space &space, const RnnSizes &s, Dim numParameters) { Adjoint(space, s, numParameters); }

 private:
  struct Adjoint {
    double *parameters, *input, *output, *state, *cell, *previous;
    double *hidden, *inputShares, *stateShares;

    Adjoint(Space &space, const RnnSizes &s, Dim numParameters) {
      const Dim rows = Dim(s.time) * s.batch, widest = std::max(Dim(s.input), Dim(s.width()));
      parameters = space.take(numParameters);
      input = space.take(rows * widest);
      output = space.take(rows * widest);
      state = space.take(Dim(s.batch) * s.output);
      cell = space.take(Dim(s.batch) * s.state);
      previous = space.take(s.output);
      hidden = space.take(s.state);
      inputShares = space.take(s.gates);
      stateShares = space.take(s.gates);
    }
  };

  double *inputOf(int64_t layer) const {
    return tape.data + (layer == 0 ? 0 : s.time * s.batch * (s.input + (layer - 1) * s.width()));
  }
  double *stateAt(int64_t cell, int64_t step, int64_t n) const {
    return tape.states + ((cell * (s.time + 1) + step) * s.batch + n) * s.output;
  }
  double *cellAt(int64_t cell, int64_t step, int64_t n) const {
    return s.isLstm ? tape.cells + ((cell * (s.time + 1) + step) * s.batch + n) * s.state : nullptr;
  }
  // The index at which a run keeps a step.
  int64_t stepAt(const RnnCell &cell, int64_t step, int64_t n) const {
    return tape.keepsSteps ? (cell.index * s.time + step) * s.batch + n : 0;
  }
  const double *parametersAt(int64_t offset) const { return tape.parameters + offset; }

  bool isBeyond(int64_t n, int64_t time) const {
    return ports.lengths != RnnPorts::kNone && time >= sequenceLength(in[ports.lengths], n, s.time);
  }

  /// Dropout between a layer and the next one.
  void drop(int64_t layer, double *values) const {
    if (!params.drops() || !call.isTraining) return;
    const int64_t count = s.time * s.batch * s.width();
    for (int64_t i = 0; i < count; ++i) values[i] *= dropFactor(call, static_cast<uint64_t>(layer * count + i));
  }

  void initialState(const RnnCell &cell) const {
    auto read = [&](size_t port, double *to, int64_t count) {
      dispatchFloating(in[port].dtype, [&](auto zero) {
        const auto *from = in[port].as<const decltype(zero)>() + cell.index * count;
        for (int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(from[i]);
      });
    };
    read(ports.state, stateAt(cell.index, 0, 0), s.batch * s.output);
    if (s.isLstm) read(ports.stateCell, cellAt(cell.index, 0, 0), s.batch * s.state);
  }

  void runCell(const RnnCell &cell) const {
    initialState(cell);
    for (int64_t step = 0; step < s.time; ++step)
      for (int64_t n = 0; n < s.batch; ++n) runStep(cell, step, n);
  }

  double *outputAt(const RnnCell &cell, double *layerOutput, int64_t time, int64_t n) const {
    return layerOutput + (time * s.batch + n) * s.width() + cell.direction * s.output;
  }

  // Beyond the end of a sequence the states do not change, and the output is 0.
  void runStep(const RnnCell &cell, int64_t step, int64_t n) const {
    const int64_t time = cell.timeOf(s, step), kept = stepAt(cell, step, n);
    double *output = outputAt(cell, inputOf(cell.layer + 1), time, n);
    double *state = stateAt(cell.index, step + 1, n), *cellState = cellAt(cell.index, step + 1, n);
    if (isBeyond(n, time)) {
      std::copy_n(stateAt(cell.index, step, n), s.output, state);
      if (s.isLstm) std::copy_n(cellAt(cell.index, step, n), s.state, cellState);
      std::fill_n(output, s.output, 0.0);
      return;
    }
    double *inputShare = tape.inputShares + kept * s.gates, *stateShare = tape.stateShares + kept * s.gates;
    std::copy_n(parametersAt(cell.inputBias), s.gates, inputShare);
    addProduct(parametersAt(cell.inputWeight), inputOf(cell.layer) + (time * s.batch + n) * cell.input, inputShare,
               s.gates, cell.input);
    std::copy_n(parametersAt(cell.stateBias), s.gates, stateShare);
    addProduct(parametersAt(cell.stateWeight), stateAt(cell.index, step, n), stateShare, s.gates, s.output);
    if (tape.selectors)
      for (int64_t j = 0; j < s.state; ++j)
        tape.selectors[kept * s.state + j] = selectorOf(rules, pointAt(cell, step, n, j));
    hiddenAt(cell, step, n, s.hasProjection ? tape.row : state, cellState);
    if (s.hasProjection) {
      std::fill_n(state, s.output, 0.0);
      addProduct(parametersAt(cell.projection), tape.row, state, s.output, s.state);
    }
    std::copy_n(state, s.output, output);
  }

  // The operands of element j of a step's cell.
  CellPoint<double> pointAt(const RnnCell &cell, int64_t step, int64_t n, int64_t j) const {
    const int64_t kept = stepAt(cell, step, n);
    CellPoint<double> point;
    for (int64_t g = 0; g * s.state < s.gates; ++g) {
      point.x[g] = tape.inputShares[kept * s.gates + g * s.state + j];
      point.h[g] = tape.stateShares[kept * s.gates + g * s.state + j];
    }
    if (!s.hasProjection) point.state = stateAt(cell.index, step, n)[j];
    if (s.isLstm) point.cell = cellAt(cell.index, step, n)[j];
    if (tape.selectors) point.at = base->tape.selectors[base->stepAt(cell, step, n) * s.state + j];
    return point;
  }

  // The states after a step, before the projection; those of the cell are not written if null.
  void hiddenAt(const RnnCell &cell, int64_t step, int64_t n, double *hidden, double *cellState) const {
    for (int64_t j = 0; j < s.state; ++j) {
      const CellResult<double> result = cellStep(rules, pointAt(cell, step, n, j));
      hidden[j] = result.state;
      if (cellState) cellState[j] = result.cell;
    }
  }

  void runCellBack(const RnnCell &cell, Adjoint &a) const {
    auto begin = [&](size_t port, double *to, int64_t count) {
      if (port == RnnPorts::kNone) std::fill_n(to, count, 0.0);
      else
        dispatchFloating(in[port].dtype, [&](auto zero) {
          const auto *from = in[port].as<const decltype(zero)>() + cell.index * count;
          for (int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(from[i]);
        });
    };
    const int64_t states = s.batch * s.output, cells = s.batch * s.state;
    begin(ports.stateHead, a.state, states);
    begin(ports.cellHead, a.cell, cells);
    for (int64_t step = s.time; step-- > 0;)
      for (int64_t n = 0; n < s.batch; ++n)
        if (!isBeyond(n, cell.timeOf(s, step))) runStepBack(cell, step, n, a);
    if (call.wants(2)) writeNumbers(a.state, call.out[2], cell.index * states, states);
    if (s.isLstm && call.wants(3)) writeNumbers(a.cell, call.out[3], cell.index * cells, cells);
  }

  void runStepBack(const RnnCell &cell, int64_t step, int64_t n, Adjoint &a) const {
    const int64_t row = cell.timeOf(s, step) * s.batch + n;
    double *dState = a.state + n * s.output, *dCell = a.cell + n * s.state;
    addTo(dState, outputAt(cell, a.output, cell.timeOf(s, step), n), s.output);
    const double *dHidden = dState;
    if (s.hasProjection) {
      hiddenAt(cell, step, n, tape.row, nullptr);
      std::fill_n(a.hidden, s.state, 0.0);
      addAdjoint(parametersAt(cell.projection), tape.row, dState, a.hidden, a.parameters + cell.projection, s.output,
                 s.state);
      dHidden = a.hidden;
    }
    std::fill_n(a.previous, s.output, 0.0);
    for (int64_t j = 0; j < s.state; ++j) {
      const CellSlope<double> slope =
          cellSlope(rules, pointAt(cell, step, n, j), {dHidden[j], s.isLstm ? dCell[j] : 0});
      for (int64_t g = 0; g * s.state < s.gates; ++g) {
        a.inputShares[g * s.state + j] = slope.x[g];
        a.stateShares[g * s.state + j] = slope.h[g];
      }
      if (!s.hasProjection) a.previous[j] = slope.state;
      dCell[j] = slope.cell;
    }
    addTo(a.parameters + cell.inputBias, a.inputShares, s.gates);
    addTo(a.parameters + cell.stateBias, a.stateShares, s.gates);
    addAdjoint(parametersAt(cell.inputWeight), inputOf(cell.layer) + row * cell.input, a.inputShares,
               a.input + row * cell.input, a.parameters + cell.inputWeight, s.gates, cell.input);
    addAdjoint(parametersAt(cell.stateWeight), stateAt(cell.index, step, n), a.stateShares, a.previous,
               a.parameters + cell.stateWeight, s.gates, s.output);
    std::copy_n(a.previous, s.output, dState);
  }

  const KernelCall &call;
  const RnnParams &params;
  const CellRules rules;
  ArrayRef<TensorRef> in;
  const RnnPorts ports;
  const RnnSizes s;
  const Tape tape;
  const Run *base;  // whose steps select the pieces
};

void runOn(const KernelCall &call, const RnnPorts &ports, bool isBackward, Space space, const Run *base = nullptr) {
  Run run(call, call.in, ports, space, isBackward, base);
  run.forward();
  if (isBackward) run.backward(space);
  else run.writeOutputs();
}

void runBeside(const PieceCall &call, const RnnPorts &ports, bool isBackward) {
  std::vector<double> memory(rnnWorkspace(*call.kind, call.base, true) / sizeof(double));
  Space space(memory.data());
  Run base(call, call.base, ports, space, true);
  base.forward();
  runOn(call, ports, isBackward, Space(static_cast<double *>(call.workspace)), &base);
}

}  // namespace

size_t rnnWorkspace(const NodeKind &kind, ArrayRef<TensorRef> in, bool isBackward) {
  const RnnSizes sizes = sizesOf(kind, in);
  Space space(nullptr);
  Tape(space, sizes, kind.params<RnnParams>().rules(), in[1].size(), isBackward);
  if (isBackward) Run::countBackward(space, sizes, in[1].size());
  return space.bytes();
}

void rnnForward(const KernelCall &call) {
  runOn(call, RnnPorts::ofForward(call.params<RnnParams>()), false, Space(static_cast<double *>(call.workspace)));
}

void rnnForwardPiece(const PieceCall &call) { runBeside(call, RnnPorts::ofForward(call.params<RnnParams>()), false); }

void rnnBackward(const KernelCall &call, bool hasLengths) {
  const RnnPorts ports = RnnPorts::ofBackward(call.params<RnnParams>(), hasLengths);
  runOn(call, ports, true, Space(static_cast<double *>(call.workspace)));
}

void rnnBackwardPiece(const PieceCall &call, bool hasLengths) {
  runBeside(call, RnnPorts::ofBackward(call.params<RnnParams>(), hasLengths), true);
}

}  // namespace gradc
