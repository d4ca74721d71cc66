// The product with the input is a single one for all times. Tested by tests/runtime/kernels/rnn_kernels_test.cc
#include "runtime/kernels/rnn/rnn_layers.h"

#include "runtime/kernels/core/threads.h"
#include "runtime/kernels/rnn/rnn_cells.h"

#include <algorithm>

using namespace llvm;

namespace gradc::fast {

static constexpr int64_t kPartRows = 4;                 // rows of the batch that are worth a thread
static constexpr int64_t kPartWork = int64_t{1} << 16;  // fewer multiplications per step are not worth a second thread
static constexpr int64_t kDropGrain = 4096;             // fewer draws are not worth a second thread

template <class T>
std::vector<RnnPart<T>> rnnParts(const KernelSite &site, const RnnSizes &s, Gemm<T> product, bool packsB) {
  const bool isLarge = Dim(s.batch) * s.gates * s.output > kPartWork;
  const int64_t most = isLarge ? std::min<int64_t>(site.threads, s.batch / kPartRows) : 1;
  const int64_t numParts = std::max<int64_t>(most, 1);
  std::vector<RnnPart<T>> parts;
  auto add = [&](int64_t begin, int64_t end) {
    product.m = end - begin;
    parts.push_back({begin, product.m, PreparedProduct<T>(product, packsB)});
  };
  if (numParts == 1) add(0, s.batch);
  else
    withThreads(1, [&] {
      for (int64_t i = 0; i < numParts; ++i) add(i * s.batch / numParts, (i + 1) * s.batch / numParts);
    });
  return parts;
}

template <class T> void dropBetween(const KernelCall &call, const RnnSizes &s, int64_t layer, T *values) {
  if (!call.params<RnnParams>().drops() || !call.isTraining) return;
  const int64_t count = s.time * s.batch * s.width();
  parallelFor(scopeThreads(), count, kDropGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      values[i] = static_cast<T>(values[i] * dropFactor(call, static_cast<uint64_t>(layer * count + i)));
  });
}

template <class T>
void clearBeyond(const KernelCall &call, const RnnPorts &ports, const RnnSizes &s, T *rows, int64_t size,
                 int64_t stride) {
  if (ports.lengths == RnnPorts::kNone) return;
  for (int64_t row = 0; row < s.time * s.batch; ++row)
    if (isBeyond(call, ports, row % s.batch, row / s.batch)) std::fill_n(rows + row * stride, size, T{0});
}

template <class T>
RnnLayers<T>::RnnLayers(const KernelSite &site, const RnnSizes &s, const RnnPorts &ports) : s(s), ports(ports) {
  const int64_t rows = s.time * s.batch;
  for (int64_t layer = 0; layer < std::min<int64_t>(s.layers, 2); ++layer)
    inputProducts.emplace_back(
        Gemm<T>{.transB = true, .m = rows, .n = s.gates, .k = s.inputOf(layer), .ldc = gateStride<T>(s)}, true);
  parts = rnnParts(site, s, Gemm<T>{.transB = true, .n = s.gates, .k = s.output, .ldc = gateStride<T>(s)}, true);
}

template <class T> void RnnLayers<T>::place(RnnSpace<T> &space) {
  size_t packedBytes = 0, scratchBytes = 0;
  for (const PreparedProduct<T> &product : inputProducts) {
    packedBytes = std::max(packedBytes, product.packedBytes());
    scratchBytes = std::max(scratchBytes, product.scratchBytes());
  }
  packed = takeBytes(space, packedBytes);
  scratch = takeBytes(space, scratchBytes);
  for (RnnPart<T> &part : parts) {
    part.packed = takeBytes(space, part.product.packedBytes());
    part.scratch = takeBytes(space, part.product.scratchBytes());
    part.shares = takeAligned(space, Dim(part.count) * gateStride<T>(s));
  }
}

template <class T> void RnnLayers<T>::run(const KernelCall &call, const RnnTape<T> &tape) {
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    for (int64_t direction = 0; direction < s.directions; ++direction)
      runCell(call, tape, RnnCell(s, layer, direction));
    if (layer + 1 < s.layers) dropBetween(call, s, layer, tape.outputOf(layer));
  }
}

// Copies the initial state next to the states after each time.
template <class T>
static void copyFirst(const TensorRef &from, const RnnSizes &s, const RnnCell &cell, int64_t size, T *before) {
  const int64_t count = s.batch * size;
  std::copy_n(from.as<const T>() + cell.index * count, count, before + cell.timeOf(s, 0) * count);
}

