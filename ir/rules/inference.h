// What an operator's shape and dtype functions see: the entries of one node, readable and refinable in both directions.
//
// Functions state what must hold and are called again whenever an entry of the node becomes more precise; they must be
// monotone and never guess. The first conflict is kept and ends the node's inference; later statements are ignored.
#pragma once

#include "ir/base/error.h"
#include "ir/op/op.h"
#include "ir/tensor/shape_table.h"

namespace gradc {

/// The end of a message about dimensions that no tensor can have.
inline constexpr llvm::StringLiteral kPossible = "expected dimensions from 0 and at most 2^48 elements";

/// Lets the functions of operators with bodies infer through them: refines what is known of a body's inputs (in id
/// order) and heads. False after an error in the body, which the driver keeps.
template <class Element> struct BodyInference {
  bool (*infer)(void *driver, size_t body, llvm::MutableArrayRef<Element> in,
                llvm::MutableArrayRef<Element> heads) = nullptr;
  void *driver = nullptr;

  explicit operator bool() const { return infer; }
  bool operator()(size_t body, llvm::MutableArrayRef<Element> in, llvm::MutableArrayRef<Element> heads) const {
    return infer(driver, body, in, heads);
  }
};

class ShapeInference {
 public:
  using Entry = ShapeId;

  /// `in` and `out` are the shapes of the node's entries, ids of `shapes`, and are refined in place.
  ShapeInference(ShapeTable &shapes, const NodeKind &kind, llvm::MutableArrayRef<ShapeId> in,
                 llvm::MutableArrayRef<ShapeId> out, bool zeroIsUnknown)
      : shapes(shapes), nodeKind(kind), ins(in), outs(out), isZeroUnknown(zeroIsUnknown) {}

  const NodeKind &kind() const { return nodeKind; }
  template <class P> const P &params() const { return nodeKind.params<P>(); }
  size_t numInputs() const { return ins.size(); }
  size_t numOutputs() const { return outs.size(); }
  ShapeRef in(size_t i) const { return shapes[ins[i]]; }
  ShapeRef out(size_t i) const { return shapes[outs[i]]; }

  /// Whether a 0 in a shape *attribute* means an unknown dimension (legacy files, INF-03) rather than an empty one.
  bool zeroIsUnknown() const { return isZeroUnknown; }

  /// States that the shape agrees with `dims` (unknown dimensions state nothing but their existence). Dims that no
  /// tensor can have end the inference with an error; computed dimensions come from Dim::inShape (ir/tensor/dim.h).
  void setIn(size_t i, Dims dims) { state(ins[i], dims, "input", i); }
  void setOut(size_t i, Dims dims) { state(outs[i], dims, "output", i); }
  /// States that two entries have equal shapes; each is refined by the other.
  void sameInIn(size_t a, size_t b) { equate(ins[a], ins[b], "input", a, "input", b); }
  void sameInOut(size_t input, size_t output) { equate(ins[input], outs[output], "input", input, "output", output); }
  void sameOutOut(size_t a, size_t b) { equate(outs[a], outs[b], "output", a, "output", b); }
  /// All inputs and outputs equal.
  void sameAll();
  /// Ends with an error of the operator's own wording: "kernel (5,5) exceeds the padded input (4,4)".
  void fail(const llvm::Twine &message, ErrorKind kind = ErrorKind::InferConflict);

  /// Null when bodies are not inferred, as when a kernel's operands are checked.
  BodyInference<ShapeId> bodies;
  ShapeTable &table() const { return shapes; }
  ShapeId &inId(size_t i) { return ins[i]; }
  ShapeId &outId(size_t i) { return outs[i]; }

  bool hasFailed() const { return !failure.empty(); }
  llvm::StringRef failureText() const { return failure; }
  ErrorKind failureKind() const { return kindOfFailure; }

 private:
  std::optional<ShapeId> intern(Dims dims, llvm::StringRef side, size_t index);
  void state(ShapeId &shape, Dims dims, llvm::StringRef side, size_t index);
  void equate(ShapeId &a, ShapeId &b, llvm::StringRef sideA, size_t indexA, llvm::StringRef sideB, size_t indexB);

  ShapeTable &shapes;
  const NodeKind &nodeKind;
  llvm::MutableArrayRef<ShapeId> ins, outs;
  bool isZeroUnknown;
  std::string failure;
  ErrorKind kindOfFailure = ErrorKind::InferConflict;
};

/// An input or output of a node, for shape functions shared by operators whose operands are in different positions.
struct EntryPort {
  size_t index;
  bool isOutput = false;

  ShapeRef shape(const ShapeInference &s) const { return isOutput ? s.out(index) : s.in(index); }
  void set(ShapeInference &s, Dims dims) const { isOutput ? s.setOut(index, dims) : s.setIn(index, dims); }
};

/// Why the operator's shape function rejects these shapes, which are fully known where they matter; empty when it
/// accepts them. 0 in a shape attribute is taken as unknown.
std::string refusalOf(ShapeTable &shapes, const NodeKind &kind, llvm::ArrayRef<ShapeId> in,
                      llvm::ArrayRef<ShapeId> out);

class DTypeInference {
 public:
  using Entry = DType;

  DTypeInference(const NodeKind &kind, llvm::MutableArrayRef<DType> in, llvm::MutableArrayRef<DType> out)
      : nodeKind(kind), ins(in), outs(out) {}

  const NodeKind &kind() const { return nodeKind; }
  template <class P> const P &params() const { return nodeKind.params<P>(); }
  size_t numInputs() const { return ins.size(); }
  size_t numOutputs() const { return outs.size(); }
  DType in(size_t i) const { return ins[i]; }
  DType out(size_t i) const { return outs[i]; }
  void setIn(size_t i, DType type) { state(ins[i], type, "input", i); }
  void setOut(size_t i, DType type) { state(outs[i], type, "output", i); }
  void sameInIn(size_t a, size_t b) {
    setIn(a, ins[b]);
    setIn(b, ins[a]);
  }
  void sameInOut(size_t input, size_t output) {
    setIn(input, outs[output]);
    setOut(output, ins[input]);
  }
  void sameOutOut(size_t a, size_t b) {
    setOut(a, outs[b]);
    setOut(b, outs[a]);
  }
  /// All inputs and outputs equal: the default of operators without a dtype function (REG-22).
  void sameAll();
  void fail(const llvm::Twine &message, ErrorKind kind = ErrorKind::InferConflict);

  BodyInference<DType> bodies;
  DType &inId(size_t i) { return ins[i]; }
  DType &outId(size_t i) { return outs[i]; }

  bool hasFailed() const { return !failure.empty(); }
  llvm::StringRef failureText() const { return failure; }
  ErrorKind failureKind() const { return kindOfFailure; }

 private:
  void state(DType &current, DType type, llvm::StringRef side, size_t index);

  const NodeKind &nodeKind;
  llvm::MutableArrayRef<DType> ins, outs;
  std::string failure;
  ErrorKind kindOfFailure = ErrorKind::InferConflict;
};

/// Ready-made functions for OpDefs: every entry of the node has one shape, one type.
namespace shapes {
inline void same(ShapeInference &s) { s.sameAll(); }
}  // namespace shapes
namespace dtypes {
inline void same(DTypeInference &t) { t.sameAll(); }
}  // namespace dtypes

}  // namespace gradc
