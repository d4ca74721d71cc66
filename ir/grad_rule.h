// The vocabulary gradient rules and decompositions are written in.
//
//   // y = x0 · x1;  dx0 = dy · x1, dx1 = dy · x0
//   .gradient = [](GradRule &g) {
//     if (g.wants(0)) g.dx(0, g.emit(kMul, {g.dy(0), g.x(1)}));
//     if (g.wants(1)) g.dx(1, g.emit(kMul, {g.dy(0), g.x(0)}));
//   }
//
// A rule is pure: it reads, emits nodes, and says a gradient (`dx`) or its absence (`noGrad`) for every input it was
// asked for. Mistakes inside `emit` are kept for the driver, so rules stay straight-line. Rules are shape-free: where a
// broadcast is undone they emit an operator that takes the shape from a value (`_sum_like(v, x)`).
#pragma once

#include "ir/graph_builder.h"

#include "llvm/ADT/SmallVector.h"

#include <initializer_list>

namespace gradc {

/// What rules and decompositions share: reading the node, emitting nodes on behalf of it.
class RuleContext {
 public:
  RuleContext(GraphBuilder &builder, NodeId node, NodeId origin);
  RuleContext(const RuleContext &) = delete;
  ~RuleContext() { llvm::consumeError(std::move(failure)); }

  Context &context() const { return builder.context(); }
  const NodeKind &kind() const { return nodeKind; }
  template <class P> const P &params() const { return nodeKind.params<P>(); }
  /// The node's attributes; fused backward operators take them over as they are.
  AttrsId attrs() const { return nodeKind.attrs; }
  size_t numInputs() const { return inputs.size(); }
  size_t numOutputs() const { return nodeKind.numOutputs; }

  Value x(size_t i) const { return inputs[i]; }
  /// Says which node a fused gradient operator belongs to, its control dependency 0.
  void setForward(NodeId n) { forwardNode = n; }

  /// Appends a node and returns its output 0; `at(v, k)` is its output k.
  Value emit(const OpDef &op, llvm::ArrayRef<Value> operands, AttrsId attrs, llvm::ArrayRef<Graph> bodies = {});
  Value emit(const OpDef &op, std::initializer_list<Value> operands, std::initializer_list<AttrText> attrs = {});
  /// `emit` of a fused backward operator: the node waits for `forwardOf`, which it is the gradient of.
  Value emitFused(const OpDef &backward, llvm::ArrayRef<Value> operands, AttrsId attrs, NodeId forwardOf);
  static Value at(Value v, size_t output) { return Value{v.node, static_cast<uint16_t>(output), 0}; }
  /// Canonical text of a number, for attributes.
  llvm::StringRef number(double value);
  llvm::StringRef number(int64_t value);

  bool hasFailed() const { return failed; }
  llvm::Error takeFailure() { return std::move(failure); }

 protected:
  void fail(llvm::Error error);

  GraphBuilder &builder;
  NodeId node, origin;
  NodeId forwardNode;  // invalid where nothing was said
  const NodeKind &nodeKind;
  llvm::SmallVector<Value, 8> inputs;  // a copy: emitting may move the builder's columns
  bool failed = false;
  llvm::Error failure = llvm::Error::success();  // the first mistake
};

/// The driver's side of a rule: head gradients of the node's outputs, and how to make one that is structurally zero.
struct HeadGradients {
  llvm::ArrayRef<Value> values;  // per output; invalid: structurally zero
  Value (*materialize)(void *driver, size_t output);  // makes a zero gradient as a value
  void *driver;
};

class GradRule : public RuleContext {
 public:
  enum class Slot : uint8_t { Unanswered, Gradient, None };

  GradRule(GraphBuilder &builder, NodeId node, NodeId origin, HeadGradients heads, llvm::ArrayRef<bool> wanted);

  /// The forward node of a gradient operator; invalid where it has none.
  NodeId forward() const { return forwardNode; }
  Value y(size_t i) const { return Value{node, static_cast<uint16_t>(i), 0}; }
  /// Gradient of output i; a structurally zero one becomes a node here (ZERO-01). Ask `isZero` first to skip work.
  Value dy(size_t i);
  bool isZero(size_t i) const { return !heads.values[i].isValid(); }
  /// Whether the gradient of input i is asked for. Rules may skip what is not wanted; answering anyway is harmless.
  bool wants(size_t i) const { return wanted[i]; }
  void dx(size_t i, Value value);
  void noGrad(size_t i) { slots[i] = Slot::None; }

  /// Emits the fused backward operator: same attributes, control dependency on the forward node, dx(i) = its output i.
  Value fused(const OpDef &backward, std::initializer_list<Value> operands) {
    return fused(backward, llvm::ArrayRef<Value>(operands.begin(), operands.size()));
  }
  Value fused(const OpDef &backward, llvm::ArrayRef<Value> operands) { return fused(backward, operands, attrs()); }
  /// The same with attributes of the backward operator's own.
  Value fused(const OpDef &backward, llvm::ArrayRef<Value> operands, AttrsId attrs);
  /// The same gradient for every input, which is dy(0) itself: no node (REG-10).
  void clone();

  Slot slot(size_t i) const { return slots[i]; }
  Value gradient(size_t i) const { return gradients[i]; }

 private:
  HeadGradients heads;
  llvm::ArrayRef<bool> wanted;
  llvm::SmallVector<Slot, 8> slots;
  llvm::SmallVector<Value, 8> gradients;
};

/// Says each output of a node in simpler operators: `d.y(0, d.emit(kMul, {d.x(0), d.x(1)}))`.
class DecomposeRule : public RuleContext {
 public:
  DecomposeRule(GraphBuilder &builder, NodeId node, NodeId origin);

  void y(size_t i, Value value) { outputs[i] = value; }
  /// Output i of the forward node of a gradient operator; invalid where it has none.
  Value forward(size_t i) const { return Value{forwardNode, static_cast<uint16_t>(i), 0}; }
  /// Whether anyone reads output i.
  bool wants(size_t i) const { return wanted.empty() || wanted[i]; }
  void setWanted(llvm::ArrayRef<bool> list) { wanted = list; }
  Value output(size_t i) const { return outputs[i]; }

 private:
  llvm::ArrayRef<bool> wanted;
  llvm::SmallVector<Value, 4> outputs;
};

}  // namespace gradc