template <class T> void RnnLayers<T>::runCell(const KernelCall &call, const RnnTape<T> &tape, const RnnCell &cell) {
  copyFirst(call.in[ports.state], s, cell, s.output, tape.statesBefore(cell));
  if (s.isLstm) copyFirst(call.in[ports.stateCell], s, cell, s.state, tape.cellsBefore(cell));
  const T *input = cell.layer == 0 ? call.in[0].as<const T>() : tape.outputOf(cell.layer - 1);
  PreparedProduct<T> &product = inputProduct(cell.layer);
  product.run(input, product.pack(call.in[1].as<const T>() + cell.inputWeight, packed), tape.gatesOf(cell), scratch);
  const int64_t numParts = static_cast<int64_t>(parts.size());
  parallelFor(static_cast<unsigned>(numParts), numParts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) runSteps(call, tape, cell, parts[static_cast<size_t>(i)]);
  });
}

template <class T>
void RnnLayers<T>::runSteps(const KernelCall &call, const RnnTape<T> &tape, const RnnCell &cell,
                            RnnPart<T> &part) const {
  const T *parameters = call.in[1].as<const T>();
  const T *weight = part.product.pack(parameters + cell.stateWeight, part.packed);
  const int64_t stride = gateStride<T>(s);
  T *sharesOfAll = tape.sharesOf(cell), *before = tape.statesBefore(cell), *after = tape.statesAfter(cell);
  for (int64_t step = 0; step < s.time; ++step) {
    const int64_t time = cell.timeOf(s, step), row = time * s.batch + part.begin;
    T *shares = sharesOfAll ? sharesOfAll + row * stride : part.shares, *state = after + row * s.output;
    part.product.run(before + row * s.output, weight, shares, part.scratch);
    CellStepRows<T> rows;
    rows.rows = part.count;
    rows.size = s.state;
    rows.stride = stride;
    rows.gates = tape.gatesOf(cell) + row * stride;
    rows.shares = shares;
    rows.inputBias = parameters + cell.inputBias;
    rows.stateBias = parameters + cell.stateBias;
    rows.state = before + row * s.output;
    rows.cell = s.isLstm ? tape.cellsBefore(cell) + row * s.state : nullptr;
    rows.hidden = tape.hiddenOf(cell) + row * s.state;
    rows.nextCell = s.isLstm ? tape.cellsAfter(cell) + row * s.state : nullptr;
    stepCells(call.params<RnnParams>().rules(), rows);
    if (s.hasProjection)
      multiply(Gemm<T>{false, true, part.count, s.output, s.state, rows.hidden, parameters + cell.projection, s.state,
                       s.state, T{0}, state, s.output});
    if (!tape.hasOutputs()) continue;
    T *output = tape.outputOf(cell.layer) + row * s.width() + cell.direction * s.output;
    for (int64_t n = 0; n < part.count; ++n, output += s.width()) {
      if (isBeyond(call, ports, part.begin + n, time)) {
        keepStates(tape, cell, row + n);
        std::fill_n(output, s.output, T{0});
      } else {
        std::copy_n(state + n * s.output, s.output, output);
      }
    }
  }
}

// The states after a step are those before it.
template <class T> void RnnLayers<T>::keepStates(const RnnTape<T> &tape, const RnnCell &cell, int64_t row) const {
  auto keep = [row](const T *before, T *after, int64_t size) {
    std::copy_n(before + row * size, size, after + row * size);
  };
  keep(tape.statesBefore(cell), tape.statesAfter(cell), s.output);
  if (s.isLstm) keep(tape.cellsBefore(cell), tape.cellsAfter(cell), s.state);
  if (s.hasProjection) std::fill_n(tape.hiddenOf(cell) + row * s.state, s.state, T{0});
}

template std::vector<RnnPart<float>> rnnParts(const KernelSite &, const RnnSizes &, Gemm<float>, bool);
template std::vector<RnnPart<double>> rnnParts(const KernelSite &, const RnnSizes &, Gemm<double>, bool);
template void clearBeyond(const KernelCall &, const RnnPorts &, const RnnSizes &, float *, int64_t, int64_t);
template void clearBeyond(const KernelCall &, const RnnPorts &, const RnnSizes &, double *, int64_t, int64_t);
template void dropBetween(const KernelCall &, const RnnSizes &, int64_t, float *);
template void dropBetween(const KernelCall &, const RnnSizes &, int64_t, double *);
template class RnnLayers<float>;
template class RnnLayers<double>;

}  // namespace gradc::fast
