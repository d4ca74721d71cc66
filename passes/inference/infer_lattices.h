// What inference propagates: shapes and types, refined by the functions of operators. Used by passes/inference/infer.cc
// for a graph and by passes/inference/infer_bodies.cc for the bodies of its nodes.
#pragma once

#include "passes/inference/infer_bodies.h"

#include "ir/rules/inference.h"

namespace gradc {

/// Fast path for operators with equal entries: if all inputs are known and equal, no inference object is built.
template <class Lattice, class Element = typename Lattice::Element>
bool fillWithSame(const Lattice &lattice, llvm::ArrayRef<Element> in, llvm::MutableArrayRef<Element> out,
                  Element unknown) {
  if (in.empty() || !lattice.isKnown(in[0])) return false;
  for (Element element : in)
    if (element != in[0]) return false;
  for (Element element : out)
    if (element != in[0] && element != unknown) return false;
  std::fill(out.begin(), out.end(), in[0]);
  return true;
}

// Out of line: bodies nest, and so do the frames of runInference.
template <class I> LLVM_ATTRIBUTE_NOINLINE llvm::Error failureOf(const Graph &graph, NodeId n, const I &inference) {
  return Failure(inference.failureKind(),
                 "operator '" + graph.op(n)->name + "', " + graph.describe(n) + ": " + inference.failureText())
      .at(n);
}

/// Runs a node's function, which may infer through bodies; returns the first error in a body, else that of the
/// function.
template <class Run, class I>
llvm::Error runInference(const Graph &graph, NodeId n, BodyInferrer *bodies, I &inference, Run run) {
  BodyVisit<typename I::Entry> visit{bodies, graph, n};
  if (graph.kind(n).flow && bodies) inference.bodies = visit.hook();
  run(inference);
  if (visit.error) return std::move(visit.error);
  return inference.hasFailed() ? failureOf(graph, n, inference) : llvm::Error::success();
}

struct ShapeLattice {
  using Element = ShapeId;
  ShapeTable &table;
  const Graph &graph;
  bool zeroIsUnknown;
  BodyInferrer *bodies;

  bool isKnown(ShapeId shape) const { return table.isFullyKnown(shape); }
  bool isMorePrecise(ShapeId a, ShapeId b) const {
    if (b == kUnknownShape || a == kUnknownShape) return a != kUnknownShape;
    return table[a].numUnknown() < table[b].numUnknown();
  }

  llvm::Error visit(NodeId n, llvm::MutableArrayRef<ShapeId> in, llvm::MutableArrayRef<ShapeId> out) {
    const NodeKind &kind = graph.kind(n);
    if (!kind.op->shape) return llvm::Error::success();
    if (kind.op->shape == shapes::same && fillWithSame(*this, llvm::ArrayRef<ShapeId>(in), out, kUnknownShape))
      return llvm::Error::success();
    ShapeInference inference(table, kind, in, out, zeroIsUnknown);
    return runInference(graph, n, bodies, inference, kind.op->shape);
  }

  llvm::Error take(NodeId n, ShapeId &to, ShapeId from) {
    if (to == from || from == kUnknownShape) return llvm::Error::success();
    if (to == kUnknownShape) return to = from, llvm::Error::success();
    DimsBuffer dims(table[to].dims().begin(), table[to].dims().end());
    if (!mergeDims(dims, table[from].dims()))
      return Failure(ErrorKind::BackwardAttr, graph.describe(n) + " has shape " + toString(table[to]) +
                                                  ", its forward node has " + toString(table[from]))
          .at(n);
    to = *table.intern(dims);
    return llvm::Error::success();
  }
};

struct DTypeLattice {
  using Element = DType;
  const Graph &graph;
  BodyInferrer *bodies;

  static bool isKnown(DType type) { return type != DType::Unknown; }
  static bool isMorePrecise(DType a, DType b) { return b == DType::Unknown && a != DType::Unknown; }

  llvm::Error visit(NodeId n, llvm::MutableArrayRef<DType> in, llvm::MutableArrayRef<DType> out) {
    const NodeKind &kind = graph.kind(n);
    if (kind.op->flags.isOpaque) return llvm::Error::success();
    if ((!kind.op->dtype || kind.op->dtype == dtypes::same) &&
        fillWithSame(*this, llvm::ArrayRef<DType>(in), out, DType::Unknown))
      return llvm::Error::success();
    DTypeInference inference(kind, in, out);
    return runInference(graph, n, bodies, inference, [&](DTypeInference &t) {
      if (kind.op->dtype) kind.op->dtype(t);
      else t.sameAll();
    });
  }

  llvm::Error take(NodeId n, DType &to, DType from) {
    if (to == from || from == DType::Unknown) return llvm::Error::success();
    if (to != DType::Unknown)
      return Failure(ErrorKind::BackwardAttr,
                     graph.describe(n) + " has type " + dtypeName(to) + ", its forward node has " + dtypeName(from))
          .at(n);
    to = from;
    return llvm::Error::success();
  }
};

}  // namespace gradc
