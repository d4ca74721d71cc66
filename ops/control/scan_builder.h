// A `_scan` that a decomposition emits: its body is built like the nodes around it, from what a step is given.
//
//   ScanBuilder loop(d);                       // y[t] = x[0] + … + x[t]
//   Value sum = loop.state(zero), next = loop.emit(kElemwiseAdd, {sum, loop.row(x)});
//   loop.setNext(sum, next);
//   const size_t y = loop.stack(next);
//   loop.finish();
//   d.y(0, loop.stacked(y));
#pragma once

#include "ir/graph_builder.h"
#include "ir/grad_rule.h"

namespace gradc {

class ScanBuilder {
 public:
  enum class Direction : uint8_t { Up, Down };

  explicit ScanBuilder(DecomposeRule &d, Direction direction = Direction::Up)
      : d(d), direction(direction), body(d.context()) {}

  /// What a step is given: the row of a value along axis 0, of which one of a vector has the shape (1,); a state, which starts
  /// from a value; a value as it is.
  Value row(Value rows);
  Value state(Value start);
  Value whole(Value v);

  /// Appends a node to the body. Refuses where the attributes are wrong.
  Value emit(const OpDef &op, llvm::ArrayRef<Value> operands, llvm::ArrayRef<AttrText> attrs = {});
  Value at(Value v, size_t output) const { return Value{v.node, static_cast<uint16_t>(output), 0}; }

  /// What a state is after the step. Each state has it, once.
  void setNext(Value state, Value next);
  /// Stacks a value of each step, and returns its number.
  size_t stack(Value v);

  /// Emits the loop, which has sliced something.
  void finish();
  /// Of the finished loop: what it stacked, and what a state is after the last step.
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
  llvm::SmallVector<Value, 4> heads;  // that are stacked
  Value loop;
};

}  // namespace gradc
