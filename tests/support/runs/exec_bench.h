// From a graph to an executor in one step. Tested by tests/runtime/executor_test.cc
#pragma once

#include "runtime/executor/executor.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include <memory>
#include <optional>

namespace gradc::testing {

/// Variables are bound to arrays it owns.
class Bench {
 public:
  explicit Bench(const Graph &graph) : graph(graph) {}

  llvm::Error prepare() {
    llvm::Expected<Inference> inferred = infer(testContext(), graph, hints, inferOptions);
    if (!inferred) return inferred.takeError();
    inference = std::move(*inferred);
    requests = countRequests(graph, options.headRequests);
    PlanOptions planOptions;
    planOptions.allowInplace = allowInplace;
    llvm::Expected<MemoryPlan> planned = planMemory(testContext(), graph, inference, requests, planOptions);
    if (!planned) return planned.takeError();
    plan = std::move(*planned);
    return create();
  }
  llvm::Error create() {
    llvm::Expected<Executor> created = Executor::create(graph, inference, requests, plan, options);
    if (!created) return created.takeError();
    executor.emplace(std::move(*created));
    return llvm::Error::success();
  }
  void bind(llvm::StringRef name, gradc::Array array) {
    arrays.push_back(std::make_unique<gradc::Array>(std::move(array)));
    llvm::cantFail(executor->bind(nodeNamed(graph, name), arrays.back()->ref()));
  }
  std::vector<double> run(size_t head) {
    llvm::cantFail(executor->run(0));
    return valuesOf<double>(executor->head(head));
  }

  const Graph &graph;
  InferRequest hints;
  InferOptions inferOptions{.floatAs = DType::Float64};
  ExecOptions options;
  bool allowInplace = true;
  Inference inference;
  RequestTable requests;
  MemoryPlan plan;
  std::optional<Executor> executor;
  std::vector<std::unique_ptr<gradc::Array>> arrays;
};

}  // namespace gradc::testing
