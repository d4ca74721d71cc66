// Values that are known before anything runs: small tensors that depend on no variable, computed by the reference
// kernels while a graph is rebuilt. They determine the choice of a branch and the number of steps of a loop.
// Tested by tests/passes/unroll_test.cc
#pragma once

#include "ir/base/dense_map.h"
#include "ir/graph/graph_builder.h"
#include "ir/tensor/tensor.h"
#include "passes/inference/infer.h"

#include <memory>

namespace gradc {

class KnownValues {
 public:
  /// The value of an entry of the builder; null if it is not known.
  const TensorRef *find(Value v) const;
  /// The single element of a known int64 value; nullopt for other values.
  std::optional<int64_t> count(Value v) const;
  /// Whether the single element of a known value is not 0; nullopt if that is not known.
  std::optional<bool> truth(Value v) const;

  /// Computes a node of the builder if its inputs are known. It is the copy of node n of `graph`, whose shapes and
  /// types are in `inference`.
  void add(const GraphBuilder &builder, NodeId node, const Graph &graph, NodeId n, const Inference *inference);
  /// Adds an int64 of shape (1,).
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
