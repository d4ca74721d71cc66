// What the executor runs: one instruction per node that has something to do, in the order of the schedule, over one
// array of operand tensors.
//
// An operand names its entry; where the entry's bytes are is said once, in `address`. Binding a variable or a head changes
// addresses, and `resolve` writes them into the operands in one linear pass.
#pragma once

#include "runtime/buffer.h"
#include "runtime/executor.h"
#include "runtime/kernels/kernel_set.h"

namespace gradc {

struct Instruction {
  NodeId node;
  void (*kernel)(const KernelCall &) = nullptr;  // the reference kernel
  PreparedKernel *fast = nullptr;                // computes instead, unless null; of the list
  const NodeOverride *replaced = nullptr;        // null: computes as defined
  KernelCall call;                               // views into the list's operands and requests
  uint32_t firstStep = 0, lastStep = 0;          // head steps to take right after
  const FusedGroup *group = nullptr;             // runs this and what follows, together numMembers, unless null
  uint32_t numMembers = 1;
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
  std::vector<std::unique_ptr<PreparedKernel>> widened;  // of nodes that are left to reference kernels of float32
  std::vector<Instruction> instructions;
  std::vector<TensorRef> operands;    // per instruction its inputs, then its outputs; then one per head step
  std::vector<EntryId> operandEntry;  // parallel to operands
  std::vector<Request> requests;      // per output operand, in the order of the instructions
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

  TensorRef tensor(EntryId e) const;
  void resolve();
};

/// What a list has in its arena, and where, so that the arena can be another before a run. Bodies have theirs in it.
class ArenaPlaces {
 public:
  ArenaPlaces() = default;
  /// `arena`: where it was when the list was prepared.
  ArenaPlaces(const InstructionList &list, const MemoryPlan &plan, char *arena);
  /// Of `list` alone, which has to `resolve` afterwards. Linear in what has a place.
  void move(InstructionList &list, char *arena) const;
  size_t heapBytes() const;

 private:
  struct Place {
    uint32_t of;  // an entry, an instruction or a runner
    int64_t offset;
  };
  std::vector<Place> entries, workspaces, bodies;
};

/// E-63 where an operator's kernel does not compute in the type that it is given for an operand (ir/widening.h) of type
/// `stored`, of `who`. The first operand decides in which type a kernel computes; others may be class numbers or positions.
llvm::Error checkComputable(const NodeKind &kind, DType stored, DType given, bool isFirst, const llvm::Twine &who);

/// Of a body: its arena is part of its node's workspace, and its heads are bound before each run.
struct BodySite {
  char *arena = nullptr;
};

/// The list for a plan that has been checked. Heads own zeroed buffers. TooLarge where bodies within bodies are used so often
/// that there would be no end to instructions.
llvm::Expected<InstructionList> prepareInstructions(const Graph &graph, const Inference &inference,
                                                    const RequestTable &requests, const MemoryPlan &plan,
                                                    const ExecOptions &options, const BodySite *site = nullptr);

}  // namespace gradc
