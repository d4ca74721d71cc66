// The vocabulary gradient rules and decompositions are written in.
//
//   // y = x0 · x1;  dx0 = dy · x1, dx1 = dy · x0
//   .gradient = [](GradRule &g) {
//     if (g.wants(0)) g.dx(0, g.emit(kMul, {g.dy(0), g.x(1)}));
//     if (g.wants(1)) g.dx(1, g.emit(kMul, {g.dy(0), g.x(0)}));
//   }
//
// A rule is pure: it reads, emits nodes, and gives a gradient (`dx`) or states its absence (`noGrad`) once for every
// requested input. Mistakes (a wrong index, a wrong number of operands, an operand that does not exist) are kept for
// the driver, which stops at the first; until then a mistaken call returns some valid value, so rules stay
// straight-line. Rules are shape-free: where a broadcast is undone they emit an operator that takes the shape from a
// value (`_sum_like(v, x)`). They see only the element types known before they run (`dtype`).
#pragma once

#include "ir/base/error.h"
#include "ir/graph/graph_builder.h"

#include "llvm/ADT/SmallVector.h"

#include <forward_list>
#include <initializer_list>
#include <string>

namespace gradc {

/// Looks up the element types of a builder's entries for rules; Unknown where nothing is known.
struct TypeLookup {
  DType (*find)(void *driver, Value v) = nullptr;
  void *driver = nullptr;
};

/// What rules and decompositions share: reading the node, emitting nodes on its behalf.
class RuleContext {
 public:
  RuleContext(const RuleContext &) = delete;
  ~RuleContext() { llvm::consumeError(std::move(failure)); }

  Context &context() const { return builder.context(); }
  const NodeKind &kind() const { return nodeKind; }
  template <class P> const P &params() const { return nodeKind.params<P>(); }
  /// The node's attributes; fused backward operators inherit them unchanged. Those that its operator does not know are
  /// left out, unless they are annotations (`__x__`): to another operator they could mean something.
  const Attrs &attrs() const { return nodeKind.inherited; }
  size_t numInputs() const { return inputs.size(); }
  size_t numOutputs() const { return nodeKind.numOutputs; }

  Value x(size_t i) { return check(i, numInputs(), "reads input") ? inputs[i] : anyValue(); }
  llvm::ArrayRef<Value> operands() const { return inputs; }
  /// Sets the forward node of a fused gradient operator, its control dependency 0.
  void setForward(NodeId n) { forwardNode = n; }

  /// Appends a node and returns its output 0; `at(v, k)` is its output k. After a mistake nothing more is appended.
  Value emit(const OpDef &op, llvm::ArrayRef<Value> operands, const Attrs &attrs, llvm::ArrayRef<Graph> bodies = {});
  Value emit(const OpDef &op, std::initializer_list<Value> operands, std::initializer_list<AttrText> attrs = {});
  /// Emits a fused backward operator with a control dependency on `forwardOf`, whose gradient it is.
  Value emitFused(const OpDef &backward, llvm::ArrayRef<Value> operands, const Attrs &attrs, NodeId forwardOf);
  Value at(Value v, size_t output);
  /// Canonical text of a number, for attributes; lives as long as the rule.
  llvm::StringRef number(double value);
  llvm::StringRef number(int64_t value);
  /// "(2,3)", for attributes.
  llvm::StringRef tuple(Dims list);

  void setTypes(TypeLookup lookup) { types = lookup; }
  /// The element type, where it was known before the rule runs (GradientOptions::inference); else Unknown.
  DType dtype(Value v) const { return types.find ? types.find(types.driver, v) : DType::Unknown; }

  bool hasFailed() const { return failed; }
  llvm::Error takeFailure() { return std::move(failure); }

 protected:
  RuleContext(GraphBuilder &builder, NodeId node, NodeId origin, llvm::StringLiteral title);

