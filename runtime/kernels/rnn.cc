// RNN and its gradient by matrix products: of the input for all steps at once, of the state for each step.
//
// The gradient runs the layers again and keeps the shares of all gates. Sequences of different lengths are left to the
// reference kernels. Tested by tests/fast_kernels_test.cc
#include "ops/kernel_dispatch.h"
#include "ops/sequence/rnn.h"
#include "runtime/kernels/factories.h"
#include "runtime/kernels/gemm.h"
#include "runtime/kernels/threads.h"

#include <algorithm>

using namespace llvm;

namespace gradc::fast {
namespace {

constexpr int64_t kGrain = 256;  // cells that are not worth a second thread

template <class T> void fillRows(const T *row, int64_t rows, int64_t columns, T *to) {
  for (int64_t r = 0; r < rows; ++r) std::copy_n(row, columns, to + r * columns);
}

// Each column from its first row to its last.
template <class T> void sumRows(const T *rows, int64_t count, int64_t columns, T *sums) {
  std::fill_n(sums, columns, T{0});
  for (int64_t r = 0; r < count; ++r)
    for (int64_t c = 0; c < columns; ++c) sums[c] += rows[r * columns + c];
}

// What is kept of all steps, and what the gradient needs besides.
template <class T> struct RnnMemory {
  T *outputs;                    // of all layers but the last one, dropped
  T *states, *cells, *hidden;    // of all cells: before each step and after the last one; before the projection
  T *inputShares, *stateShares;  // of all cells, or of one
  T *dInput, *dOutput, *dState, *dCell, *dHidden, *dStates;  // of one layer, of one cell
  T *dInputShares, *dStateShares;

  RnnMemory(RnnSpace<T> &space, const RnnSizes &s, bool isBackward) {
    const Dim rows = Dim(s.time) * s.batch, points = (rows + s.batch) * s.cells(), kept = isBackward ? s.cells() : 1;
    outputs = space.take(rows * s.width() * s.layers);
    states = space.take(points * s.output);
    cells = s.isLstm ? space.take(points * s.state) : nullptr;
    hidden = s.hasProjection ? space.take(rows * kept * s.state) : nullptr;
    inputShares = space.take(rows * kept * s.gates);
    stateShares = space.take(rows * kept * s.gates);
    if (!isBackward) return;
    dInput = space.take(rows * s.width());
    dOutput = space.take(rows * s.width());
    dState = space.take(Dim(s.batch) * s.output);
    dCell = space.take(Dim(s.batch) * s.state);
    dHidden = s.hasProjection ? space.take(Dim(s.batch) * s.state) : nullptr;
    dStates = s.hasProjection ? space.take(rows * s.output) : nullptr;
    dInputShares = space.take(rows * s.gates);
    dStateShares = space.take(rows * s.gates);
  }
};

template <class T> class RnnRun {
 public:
  RnnRun(const KernelCall &call, const RnnSizes &s, const RnnPorts &ports, bool isBackward)
      : call(call), params(call.params<RnnParams>()), rules(params.rules()), s(s), ports(ports), isBackward(isBackward),
        space(static_cast<T *>(call.workspace)), m(space, s, isBackward), parameters(call.in[1].as<const T>()) {}

  void forward() {
    for (int64_t layer = 0; layer < s.layers; ++layer) {
      for (int64_t direction = 0; direction < s.directions; ++direction) runCell(RnnCell(s, layer, direction));
      if (layer + 1 < s.layers) drop(layer, outputOf(layer));
    }
  }

  void writeOutputs() const {
    if (call.wants(0)) std::copy_n(outputOf(s.layers - 1), rows() * s.width(), call.out[0].as<T>());
    for (int64_t cell = 0; params.stateOutputs && cell < s.cells(); ++cell) {
      const int64_t states = s.batch * s.output, cells = s.batch * s.state;
      if (call.wants(1)) std::copy_n(stateAt(cell, s.time), states, call.out[1].as<T>() + cell * states);
      if (s.isLstm && call.wants(2)) std::copy_n(cellAt(cell, s.time), cells, call.out[2].as<T>() + cell * cells);
    }
  }

  void backward() {
    const T *dOutput = call.in[ports.head].template as<const T>();
    for (int64_t layer = s.layers; layer-- > 0;) {
      T *dInput = layer == 0 ? (call.wants(0) ? call.out[0].as<T>() : nullptr) : m.dInput;
      for (int64_t direction = 0; direction < s.directions; ++direction)
        runCellBack(RnnCell(s, layer, direction), dOutput, dInput);
      if (layer == 0) break;
      drop(layer - 1, m.dInput);
      std::swap(m.dInput, m.dOutput);
      dOutput = m.dOutput;
    }
  }

 private:
  int64_t rows() const { return s.time * s.batch; }
  T *outputOf(int64_t layer) const { return m.outputs + layer * rows() * s.width(); }
  const T *inputOf(int64_t layer) const { return layer == 0 ? call.in[0].as<const T>() : outputOf(layer - 1); }
  T *stateAt(int64_t cell, int64_t step) const { return m.states + (cell * (s.time + 1) + step) * s.batch * s.output; }
  T *cellAt(int64_t cell, int64_t step) const { return m.cells + (cell * (s.time + 1) + step) * s.batch * s.state; }
  int64_t kept(const RnnCell &cell, int64_t step) const {
    return (isBackward ? cell.index * rows() : 0) + step * s.batch;
  }
  // By time those of the input, by step those of the state.
  T *inputShares(const RnnCell &cell, int64_t time) const { return m.inputShares + kept(cell, time) * s.gates; }
  T *stateShares(const RnnCell &cell, int64_t step) const { return m.stateShares + kept(cell, step) * s.gates; }
  T *hiddenAt(const RnnCell &cell, int64_t step) const {
    return s.hasProjection ? m.hidden + kept(cell, step) * s.state : stateAt(cell.index, step + 1);
  }

  void drop(int64_t layer, T *values) const {
    if (!params.drops() || !call.isTraining) return;
    const int64_t count = rows() * s.width();
    for (int64_t i = 0; i < count; ++i)
      values[i] = static_cast<T>(values[i] * dropFactor(call, static_cast<uint64_t>(layer * count + i)));
  }

  // Calls body(n, j) for all elements of a cell's state.
  template <class F> void forCells(F body) const {
    parallelFor(scopeThreads(), s.batch * s.state, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i / s.state, i % s.state);
    });
  }

