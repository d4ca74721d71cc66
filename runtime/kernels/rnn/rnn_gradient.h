// The backward run of an RNN's layers, from the tape of the forward run. Tested by
// tests/runtime/kernels/rnn_kernels_test.cc
#pragma once

#include "runtime/kernels/rnn/rnn_layers.h"

namespace gradc::fast {

template <class T> class RnnGradient {
 public:
  RnnGradient(const KernelSite &site, const RnnSizes &s, const RnnPorts &ports);

  void place(RnnSpace<T> &space);
  /// Overwrites the gates and shares of the tape.
  void run(const KernelCall &call, const RnnTape<T> &tape);

 private:
  void runCell(const KernelCall &call, const RnnTape<T> &tape, const RnnCell &cell, const T *dOutput, T *dInput);
  void runSteps(const KernelCall &call, const RnnTape<T> &tape, const RnnCell &cell, const T *dOutput,
                RnnPart<T> &part) const;
  void clearSteps(const KernelCall &call, const RnnTape<T> &tape, const RnnCell &cell) const;
  void takeHead(const KernelCall &call, size_t port, const RnnCell &cell, int64_t count, T *to) const;
  void writeParameters(const KernelCall &call, const RnnTape<T> &tape, const RnnCell &cell, const T *input);
  const T *inputOf(const KernelCall &call, const RnnTape<T> &tape, int64_t layer) const {
    return layer > 0 ? tape.outputOf(layer - 1) : data ? data : call.in[0].as<const T>();
  }

  const RnnSizes s;
  const RnnPorts ports;
  std::vector<RnnPart<T>> parts;
  // First index: the first layer, or the others. The second direction's product adds to that of the first.
  std::optional<PreparedProduct<T>> toInput[2][2], toInputWeight[2];
  std::optional<PreparedProduct<T>> toStateWeight;
  T *packed = nullptr, *scratch = nullptr;
  T *gradients[2] = {};  // of outputs of layers
  T *dState = nullptr, *dCell = nullptr;
  T *dHidden = nullptr, *dStates = nullptr;  // with a projection: before it; after it, at all times
  // With lengths: dState and dCell before a step, and the data with zeros beyond the ends of sequences.
  T *keptState = nullptr, *keptCell = nullptr, *data = nullptr;
};

}  // namespace gradc::fast