  void fail(llvm::Error error);
  /// Fails unless i < count: "the gradient rule of operator 'mul' <what> 7, but the node has 2".
  bool check(size_t i, size_t count, llvm::StringLiteral what) {
    if (i < count) return true;
    failIndex(i, count, what);
    return false;
  }
  bool exists(Value v) const { return v.node.value < builder.numNodes() && v.index < builder.numOutputs(v.node); }
  /// Fails unless v is an output of a node of the builder.
  bool check(Value v, const llvm::Twine &what) {
    if (exists(v)) return true;
    failEntry(v, what);
    return false;
  }
  std::string title() const { return ("the " + titleOfRule + " of operator '" + nodeKind.op->name + "'").str(); }
  Value anyValue() const { return inputs.empty() ? Value{node} : inputs[0]; }

  GraphBuilder &builder;
  NodeId node, origin;
  NodeId forwardNode;                                             // invalid unless setForward was called
  llvm::SmallVector<std::pair<NodeId, NodeId>, 1> gradientNodes;  // emitted node, the node it is the gradient of
  const NodeKind &nodeKind;
  llvm::SmallVector<Value, 8> inputs;  // a copy: emitting may move the builder's columns
  bool failed = false;
  llvm::Error failure = llvm::Error::success();  // the first mistake
  std::forward_list<std::string> numbers;        // texts that callers refer to

 private:
  void failIndex(size_t i, size_t count, llvm::StringLiteral what);
  void failEntry(Value v, const llvm::Twine &what);

  TypeLookup types;
  llvm::StringLiteral titleOfRule;
};

/// The gradient of a body toward some of its inputs, as a graph made before the rule of its node runs.
struct BodyGradient {
  enum class Source : uint8_t {
    HeadGradient,  // the gradient of head `index` of the body
    Value,         // the value of head `index` of the body, which was added for the gradient
    Input,         // the value of input `index` of the body
  };
  struct Input {
    Source source;
    uint32_t index;
  };
  Graph backward;
  std::vector<Input> inputs;         // of `backward`, in id order
  std::vector<uint32_t> gradientOf;  // by head of `backward`: the input of the body
};

/// The driver's side of a rule: head gradients of the node's outputs, and how to make one that is structurally zero.
struct HeadGradients {
  llvm::ArrayRef<Value> values;                       // per output; invalid: structurally zero
  Value (*materialize)(void *driver, size_t output);  // makes a zero gradient as a value
  void *driver;
  llvm::ArrayRef<BodyGradient> bodies = {};  // of a node with a flow; no heads: nothing is requested of that body
};

class GradRule : public RuleContext {
 public:
  enum class Slot : uint8_t { Unanswered, Gradient, None };

  GradRule(GraphBuilder &builder, NodeId node, NodeId origin, HeadGradients heads, llvm::ArrayRef<bool> wanted);

  /// The forward node of a gradient operator; invalid where it has none.
  NodeId forward() const { return forwardNode; }
  Value y(size_t i) {
    return check(i, numOutputs(), "reads output") ? Value{node, static_cast<uint16_t>(i), 0} : anyValue();
  }
  /// Gradient of output i; a structurally zero one becomes a node here (ZERO-01). Check `isZero` first to skip work.
  Value dy(size_t i);
  /// Those of all outputs.
  llvm::SmallVector<Value, 8> headGradients();
  bool isZero(size_t i) { return !check(i, heads.values.size(), kHeadGradient) || !heads.values[i].isValid(); }
  /// The gradients of the node's bodies, toward the requested inputs.
  llvm::ArrayRef<BodyGradient> bodies() const { return heads.bodies; }
  /// Whether the gradient of input i is requested. Rules may skip the others; giving one anyway is harmless.
  bool wants(size_t i) { return check(i, wanted.size(), "asks for input") && wanted[i]; }
  void dx(size_t i, Value value);
  void noGrad(size_t i);

  /// Emits the fused backward operator: same attributes, control dependency on the forward node. Its output i is the
  /// gradient of input i, and inputs beyond its outputs have none, unless the rule states another gradient.
  Value fused(const OpDef &backward, std::initializer_list<Value> operands) {
    return fused(backward, llvm::ArrayRef<Value>(operands.begin(), operands.size()));
  }
  Value fused(const OpDef &backward, llvm::ArrayRef<Value> operands) { return fused(backward, operands, attrs()); }
  /// The same with other attributes.
  Value fused(const OpDef &backward, llvm::ArrayRef<Value> operands, const Attrs &attrs);
  /// Makes dy(0) itself the gradient of every input, without a node (REG-10).
  void clone();

