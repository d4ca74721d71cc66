// Unrolled graphs: the passes with all that the shapes of bindings tell, and runs of the results on the reference
// backend in float64. Tested by tests/passes/unroll_test.cc
#pragma once

#include "ops/registry.h"
#include "passes/unroll/unroll.h"
#include "tests/support/runs/loops.h"
#include "passes/gradient/higher_order/higher_order.h"

#include <initializer_list>

namespace gradc::testing {

using Pass = llvm::Expected<Unrolled> (*)(Context &, const Graph &, const UnrollOptions &);

using Bindings = std::vector<Binding>;

/// Values that follow a fixed sequence in (-0.5, 0.5).
inline Bindings drawn(std::initializer_list<std::pair<llvm::StringRef, std::vector<int64_t>>> shapes) {
  Bindings bindings;
  double value = 0.1;
  for (const auto &[name, shape] : shapes) {
    bindings.push_back({name, shape, {}});
    int64_t size = 1;
    for (int64_t dim : shape) size *= dim;
    for (int64_t i = 0; i < size; ++i) bindings.back().values.push_back((value = 3.7 * value * (1 - value)) - 0.5);
  }
  return bindings;
}

/// Those that the graph has: what only steps read that are not run is gone with them.
inline std::vector<NamedArray> arraysOf(const Graph &graph, const Bindings &bindings) {
  std::vector<NamedArray> arrays;
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    for (const Binding &binding : bindings)
      if (graph.isVariable(NodeId(n)) && graph.name(NodeId(n)) == binding.name)
        arrays.push_back({binding.name.str(), doubles(binding.shape, binding.values)});
  return arrays;
}

inline Inference inferred(const Graph &graph, const Bindings &bindings) {
  InferRequest hints;
  for (const Binding &binding : bindings)
    hints.shapes.push_back({nodeNamed(graph, binding.name), DimsBuffer(binding.shape.begin(), binding.shape.end())});
  InferOptions options;
  options.allowUnknown = true;
  return llvm::cantFail(infer(testContext(), graph, hints, options));
}

inline llvm::Expected<Unrolled> apply(Pass pass, const Graph &graph, const Bindings &bindings,
                                      uint32_t maxNodes = 1 << 20) {
  const Inference known = inferred(graph, bindings);
  UnrollOptions options;
  options.known = &known;
  options.rowOps = builtinRowOps();
  options.maxNodes = maxNodes;
  return pass(testContext(), graph, options);
}

inline size_t countFlows(const Graph &graph) {
  size_t count = 0;
  for (uint32_t n = 0; n < graph.numNodes(); ++n) count += graph.kind(NodeId(n)).flow != nullptr;
  return count;
}

/// The result, which has no loop any more and passes the verifier.
inline Graph unrolled(const Graph &graph, const Bindings &bindings) {
  const Unrolled made = llvm::cantFail(apply(unrollLoops, graph, bindings));
  EXPECT_EQ(describeError(verifyGraph(made.graph, 5)), "success");
  EXPECT_EQ(made.kept, std::vector<std::string>());
  EXPECT_EQ(countFlows(made.graph), 0u);
  return made.graph;
}

inline std::vector<Doubles> run(const Graph &graph, const Bindings &bindings) {
  SessionOptions options;
  options.exec.backend = Backend::Reference;
  options.infer.floatAs = DType::Float64;
  Session session = llvm::cantFail(Session::create(testContext(), graph, arraysOf(graph, bindings), options));
  llvm::cantFail(session.run(0));
  std::vector<Doubles> heads;
  for (size_t i = 0; i < graph.heads().size(); ++i) {
    const TensorRef head = session.head(i);
    if (head.dtype == DType::Float64) heads.push_back(valuesOf<double>(head));
  }
  return heads;
}

inline Graph gradientOf(const Graph &graph, const Bindings &bindings, uint32_t order = 1) {
  GradientRequest request;
  for (const Binding &binding : bindings) request.wrt.push_back({Value{nodeNamed(graph, binding.name)}});
  GradientOptions options;
  options.headPolicy = HeadPolicy::Ones;
  return llvm::cantFail(buildGradientOfOrder(testContext(), graph, request, options, order)).graph;
}

}  // namespace gradc::testing
