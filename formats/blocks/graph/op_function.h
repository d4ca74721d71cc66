// One operator of a program as a separate graph, and the gradient of that graph, spliced in where a gradient operator
// is read. There is one gradient engine: it derives what `tanh_grad` computes from what `tanh` computes. Tested
// by tests/formats/blocks/backward/block_backward_test.cc
#pragma once

#include "formats/blocks/program/block_program.h"
#include "formats/blocks/tables/gradient_forms.h"
#include "ir/graph/graph_builder.h"
#include "passes/gradient/gradient.h"

#include <functional>

namespace gradc {

/// A position in a slot of an operator. The slot's name is one of the program's texts.
struct OperandPlace {
  llvm::StringRef slot;  // empty: not an operand, but a value that the operator reads besides them
  size_t i = 0;
  friend bool operator==(const OperandPlace &, const OperandPlace &) = default;
};

struct OpFunction {
  struct Output {
    OperandPlace place;
    Value value;
  };

  Graph graph;
  std::vector<OperandPlace> places;  // by node, for variables
  std::vector<Value> constants;      // by node, for variables that are not operands: the value in the block
  std::vector<NodeId> nodes;         // by node, for others: the block's node that computes it; empty: there is none
  std::vector<Output> outputs;

  bool isConstant(NodeId variable) const {
    return variable.value < constants.size() && constants[variable.value].isValid();
  }
};

/// The function of an operator, from the row of its type, or its gradient row. `nodes` are those in the reader of
/// `block` that compute it, in order; empty if there are none. Errors are about operator `at`.
llvm::Expected<OpFunction> functionOf(Context &context, const BlockProgram &program, uint32_t block, size_t at,
                                      const BlockOp &of, llvm::ArrayRef<NodeId> nodes);

/// The gradient of a function with respect to the operands at `wanted`, given gradients of the outputs at `seeded`, at
/// least one. The variable of the k-th seed is called `seed<k>`.
llvm::Expected<GradientResult> gradientOfFunction(Context &context, const OpFunction &function,
                                                  llvm::ArrayRef<OperandPlace> seeded,
                                                  llvm::ArrayRef<OperandPlace> wanted);

/// Gives a spliced gradient the values and nodes that it reads from outside.
struct SplicePorts {
  std::function<Value(NodeId variable)> operand;  // of the function
  std::function<Value(Value computed)> value;     // of the function, where it is read
  std::function<NodeId(NodeId node)> node;        // of the function, for shapes
  std::function<Value(size_t seed)> seed;
};

/// Appends the nodes of the gradient that are not those of its function. Returns the values of the requested gradients.
/// Nodes stay nameless.
std::vector<Value> splice(GraphBuilder &to, const OpFunction &function, const GradientResult &gradient,
                          const SplicePorts &ports);

/// A form as its gradient operators see it: which slots hold operands of the forward operator, and which gradients.
struct FormSlots {
  struct Slot {
    llvm::StringRef name;    // of the gradient operator
    llvm::StringRef source;  // of the forward operator: the slot itself, or the one whose gradients these are
    bool isGradient = false;
  };
  llvm::SmallVector<Slot, 8> inputs, outputs;  // outputs are gradients
};
FormSlots slotsOf(const GradientForm &form);

struct GradientParts {
  const FormSlots &slots;          // of the gradient operator
  const FormSlots &next;           // of the gradient operator of that one
  const OpFunction &forward;       // of the forward operator
  const GradientResult &gradient;  // of that function, for these seeds and operands
  llvm::ArrayRef<OperandPlace> seeded, wanted;
  llvm::function_ref<Value(const OperandPlace &)> operand;  // the forward operator's, in the block
  std::vector<NodeId> nodes;                                // of the gradient operator, in order
};

/// What the forward operator reads and the gradient operator does not is constant. A result of the forward operator
/// that the gradient operator reads is an operand if `next` has a gradient toward it; otherwise it depends on the
/// forward operator's operands.
llvm::Expected<OpFunction> functionOfGradient(Context &context, const GradientParts &of);

}  // namespace gradc
