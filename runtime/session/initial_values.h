// Values of variables that were not given: `run --init SEED`, gradcheck, parameters that train. Tested by
// tests/runtime/session_test.cc
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
  /// For parameters that train, by the name of the input that first reads the variable, as MXNet's initialisers go by
  /// names: biases, beta and moving means are 0, gamma and moving variances 1 (the slope of a LeakyReLU 0.25). Other
  /// tensors with at least two axes are uniform in ±sqrt(6 / (fan_in + fan_out)), MXNet's `Xavier`. What is left, and
  /// variables with an attribute `__init__`, are filled as by `fill`.
  void fillParameter(NodeId variable, TensorRef tensor) const;

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
  NodeMap<Reader> firstReaders;
  NodeMap<Reader> readers;     // the first that declares a domain, else the first reader
  NodeMap<uint32_t> ordinals;  // of variables
};

}  // namespace gradc
