// How a node uses its bodies: which operand each of their inputs receives, and which output each of their heads
// becomes.
//
// An operator with bodies declares this once per kind (OpDef::flow). Inference, planning, execution and the gradient
// work on the flow, so they handle a host's own loop like any other. Tested by tests/ops/control_flow_test.cc
#pragma once

#include "ir/graph/graph.h"
#include "ir/tensor/dim.h"

#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <vector>

namespace gradc {

struct BodyFlow {
  enum class Form : uint8_t {
    Loop,    // the last body runs once per step; if there are two, the first decides before each step whether it runs
    Branch,  // body 0 decides which of the others runs: body 1 if its head is not 0, else body 2
    Call,    // the body runs once
  };
  enum class Operand : uint8_t {
    Whole,  // passed to the bodies unchanged
    Rows,   // each step receives one slice along axis 0; a slice of a vector has shape (1,), unless it is a stack
    State,  // the first step receives it, or zeros like it; later steps receive what the previous step computed
    Count,  // a single number, the most steps to run
  };
  struct Body {
    std::vector<NodeId> inputs;       // its variables, in id order
    std::vector<uint32_t> operandOf;  // by input: the operand of the node that it receives
    std::vector<uint32_t> outputOf;   // by head: the output of the node that it becomes; empty for a body that decides
  };
  struct State {
    uint32_t operand;  // of the node
    uint32_t head;     // of the last body; its output is the final state
    /// The state starts as zeros: the operand gives only its shape and type, and is not read.
    bool startsAtZero = false;
    /// Only the node that computes the next state reads it, in place: one buffer is enough.
    bool isInPlace = false;
  };

  Form form = Form::Call;
  std::vector<Operand> operands;  // by input of the node
  std::vector<Body> bodies;
  std::vector<State> states;    // of a loop
  std::vector<bool> isRead;     // by operand: read by a body, or as a start value or count
  std::vector<bool> isMutated;  // by operand: a body overwrites it
  std::vector<bool> isStacked;  // by output of the node: one row per step; rows of steps not run: see isShort
  /// By output: a stack of a loop that may end early, whose rows of steps that do not run stay unwritten; in other
  /// stacks they are zeros. Outputs added for a gradient always are.
  std::vector<bool> isShort;
  std::optional<uint32_t> countOperand;    // the most steps to run
  std::optional<uint32_t> countOutput;     // int64, shape (1,): the number of steps run
  std::optional<uint32_t> decisionOutput;  // of a branch, shape (1,): 1 where body 1 ran, else 0
  int64_t maxSteps = kUnknownDim;          // of a loop; unknown: the length of its sliced operands
  bool isReverse = false;                  // runs from the last row to the first
  /// The condition decides when the loop ends, and maxSteps is only a bound on memory: it is an error if the condition
  /// still holds after that many steps.
  bool mustEnd = false;
  /// By operand: sliced, and stacked by a loop, or the gradient of such a stack: slices of a vector have shape ().
  std::vector<bool> isStack;

  bool isDecision(size_t body) const { return bodies.size() > 1 && form != Form::Call && body == 0; }
  /// The state that starts with an operand; null for other operands.
  const State *stateOf(uint32_t operand) const {
    if (operands[operand] != Operand::State) return nullptr;
    for (const State &state : states)
      if (state.operand == operand) return &state;
    return nullptr;
  }
};

/// OpDef::ignored and OpDef::mutated of operators with a flow.
inline bool isUnreadInside(const NodeKind &kind, size_t input) { return !kind.flow->isRead[input]; }
inline bool isMutatedInside(const NodeKind &kind, size_t input) { return kind.flow->isMutated[input]; }

/// The variables of a body, in id order.
std::vector<NodeId> bodyInputs(const Graph &body);

/// Builds the flow of one kind from its attributes and bodies; keeps the first mistake (BadAttribute).
class FlowBuilder {
 public:
  FlowBuilder(const NodeKind &kind, BodyFlow::Form form);
  ~FlowBuilder() { llvm::consumeError(std::move(failure)); }

  /// Appends `count` operands of one role.
  void addOperands(BodyFlow::Operand role, size_t count);
  /// Adds the next body, whose input i receives operand operandOf[i]; `list` names the attribute that holds operandOf.
  /// If the node lacks its second branch, output i of that branch is operand operandOf[i].
  void addBody(llvm::StringRef list, llvm::ArrayRef<int64_t> operandOf);
  /// Adds the next body, whose inputs are in several lists: element i of a list is the position of the body input that
  /// receives operand firstOperand + i.
  struct Locations {
    llvm::StringRef list;
    llvm::ArrayRef<int64_t> positions;
    size_t firstOperand;
  };
  void addBody(llvm::ArrayRef<Locations> lists);
  /// The next `count` heads of the body added last become the outputs from `firstOutput` on.
  void addHeads(size_t count, size_t firstOutput, bool isStacked);
  /// The next head of the body added last becomes the next value of the state that starts with the operand, or with
  /// zeros.
  void addState(size_t operand, size_t output, bool startsAtZero = false);
  /// A check specific to the operator.
  void expect(bool holds, const llvm::Twine &text);

  BodyFlow &flow() { return made; }
  /// Whether a check failed; nothing more is examined then.
  bool hasFailed() const { return failed; }
  /// Checks that every head of every body is mapped. If the flow has one body more than the kind, Context::kind adds a
  /// body that yields its inputs.
  llvm::Expected<BodyFlow> finish() &&;

 private:
  bool lacksNextBody() const;
  const Graph *nextBody();
  void examineOperands(size_t body);
  void findInPlaceStates();

  const NodeKind &kind;
  BodyFlow made;
  llvm::StringRef passedOn;  // the attribute that lists what a missing branch yields
  bool failed = false;
  llvm::Error failure = llvm::Error::success();
};

}  // namespace gradc
