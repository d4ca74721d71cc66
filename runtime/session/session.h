// Everything `run` and `gradcheck` share: inference, requests, plan, memory for variables, an executor over it.
//
// A Session owns one buffer per variable, filled from bindings or drawn (runtime/session/initial_values.h), unless the
// caller brings memory. Between runs, filters in buffers of the session may stay in the layout that the kernels use;
// callers see them row-major.
//
// Bindings are matched by the names of variables. A floating or integer array is converted to the inferred floating
// type. Shapes of bound arrays take part in inference, their dtypes do not. Of several variables with one name the k-th
// is `<name>#<k>`, and a nameless one is `#<id>`. `<variable>_grad` gives the start value of an `add` head
// (`<variable>#grad` when a variable has that name), by default zeros.
#pragma once

#include "passes/gradient/gradient.h"
#include "runtime/arrays/npy.h"
#include "runtime/executor/executor.h"

namespace gradc {

/// The caller's memory for a variable: row-major, dense, of the inferred shape and type, aligned to its elements, not
/// null. It must stay alive until the session is gone or has been given other memory.
struct VariableMemory {
  NodeId variable;
  TensorRef tensor;
};
/// The same for a head; with request `add` it holds the start value.
struct HeadMemory {
  size_t head;
  TensorRef tensor;
};

struct SessionOptions {
  InferRequest hints;
  InferOptions infer;                // floatAs: `--dtype float64`
  std::optional<uint64_t> initSeed;  // fill what is not bound
  /// Without headRequests, those in the table of an emitted graph (`grad_req`) apply; without a table all are Write.
  ExecOptions exec;
  bool allowInplace = true;  // of the plan
  /// Used instead of the session's own memory. Shapes of variables take part in inference.
  std::vector<VariableMemory> variableMemory;
  std::vector<HeadMemory> headMemory;
};

class Session {
 public:
  /// E-70 for a variable without binding and without initSeed, E-71 for a binding of another shape or dtype, E-72 for
  /// one the graph does not have, except head-gradient variables that were dropped (H-11), E-34 for the bare name of
  /// several variables. BadPlan when `exec.schedule` is not a schedule of the graph, E-31 when it does not respect
  /// versions: call `orderMutations` first.
  static llvm::Expected<Session> create(Context &context, const Graph &graph, std::vector<NamedArray> bindings,
                                        const SessionOptions &options);
  Session(Session &&);
  ~Session();
  /// What `create` infers, without allocating tensors; its errors up to that point. Only names, types and shapes of the
  /// arrays matter.
  static llvm::Expected<Inference> inferFor(Context &context, const Graph &graph, std::vector<NamedArray> bindings,
                                            const SessionOptions &options);

  /// Errors are those of Executor::run.
  llvm::Error run(uint64_t step);
  const Inference &inference() const;
  const MemoryPlan &plan() const;
  const RequestTable &requests() const;
  const std::vector<std::string> &warnings() const;

  // Of what is not a variable or a head of the graph the address is null, the shape and the type unknown.

  /// The memory of a variable, row-major, to read and write until the next run.
  TensorRef variable(NodeId n);
  /// The same for a head; null data if its request is Null.
  TensorRef head(size_t i);
  /// The memory of a variable if it is row-major at this point; null data if it is in the layout of a kernel.
  TensorRef plainVariable(NodeId n) const;
  /// A row-major copy into memory of the same shape and type; E-71 for other memory, E-72 for what is not a variable or
  /// a head. Any number of threads may read between two runs.
  llvm::Error readVariable(NodeId n, const TensorRef &to) const;
  llvm::Error readHead(size_t i, const TensorRef &to) const;

  /// From now on the variable or the head is in this memory (VariableMemory, HeadMemory): another batch, for example.
  /// Values are not copied. E-71 when it does not fit, or when kernels use another layout for the session's buffer;
  /// memory that was given in SessionOptions can always be replaced.
  llvm::Error bindVariable(NodeId n, TensorRef tensor);
  llvm::Error bindHead(size_t i, TensorRef tensor);
  /// From now on head i is written over the variable, under the conditions of Executor::bindHead.
  llvm::Error shareHead(size_t i, NodeId variable);
  /// Copies the value of the variable with the same id, shape and type in another session; E-71 and E-72 as
  /// readVariable.
  llvm::Error assignVariable(NodeId n, const Session &from);
  /// The layouts of variables and heads between consecutive runs if no caller reads them there. Plain for what the
  /// graph does not have.
  Layout variableLayout(NodeId n) const;
  Layout headLayout(size_t i) const;

  /// As Executor::setProfiling and Executor::timings.
  void setProfiling(bool on);
  llvm::ArrayRef<Executor::Timing> timings() const;
  /// Heads and, after training, aux states under the keys of `--outputs` (runtime/executor/tensor_keys.h); E-34 on a
  /// collision.
  llvm::Expected<std::vector<NamedArray>> outputs() const;

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

}  // namespace gradc