  CellPoint<T> pointAt(const RnnCell &cell, int64_t step, int64_t n, int64_t j) const {
    const T *x = inputShares(cell, cell.timeOf(s, step)) + n * s.gates + j,
            *h = stateShares(cell, step) + n * s.gates + j;
    CellPoint<T> point;
    for (int64_t g = 0; g * s.state < s.gates; ++g) {
      point.x[g] = x[g * s.state];
      point.h[g] = h[g * s.state];
    }
    if (!s.hasProjection) point.state = stateAt(cell.index, step)[n * s.output + j];
    if (s.isLstm) point.cell = cellAt(cell.index, step)[n * s.state + j];
    if (rules.isPiecewise()) point.at = selectorOf(rules, point);
    return point;
  }

  void runCell(const RnnCell &cell) const {
    const int64_t states = s.batch * s.output, cells = s.batch * s.state;
    std::copy_n(call.in[ports.state].template as<const T>() + cell.index * states, states, stateAt(cell.index, 0));
    if (s.isLstm)
      std::copy_n(call.in[ports.stateCell].template as<const T>() + cell.index * cells, cells, cellAt(cell.index, 0));
    fillRows(parameters + cell.inputBias, rows(), s.gates, inputShares(cell, 0));
    gradc::multiply(Gemm<T>{false, true, rows(), s.gates, cell.input, inputOf(cell.layer),
                            parameters + cell.inputWeight, cell.input, cell.input, T{1}, inputShares(cell, 0),
                            s.gates});
    for (int64_t step = 0; step < s.time; ++step) runStep(cell, step);
  }

  void runStep(const RnnCell &cell, int64_t step) const {
    T *state = stateAt(cell.index, step + 1), *hidden = hiddenAt(cell, step);
    fillRows(parameters + cell.stateBias, s.batch, s.gates, stateShares(cell, step));
    gradc::multiply(Gemm<T>{false, true, s.batch, s.gates, s.output, stateAt(cell.index, step),
                            parameters + cell.stateWeight, s.output, s.output, T{1}, stateShares(cell, step), s.gates});
    forCells([&](int64_t n, int64_t j) {
      const CellResult<T> result = cellStep(rules, pointAt(cell, step, n, j));
      hidden[n * s.state + j] = result.state;
      if (s.isLstm) cellAt(cell.index, step + 1)[n * s.state + j] = result.cell;
    });
    if (s.hasProjection)
      gradc::multiply(Gemm<T>{false, true, s.batch, s.output, s.state, hidden, parameters + cell.projection, s.state,
                              s.state, T{0}, state, s.output});
    T *output = outputOf(cell.layer) + cell.timeOf(s, step) * s.batch * s.width() + cell.direction * s.output;
    for (int64_t n = 0; n < s.batch; ++n) std::copy_n(state + n * s.output, s.output, output + n * s.width());
  }

  void takeHead(size_t port, const RnnCell &cell, int64_t count, T *to) const {
    if (port == RnnPorts::kNone) std::fill_n(to, count, T{0});
    else std::copy_n(call.in[port].template as<const T>() + cell.index * count, count, to);
  }

  // dInput is null where nobody wants it; the second direction adds to it.
  void runCellBack(const RnnCell &cell, const T *dOutput, T *dInput) const {
    const int64_t states = s.batch * s.output, cells = s.batch * s.state;
    takeHead(ports.stateHead, cell, states, m.dState);
    takeHead(ports.cellHead, cell, cells, m.dCell);
    for (int64_t step = s.time; step-- > 0;) runStepBack(cell, step, dOutput);
    if (call.wants(2)) std::copy_n(m.dState, states, call.out[2].as<T>() + cell.index * states);
    if (s.isLstm && call.wants(3)) std::copy_n(m.dCell, cells, call.out[3].as<T>() + cell.index * cells);
    if (dInput)
      gradc::multiply(Gemm<T>{false, false, rows(), cell.input, s.gates, m.dInputShares, parameters + cell.inputWeight,
                              s.gates, cell.input, cell.direction ? T{1} : T{0}, dInput, cell.input});
    if (call.wants(1)) writeParameters(cell, call.out[1].as<T>());
  }

