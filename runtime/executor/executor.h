// Runs a planned graph: a flat array of instructions prepared once in the order of the schedule, no lookups and
// no allocation in the loop.
//
//   Executor executor = cantFail(Executor::create(graph, inference, requests, plan, options));
//   cantFail(executor.bind(variable, tensor));   // every variable, aux states included; memory stays the caller's
//   cantFail(executor.run(step));
//   executor.head(0);
//
// A head has a separate buffer, outside the arena. A head that is a variable, or the entry of an earlier head, is
// copied there (COPY-03, COPY-06). A head with the request `add` is computed in full and then added once (REQ-06):
// kernels never see Add.
#pragma once

#include "ir/rules/kernel.h"
#include "passes/memory/plan_memory.h"
#include "runtime/kernels/core/prepared_kernel.h"

#include <memory>
#include <optional>

namespace gradc {

class KernelSet;

/// Auto: fast kernels (runtime/kernels/) where they exist; they agree with the reference kernels up to rounding.
enum class Backend : uint8_t { Auto, Reference };

/// Which nodes of the fast backend run as one, piece by piece while a piece is in the cache
/// (runtime/fusion/form_groups.h).
/// The results have the same bits as those of nodes that run one by one.
struct FusionOptions {
  bool elements = true;        // consecutive element-wise nodes
  bool norms = true;           // batch norm with the sum and the relu that follow it
  int64_t minElements = 8192;  // of the outputs: smaller ones are in the cache anyway
  int64_t pieceElements = 0;   // 0: as many as fit into the L1 cache

  static FusionOptions none() { return {false, false}; }
};

/// Runs a kernel on the operands of a call.
using RunKernel = llvm::function_ref<void(const KernelCall &)>;

/// Replaces how a node computes; gradcheck uses it to hold values constant and to stay on a piece.
struct NodeOverride {
  enum class Kind : uint8_t { None, Hold, Piece };
  Kind kind = Kind::None;
  /// Hold: one per output, copied in place of the computed value; null data lets the output be computed.
  /// Piece: the base inputs, one per input.
  std::vector<TensorRef> base;
  /// Where each run stores the operator's implied loss of the node's inputs; null: nowhere.
  double *impliedLoss = nullptr;
  /// Read in place of the node's inputs, whatever the kind: one per input, with null data for those that are not
  /// replaced. Empty: all.
  std::vector<TensorRef> inputs = {};
};
/// `kernel` computes what the override leaves to the node's kernel.
void runReplaced(const NodeOverride &replaced, const KernelCall &call, RunKernel kernel);

/// Runs the nodes in the bodies of loops, branches and calls, and sees what decides how often and which of them run.
class BodyHooks {
 public:
  virtual ~BodyHooks() = default;
  /// Called in the order of execution, with the kernel that the node would run.
  virtual void run(const Graph &body, NodeId n, const KernelCall &call, RunKernel kernel) = 0;
  /// Called after a body that decides, with its head, which it may overwrite.
  virtual void decide(const TensorRef &decision) = 0;
};

struct Overrides {
  std::vector<NodeOverride> nodes;  // by NodeId; empty: none
  BodyHooks *bodies = nullptr;      // null: none
};

struct ExecOptions {
  Backend backend = Backend::Auto;
  /// Ignored by the reference backend, which runs serially, so that its results cannot depend on it (RUN-02).
  unsigned threads = 1;
  bool isTraining = false;
  uint64_t seed = 0;  // of random operators
  /// The most steps that a loop may run, in bodies too; one more is the error LengthMismatch. None: only the bound of
  /// the loop.
  std::optional<uint64_t> maxSteps = std::nullopt;
  /// Read by a Session, which makes kernels and plan; an Executor takes the groups of its `kernels` (KernelSet::fuse).
  /// A monitor or overrides disable fusion.
  FusionOptions fusion = {};
  /// By node; replaces isTraining, the seed and the step of a run, so that parts of a graph run in different modes and
  /// draw the numbers they drew elsewhere. Read only by `create`; empty: none.
  llvm::ArrayRef<CallForm> forms;
  Schedule schedule = {};                // order in which nodes run; the one the plan was made for
  char *arena = nullptr;                 // the caller's memory for the plan; null: the executor allocates it
  llvm::ArrayRef<Request> headRequests;  // per head, as given to countRequests; empty: all Write
  llvm::ArrayRef<void *> headMemory;     // per head: memory the caller is going to bind, else null; empty: none
  /// Fast kernels whose workspaces are in the plan (KernelSet::planWorkspace, planReader); the executor takes them
  /// over. Null: it prepares kernels itself, with separate scratch.
  KernelSet *kernels = nullptr;
  const Overrides *overrides = nullptr;  // must outlive the executor; null: none
  /// Called after each node with its outputs (HOOK-08), on the thread that runs the graph (withThreads); null: none. An
  /// output that is not requested has null data.
  void (*monitor)(void *user, NodeId node, llvm::ArrayRef<TensorRef> outputs) = nullptr;
  void *monitorUser = nullptr;
};

class Executor {
 public:
  /// UnknownOp (E-32) for a node without kernel, InferMissing (E-58) for a requested entry of unknown shape, DTypeWidth
  /// (E-63) for an element type the node's kernel does not compute in, BindingMismatch for columns of the options of
  /// another length than the graph's. Schedule and plan are checked first (BadPlan); the versions of overwritten
  /// variables are not (checkMutationOrder does that).
  static llvm::Expected<Executor> create(const Graph &graph, const Inference &inference, const RequestTable &requests,
                                         const MemoryPlan &plan, const ExecOptions &options);
  Executor(Executor &&);
  ~Executor();