  /// What the rule stated for input i.
  Slot slot(size_t i) const { return i < slots.size() ? slots[i] : Slot::Unanswered; }
  Value gradient(size_t i) const { return i < gradients.size() ? gradients[i] : Value(); }

 private:
  static constexpr llvm::StringLiteral kHeadGradient = "reads the gradient of output";
  bool mayAnswer(size_t i);
  void failTwice(size_t i);

  HeadGradients heads;
  llvm::ArrayRef<bool> wanted;
  llvm::SmallVector<Slot, 8> slots;
  llvm::SmallVector<bool, 8> isByFused;  // stated by `fused`; what the rule states itself takes precedence
  llvm::SmallVector<Value, 8> gradients;
};

/// Looks up the shapes of a builder's entries for lowering; unknown rank where nothing is known.
struct ShapeLookup {
  ShapeRef (*find)(void *driver, Value v) = nullptr;
  void *driver = nullptr;
};

/// Decompositions within decompositions, where a graph is differentiated or lowered. Those of the built-in operators
/// are nested a handful of levels deep.
inline constexpr uint32_t kMaxDecompositions = 64;
/// Nodes that one node may decompose to. An RNN has some dozens per layer, the gradient of a Concat one per part.
inline constexpr uint32_t kMaxDecomposedNodes = 1 << 18;

/// Expresses each output of a node in simpler operators: `d.y(0, d.emit(kMul, {d.x(0), d.x(1)}))`.
///
/// Shapes are best taken from a value when the graph runs (`_sum_like`, `reshape_like`). A rule that must know a rank
/// or the size of an axis looks up only that; if it is unknown, the decomposition is refused.
class DecomposeRule : public RuleContext {
 public:
  DecomposeRule(GraphBuilder &builder, NodeId node, NodeId origin);

  void y(size_t i, Value value);
  /// Makes the node of `later` run after that of `earlier`; the rule emitted both.
  void wait(Value later, Value earlier);
  /// Output i of the forward node of a gradient operator; invalid where it has none.
  Value forward(size_t i);
  /// Input i of the forward node; refuses where the node has no forward node.
  Value forwardInput(size_t i);
  /// Whether output i is read.
  bool wants(size_t i) { return check(i, outputs.size(), "asks for output") && (wanted.empty() || wanted[i]); }
  void setWanted(llvm::ArrayRef<bool> list) { wanted = list; }
  /// The value that the rule gave for output i; invalid if none.
  Value output(size_t i) { return check(i, outputs.size(), "reads output") ? outputs[i] : Value(); }

  void setShapes(ShapeLookup lookup) { shapes = lookup; }
  /// What is known of a shape. While gradients are built, only shapes of earlier entries are, from
  /// GradientOptions::inference.
  ShapeRef shape(Value v) const { return shapes.find ? shapes.find(shapes.driver, v) : ShapeRef(); }
  /// Output i of the node itself, to look up its shape: no emitted node may read it.
  Value self(size_t i) { return Value{node, static_cast<uint16_t>(i), 0}; }
  /// The number of axes; if it is unknown, refuses and returns 1.
  size_t rank(Value v);
  /// The size of an axis, counted from the end when negative; if it is unknown, refuses and returns 1.
  int64_t size(Value v, int64_t axis);
  /// Ends the decomposition because this node has none: "the decomposition of operator 'mean' <text>".
  void refuse(ErrorKind kind, const llvm::Twine &text);
  bool hasRefused() const { return refused; }

  /// Nodes emitted as gradients, each with the node it is the gradient of.
  llvm::ArrayRef<std::pair<NodeId, NodeId>> fusedNodes() const { return gradientNodes; }
  /// Later and earlier node of each `wait`. The caller that applies the rule adds the dependencies, as it may replace
  /// the nodes.
  llvm::ArrayRef<std::pair<NodeId, NodeId>> waits() const { return waiting; }

 private:
  std::string describe(Value v);

  llvm::ArrayRef<bool> wanted;
  llvm::SmallVector<Value, 4> outputs;
  llvm::SmallVector<std::pair<NodeId, NodeId>, 0> waiting;
  ShapeLookup shapes;
  bool refused = false;
};

}  // namespace gradc
