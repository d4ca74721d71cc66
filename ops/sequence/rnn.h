// Shared by the files of RNN: attributes, sizes, and where each layer's weights are in the vector of parameters.
//
// The vector holds the matrices of all layers first: for each layer and direction those of the input (gates · state,
// input), of the state (gates · state, output) and, with a projection, (output, state). Two biases for each layer and
// direction follow, (gates · state,) each. Gates are in the order lstm i, f, g, o and gru r, z, n.
#pragma once

#include "ir/rules/kernel.h"
#include "ir/tensor/dim.h"
#include "ops/sequence/rnn_cells.h"

#include <optional>

namespace gradc {

struct RnnParams {
  int64_t stateSize = 0, numLayers = 0;
  bool bidirectional = false;
  RnnMode mode = RnnMode::Relu;
  double p = 0;
  bool stateOutputs = false;
  std::optional<int64_t> projectionSize;
  std::optional<double> clipMin, clipMax;
  bool clipNan = false, useSequenceLength = false;

  bool isLstm() const { return mode == RnnMode::Lstm; }
  int64_t numDirections() const { return bidirectional ? 2 : 1; }
  int64_t outputSize() const { return projectionSize.value_or(stateSize); }
  int64_t numStates() const { return isLstm() ? 2 : 1; }
  bool drops() const { return p > 0 && numLayers > 1; }
  CellRules rules() const { return {mode, clipMin, clipMax, clipNan}; }
};

/// Sizes of one call.
struct RnnSizes {
  int64_t time, batch, input, state, output, layers, directions, gates;
  bool isLstm, hasProjection;

  RnnSizes(const RnnParams &p, int64_t time, int64_t batch, int64_t input)
      : time(time), batch(batch), input(input), state(p.stateSize), output(p.outputSize()), layers(p.numLayers),
        directions(p.numDirections()), gates(numGates(p.mode) * p.stateSize), isLstm(p.isLstm()),
        hasProjection(p.projectionSize.has_value()) {}

  /// Elements of one row of a layer's input, of its output.
  int64_t inputOf(int64_t layer) const { return layer == 0 ? input : width(); }
  int64_t width() const { return directions * output; }
  int64_t cells() const { return layers * directions; }

  /// Elements of the matrices of one direction of a layer.
  int64_t weightsOf(int64_t layer) const {
    return gates * (inputOf(layer) + output) + (hasProjection ? output * state : 0);
  }
  int64_t weightsBefore(int64_t layer) const {
    return layer == 0 ? 0 : directions * (weightsOf(0) + (layer - 1) * weightsOf(1));
  }
};

/// One direction of one layer: where its parameters begin.
struct RnnCell {
  int64_t layer, direction, index, input;
  int64_t inputWeight, stateWeight, projection, inputBias, stateBias;

  RnnCell(const RnnSizes &s, int64_t layer, int64_t direction)
      : layer(layer), direction(direction), index(layer * s.directions + direction), input(s.inputOf(layer)),
        inputWeight(s.weightsBefore(layer) + direction * s.weightsOf(layer)),
        stateWeight(inputWeight + s.gates * input), projection(stateWeight + s.gates * s.output),
        inputBias(s.weightsBefore(s.layers) + index * 2 * s.gates), stateBias(inputBias + s.gates) {}

  /// The time of a step: the second direction begins at the end.
  int64_t timeOf(const RnnSizes &s, int64_t step) const { return direction == 0 ? step : s.time - 1 - step; }
};

/// Where the operands of RNN and of the operators of its gradient are; kNone where there is none.
struct RnnPorts {
  static constexpr size_t kNone = ~size_t{0};
  size_t state = 2, stateCell = kNone, lengths = kNone;
  size_t head = kNone, stateHead = kNone, cellHead = kNone;

  static RnnPorts ofForward(const RnnParams &p);
  /// Those of (data, parameters, state, output, its head[, state_output, its head][, state_cell[, its output, its
  /// head]] [, sequence_length]).
  static RnnPorts ofBackward(const RnnParams &p, bool hasLengths);
};

/// Gives out pieces of a workspace; without memory it only counts.
template <class T> class RnnSpace {
 public:
  explicit RnnSpace(T *memory) : memory(memory) {}
  T *take(Dim count) {
    T *at = memory ? memory + used.nearest() : nullptr;
    used = used + count;
    return at;
  }
  size_t bytes() const { return static_cast<size_t>((used * int64_t{sizeof(T)}).nearest()); }

 private:
  T *memory;
  Dim used = 0;
};

/// The factor by which dropout scales element i of a layer's output; forward and gradient draw the same numbers.
inline double dropFactor(const KernelCall &call, uint64_t i) {
  const double keep = 1 - call.params<RnnParams>().p;
  return call.random.uniform(i) < keep ? 1 / keep : 0;
}

}  // namespace gradc