  void writeParameters(const RnnCell &cell, T *gradient) const {
    auto weight = [&](int64_t at, const T *dy, int64_t outputs, const T *x, int64_t inputs) {
      gradc::multiply(
          Gemm<T>{true, false, outputs, inputs, rows(), dy, x, outputs, inputs, T{0}, gradient + at, inputs});
    };
    weight(cell.inputWeight, m.dInputShares, s.gates, inputOf(cell.layer), cell.input);
    weight(cell.stateWeight, m.dStateShares, s.gates, stateAt(cell.index, 0), s.output);
    if (s.hasProjection) weight(cell.projection, m.dStates, s.output, hiddenAt(cell, 0), s.state);
    sumRows(m.dInputShares, rows(), s.gates, gradient + cell.inputBias);
    sumRows(m.dStateShares, rows(), s.gates, gradient + cell.stateBias);
  }

  void runStepBack(const RnnCell &cell, int64_t step, const T *dOutput) const {
    const int64_t time = cell.timeOf(s, step);
    const T *head = dOutput + time * s.batch * s.width() + cell.direction * s.output;
    for (int64_t n = 0; n < s.batch; ++n)
      for (int64_t j = 0; j < s.output; ++j) m.dState[n * s.output + j] += head[n * s.width() + j];
    T *dHidden = m.dState;
    if (s.hasProjection) {
      dHidden = m.dHidden;
      std::copy_n(m.dState, s.batch * s.output, m.dStates + step * s.batch * s.output);
      gradc::multiply(Gemm<T>{false, false, s.batch, s.state, s.output, m.dState, parameters + cell.projection,
                              s.output, s.state, T{0}, dHidden, s.state});
      std::fill_n(m.dState, s.batch * s.output, T{0});
    }
    T *dInputShares = m.dInputShares + time * s.batch * s.gates,
      *dStateShares = m.dStateShares + step * s.batch * s.gates;
    forCells([&](int64_t n, int64_t j) {
      const int64_t at = n * s.state + j;
      const CellResult<T> heads{dHidden[at], s.isLstm ? m.dCell[at] : T{0}};
      const CellSlope<T> slope = cellSlope(rules, pointAt(cell, step, n, j), heads);
      for (int64_t g = 0; g * s.state < s.gates; ++g) {
        dInputShares[n * s.gates + g * s.state + j] = slope.x[g];
        dStateShares[n * s.gates + g * s.state + j] = slope.h[g];
      }
      m.dCell[at] = slope.cell;
      if (!s.hasProjection) m.dState[at] = slope.state;
    });
    gradc::multiply(Gemm<T>{false, false, s.batch, s.output, s.gates, dStateShares, parameters + cell.stateWeight,
                            s.gates, s.output, T{1}, m.dState, s.output});
  }

  const KernelCall &call;
  const RnnParams &params;
  const CellRules rules;
  const RnnSizes &s;
  const RnnPorts &ports;
  const bool isBackward;
  RnnSpace<T> space;
  RnnMemory<T> m;
  const T *parameters;
};

template <class T, bool isBackward> class RnnKernel : public PreparedKernel {
 public:
  explicit RnnKernel(const KernelSite &site)
      : sizes(site.kind->params<RnnParams>(), site.in[0].shape[0], site.in[0].shape[1], site.in[0].shape[2]),
        ports(isBackward ? RnnPorts::ofBackward(site.kind->params<RnnParams>(), false)
                         : RnnPorts::ofForward(site.kind->params<RnnParams>())) {}

  void run(const KernelCall &call) override {
    RnnRun<T> layers(call, sizes, ports, isBackward);
    layers.forward();
    if (isBackward) layers.backward();
    else layers.writeOutputs();
  }

  size_t workspaceBytes() const override {
    RnnSpace<T> space(nullptr);
    RnnMemory<T>(space, sizes, isBackward);
    return space.bytes();
  }

 private:
  RnnSizes sizes;
  RnnPorts ports;
};

template <bool isBackward> std::unique_ptr<PreparedKernel> make(const KernelSite &site) {
  std::unique_ptr<PreparedKernel> kernel;
  const bool hasSteps = site.in[0].size() > 0;
  if (!isFloatingKernelType(site.in[0].dtype) || !hasSteps || site.kind->params<RnnParams>().useSequenceLength)
    return kernel;
  dispatchFloating(site.in[0].dtype,
                   [&](auto zero) { kernel = std::make_unique<RnnKernel<decltype(zero), isBackward>>(site); });
  return kernel;
}

}  // namespace

std::unique_ptr<PreparedKernel> rnn(const KernelSite &site) { return make<false>(site); }
std::unique_ptr<PreparedKernel> rnnBackward(const KernelSite &site) { return make<true>(site); }

}  // namespace gradc::fast
