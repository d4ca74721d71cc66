// Initial values of parameters that were not given. Tested by tests/runtime/training_start_test.cc
#pragma once

#include "runtime/session/initial_values.h"

namespace gradc {

/// By the name of the input that first reads the variable, as MXNet's initialisers go by names: biases, beta and moving
/// means are 0, gamma and moving variances 1 (the slope of a LeakyReLU 0.25). Other tensors with at least two axes are
/// uniform in ±sqrt(6 / (fan_in + fan_out)), MXNet's `Xavier`. Everything else, and variables with an attribute
/// `__init__`, is left to Initializer.
class ParameterInitializer {
 public:
  /// `graph` and `inference` must outlive the object.
  ParameterInitializer(const Graph &graph, const Inference &inference, uint64_t seed);
  void fill(NodeId variable, TensorRef tensor) const;

 private:
  struct Role {
    const NodeKind *reader = nullptr;
    uint32_t input = 0;
  };

  const Graph &graph;
  Initializer fallback;
  uint64_t seed;
  NodeMap<Role> roles;         // of the first reader
  NodeMap<uint32_t> ordinals;  // of variables
};

}  // namespace gradc
