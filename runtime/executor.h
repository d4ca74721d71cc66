// Runs a planned graph: a flat array of instructions prepared once in the order of the schedule, no lookups and
// no allocation in the loop.
//
//   Executor executor = cantFail(Executor::create(graph, inference, requests, plan, options));
//   cantFail(executor.bind(variable, tensor));   // every variable, aux states included; memory stays the caller's
//   cantFail(executor.run(step));
//   executor.head(0);
//
// A head lives in a buffer of its own, outside the arena. A head that is a variable, or an entry an earlier head already
// has, is copied there at the end (COPY-03, COPY-06). A head asked `add` is computed in full and then added once (REQ-06):
// kernels never see Add.
#pragma once

#include "ir/kernel.h"
#include "passes/memory/plan_memory.h"
#include "runtime/kernels/prepared_kernel.h"

#include <memory>

namespace gradc {

class KernelSet;

/// Auto: fast kernels (runtime/kernels/) where there are any, which agree with the reference kernels up to rounding.
enum class Backend : uint8_t { Auto, Reference };

/// Which nodes of the fast backend run as one, piece by piece while the pieces are in the cache (runtime/fusion/fusion.h). The
/// bits are those of nodes that run one by one.
struct FusionOptions {
  bool elements = true;        // nodes in a row that work element by element
  bool norms = true;           // batch norm with the sum and the relu behind it
  int64_t minElements = 8192;  // of the outputs: smaller ones are in the cache anyway
  int64_t pieceElements = 0;   // 0: as many as fit into the first cache

  static FusionOptions none() { return {false, false}; }
};

/// Replaces how a node computes; gradcheck uses it to hold values and pieces.
struct NodeOverride {
  enum class Kind : uint8_t { None, Hold, Piece };
  Kind kind = Kind::None;
  /// Hold: one per output, copied in place of the computed value; null data lets the output be computed.
  /// Piece: the base inputs, one per input.
  std::vector<TensorRef> base;
  /// Where the operator's implied loss of the node's inputs is stored at each run; null: not wanted.
  double *impliedLoss = nullptr;
};

struct ExecOptions {
  Backend backend = Backend::Auto;
  /// The reference backend runs serially whatever this says, so its results cannot depend on it (RUN-02).
  unsigned threads = 1;
  bool isTraining = false;
  uint64_t seed = 0;  // of random operators
  /// Of a Session, which makes kernels and plan; an Executor takes what its `kernels` have (KernelSet::fuse). Nothing is fused for a
  /// monitor or overrides.
  FusionOptions fusion = {};
  /// By node, instead of isTraining, the seed and the step of a run: parts of a graph run in forms of their own, and draw what
  /// they drew elsewhere. Read by `create` alone; empty: none.
  llvm::ArrayRef<CallForm> forms;
  Schedule schedule = {};                // in which nodes run; the one the plan was made for
  char *arena = nullptr;                 // memory for the plan, the caller's; null: the executor's own
  llvm::ArrayRef<Request> headRequests;  // per head, as given to countRequests; empty: all Write
  llvm::ArrayRef<void *> headMemory;     // per head: what the caller is going to bind, else null; empty: none
  /// Fast kernels whose scratch the plan has (KernelSet::planWorkspace, planReader); taken over. Null: the executor prepares them
  /// itself, with scratch of its own.
  KernelSet *kernels = nullptr;
  const std::vector<NodeOverride> *overrides = nullptr;  // by NodeId, alive as long as the executor; null: none
  /// Called after each node with its outputs (HOOK-08), on the thread that runs the graph (withThreads); null: none. An
  /// output that is not wanted has null data.
  void (*monitor)(void *user, NodeId node, llvm::ArrayRef<TensorRef> outputs) = nullptr;
  void *monitorUser = nullptr;
};

class Executor {
 public:
  /// UnknownOp (E-32) for a node without kernel, InferMissing (E-58) for a wanted entry of unknown shape, DTypeWidth
  /// (E-63) for an element type the node's kernel does not compute in. Schedule and plan are checked first (BadPlan), the versions
  /// of overwritten variables are not: checkMutationOrder.
  static llvm::Expected<Executor> create(const Graph &graph, const Inference &inference, const RequestTable &requests,
                                         const MemoryPlan &plan, const ExecOptions &options);
  Executor(Executor &&);
  ~Executor();

  /// The memory of a variable, written only where an operator mutates it; E-71 when shape or dtype differ from the
  /// inferred ones, or when the tensor is not row-major, dense and aligned to its elements. Entries that given `kernels` want in another order
  /// (KernelSetOptions::movesArguments) have to be bound as that.
  llvm::Error bind(NodeId variable, TensorRef tensor);
  /// Memory for head i of the caller's; else the executor owns it, zero at first. For Request::Add it holds the start
  /// value. Another head may use the same memory only if both are asked Add (E-18), a variable only if the head's node waits
  /// for all its other readers, as the steps of appendOptimizer do; that is not checked.
  llvm::Error bindHead(size_t i, TensorRef tensor);
  /// What KernelCall::state of the node is from now on.
  void bindState(NodeId node, void *object);
  /// One pass over the graph as the given training step; E-70 names variables not bound. TooLarge names the node that
  /// there was no memory or no thread for, Internal the one whose kernel failed, and what a kernel left in KernelCall::failure
  /// comes back; heads are then partly written.
  llvm::Error run(uint64_t step);
  /// Null data for a head asked Null.
  TensorRef head(size_t i) const;
  /// Bytes of arena and of every other buffer the executor owns.
  size_t arenaBytes() const;

  struct Timing {
    NodeId node;                         // of nodes that run as one, the first
    double startMicros, durationMicros;  // start counts from the beginning of the run
    bool isFast;
    Reorders reorders;
    llvm::ArrayRef<NodeId> fused = {};  // the nodes that ran as one; empty: `node` alone
  };
  void setProfiling(bool on);
  /// Of the last run, in order of execution; empty without profiling.
  llvm::ArrayRef<Timing> timings() const;

 private:
  struct State;
  explicit Executor(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

}  // namespace gradc
