// A `_scan` that a decomposition emits: its body is built like the nodes around it, from the inputs of a step.
//
//   ScanBuilder loop(d);                       // y[t] = x[0] + … + x[t]
//   Value sum = loop.state(zero), next = loop.emit(kElemwiseAdd, {sum, loop.row(x)});
//   loop.setNext(sum, next);
//   const size_t y = loop.stack(next);
//   loop.finish();
//   d.y(0, loop.stacked(y));
#pragma once

#include "ir/graph/graph_builder.h"
#include "ir/rules/grad_rule.h"

namespace gradc {

class ScanBuilder {
 public:
  enum class Direction : uint8_t { Up, Down };

  explicit ScanBuilder(DecomposeRule &d, Direction direction = Direction::Up)
      : d(d), direction(direction), body(d.context()) {}

  /// Inputs of a step: a row of a value along axis 0, which for a vector has shape (1,); a state with its initial
  /// value; a value that is the same in every step.
  Value row(Value rows);
  Value state(Value start);
  Value whole(Value v);

  /// Appends a node to the body. Refuses where the attributes are wrong.
  Value emit(const OpDef &op, llvm::ArrayRef<Value> operands, llvm::ArrayRef<AttrText> attrs = {});
  Value at(Value v, size_t output) const { return Value{v.node, static_cast<uint16_t>(output), 0}; }

  /// Sets a state's value after the step. Required once per state.
  void setNext(Value state, Value next);
  /// Stacks a value of each step, and returns its number.
  size_t stack(Value v);

  /// Emits the loop, which needs at least one `row`.
  void finish();
  /// Results of the finished loop: a stacked output, and a state after the last step.
  Value stacked(size_t number) { return d.at(loop, number); }
  Value final(Value state);

 private:
  struct Given {
    NodeId variable;
    Value value;
    Value next = {};  // of a state
  };
  Value give(llvm::SmallVectorImpl<Given> &list, Value v, llvm::StringRef name);
  size_t numberOf(Value state) const;

  DecomposeRule &d;
  const Direction direction;
  GraphBuilder body;
  llvm::SmallVector<Given, 8> rows, states, wholes;
  llvm::SmallVector<Value, 4> heads;  // stacked outputs
  Value loop;
};

}  // namespace gradc
