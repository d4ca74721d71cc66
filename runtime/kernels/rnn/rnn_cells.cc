// Loops over the cells of rows, for each instruction set (ir/base/instruction_sets.h).
// Tested by tests/runtime/kernels/rnn_kernels_test.cc
#include "runtime/kernels/rnn/rnn_cells.h"

#include "ops/kit/loops.h"
#include "runtime/kernels/elementwise/float_functions.h"

namespace gradc::fast {
namespace {

/// A number whose functions are those of float_functions.h.
template <class T> struct Number {
  T value;

  Number(T value) : value(value) {}
  template <class N, class = std::enable_if_t<std::is_arithmetic_v<N>>>
  Number(N value) : value(static_cast<T>(value)) {}

  friend Number operator+(Number a, Number b) { return a.value + b.value; }
  friend Number operator-(Number a, Number b) { return a.value - b.value; }
  friend Number operator*(Number a, Number b) { return a.value * b.value; }
  friend Number greater(Number a, Number b) { return a.value > b.value ? T{1} : T{0}; }
  friend Number sigmoid(Number x) { return math::sigmoid(x.value); }
  friend Number tanh(Number x) { return math::tanh(x.value); }
  friend Number rectified(Number x, Number at) { return at.value <= 0 ? T{0} : x.value; }
  friend Number clipped(Number x, Number at, const CellRules &rules) {
    const T low = static_cast<T>(*rules.clipMin), high = static_cast<T>(*rules.clipMax);
    const bool isNan = at.value != at.value;
    const T kept = at.value > high ? high : x.value;
    return at.value < low || (rules.clipNan && isNan) ? low : kept;
  }
};

/// The cells that a loop is compiled for.
struct CellForm {
  RnnMode mode;
  bool clips;

