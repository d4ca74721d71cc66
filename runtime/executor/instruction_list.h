// What the executor runs: one instruction per node that has something to do, in the order of the schedule, over one
// array of operand tensors.
//
// An operand names its entry; only `address` says where the bytes of an entry are. Binding a variable or a head changes
// addresses, and `resolve` writes them into the operands in one linear pass. Tested by tests/runtime/executor_test.cc
// and, for arenas that move, tests/imperative/imperative_loops_test.cc
#pragma once

#include "runtime/executor/buffer.h"
#include "runtime/executor/executor.h"
#include "runtime/kernels/kernel_set.h"

#include "llvm/ADT/BitVector.h"

namespace gradc {

class TimingLog;

/// Small, because a tape keeps many: the KernelCall is assembled for each run (InstructionList::call).
struct Instruction {
  static constexpr uint32_t kNone = 0xffffffff;

  const NodeKind *kind = nullptr;
  PreparedKernel *fast = nullptr;  // owned by the list; null: the reference kernel computes
  void *workspace = nullptr;
  NodeId node;
  uint32_t firstOperand = 0;  // its inputs, then its outputs
  uint32_t numInputs : 31 = 0;
  uint32_t isTraining : 1 = 0;
  uint32_t firstStep = 0, lastStep = 0;  // head steps to take right afterwards
  uint32_t extras = kNone;               // index into the list's extras

  void run(const KernelCall &call) const {
    if (fast) fast->run(call);
    else kind->op->kernel(call);
  }
};
static_assert(sizeof(Instruction) <= 48);

/// Fields that only few instructions need.
struct InstructionExtras {
  RandomKey random;
  void *state = nullptr;                   // KernelCall::state
  const NodeOverride *replaced = nullptr;  // null: computes as defined
  const FusedGroup *group = nullptr;       // if not null, runs this and the following, numMembers in all
  uint32_t numMembers = 1;
  uint32_t firstRunner = 0, numRunners = 0;  // of a node with a flow
};

/// Copies operand `from` into head `head`, or adds it.
struct HeadStep {
  uint32_t head;
  uint32_t from;
  bool isAdd;
};

/// Runs a body of a node; its arena may move between runs.
class MovableRunner : public BodyRunner {
 public:
  virtual void moveArena(char *arena) = 0;
  /// Instructions, operands and buffers, those of nested bodies included.
  virtual size_t heapBytes() const = 0;
  /// The node of the body is about to run: its steps count from here (ExecOptions::maxSteps).
  virtual void startNode() = 0;
  /// Where kernels of the body leave errors (KernelCall::failure): the slot of the enclosing list.
  virtual void setFailure(llvm::Error *slot) = 0;
  /// From now on, records when the nodes of the body run, and counts its runs from 0. `owner`: the number in the log of
  /// the node that is about to run. Null: no longer.
  virtual void recordTimes(TimingLog *log, uint32_t owner) = 0;
};

struct InstructionList {
  Graph graph;
  KernelSet kernels;
  std::vector<std::unique_ptr<PreparedKernel>>
      wrapped;  // around reference kernels: for 16-bit operands, for loops that clear stacks
  std::vector<Instruction> instructions;
  std::vector<InstructionExtras> extras;
  std::vector<TensorRef> operands;    // per instruction its inputs, then its outputs; then one per head step
  std::vector<EntryId> operandEntry;  // parallel to operands
  std::vector<Request> requests;      // parallel to the operands of instructions; null for inputs
  std::vector<HeadStep> steps;        // those after instructions in their order, then those at the end
  uint32_t firstFinalStep = 0;

  EntryMap<char *> address;  // null: no bytes, or a variable that is not bound
  Inference inference;
  std::vector<TensorRef> heads;         // null data: the request is Null
  std::vector<EntryId> headEntry;       // the entry computed in the head's own buffer; invalid: a step fills the head
  std::vector<NodeId> neededVariables;  // read by an instruction or a step

  std::vector<std::unique_ptr<MovableRunner>> runners;  // of nodes with a flow, in the order of the instructions
  std::vector<BodyRunner *> runnerList;                 // the same, for KernelCall::bodies

