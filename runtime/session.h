// Everything `run` and `gradcheck` share: inference, requests, plan, memory for variables, an executor over it.
//
// A Session owns one buffer per variable, filled from bindings or drawn (runtime/init.h), unless the caller brings memory.
// In its own buffers filters may be in the kernels' order from one run to the next; whoever looks sees them row-major.
#pragma once

#include "passes/gradient/gradient.h"
#include "runtime/executor.h"
#include "runtime/npy.h"

namespace gradc {

/// Memory of the caller's for a variable: row-major, dense, of the inferred shape and type, aligned to its elements, not
/// null. It belongs to the caller, who keeps it until the session is gone or has been given other memory.
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
  /// Without headRequests the ones of an emitted graph's side table are taken (`grad_req`), else all are Write.
  ExecOptions exec;
  bool allowInplace = true;  // of the plan
  /// Used in place of memory of the session's own. Shapes of variables take part in inference.
  std::vector<VariableMemory> variableMemory;
  std::vector<HeadMemory> headMemory;
};

class Session {
 public:
  /// `bindings` are matched by variable name: E-70 for one missing without initSeed, E-71 for shape or dtype, E-72 for
  /// one the graph does not have, head-gradient variables that were dropped apart (H-11). A floating or integer array
  /// is converted to the inferred floating type. `<variable>_grad` gives the start value of an `add` head
  /// (`<variable>#grad` when a variable has that name), zeros without. Of several variables with one name the k-th is
  /// `<name>#<k>`, the bare name is E-34; a nameless one is `#<id>`. Shapes of bound arrays take part in inference,
  /// their dtypes do not. E-31 when the schedule (`exec.schedule`) does not keep versions: `orderMutations` comes
  /// first. BadPlan when it is none of the graph's.
  static llvm::Expected<Session> create(Context &context, const Graph &graph, std::vector<NamedArray> bindings,
                                        const SessionOptions &options);
  Session(Session &&);
  ~Session();
  /// What `create` infers, without memory for anything; its errors up to there. Of the arrays, names, types and shapes count.
  static llvm::Expected<Inference> inferFor(Context &context, const Graph &graph, std::vector<NamedArray> bindings,
                                            const SessionOptions &options);

  /// Errors are those of Executor::run.
  llvm::Error run(uint64_t step);
  const Inference &inference() const;
  const MemoryPlan &plan() const;
  const RequestTable &requests() const;
  const std::vector<std::string> &warnings() const;

  /// The memory of a variable, row-major, to read and write until the next run.
  TensorRef variable(NodeId n);
  /// The same for a head; null data for one asked Null.
  TensorRef head(size_t i);
  /// A row-major copy into memory of the same shape and type. Any number of threads may read between two runs.
  void readVariable(NodeId n, const TensorRef &to) const;
  void readHead(size_t i, const TensorRef &to) const;

  /// From now on the variable or the head is in this memory (VariableMemory, HeadMemory): another batch, say. Values are not
  /// copied. E-71 when it does not fit, or when kernels keep the session's memory in an order of their own: memory that is
  /// given in SessionOptions can always be replaced.
  llvm::Error bindVariable(NodeId n, TensorRef tensor);
  llvm::Error bindHead(size_t i, TensorRef tensor);
  /// Head i from now on is written over the variable, under the conditions of Executor::bindHead.
  llvm::Error shareHead(size_t i, NodeId variable);
  /// Takes over what the variable of that id, shape and type in another session holds.
  void assignVariable(NodeId n, const Session &from);
  /// How variables and heads are laid out between runs that follow one another without a look.
  Layout variableLayout(NodeId n) const;
  Layout headLayout(size_t i) const;

  /// As Executor::setProfiling and Executor::timings.
  void setProfiling(bool on);
  llvm::ArrayRef<Executor::Timing> timings() const;
  /// Heads and, after training, aux states under the keys of `--outputs` (runtime/keys.h); E-34 on a collision.
  llvm::Expected<std::vector<NamedArray>> outputs() const;

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

}  // namespace gradc