  constexpr int gates() const { return static_cast<int>(numGates(mode)); }
  constexpr bool isLstm() const { return mode == RnnMode::Lstm; }
  constexpr bool isGru() const { return mode == RnnMode::Gru; }
};

template <class T, CellForm form>
using GatesOf = std::conditional_t<form.isLstm(), LstmGates<Number<T>>,
                                   std::conditional_t<form.isGru(), GruGates<Number<T>>, PlainGates<Number<T>>>>;

/// The rules, with everything that `form` determines known to the compiler.
template <CellForm form> inline CellRules knownRules(const CellRules &rules) {
  if constexpr (form.clips) return {form.mode, double(*rules.clipMin), double(*rules.clipMax), rules.clipNan};
  else return {form.mode, std::nullopt, std::nullopt, false};
}

template <class T, CellForm form>
inline void stepRow(const CellRules &given, const CellStepRows<T> &cells, int64_t row) {
  const CellRules rules = knownRules<form>(given);
  using Gates = GatesOf<T, form>;
  const int64_t size = cells.size;
  T *gates = cells.gates + row * cells.stride, *shares = cells.shares + row * cells.stride;
  const T *inputBias = cells.inputBias, *stateBias = cells.stateBias;
  const T *state = form.isGru() ? cells.state + row * size : nullptr;
  const T *cell = form.isLstm() ? cells.cell + row * size : nullptr;
  T *hidden = cells.hidden + row * size, *nextCell = form.isLstm() ? cells.nextCell + row * size : nullptr;
  GRADC_INDEPENDENT
  for (int64_t j = 0; j < size; ++j) {
    CellPoint<Number<T>> point;
    for (int g = 0; g < form.gates(); ++g) {
      point.x[g] = gates[g * size + j] + inputBias[g * size + j];
      point.h[g] = shares[g * size + j] + stateBias[g * size + j];
    }
    if constexpr (form.isGru()) {
      point.state = state[j];
      shares[2 * size + j] = point.h[2].value;
    }
    if constexpr (form.isLstm()) point.cell = cell[j];
    if constexpr (form.mode == RnnMode::Relu) point.at = point.x[0] + point.h[0];
    const Gates values(rules, point);
    if constexpr (form.isLstm()) point.at = values.unclipped(point);
    const CellResult<Number<T>> result = values.step(rules, point);
    Number<T> kept[kMaxGates] = {0, 0, 0, 0};
    values.keep(kept);
    for (int g = 0; g < form.gates(); ++g) gates[g * size + j] = kept[g].value;
    hidden[j] = result.state.value;
    if constexpr (form.isLstm()) nextCell[j] = result.cell.value;
  }
}

template <class T, CellForm form>
inline void slopeRow(const CellRules &given, const CellSlopeRows<T> &cells, int64_t row) {
  const CellRules rules = knownRules<form>(given);
  using Gates = GatesOf<T, form>;
  const int64_t size = cells.size;
  T *gates = cells.gates + row * cells.stride;
  T *shares = form.isGru() ? cells.shares + row * cells.stride : nullptr;
  const T *state = form.isGru() ? cells.state + row * size : nullptr;
  const T *cell = form.isLstm() ? cells.cell + row * size : nullptr;
  const T *hiddenHead = cells.hiddenHead + row * size;
  T *cellHead = form.isLstm() ? cells.cellHead + row * size : nullptr;
  T *stateSlope = form.isGru() ? cells.stateSlope + row * size : nullptr;
  GRADC_INDEPENDENT
  for (int64_t j = 0; j < size; ++j) {
    Number<T> kept[kMaxGates] = {0, 0, 0, 0};
    for (int g = 0; g < form.gates(); ++g) kept[g] = gates[g * size + j];
    const Gates values(kept);
    CellPoint<Number<T>> point;
    if constexpr (form.isGru()) {
      point.state = state[j];
      point.h[2] = shares[2 * size + j];
    }
    if constexpr (form.mode == RnnMode::Relu) point.at = values.y;
    CellResult<Number<T>> head = {hiddenHead[j], 0};
    if constexpr (form.isLstm()) {
      point.cell = cell[j];
      point.at = values.unclipped(point);
      head.cell = cellHead[j];
    }
    const CellSlope<Number<T>> slope = values.slope(rules, point, head);
    for (int g = 0; g < form.gates(); ++g) {
      gates[g * size + j] = slope.x[g].value;
      if constexpr (form.isGru()) shares[g * size + j] = slope.h[g].value;
    }
    if constexpr (form.isGru()) stateSlope[j] = slope.state.value;
    if constexpr (form.isLstm()) cellHead[j] = slope.cell.value;
  }
}

/// float64 calls the library's functions one element at a time, so wider instruction sets do not help.
template <class T, class F> void onMachineOf(const F &loop) {
  if constexpr (std::is_same_v<T, float>) onMachine(loop);
  else loop();
}

template <class T, CellForm form> void stepRows(const CellRules &rules, const CellStepRows<T> &cells) {
  onMachineOf<T>([rules, cells] {
    for (int64_t row = 0; row < cells.rows; ++row) stepRow<T, form>(rules, cells, row);
  });
}
template <class T, CellForm form> void slopeRows(const CellRules &rules, const CellSlopeRows<T> &cells) {
  onMachineOf<T>([rules, cells] {
    for (int64_t row = 0; row < cells.rows; ++row) slopeRow<T, form>(rules, cells, row);
  });
}

template <class T> using Step = void (*)(const CellRules &, const CellStepRows<T> &);
template <class T> using Slope = void (*)(const CellRules &, const CellSlopeRows<T> &);
template <class T> struct CellLoops {
  Step<T> step;
  Slope<T> slope;
};

template <class T, RnnMode mode, bool clips = false>
constexpr CellLoops<T> kLoops = {stepRows<T, CellForm{mode, clips}>, slopeRows<T, CellForm{mode, clips}>};

template <class T> const CellLoops<T> &loopsOf(const CellRules &rules) {
  static constexpr CellLoops<T> loops[] = {kLoops<T, RnnMode::Relu>, kLoops<T, RnnMode::Tanh>, kLoops<T, RnnMode::Lstm>,
                                           kLoops<T, RnnMode::Gru>, kLoops<T, RnnMode::Lstm, true>};
  return loops[rules.clipMin ? 4 : static_cast<size_t>(rules.mode)];
}

}  // namespace

template <class T> void stepCells(const CellRules &rules, const CellStepRows<T> &cells) {
  loopsOf<T>(rules).step(rules, cells);
}
template <class T> void slopeCells(const CellRules &rules, const CellSlopeRows<T> &cells) {
  loopsOf<T>(rules).slope(rules, cells);
}
template void stepCells(const CellRules &, const CellStepRows<float> &);
template void stepCells(const CellRules &, const CellStepRows<double> &);
template void slopeCells(const CellRules &, const CellSlopeRows<float> &);
template void slopeCells(const CellRules &, const CellSlopeRows<double> &);

}  // namespace gradc::fast
