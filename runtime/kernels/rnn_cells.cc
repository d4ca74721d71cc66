// Functions are compiled once per instruction set by attributes; without contraction of products and sums all of them round
// alike. Tested by tests/fast_kernels_test.cc
#include "runtime/kernels/rnn_cells.h"

#include "ops/loops.h"
#include "runtime/kernels/exponential.h"

namespace gradc::fast {
namespace {

/// A number whose functions are those of exponential.h.
template <class T> struct Number {
  T value;

  Number(T value) : value(value) {}
  template <class N, class = std::enable_if_t<std::is_arithmetic_v<N>>>
  Number(N value) : value(static_cast<T>(value)) {}

  friend Number operator+(Number a, Number b) { return a.value + b.value; }
  friend Number operator-(Number a, Number b) { return a.value - b.value; }
  friend Number operator*(Number a, Number b) { return a.value * b.value; }
  friend Number greater(Number a, Number b) { return a.value > b.value ? T{1} : T{0}; }
  friend Number sigmoid(Number x) { return sigmoidFunction(x.value); }
  friend Number tanh(Number x) { return tangentFunction(x.value); }
  friend Number rectified(Number x, Number at) { return at.value <= 0 ? T{0} : x.value; }
  friend Number clipped(Number x, Number at, const CellRules &rules) {
    const T low = static_cast<T>(*rules.clipMin), high = static_cast<T>(*rules.clipMax);
    const bool isNan = at.value != at.value;
    const T kept = at.value > high ? high : x.value;
    return at.value < low || (rules.clipNan && isNan) ? low : kept;
  }
};

template <class T, RnnMode mode>
using GatesOf =
    std::conditional_t<mode == RnnMode::Lstm, LstmGates<Number<T>>,
                       std::conditional_t<mode == RnnMode::Gru, GruGates<Number<T>>, PlainGates<Number<T>>>>;

template <RnnMode mode> constexpr int kGates = static_cast<int>(numGates(mode));
/// What decides the piece in a kernel is the point's own.
template <RnnMode mode> constexpr bool kIsLstm = mode == RnnMode::Lstm;

template <class T, RnnMode mode>
inline void stepRow(const CellRules &rules, const CellStepRows<T> &cells, int64_t row) {
  using Gates = GatesOf<T, mode>;
  const int64_t size = cells.size;
  T *gates = cells.gates + row * kGates<mode> * size, *shares = cells.shares + row * kGates<mode> * size;
  const T *inputBias = cells.inputBias, *stateBias = cells.stateBias;
  const T *state = mode == RnnMode::Gru ? cells.state + row * size : nullptr;
  const T *cell = kIsLstm<mode> ? cells.cell + row * size : nullptr;
  T *hidden = cells.hidden + row * size, *nextCell = kIsLstm<mode> ? cells.nextCell + row * size : nullptr;
  GRADC_INDEPENDENT
  for (int64_t j = 0; j < size; ++j) {
    CellPoint<Number<T>> point;
    for (int g = 0; g < kGates<mode>; ++g) {
      point.x[g] = gates[g * size + j] + inputBias[g * size + j];
      point.h[g] = shares[g * size + j] + stateBias[g * size + j];
    }
    if constexpr (mode == RnnMode::Gru) {
      point.state = state[j];
      shares[2 * size + j] = point.h[2].value;
    }
    if constexpr (kIsLstm<mode>) point.cell = cell[j];
    if constexpr (mode == RnnMode::Relu) point.at = point.x[0] + point.h[0];
    const Gates values(rules, point);
    if constexpr (kIsLstm<mode>) point.at = values.unclipped(point);
    const CellResult<Number<T>> result = values.step(rules, point);
    Number<T> kept[kMaxGates] = {0, 0, 0, 0};
    values.keep(kept);
    for (int g = 0; g < kGates<mode>; ++g) gates[g * size + j] = kept[g].value;
    hidden[j] = result.state.value;
    if constexpr (kIsLstm<mode>) nextCell[j] = result.cell.value;
  }
}

template <class T, RnnMode mode>
inline void slopeRow(const CellRules &rules, const CellSlopeRows<T> &cells, int64_t row) {
  using Gates = GatesOf<T, mode>;
  constexpr bool kIsGru = mode == RnnMode::Gru;
  const int64_t size = cells.size;
  T *gates = cells.gates + row * kGates<mode> * size;
  T *shares = kIsGru ? cells.shares + row * kGates<mode> * size : nullptr;
  const T *state = kIsGru ? cells.state + row * size : nullptr;
  const T *cell = kIsLstm<mode> ? cells.cell + row * size : nullptr;
  const T *hiddenHead = cells.hiddenHead + row * size;
  T *cellHead = kIsLstm<mode> ? cells.cellHead + row * size : nullptr;
  T *stateSlope = kIsGru ? cells.stateSlope + row * size : nullptr;
  GRADC_INDEPENDENT
  for (int64_t j = 0; j < size; ++j) {
    Number<T> kept[kMaxGates] = {0, 0, 0, 0};
    for (int g = 0; g < kGates<mode>; ++g) kept[g] = gates[g * size + j];
    const Gates values(kept);
    CellPoint<Number<T>> point;
    if constexpr (kIsGru) {
      point.state = state[j];
      point.h[2] = shares[2 * size + j];
    }
    if constexpr (mode == RnnMode::Relu) point.at = values.y;
    CellResult<Number<T>> head = {hiddenHead[j], 0};
    if constexpr (kIsLstm<mode>) {
      point.cell = cell[j];
      point.at = values.unclipped(point);
      head.cell = cellHead[j];
    }
    const CellSlope<Number<T>> slope = values.slope(rules, point, head);
    for (int g = 0; g < kGates<mode>; ++g) {
      gates[g * size + j] = slope.x[g].value;
      if constexpr (kIsGru) shares[g * size + j] = slope.h[g].value;
    }
    if constexpr (kIsGru) stateSlope[j] = slope.state.value;
    if constexpr (kIsLstm<mode>) cellHead[j] = slope.cell.value;
  }
}

// The loops for the modes, compiled with the attributes in front. A mode is no attribute of the loop: it has none to spare.
#define GRADC_CELL_LOOPS(name, ...)                                                                                    \
  template <class T, RnnMode mode> __VA_ARGS__ void step##name(const CellRules &rules, const CellStepRows<T> &cells) { \
    for (int64_t row = 0; row < cells.rows; ++row) stepRow<T, mode>(rules, cells, row);                                \
  }                                                                                                                    \
  template <class T, RnnMode mode>                                                                                     \
  __VA_ARGS__ void slope##name(const CellRules &rules, const CellSlopeRows<T> &cells) {                                \
    for (int64_t row = 0; row < cells.rows; ++row) slopeRow<T, mode>(rules, cells, row);                               \
  }

