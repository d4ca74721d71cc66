// Everything `run` and `gradcheck` share: inference, requests, plan, memory for variables, an executor over it.
//
// A Session owns one buffer per variable, filled from bindings or by `--init` (runtime/init.h). Filters may be in
// the kernels' order from one run to the next; whoever looks sees them row-major.
#pragma once

#include "passes/gradient/gradient.h"
#include "runtime/executor.h"
#include "runtime/npy.h"

namespace gradc {

struct SessionOptions {
  InferRequest hints;
  InferOptions infer;                 // floatAs: `--dtype float64`
  std::optional<uint64_t> initSeed;   // fill what is not bound
  /// Without headRequests the ones of an emitted graph's side table are taken (`grad_req`), else all are Write.
  ExecOptions exec;
  bool allowInplace = true;           // of the plan
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

  llvm::Error run(uint64_t step);
  const Inference &inference() const;
  const MemoryPlan &plan() const;
  const RequestTable &requests() const;
  const std::vector<std::string> &warnings() const;
  /// What is bound there in place of the session's memory has to be laid out as `variableLayout` and `headLayout` say.
  Executor &executor();
  /// The session's own memory of a variable, to read and write until the next run.
  TensorRef variable(NodeId n) const;
  /// Null data for a head asked Null. Valid until the next run.
  TensorRef head(size_t i) const;
  /// Head i from now on is written over the variable, under the conditions of Executor::bindHead.
  llvm::Error shareHead(size_t i, NodeId variable);
  /// Takes over what the variable of that id, shape and type in another session holds.
  void assignVariable(NodeId n, const Session &from);
  /// How variables and heads are laid out between runs that follow one another without a look.
  Layout variableLayout(NodeId n) const;
  Layout headLayout(size_t i) const;
  /// Heads and, after training, aux states under the keys of `--outputs` (runtime/keys.h); E-34 on a collision.
  llvm::Expected<std::vector<NamedArray>> outputs() const;

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

}  // namespace gradc
