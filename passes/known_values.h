// Values that are known before anything runs: small tensors that depend on no variable, computed by the reference kernels
// while a graph is rebuilt. The choice of a branch and the number of steps of a loop are read from them.
// Tested by tests/unroll_test.cc
#pragma once

#include "ir/dense_map.h"
#include "ir/graph_builder.h"
#include "ir/tensor.h"
#include "passes/infer.h"

#include <memory>

namespace gradc {

class KnownValues {
 public:
  /// The value of an entry of the builder; null where it is not known.
  const TensorRef *find(Value v) const;
  /// The one element of a known value as a whole number; none for other values.
  std::optional<int64_t> count(Value v) const;
  /// Whether the one element of a known value is not 0; none where that is not known.
  std::optional<bool> truth(Value v) const;

  /// Takes in a node of the builder that stands for node n of `graph`, of which `inference` knows the shapes and types.
  void add(const GraphBuilder &builder, NodeId node, const Graph &graph, NodeId n, const Inference *inference);
  /// Takes in an int64 of shape (1,).
  void add(Value v, int64_t number);

 private:
  struct Tensor {
    DimsBuffer dims;
    std::vector<std::byte> bytes;
    TensorRef view;
  };
  Tensor &make(Value v, DType dtype, Dims dims);

  DenseMap<std::pair<uint32_t, uint32_t>, std::unique_ptr<Tensor>> values;  // by node and output
};

}  // namespace gradc
