// What every operator has to keep, checked on one sample at a time by tests/conformance_test.cc.
//
// Each check returns lines that say what is wrong; none means that the property holds.
#pragma once

#include "tests/conformance_samples/samples.h"
#include "tests/support/derivative.h"

namespace gradc::testing {

using Problems = std::vector<std::string>;

/// A sample as a graph of one node, with values for its inputs.
struct SampleGraph {
  SampleGraph(Context &context, const Sample &sample);

  Graph graph;
  NodeId node;
  Bindings bindings;
  std::vector<std::string> variables;  // inputs a gradient is asked for: not class numbers, stop inputs, aux states
  NaiveOptions options;
};

/// Outputs are fully known from inputs; with any of the known shapes blurred, inference still says nothing wrong.
Problems checkInference(const SampleGraph &sample);
/// Gradients of the sample, and of its gradient graphs, against central differences.
Problems checkGradients(Context &context, const SampleGraph &sample, uint32_t orders);
/// Every node of `graph` that has a decomposition computes what the decomposition computes.
Problems checkDecompositions(Context &context, const Graph &graph, const Bindings &bindings, const NaiveOptions &options);
/// Kernels leave unrequested outputs alone, and the others do not depend on what is requested.
Problems checkRequests(const Graph &graph, const Bindings &bindings, const NaiveOptions &options);
/// Kernels compute the same when an output takes over the input of a declared in-place pair.
Problems checkInplace(const Graph &graph, const Bindings &bindings, const NaiveOptions &options);
/// At the base point a `piece` kernel computes what the kernel computes.
Problems checkPieces(const Graph &graph, const Bindings &bindings, const NaiveOptions &options);
/// Where MXNet's operators can say `graph`, they say the same values, and their decompositions too.
Problems checkLowering(Context &context, const Graph &graph, const Bindings &bindings, const NaiveOptions &options);
/// Kernels in float32 agree with those in float64.
Problems checkPrecision(const Graph &graph, const Bindings &bindings, const NaiveOptions &options);

}  // namespace gradc::testing