GRADC_CELL_LOOPS(Baseline)
#if defined(__x86_64__)
GRADC_CELL_LOOPS(Avx2, __attribute__((flatten, target("avx2"))))
GRADC_CELL_LOOPS(Avx512, __attribute__((flatten, target("avx512f,avx512dq,avx512vl"))))
#endif

template <class T> using Step = void (*)(const CellRules &, const CellStepRows<T> &);
template <class T> using Slope = void (*)(const CellRules &, const CellSlopeRows<T> &);
template <class T> struct CellLoops {
  Step<T> step;
  Slope<T> slope;
};

/// float64 has the library's functions, one element at a time on every processor.
template <class T, RnnMode mode> CellLoops<T> bestOfMachine() {
#if defined(__x86_64__)
  if constexpr (std::is_same_v<T, float>) {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
      return {stepAvx512<T, mode>, slopeAvx512<T, mode>};
    if (__builtin_cpu_supports("avx2")) return {stepAvx2<T, mode>, slopeAvx2<T, mode>};
  }
#endif
  return {stepBaseline<T, mode>, slopeBaseline<T, mode>};
}

template <class T> const CellLoops<T> &loopsOf(RnnMode mode) {
  static const CellLoops<T> loops[] = {bestOfMachine<T, RnnMode::Relu>(), bestOfMachine<T, RnnMode::Tanh>(),
                                       bestOfMachine<T, RnnMode::Lstm>(), bestOfMachine<T, RnnMode::Gru>()};
  return loops[static_cast<size_t>(mode)];
}

}  // namespace

template <class T> void stepCells(const CellRules &rules, const CellStepRows<T> &cells) {
  loopsOf<T>(rules.mode).step(rules, cells);
}
template <class T> void slopeCells(const CellRules &rules, const CellSlopeRows<T> &cells) {
  loopsOf<T>(rules.mode).slope(rules, cells);
}
template void stepCells(const CellRules &, const CellStepRows<float> &);
template void stepCells(const CellRules &, const CellStepRows<double> &);
template void slopeCells(const CellRules &, const CellSlopeRows<float> &);
template void slopeCells(const CellRules &, const CellSlopeRows<double> &);

}  // namespace gradc::fast
