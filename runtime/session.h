// Everything `run` and `gradcheck` share: inference, requests, plan, memory for variables, an executor over it.
//
// A Session owns one buffer per variable, filled from bindings or by `--init` (settled: "--init SEED").
#pragma once

#include "passes/gradient.h"
#include "runtime/executor.h"
#include "runtime/npy.h"

namespace gradc {

struct SessionOptions {
  InferRequest hints;
  InferOptions infer;                 // floatAs: `--dtype float64`
  std::optional<uint64_t> initSeed;   // fill what is not bound
  ExecOptions exec;
};

class Session {
 public:
  /// `bindings` are matched by variable name: E-70 for one missing without initSeed, E-71 for shape or dtype (a floating
  /// array is converted to the inferred floating type), E-72 for one the graph does not have, head-gradient variables
  /// that were dropped apart (H-11). `<variable>_grad` gives the start value of an `add` head.
  static llvm::Expected<Session> create(Context &context, const Graph &graph, std::vector<NamedArray> bindings,
                                        const SessionOptions &options);
  Session(Session &&);
  ~Session();

  llvm::Error run(uint64_t step);
  const Inference &inference() const;
  const MemoryPlan &plan() const;
  const RequestTable &requests() const;
  const std::vector<std::string> &warnings() const;
  Executor &executor();
  TensorRef variable(NodeId n);
  TensorRef head(size_t i) const;
  /// Heads and, after training, aux states under the keys of `--outputs` (settled: "NPZ keys"); E-34 on a collision.
  llvm::Expected<std::vector<NamedArray>> outputs() const;

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

/// Fills `tensor` for an unbound variable: its `__init__` attribute, the domain its reader declares, or uniform scaled by
/// fan-in; a pure function of (seed, ordinal of the variable among all variables in id order).
void initVariable(const Graph &graph, const Inference &inference, NodeId variable, uint64_t seed, TensorRef tensor);

}  // namespace gradc
