// What the executor runs: one instruction per node that has something to do, in the order of the schedule, over one
// array of operand tensors.
//
// An operand names its entry; where the entry's bytes are is said once, in `address`. Binding a variable or a head changes
// addresses, and `resolve` writes them into the operands in one linear pass.
#pragma once

#include "runtime/buffer.h"
#include "runtime/executor.h"
#include "runtime/kernels/kernel_set.h"

#include "llvm/ADT/BitVector.h"

namespace gradc {

/// Small, as a tape keeps many: what kernels are given is put together for each call (InstructionList::call).
struct Instruction {
  static constexpr uint32_t kNone = 0xffffffff;

  const NodeKind *kind = nullptr;
  PreparedKernel *fast = nullptr;  // computes instead of the reference kernel, unless null; of the list
  void *workspace = nullptr;
  NodeId node;
  uint32_t firstOperand = 0;  // its inputs, then its outputs
  uint32_t numInputs : 31 = 0;
  uint32_t isTraining : 1 = 0;
  uint32_t firstStep = 0, lastStep = 0;  // head steps to take right after
  uint32_t extras = kNone;               // position among the list's

  void run(const KernelCall &call) const {
    if (fast) fast->run(call);
    else kind->op->kernel(call);
  }
};
static_assert(sizeof(Instruction) <= 48);

/// What few instructions have.
struct InstructionExtras {
  RandomKey random;
  void *state = nullptr;                   // KernelCall::state
  const NodeOverride *replaced = nullptr;  // null: computes as defined
  const FusedGroup *group = nullptr;       // runs this and what follows, together numMembers, unless null
  uint32_t numMembers = 1;
  uint32_t firstRunner = 0, numRunners = 0;  // of a node with a flow
};

/// Brings operand `from` into head `head`, by copy or by addition.
struct HeadStep {
  uint32_t head;
  uint32_t from;
  bool isAdd;
};

/// A body of a node, whose arena may move between runs.
class MovableRunner : public BodyRunner {
 public:
  virtual void moveArena(char *arena) = 0;
  /// Of its instructions and operands.
  virtual size_t heapBytes() const = 0;
};

struct InstructionList {
  static constexpr uint32_t kNoHead = 0xffffffff;

  Graph graph;
  KernelSet kernels;
  std::vector<std::unique_ptr<PreparedKernel>>
      wrapped;  // around reference kernels: of 16 bits, of loops that clear stacks
  std::vector<Instruction> instructions;
  std::vector<InstructionExtras> extras;
  std::vector<TensorRef> operands;    // per instruction its inputs, then its outputs; then one per head step
  std::vector<EntryId> operandEntry;  // parallel to operands
  std::vector<Request> requests;      // parallel to the operands of instructions; null for inputs
  std::vector<HeadStep> steps;        // those after instructions in their order, then those at the end
  uint32_t firstFinalStep = 0;

  EntryMap<char *> address;  // null: no bytes, or a variable that is not bound
  Inference inference;
  std::vector<TensorRef> heads;         // null data for a head asked Null
  std::vector<EntryId> headEntry;       // the entry computed in the head's own buffer; invalid: a step brings it there
  std::vector<NodeId> neededVariables;  // read by an instruction or a step

  std::vector<std::unique_ptr<MovableRunner>> runners;  // of nodes with a flow, in the order of the instructions
  std::vector<BodyRunner *> runnerList;                 // the same, as kernels are given them

  std::vector<Buffer> buffers;
  size_t ownedBytes = 0;
  std::vector<KindRef> kinds;      // of the instructions, where the graph is not there to keep them
  RandomKey random;                // of instructions without extras
  llvm::Error *failure = nullptr;  // KernelCall::failure

  TensorRef tensor(EntryId e) const;
  void resolve();

  /// What the kernel of an instruction is given, with views into the list.
  KernelCall call(const Instruction &instruction) const {
    KernelCall call = anyCall();
    fill(instruction, call);
    if (instruction.extras != Instruction::kNone) addExtras(extras[instruction.extras], call);
    return call;
  }
  /// The same in two steps, for loops over many small instructions: what the calls of those without extras have in common, and
  /// the rest.
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
  /// Null where it has none.
  const InstructionExtras *extrasOf(const Instruction &instruction) const {
    return instruction.extras == Instruction::kNone ? nullptr : &extras[instruction.extras];
  }
  /// Makes them if it has none.
  InstructionExtras &needExtras(Instruction &instruction);
  /// For all instructions.
  void setRandom(uint64_t seed, uint64_t step);
  /// Forgets the graph and its inference, which a run does not read. Shapes are those of `shapes` from here on, which outlives
  /// the list; `tensor` has none any more.
  void trim(ShapeTable &shapes);
  bool isTrimmed() const { return !inference.shapes; }

 private:
  void addExtras(const InstructionExtras &extras, KernelCall &call) const;
};

/// What a list has in its arena, and where, so that the arena can be another before a run. Bodies have theirs in it.
class ArenaPlaces {
 public:
  ArenaPlaces() = default;
  /// `arena`: where it was when the list was prepared.
  ArenaPlaces(const InstructionList &list, const MemoryPlan &plan, char *arena);
  /// Of `list` alone, which has to `resolve` afterwards. Linear in what has a place.
  void move(InstructionList &list, char *arena);
  size_t heapBytes() const;

 private:
  struct Place {
    uint32_t of;  // an instruction or a runner
    int64_t offset;
  };
  llvm::BitVector entries;  // that are in the arena
  std::vector<Place> workspaces, bodies;
  char *at = nullptr;  // where the arena is
};

/// RandomKey::ordinal of the nodes of a graph.
class RandomOrdinals {
 public:
  explicit RandomOrdinals(const Graph &graph);
  uint64_t of(NodeId n) const;
  static bool draws(const NodeKind &kind) { return kind.draws || kind.drawsInside; }

 private:
  const Graph &graph;
  std::vector<NodeId> nodes;  // random forward nodes, in id order
};

/// E-63 where an operator's kernel does not compute in the type that it is given for an operand (ir/widening.h) of type
/// `stored`, of `who`. The first operand decides in which type a kernel computes; others may be class numbers or positions.
llvm::Error checkComputable(const NodeKind &kind, DType stored, DType given, bool isFirst, const llvm::Twine &who);

/// Of a body: its arena is part of its node's workspace, and its heads are bound before each run.
struct BodySite {
  char *arena = nullptr;
  llvm::BitVector shortHeads;  // by head (runtime/short_rows.h)
};

/// The list for a plan that has been checked. Heads own zeroed buffers. TooLarge where bodies within bodies are used so often
/// that there would be no end to instructions.
llvm::Expected<InstructionList> prepareInstructions(const Graph &graph, const Inference &inference,
                                                    const RequestTable &requests, const MemoryPlan &plan,
                                                    const ExecOptions &options, const BodySite *site = nullptr);

}  // namespace gradc