  /// Binds the memory of a variable, which is written only if an operator mutates it. E-71 when shape or dtype differ
  /// from the inferred ones, or when the tensor is not row-major, dense and aligned to its elements. If the given
  /// `kernels` chose another layout for the entry (KernelSetOptions::movesArguments), the tensor must have that layout.
  llvm::Error bind(NodeId variable, TensorRef tensor);
  /// Binds the caller's memory for head i; without it the executor owns the memory, initially zero. For Request::Add it
  /// holds the start value. Another head may use the same memory only if both have the request Add (E-18). A variable
  /// may use it only if the head's node waits for all other readers of the variable, as the steps of appendOptimizer
  /// do, which is not checked.
  llvm::Error bindHead(size_t i, TensorRef tensor);
  /// Sets KernelCall::state of the node for all later runs. BindingSurplus for a node that the graph does not have.
  llvm::Error bindState(NodeId node, void *object);
  /// One pass over the graph as the given training step. E-70 names variables that are not bound, TooLarge the node for
  /// which there was no memory or no thread, Internal the node whose kernel failed; an error that a kernel left in
  /// KernelCall::failure is returned. When a node fails, heads are partly written.
  llvm::Error run(uint64_t step);
  /// Null data for a head whose request is Null, and for one that the graph does not have.
  TensorRef head(size_t i) const;
  /// Bytes of arena and of every other buffer the executor owns.
  size_t arenaBytes() const;

  struct Timing {
    NodeId node;                         // the first of a group of nodes that run as one
    double startMicros, durationMicros;  // start counts from the beginning of the run
    uint32_t numFast;                    // nodes that ran on a fast kernel
    Reorders reorders;
    llvm::ArrayRef<NodeId> fused = {};  // the nodes that ran as one; empty: only `node`
    /// The timing of the node in whose body it ran, by position in `timings`, whose duration includes this one; kNone:
    /// it is a node of the graph.
    static constexpr uint32_t kNone = 0xffffffff;
    uint32_t owner = kNone;
    uint32_t body = 0;  // of the owner
    int64_t step = 0;   // of a loop: the row; a condition runs once more than there are steps

    llvm::ArrayRef<NodeId> nodes() const { return fused.empty() ? llvm::ArrayRef(node) : fused; }
    /// Whether all of it ran on fast kernels.
    bool isFast() const { return numFast == nodes().size(); }
  };
  void setProfiling(bool on);
  /// Of the last run, in order of start: nodes of a body come after their owner. Empty without profiling.
  llvm::ArrayRef<Timing> timings() const;

 private:
  struct State;
  explicit Executor(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

}  // namespace gradc
