// The forward run of an RNN's layers, of which runtime/kernels/rnn.cc makes kernels. Tested by tests/rnn_kernels_test.cc
#pragma once

#include "runtime/kernels/prepared_product.h"
#include "runtime/kernels/rnn_tape.h"

#include <vector>

namespace gradc::fast {

/// A part of the batch that one thread takes through all steps of a cell, with the product of each step: of `count` rows by
/// the cell's weights of the state.
template <class T> struct RnnPart {
  int64_t begin, count;
  PreparedProduct<T> product;
  T *packed = nullptr, *scratch = nullptr, *shares = nullptr;
};

/// The batch in parts for the site's threads. `product` is that of all rows.
template <class T>
std::vector<RnnPart<T>> rnnParts(const KernelSite &site, const RnnSizes &s, Gemm<T> product, bool packsB);

/// What a layer passes to the next one, or gets back from it, in training.
template <class T> void dropBetween(const KernelCall &call, const RnnSizes &s, int64_t layer, T *values);

template <class T> class RnnLayers {
 public:
  RnnLayers(const KernelSite &site, const RnnSizes &s, const RnnPorts &ports);

  /// Takes scratch for the next runs.
  void place(RnnSpace<T> &space);
  void run(const KernelCall &call, const RnnTape<T> &tape);

 private:
  void runCell(const KernelCall &call, const RnnTape<T> &tape, const RnnCell &cell);
  void runSteps(const KernelCall &call, const RnnTape<T> &tape, const RnnCell &cell, RnnPart<T> &part) const;
  PreparedProduct<T> &inputProduct(int64_t layer) { return inputProducts[layer > 0]; }

  const RnnSizes s;
  const RnnPorts ports;
  std::vector<PreparedProduct<T>> inputProducts;  // of the first layer, of the others
  std::vector<RnnPart<T>> parts;
  T *packed = nullptr, *scratch = nullptr;
};

}  // namespace gradc::fast
