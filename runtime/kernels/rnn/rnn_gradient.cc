// Gradients of weights are single products over all times. Tested by tests/runtime/kernels/rnn_kernels_test.cc
#include "runtime/kernels/rnn/rnn_gradient.h"

#include "runtime/kernels/core/threads.h"
#include "runtime/kernels/matrix/column_sums.h"
#include "runtime/kernels/rnn/rnn_cells.h"

#include <algorithm>

using namespace llvm;

namespace gradc::fast {

template <class T>
RnnGradient<T>::RnnGradient(const KernelSite &site, const RnnSizes &s, const RnnPorts &ports) : s(s), ports(ports) {
  const int64_t rows = s.time * s.batch, stride = gateStride<T>(s);
  for (int upper = 0; upper < std::min<int64_t>(s.layers, 2); ++upper) {
    const int64_t input = s.inputOf(upper);
    for (int direction = 0; direction < s.directions && (upper || site.wants(0)); ++direction)
      toInput[upper][direction].emplace(
          Gemm<T>{.m = rows, .n = input, .k = s.gates, .lda = stride, .beta = T(direction)}, true);
    if (site.wants(1))
      toInputWeight[upper].emplace(Gemm<T>{.transA = true, .m = s.gates, .n = input, .k = rows, .lda = stride});
  }
  if (site.wants(1))
    toStateWeight.emplace(Gemm<T>{.transA = true, .m = s.gates, .n = s.output, .k = rows, .lda = stride});
  parts = rnnParts(site, s, Gemm<T>{.n = s.output, .k = s.gates, .lda = stride, .beta = T{1}}, true);
}

template <class T> void RnnGradient<T>::place(RnnSpace<T> &space) {
  const Dim rows = Dim(s.time) * s.batch;
  size_t packedBytes = 0, scratchBytes = 0;
  auto count = [&](const std::optional<PreparedProduct<T>> &product) {
    if (!product) return;
    packedBytes = std::max(packedBytes, product->packedBytes());
    scratchBytes = std::max(scratchBytes, product->scratchBytes());
  };
  for (int upper : {0, 1}) {
    for (int direction : {0, 1}) count(toInput[upper][direction]);
    count(toInputWeight[upper]);
  }
  count(toStateWeight);
  packed = takeBytes(space, packedBytes);
  scratch = takeBytes(space, scratchBytes);
  for (RnnPart<T> &part : parts) {
    part.packed = takeBytes(space, part.product.packedBytes());
    part.scratch = takeBytes(space, part.product.scratchBytes());
  }
  for (T *&gradient : gradients) gradient = s.layers > 1 ? takeAligned(space, rows * s.width()) : nullptr;
  dState = takeAligned(space, Dim(s.batch) * s.output);
  dCell = s.isLstm ? takeAligned(space, Dim(s.batch) * s.state) : nullptr;
  dHidden = s.hasProjection ? takeAligned(space, Dim(s.batch) * s.state) : nullptr;
  dStates = s.hasProjection ? takeAligned(space, rows * s.output) : nullptr;
  const bool hasLengths = ports.lengths != RnnPorts::kNone;
  keptState = hasLengths ? takeAligned(space, Dim(s.batch) * s.output) : nullptr;
  keptCell = hasLengths && s.isLstm ? takeAligned(space, Dim(s.batch) * s.state) : nullptr;
  data = hasLengths ? takeAligned(space, rows * s.input) : nullptr;
}

template <class T> void RnnGradient<T>::run(const KernelCall &call, const RnnTape<T> &tape) {
  if (data) {
    std::copy_n(call.in[0].as<const T>(), tape.rows() * s.input, data);
    clearBeyond(call, ports, s, data, s.input, s.input);
  }
  const T *dOutput = call.in[ports.head].as<const T>();
  for (int64_t layer = s.layers; layer-- > 0;) {
    T *dInput = layer > 0 ? gradients[layer % 2] : call.wants(0) ? call.out[0].as<T>() : nullptr;
    for (int64_t direction = 0; direction < s.directions; ++direction)
      runCell(call, tape, RnnCell(s, layer, direction), dOutput, dInput);
    if (dInput) clearBeyond(call, ports, s, dInput, s.inputOf(layer), s.inputOf(layer));
    if (layer > 0) dropBetween(call, s, layer - 1, dInput);
    dOutput = dInput;
  }
}

template <class T>
void RnnGradient<T>::takeHead(const KernelCall &call, size_t port, const RnnCell &cell, int64_t count, T *to) const {
  if (port == RnnPorts::kNone) std::fill_n(to, count, T{0});
  else std::copy_n(call.in[port].as<const T>() + cell.index * count, count, to);
}

// dInput is null if it is not requested.
template <class T>
void RnnGradient<T>::runCell(const KernelCall &call, const RnnTape<T> &tape, const RnnCell &cell, const T *dOutput,
                             T *dInput) {
  const int64_t states = s.batch * s.output, cells = s.batch * s.state;
  takeHead(call, ports.stateHead, cell, states, dState);
  if (s.isLstm) takeHead(call, ports.cellHead, cell, cells, dCell);
  const int64_t numParts = static_cast<int64_t>(parts.size());
  parallelFor(static_cast<unsigned>(numParts), numParts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) runSteps(call, tape, cell, dOutput, parts[static_cast<size_t>(i)]);
  });
  clearSteps(call, tape, cell);
  if (call.wants(2)) std::copy_n(dState, states, call.out[2].as<T>() + cell.index * states);
  if (s.isLstm && call.wants(3)) std::copy_n(dCell, cells, call.out[3].as<T>() + cell.index * cells);
  if (dInput) {
    PreparedProduct<T> &product = *toInput[cell.layer > 0][cell.direction];
    const T *weight = product.pack(call.in[1].as<const T>() + cell.inputWeight, packed);
    product.run(tape.gatesOf(cell), weight, dInput, scratch);
  }
  if (call.wants(1)) writeParameters(call, tape, cell, inputOf(call, tape, cell.layer));
}

