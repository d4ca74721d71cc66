// Values of unbound variables: `run --init SEED`, gradcheck.
#pragma once

#include "ir/tensor/tensor.h"
#include "passes/inference/infer.h"

namespace gradc {

/// From the variable's `__init__` attribute (zeros, ones, a constant), else the domain that the first reader with one
/// declares, else uniform in ±sqrt(3 / fan_in), whose variance is 1 / fan_in. The fan-in is the product of all axes but
/// the first (for a vector, its length), and 1 for the input `data`: scaling a batch by the size of one example would
/// leave hardly any signal. A pure function of (seed, ordinal of the variable among all variables in id order).
class Initializer {
 public:
  /// One sweep over the edges. `graph` and `inference` must outlive the object.
  Initializer(const Graph &graph, const Inference &inference, uint64_t seed);
  void fill(NodeId variable, TensorRef tensor) const;

 private:
  struct Reader {
    NodeId node;  // invalid: nothing reads it
    uint32_t input = 0;
  };
  bool fillAsDeclared(NodeId variable, const TensorRef &tensor) const;
  int64_t numClasses(const Reader &reader) const;
  int64_t numIndices(const Reader &reader) const;
  int64_t longestLength(const Reader &reader) const;
  double spread(const Reader &reader, Dims shape) const;
  Dims shapeOfInput(const Reader &reader, size_t input) const;

  const Graph &graph;
  const Inference &inference;
  uint64_t seed;
  NodeMap<Reader> readers;     // first reader that declares a domain, else the first reader
  NodeMap<uint32_t> ordinals;  // of variables
};

}  // namespace gradc
