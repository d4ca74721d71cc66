// Refinement of one node's entries on the lattice unknown rank ⊐ unknown dimensions ⊐ known.
// Tested by tests/ir/inference_test.cc
#include "ir/rules/inference.h"

using namespace llvm;

namespace gradc {

void ShapeInference::fail(const Twine &message, ErrorKind kind) {
  if (hasFailed()) return;
  failure = message.str();
  kindOfFailure = kind;
}

std::optional<ShapeId> ShapeInference::intern(Dims dims, StringRef side, size_t index) {
  std::optional<ShapeId> shape = shapes.intern(dims);
  if (!shape) fail(side + " " + Twine(index) + " would have the shape " + toString(ShapeRef(dims)) + ", " + kPossible);
  return shape;
}

void ShapeInference::state(ShapeId &shape, Dims dims, StringRef side, size_t index) {
  if (hasFailed()) return;
  ShapeRef current = shapes[shape];
  if (current.hasRank() && current.dims() == dims) return;
  if (!current.hasRank()) {
    shape = intern(dims, side, index).value_or(shape);
    return;
  }
  DimsBuffer merged(current.dims().begin(), current.dims().end());
  if (!mergeDims(merged, dims))
    return fail(side + " " + Twine(index) + " has shape " + toString(current) + ", expected " +
                toString(ShapeRef(dims)));
  if (Dims(merged) != current.dims()) shape = intern(merged, side, index).value_or(shape);
}

void ShapeInference::equate(ShapeId &a, ShapeId &b, StringRef sideA, size_t indexA, StringRef sideB, size_t indexB) {
  if (a == b || hasFailed()) return;
  if (a == kUnknownShape) {
    a = b;
  } else if (b == kUnknownShape) {
    b = a;
  } else {
    DimsBuffer merged(shapes[a].dims().begin(), shapes[a].dims().end());
    if (!mergeDims(merged, shapes[b].dims()))
      return fail(sideA + " " + Twine(indexA) + " has shape " + toString(shapes[a]) + ", but " + sideB + " " +
                  Twine(indexB) + " has shape " + toString(shapes[b]));
    if (std::optional<ShapeId> shape = intern(merged, sideA, indexA)) a = b = *shape;
  }
}

void ShapeInference::sameAll() {
  // One pass merges all entries into the first one, a second copies the result to the others.
  for (int pass = 0; pass < 2; ++pass) {
    if (ins.empty()) {
      for (size_t o = 1; o < outs.size(); ++o) sameOutOut(0, o);
      continue;
    }
    for (size_t i = 1; i < ins.size(); ++i) sameInIn(0, i);
    for (size_t o = 0; o < outs.size(); ++o) sameInOut(0, o);
  }
}

std::string refusalOf(ShapeTable &shapes, const NodeKind &kind, ArrayRef<ShapeId> in, ArrayRef<ShapeId> out) {
  if (!kind.op->shape) return "";
  SmallVector<ShapeId, 8> ins(in), outs(out);
  ShapeInference inference(shapes, kind, ins, outs, /*zeroIsUnknown=*/true);
  kind.op->shape(inference);
  return inference.failureText().str();
}

void DTypeInference::fail(const Twine &message, ErrorKind kind) {
  if (hasFailed()) return;
  failure = message.str();
  kindOfFailure = kind;
}

void DTypeInference::state(DType &current, DType type, StringRef side, size_t index) {
  if (hasFailed() || type == DType::Unknown || current == type) return;
  if (current != DType::Unknown)
    return fail(side + " " + Twine(index) + " has type " + dtypeName(current) + ", expected " + dtypeName(type));
  current = type;
}

void DTypeInference::sameAll() {
  DType known = DType::Unknown;
  for (DType type : ins)
    if (known == DType::Unknown) known = type;
  for (DType type : outs)
    if (known == DType::Unknown) known = type;
  for (size_t i = 0; i < ins.size(); ++i) setIn(i, known);
  for (size_t o = 0; o < outs.size(); ++o) setOut(o, known);
}

}  // namespace gradc
