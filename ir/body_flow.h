// How a node uses its bodies: what each of their inputs is given, and where each of their heads goes.
//
// An operator with bodies says it once per kind (OpDef::flow). Inference, planning, execution and the gradient ask the
// flow, so a loop that a host adds is a loop to all of them. Tested by tests/control_flow_test.cc
#pragma once

#include "ir/graph.h"

#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <vector>

namespace gradc {

struct BodyFlow {
  enum class Form : uint8_t {
    Loop,    // the last body runs once per step; if there are two, the first decides before each step whether it runs
    Branch,  // body 0 decides which of the others runs, the first of them where it is not 0
    Call,    // the body runs once
  };
  enum class Operand : uint8_t {
    Whole,  // given to the bodies as it is
    Rows,   // a step is given one slice along axis 0; one of a vector has the shape (1,)
    State,  // given to the first step, or zeros like it; later ones are given what the body made of it
    Count,  // one number: no more steps are run
  };
  struct Body {
    std::vector<NodeId> inputs;       // its variables, in id order
    std::vector<uint32_t> operandOf;  // by input: of the node
    std::vector<uint32_t> outputOf;   // by head: of the node; empty for a body that decides
  };
  struct State {
    uint32_t operand;  // of the node
    uint32_t head;     // of the last body; its output is the final state
    /// It starts as zeros: the operand tells its shape and type, and is not read.
    bool startsAtZero = false;
    /// A step reads it only where it makes the next one of it, in place: one buffer is enough.
    bool isInPlace = false;
  };

  Form form = Form::Call;
  std::vector<Operand> operands;  // by input of the node
  std::vector<Body> bodies;
  std::vector<State> states;               // of a loop
  std::vector<bool> isRead;                // by operand: by a body, or as a state
  std::vector<bool> isMutated;             // by operand: a body overwrites it
  std::vector<bool> isStacked;             // by output of the node: one row per step, rows of steps not run are zero
  std::optional<uint32_t> countOperand;    // at most so many steps
  std::optional<uint32_t> countOutput;     // int64, shape (1,): the number of steps run
  std::optional<uint32_t> decisionOutput;  // of a branch, shape (1,): 1 where body 1 ran, else 0
  int64_t maxSteps = kUnknownDim;          // of a loop; unknown: the length of what it slices
  bool isReverse = false;                  // the last row first

  bool isDecision(size_t body) const { return bodies.size() > 1 && form != Form::Call && body == 0; }
  /// The state that an operand starts; none for other operands.
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

/// OpDef::shape and OpDef::dtype of operators with a flow: through the bodies, both ways (INF-16). Lengths of what is sliced
/// and stacked agree (E-27), a state keeps its shape and type (E-28), what decides has one element and branches agree (E-29).
void inferFlowShapes(ShapeInference &s);
void inferFlowTypes(DTypeInference &t);

/// OpDef::kernel of operators with a flow: runs the bodies. A step draws random numbers by the key of the node and its number.
void runFlow(const KernelCall &call);
/// Bytes that runFlow needs beside what the bodies do: two buffers of a state alternate, one of them the output that is wanted;
/// a state in place has one.
size_t flowWorkspace(const NodeKind &kind, llvm::ArrayRef<TensorRef> in, llvm::ArrayRef<Request> requests);
/// Whether a head has to be computed: its output is wanted, or the next step reads it, or it decides.
bool wantsHead(const BodyFlow &flow, size_t body, size_t head, llvm::ArrayRef<Request> requests);

/// The variables of a body, in id order.
std::vector<NodeId> bodyInputs(const Graph &body);

/// Attributes and bodies of one kind as its flow is made of them; the first mistake is kept (BadAttribute).
class FlowBuilder {
 public:
  FlowBuilder(const NodeKind &kind, BodyFlow::Form form);
  ~FlowBuilder() { llvm::consumeError(std::move(failure)); }

  /// Appends operands of one role, after those there are.
  void addOperands(BodyFlow::Operand role, size_t count);
  /// The next body, whose input i is given operand operandOf[i]: `list` is the attribute that says so. Where the node lacks the
  /// second branch, output i is operand operandOf[i] there.
  void addBody(llvm::StringRef list, llvm::ArrayRef<int64_t> operandOf);
  /// The next body, whose inputs are in several lists: element i of one is the position of the body's input that is given
  /// operand first + i.
  struct Locations {
    llvm::StringRef list;
    llvm::ArrayRef<int64_t> positions;
    size_t firstOperand;
  };
  void addBody(llvm::ArrayRef<Locations> lists);
  /// Heads of the body added last: `count` of them go to the outputs from `firstOutput` on.
  void addHeads(size_t count, size_t firstOutput, bool isStacked);
  /// The next head of the body added last is what becomes of the state that the operand starts, or zeros in its place.
  void addState(size_t operand, size_t output, bool startsAtZero = false);
  /// A check of the operator's own.
  void expect(bool holds, const llvm::Twine &text);

  BodyFlow &flow() { return made; }
  /// Whether something is wrong, after which nothing is looked at any more.
  bool hasFailed() const { return failed; }
  /// Checks that every head of every body has its place. A flow with a body more than the kind tells Context::kind to add one
  /// that yields its inputs.
  llvm::Expected<BodyFlow> finish() &&;

 private:
  bool lacksNextBody() const;
  const Graph *nextBody();
  void lookAtOperands(size_t body);
  void findInPlaceStates();

  const NodeKind &kind;
  BodyFlow made;
  llvm::StringRef passedOn;  // the list of what a branch that is missing yields
  bool failed = false;
  llvm::Error failure = llvm::Error::success();
};

}  // namespace gradc
