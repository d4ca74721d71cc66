// The forward run of an RNN's layers, for the kernels of runtime/kernels/rnn/rnn.cc. Tested by
// tests/runtime/kernels/rnn_kernels_test.cc
#pragma once

#include "ops/sequence/lengths.h"
#include "runtime/kernels/matrix/prepared_product.h"
#include "runtime/kernels/rnn/rnn_tape.h"

#include <vector>

namespace gradc::fast {

/// A part of the batch that one thread takes through all steps of a cell. `product` is that of each step: `count` rows
/// times the cell's weights of the state.
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

/// Whether sequence n has ended before a time.
inline bool isBeyond(const KernelCall &call, const RnnPorts &ports, int64_t n, int64_t time) {
  return ports.lengths != RnnPorts::kNone && time >= sequenceLength(call.in[ports.lengths], n, call.in[0].shape[0]);
}
/// Writes zeros into the rows, of (time · batch, size), of times beyond the ends of sequences. Rows are `stride` apart.
template <class T>
void clearBeyond(const KernelCall &call, const RnnPorts &ports, const RnnSizes &s, T *rows, int64_t size,
                 int64_t stride);

/// Steps beyond the end of a sequence are computed like all others, and their results replaced.
template <class T> class RnnLayers {
 public:
  RnnLayers(const KernelSite &site, const RnnSizes &s, const RnnPorts &ports);

  /// Takes scratch for later runs.
  void place(RnnSpace<T> &space);
  void run(const KernelCall &call, const RnnTape<T> &tape);

 private:
  void runCell(const KernelCall &call, const RnnTape<T> &tape, const RnnCell &cell);
  void runSteps(const KernelCall &call, const RnnTape<T> &tape, const RnnCell &cell, RnnPart<T> &part) const;
  void keepStates(const RnnTape<T> &tape, const RnnCell &cell, int64_t row) const;
  PreparedProduct<T> &inputProduct(int64_t layer) { return inputProducts[layer > 0]; }

  const RnnSizes s;
  const RnnPorts ports;
  std::vector<PreparedProduct<T>> inputProducts;  // of the first layer, and of the others
  std::vector<RnnPart<T>> parts;
  T *packed = nullptr, *scratch = nullptr;
};

}  // namespace gradc::fast