template <class T>
void RnnGradient<T>::runSteps(const KernelCall &call, const RnnTape<T> &tape, const RnnCell &cell, const T *dOutput,
                              RnnPart<T> &part) const {
  const T *parameters = call.in[1].as<const T>();
  const T *weight = part.product.pack(parameters + cell.stateWeight, part.packed);
  T *state = dState + part.begin * s.output;
  const int64_t stride = gateStride<T>(s);
  for (int64_t step = s.time; step-- > 0;) {
    const int64_t time = cell.timeOf(s, step), row = time * s.batch + part.begin;
    if (keptState) std::copy_n(state, part.count * s.output, keptState + part.begin * s.output);
    if (keptCell) std::copy_n(dCell + part.begin * s.state, part.count * s.state, keptCell + part.begin * s.state);
    const T *head = dOutput + row * s.width() + cell.direction * s.output;
    for (int64_t n = 0; n < part.count; ++n)
      for (int64_t j = 0; j < s.output; ++j) state[n * s.output + j] += head[n * s.width() + j];
    CellSlopeRows<T> rows;
    rows.rows = part.count;
    rows.size = s.state;
    rows.stride = stride;
    rows.gates = tape.gatesOf(cell) + row * stride;
    rows.shares = tape.sharesOf(cell) ? tape.sharesOf(cell) + row * stride : nullptr;
    rows.state = tape.statesBefore(cell) + row * s.output;
    rows.cell = s.isLstm ? tape.cellsBefore(cell) + row * s.state : nullptr;
    rows.hiddenHead = state;
    rows.cellHead = s.isLstm ? dCell + part.begin * s.state : nullptr;
    rows.stateSlope = state;
    if (s.hasProjection) {
      std::copy_n(state, part.count * s.output, dStates + row * s.output);
      T *hidden = dHidden + part.begin * s.state;
      multiply(Gemm<T>{false, false, part.count, s.state, s.output, state, parameters + cell.projection, s.output,
                       s.state, T{0}, hidden, s.state});
      rows.hiddenHead = hidden;
    }
    slopeCells(call.params<RnnParams>().rules(), rows);
    if (!rows.shares) std::fill_n(state, part.count * s.output, T{0});
    part.product.run(rows.shares ? rows.shares : rows.gates, weight, state, part.scratch);
    for (int64_t n = part.begin; keptState && n < part.begin + part.count; ++n) {
      if (!isBeyond(call, ports, n, time)) continue;
      std::copy_n(keptState + n * s.output, s.output, dState + n * s.output);
      if (keptCell) std::copy_n(keptCell + n * s.state, s.state, dCell + n * s.state);
    }
  }
}

// Beyond the ends of sequences, neither factor of a gradient of parameters may be other than 0: data there may be NaN.
template <class T>
void RnnGradient<T>::clearSteps(const KernelCall &call, const RnnTape<T> &tape, const RnnCell &cell) const {
  clearBeyond(call, ports, s, tape.gatesOf(cell), s.gates, gateStride<T>(s));
  if (T *shares = tape.sharesOf(cell)) clearBeyond(call, ports, s, shares, s.gates, gateStride<T>(s));
  clearBeyond(call, ports, s, tape.statesBefore(cell), s.output, s.output);
  if (s.hasProjection) clearBeyond(call, ports, s, dStates, s.output, s.output);
}

template <class T>
void RnnGradient<T>::writeParameters(const KernelCall &call, const RnnTape<T> &tape, const RnnCell &cell,
                                     const T *input) {
  T *gradient = call.out[1].as<T>();
  const T *gates = tape.gatesOf(cell), *shares = tape.sharesOf(cell) ? tape.sharesOf(cell) : gates;
  toInputWeight[cell.layer > 0]->run(gates, input, gradient + cell.inputWeight, scratch);
  toStateWeight->run(shares, tape.statesBefore(cell), gradient + cell.stateWeight, scratch);
  if (s.hasProjection)
    multiply(Gemm<T>{true, false, s.output, s.state, tape.rows(), dStates, tape.hiddenOf(cell), s.output, s.state, T{0},
                     gradient + cell.projection, s.state});
  sumColumns(gates, gateStride<T>(s), tape.rows(), s.gates, gradient + cell.inputBias);
  if (shares == gates) std::copy_n(gradient + cell.inputBias, s.gates, gradient + cell.stateBias);
  else sumColumns(shares, gateStride<T>(s), tape.rows(), s.gates, gradient + cell.stateBias);
}

template class RnnGradient<float>;
template class RnnGradient<double>;

}  // namespace gradc::fast
