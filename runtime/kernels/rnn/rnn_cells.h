// One step of recurrent cells and its slope, for rows of a batch, by the formulas of ops/sequence/rnn_cells.h. For
// float32 the compiler vectorises the loops for the processor's instruction set; the bits are the same on every
// processor. Tested by tests/runtime/kernels/rnn_kernels_test.cc
#pragma once

#include "ops/sequence/rnn_cells.h"

namespace gradc::fast {

/// `rows` rows of cells with `size` elements each. A gate has `size` contiguous elements; gates and shares of a row are
/// in the order of CellPoint, and `stride` elements from those of the next row.
template <class T> struct CellStepRows {
  int64_t rows, size, stride;
  T *gates;   // in: the shares of the input without bias; out: the gates
  T *shares;  // the shares of the state without bias; gru stores the share of its third gate with bias
  const T *inputBias, *stateBias;
  const T *state;  // before the step; null with a projection
  const T *cell;   // before the step; null except for lstm
  T *hidden, *nextCell;
};
template <class T> void stepCells(const CellRules &rules, const CellStepRows<T> &cells);

/// `state`, `cell`, `gates` and `shares` are those of the step.
template <class T> struct CellSlopeRows {
  int64_t rows, size, stride;
  T *gates;   // in: the gates; out: gradients of the shares of the input
  T *shares;  // gru: in: the shares of the state, of which only the third is read; out: their gradients. Otherwise
              // null: the gradients are those of the shares of the input
  const T *state, *cell;  // before the step, as above
  const T *hiddenHead;
  T *cellHead;    // lstm: in: after the step; out: before it
  T *stateSlope;  // the step's direct contribution to the state before; null with a projection
};
template <class T> void slopeCells(const CellRules &rules, const CellSlopeRows<T> &cells);

}  // namespace gradc::fast
