// The forward run of an RNN's layers, for the kernels of runtime/kernels/rnn.cc. Tested by tests/rnn_kernels_test.cc
#pragma once

#include "runtime/kernels/prepared_product.h"
#include "runtime/kernels/rnn_tape.h"

#include <vector>

namespace gradc::fast {

/// A part of the batch that one thread takes through all steps of a cell. `product` is that of each step: `count` rows times
/// the cell's weights of the state.
template <class T> struct RnnPart {
  int64_t begin, count;
  PreparedProduct<T> product;
  T *packed = nullptr, *scratch = nullptr, *shares = nullptr;
};

/// Divides the batch among the site's threads. `product` is that of a step for the whole batch.
template <class T>
std::vector<RnnPart<T>> rnnParts(const KernelSite &site, const RnnSizes &s, Gemm<T> product, bool packsB);

/// Applies the dropout of training between a layer and the next: to its outputs, or to their gradients.
template <class T> void dropBetween(const KernelCall &call, const RnnSizes &s, int64_t layer, T *values);

template <class T> class RnnLayers {
 public:
  RnnLayers(const KernelSite &site, const RnnSizes &s, const RnnPorts &ports);

  /// Takes scratch for later runs.
  void place(RnnSpace<T> &space);
  void run(const KernelCall &call, const RnnTape<T> &tape);

 private:
  void runCell(const KernelCall &call, const RnnTape<T> &tape, const RnnCell &cell);
  void runSteps(const KernelCall &call, const RnnTape<T> &tape, const RnnCell &cell, RnnPart<T> &part) const;
  PreparedProduct<T> &inputProduct(int64_t layer) { return inputProducts[layer > 0]; }

  const RnnSizes s;
  const RnnPorts ports;
  std::vector<PreparedProduct<T>> inputProducts;  // of the first layer, and of the others
  std::vector<RnnPart<T>> parts;
  T *packed = nullptr, *scratch = nullptr;
};

}  // namespace gradc::fast
