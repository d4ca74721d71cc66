// Runs a planned graph: a flat array of instructions prepared once, no lookups and no allocation in the loop.
//
//   Executor executor = cantFail(Executor::create(graph, inference, requests, plan, options));
//   cantFail(executor.bind(variable, tensor));   // every variable, aux states included; memory stays the caller's
//   cantFail(executor.run());
//   executor.head(0);
#pragma once

#include "ir/kernel.h"
#include "passes/plan_memory.h"

#include <memory>

namespace gradc {

enum class Backend : uint8_t { Auto, Reference };

/// Replaces how a node computes; gradcheck uses it to hold values and pieces.
struct NodeOverride {
  enum class Kind : uint8_t { None, Hold, Piece };
  Kind kind = Kind::None;
  /// Hold: values per output, copied instead of computing. Piece: the base inputs.
  std::vector<TensorRef> base;
};

struct ExecOptions {
  Backend backend = Backend::Auto;
  unsigned threads = 1;
  bool isTraining = false;
  uint64_t seed = 0;                               // of random operators
  llvm::ArrayRef<Request> headRequests;            // per head; Add accumulates into what bindHead gave
  const std::vector<NodeOverride> *overrides = nullptr;  // by NodeId; null: none
  /// Called after each node with its outputs (HOOK-08); null: none.
  void (*monitor)(void *user, NodeId node, llvm::ArrayRef<TensorRef> outputs) = nullptr;
  void *monitorUser = nullptr;
};

class Executor {
 public:
  /// UnknownOp (E-32) for a node without kernel, Unplanned shapes are E-58. The plan is replay-checked first.
  static llvm::Expected<Executor> create(const Graph &graph, const Inference &inference, const RequestTable &requests,
                                         const MemoryPlan &plan, const ExecOptions &options);
  Executor(Executor &&);
  ~Executor();

  /// The memory of a variable; E-71 when shape or dtype differ from the inferred ones.
  llvm::Error bind(NodeId variable, TensorRef tensor);
  /// Memory for head i of the caller's; else the executor owns it. For Request::Add it holds the start value.
  llvm::Error bindHead(size_t i, TensorRef tensor);
  /// One pass over the graph as the given training step; E-70 names variables not bound.
  llvm::Error run(uint64_t step);
  TensorRef head(size_t i) const;
  /// Bytes of arena and of head buffers the executor owns.
  size_t arenaBytes() const;

  struct Timing {
    NodeId node;
    double startMicros, durationMicros;
  };
  void setProfiling(bool on);
  llvm::ArrayRef<Timing> timings() const;

 private:
  struct State;
  explicit Executor(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

}  // namespace gradc
