// Memory of the fast kernels of RNN: values that a run of the layers keeps for the gradient.
//
// In both directions, rows are ordered by time, then by element of the batch. Tested by
// tests/runtime/kernels/rnn_kernels_test.cc
#pragma once

#include "ops/sequence/rnn.h"
#include "runtime/kernels/matrix/prepared_product.h"

namespace gradc::fast {

/// Takes a piece of a space in which all pieces are aligned to 64 bytes.
template <class T> T *takeAligned(RnnSpace<T> &space, Dim count) {
  constexpr int64_t kUnit = 64 / sizeof(T);
  return space.take(ceilDiv(count, kUnit) * kUnit);
}
template <class T> T *takeBytes(RnnSpace<T> &space, size_t bytes) {
  return takeAligned(space, ceilDiv(static_cast<int64_t>(bytes), int64_t{sizeof(T)}));
}

/// Elements from the gates, or shares, of one row to those of the next.
template <class T> int64_t gateStride(const RnnSizes &s) { return rowStride<T>(s.gates); }

template <class T> class RnnTape {
 public:
  /// `keepsSteps`: keeps gates, shares and hidden states of all cells, else only of the current one. `hasLengths`:
  /// sequences have lengths.
  RnnTape(RnnSpace<T> &space, const RnnParams &params, const RnnSizes &s, bool hasLengths, bool keepsSteps)
      : s(s), keepsSteps(keepsSteps) {
    const Dim rows = Dim(s.time) * s.batch, points = (rows + s.batch) * s.cells(), kept = keepsSteps ? s.cells() : 1;
    const bool isApart = s.directions == 2 || params.drops() || hasLengths;
    outputs = isApart ? takeAligned(space, rows * s.width() * s.layers) : nullptr;
    states = takeAligned(space, points * s.output);
    cells = s.isLstm ? takeAligned(space, points * s.state) : nullptr;
    gates = takeAligned(space, rows * kept * gateStride<T>(s));
    shares = params.mode == RnnMode::Gru ? takeAligned(space, rows * kept * gateStride<T>(s)) : nullptr;
    hidden = s.hasProjection ? takeAligned(space, rows * kept * s.state) : nullptr;
    isOutputApart = isApart;
  }

  int64_t rows() const { return s.time * s.batch; }
  bool hasOutputs() const { return isOutputApart; }
  /// (time · batch, directions · output), after dropout except in the last layer, 0 beyond the ends of sequences. The
  /// states, where these are the same.
  T *outputOf(int64_t layer) const {
    return isOutputApart ? outputs + layer * rows() * s.width() : statesAfter(RnnCell(s, layer, 0));
  }
  /// The states before and after each time, (time · batch, output) or (time · batch, state) each.
  T *statesBefore(const RnnCell &cell) const { return blocks(states, cell.index, cell.direction == 1, s.output); }
  T *statesAfter(const RnnCell &cell) const { return blocks(states, cell.index, cell.direction == 0, s.output); }
  T *cellsBefore(const RnnCell &cell) const { return blocks(cells, cell.index, cell.direction == 1, s.state); }
  T *cellsAfter(const RnnCell &cell) const { return blocks(cells, cell.index, cell.direction == 0, s.state); }
  /// As stepCells leaves them, (time · batch, gates), rows gateStride apart; shares are null except for gru.
  T *gatesOf(const RnnCell &cell) const { return gates + firstRow(cell) * gateStride<T>(s); }
  T *sharesOf(const RnnCell &cell) const { return shares ? shares + firstRow(cell) * gateStride<T>(s) : nullptr; }
  /// The states after each time, before the projection.
  T *hiddenOf(const RnnCell &cell) const { return hidden ? hidden + firstRow(cell) * s.state : statesAfter(cell); }

 private:
  int64_t firstRow(const RnnCell &cell) const { return keepsSteps ? cell.index * rows() : 0; }
  // There is one block more than there are times: the first direction's states before time t are in block t and those
  // after it in block t + 1; in the second direction it is the other way round.
  T *blocks(T *of, int64_t cell, bool isSecond, int64_t size) const {
    return of ? of + (cell * (s.time + 1) + isSecond) * s.batch * size : nullptr;
  }

  const RnnSizes &s;
  bool keepsSteps, isOutputApart;
  T *outputs, *states, *cells, *gates, *shares, *hidden;  // null: not needed
};

}  // namespace gradc::fast