  std::vector<Buffer> buffers;
  size_t ownedBytes = 0;
  std::vector<KindRef> kinds;      // those of the instructions, alive after `trim`
  RandomKey random;                // of instructions without extras
  llvm::Error *failure = nullptr;  // KernelCall::failure; `setFailure` sets it

  TensorRef tensor(EntryId e) const;
  void resolve();

  /// The call of an instruction's kernel; its arrays are views into the list.
  KernelCall call(const Instruction &instruction) const {
    KernelCall call = anyCall();
    fill(instruction, call);
    if (instruction.extras != Instruction::kNone) addExtras(extras[instruction.extras], call);
    return call;
  }
  /// The same in two steps, for loops over many small instructions: `anyCall` has what calls without extras share,
  /// `fill` adds the rest.
  KernelCall anyCall() const {
    KernelCall call;
    call.random = random;
    call.failure = failure;
    return call;
  }
  void fill(const Instruction &instruction, KernelCall &call) const {
    const uint32_t firstOutput = instruction.firstOperand + instruction.numInputs;
    const uint32_t numOutputs = instruction.kind->numOutputs;
    call.kind = instruction.kind;
    call.in = {operands.data() + instruction.firstOperand, instruction.numInputs};
    call.out = {operands.data() + firstOutput, numOutputs};
    call.requests = {requests.data() + firstOutput, numOutputs};
    call.isTraining = instruction.isTraining;
    call.workspace = instruction.workspace;
  }
  /// Null for an instruction without extras.
  const InstructionExtras *extrasOf(const Instruction &instruction) const {
    return instruction.extras == Instruction::kNone ? nullptr : &extras[instruction.extras];
  }
  /// Adds extras to an instruction without any.
  InstructionExtras &needExtras(Instruction &instruction);
  /// Begins the groups that the kernels form. Members of a group are consecutive instructions: no node that runs is
  /// scheduled between them.
  void group();
  /// Frees excess capacity. Afterwards views into the columns stay valid even when the list is moved.
  void shrinkToFit();
  /// For all instructions, those of bodies included.
  void setFailure(llvm::Error *slot);
  /// For all instructions.
  void setRandom(uint64_t seed, uint64_t step);
  /// Drops the graph and its inference, which a run does not read. From then on shapes are those of `shapes`, which
  /// must outlive the list, and `tensor` must not be called.
  void trim(ShapeTable &shapes);
  bool isTrimmed() const { return !inference.shapes; }

 private:
  void addExtras(const InstructionExtras &extras, KernelCall &call) const;
};

/// Records what of a list is in the arena and where, so that the arena can be exchanged between runs. The arenas of
/// bodies are inside it.
class ArenaPlaces {
 public:
  ArenaPlaces() = default;
  /// `arena`: the address with which the list was prepared.
  ArenaPlaces(const InstructionList &list, const MemoryPlan &plan, char *arena);
  /// The caller has to `resolve` the list afterwards; its bodies are resolved here. Linear in what is in the arena.
  void move(InstructionList &list, char *arena);
  size_t heapBytes() const;

 private:
  struct Place {
    uint32_t of;  // index of an instruction or a runner
    int64_t offset;
  };
  llvm::BitVector entries;  // those in the arena
  std::vector<Place> workspaces, bodies;
  char *at = nullptr;  // where the arena is
};

/// RandomKey::ordinal of the nodes of a graph.
class RandomOrdinals {
 public:
  explicit RandomOrdinals(const Graph &graph);
  uint64_t of(NodeId n) const;
  static bool draws(const NodeKind &kind) { return kind.draws || kind.drawsInBodies; }

 private:
  const Graph &graph;
  std::vector<NodeId> nodes;  // random forward nodes, in id order
};

/// E-63 if the kernel of `who` does not compute in `given`, the type in which it receives an operand of type `stored`
/// (ir/rules/widening.h). Only the first operand decides in which type a kernel computes: others may be class numbers
/// or positions.
llvm::Error checkComputable(const NodeKind &kind, DType stored, DType given, bool isFirst, const llvm::Twine &who);

}  // namespace gradc
