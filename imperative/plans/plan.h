// A compiled backward: the gradient graph of what a tape recorded, its memory plan and instructions, and the places of
// its operands on a tape of that structure. Tested by tests/imperative/memory/imperative_cache_test.cc
#pragma once

#include "imperative/plans/policies.h"
#include "imperative/tape/collect.h"
#include "passes/order/split_gradient.h"
#include "runtime/executor/failures.h"
#include "runtime/executor/instruction_list.h"

#include "llvm/ADT/BitVector.h"

namespace gradc {

/// What is requested of a tape. Values are words of `Collected`.
struct BackwardRequest {
  struct Head {
    uint32_t y;
    bool isGiven;  // else the policy decides
  };
  llvm::SmallVector<Head, 2> heads;
  std::vector<uint32_t> wrt, retained, noGrad, taps;
  UnusedPolicy unused = UnusedPolicy::None;
  HeadPolicy headPolicy = HeadPolicy::Ones;
  DuplicatePolicy duplicates = DuplicatePolicy::Allow;
  TapePolicies policies;
  std::vector<OperandType> types;  // of the wrt, then of the retained; follows from the words

  void encode(std::vector<uint32_t> &words) const;
  /// Resets everything except the capacity of the lists.
  void clear();
};

struct PlanBucket;

/// The parts of a compiled backward that only a replay call by call reads. Values are entries of `combined`.
struct PlanSource {
  Graph combined;  // the recorded graph and its gradients
  SplitGradient split;
  Inference inference;  // of split.backward
  uint32_t numForwardHeads = 0, numForwardNodes = 0;
  std::vector<uint32_t> callOf;   // by node of `combined`: position of the call it is, or is generated for; or kNone
  std::vector<uint32_t> leafOf;   // by node of `combined`: position among the leaves, or kNone
  std::vector<Value> savedValue;  // parallel to Plan::saved
  std::vector<Value> headValue;   // per head of the request
  std::vector<NodeId> tapNodes;   // per tap of the request; invalid: none

  /// The calls, listed at the first replay.
  struct ForwardValue {
    Value value;
    OperandType type;
    uint32_t saved;       // position among Plan::saved, or kNone: only its shape is read
    uint32_t lastReader;  // call
  };
  struct Call {
    KindRow *kind;  // with a reference in `kinds`
    NodeId node;
    uint32_t firstInput, lastInput, firstType;
    uint32_t call;       // the one that it is generated for, or kNone
    NodeId forwardNode;  // of a fused backward operator
    uint32_t tap;        // the one that it is, or kNone
  };
  struct Calls {
    std::vector<ForwardValue> forward;  // by lastReader
    std::vector<Call> calls;
    std::vector<uint32_t> inputs;  // entries
    struct ShapeOnly {
      uint32_t entry;
      OperandType type;
    };
    std::vector<ShapeOnly> shapesOnly;  // results that are read, but not their contents: they are not computed
    std::vector<KnownOutput> outputs;   // per call all of them
    std::vector<uint8_t> isOthers;      // by result that is a head: its memory is not that of a call of the replay
    std::vector<Kind> kinds;
    ShapeReferences shapes;  // of the types

    size_t heapBytes() const;
  };
  std::unique_ptr<Calls> calls;

  size_t heapBytes() const;
};

struct Plan {
  Plan() = default;
  Plan(const Plan &) = delete;
  ~Plan() {
    for (Signature *signature : signatures) release(signature);
  }

  std::vector<uint32_t> key;            // the request, then the structure
  std::vector<Signature *> signatures;  // those in the key, with references, so that no other gets their ids
  ShapeReferences shapes;               // those in the key, and of the operands

  InstructionList list;                // of the backward part; has its graph if there are functions or taps
  std::vector<uint32_t> callOf;        // by node of its graph: position of the call it is generated for, or kNone
  std::unique_ptr<PlanSource> source;  // null until it is needed

  /// A kept value on the tape: slot `kept` of call `node`.
  struct Slot {
    uint32_t node, kept;
  };
  /// A value the instructions read. All slots hold the same bytes unless they were overwritten. Those of the calls
  /// whose gradients read it come first, up to `lastRead`: the others may be stale.
  struct Saved {
    EntryId entry;  // of the backward part, a variable
    uint32_t firstSlot, lastRead, lastSlot;
    uint32_t lastReader;  // instruction; their number: a step at the end
  };
  std::vector<Saved> saved;  // by lastReader
  std::vector<Slot> slots;
  std::vector<EntryId> headEntry;  // per head of the request; invalid: none, or nothing reads it
  static constexpr uint32_t kNone = 0xffffffff;
  std::vector<uint32_t> results;  // per wrt, then per retained: head of the backward part, or kNone
  llvm::BitVector isZeros;        // by result: zeros, whatever the values

  struct HeadMemory {
    uint32_t head;
    uint32_t firstWriter;                // instruction
    uint32_t firstOperand, lastOperand;  // into operandsOfHeads
  };
  std::vector<HeadMemory> heads;  // by firstWriter
  std::vector<uint32_t> operandsOfHeads;

  ArenaPlaces places;
  size_t arenaBytes = 0;
  char *arena = nullptr;  // the one that addresses are set for
  /// An instruction at which code of the host runs: after a tap, or instead of the gradient of a function. Taps of
  /// gradients without elements have no instruction.
  struct Stop {
    uint32_t instruction, tap;  // position in the request; kNone: a function
    NodeId empty = {};          // the tap; the stop is in front of the instruction
  };
  std::vector<Stop> stops;     // by instruction
  llvm::BitVector isGradient;  // by entry, if there are functions: computed from head gradients
  FailureSlot failure;         // of kernels
  struct OfCall {
    uint32_t instruction, node;
  };
  std::vector<OfCall> draws;      // instructions of random operators, and the calls whose draws they repeat
  std::vector<OfCall> hostCalls;  // instructions of the host's operators, and the calls whose objects they find
  bool isLeased = false;          // a run is under way
  PlanBucket *bucket = nullptr;   // of the cache; null: not in the cache any more
  bool hasHostCode = false;       // operators or functions of the host run, or bodies that may contain them
  size_t bytes = 0;               // of heap

  /// Excludes the key and fast kernels. Linear in the instructions that have bodies.
  size_t heapBytes() const;
};

/// The memory of a value that the gradient reads, checked in every slot: E-31, E-20.
llvm::Expected<Storage *> savedValue(const SignatureTable &signatures, const Collected &collected, const Plan &plan,
                                     const Plan::Saved &saved);
/// The error for one that code of the host overwrote while the backward ran.
llvm::Error overwrittenByHook(const Collected &collected, const Plan &plan, const Plan::Saved &saved);
/// Lists the calls of a plan's source.
std::unique_ptr<PlanSource::Calls> listCalls(Context &context, SignatureTable &signatures, TapeShapes &shapes,
                                             const SignatureOptions &options, const Plan &plan);

}  // namespace gradc
