// Heads against the side table. Tested by tests/gradient_shapes_test.cc
#include "passes/gradient_shapes.h"

#include "ir/error.h"

using namespace llvm;

namespace gradc {
namespace {

ArrayRef<int64_t> numbersOf(const Graph &graph, const char *key) {
  auto at = graph.graphAttrs().find(key);
  return at == graph.graphAttrs().end() ? ArrayRef<int64_t>() : ArrayRef<int64_t>(at->second.numbers);
}

Error checkHead(const Graph &graph, const Inference &inference, Value gradient, Value x) {
  ShapeRef shape = inference.shapeOf(graph.entry(gradient));
  ShapeRef expected = inference.shapeOf(graph.entry(x));
  DType type = inference.dtype[graph.entry(gradient)], expectedType = inference.dtype[graph.entry(x)];
  const bool isOtherShape = shape.isFullyKnown() && expected.isFullyKnown() && shape.dims() != expected.dims();
  const bool isOtherType = type != DType::Unknown && expectedType != DType::Unknown && type != expectedType;
  if (!isOtherShape && !isOtherType) return Error::success();
  const NodeId origin = graph.origin(gradient.node);
  return Failure(ErrorKind::GradShape,
                 "the gradient of '" + graph.listedName(x) + "', output " + Twine(gradient.index) + " of " +
                     graph.describe(gradient.node) + ", has " +
                     (isOtherShape ? "shape " + toString(shape) + ", expected " + toString(expected)
                                   : "type " + dtypeName(type).str() + ", expected " + dtypeName(expectedType).str()))
      .at(origin.isValid() ? origin : gradient.node);
}

}  // namespace

// The two lists are read as they are: a whole table, with its names, would cost more than the inference.
Error checkGradientShapes(const Graph &graph, const Inference &inference) {
  ArrayRef<int64_t> nodes = numbersOf(graph, "grad_of_node"), indices = numbersOf(graph, "grad_of_index");
  if (nodes.size() != graph.heads().size() || indices.size() != graph.heads().size()) return Error::success();
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i] < 0 || nodes[i] >= static_cast<int64_t>(graph.numNodes())) continue;
    const NodeId of(static_cast<uint32_t>(nodes[i]));
    if (indices[i] < 0 || indices[i] >= static_cast<int64_t>(graph.numOutputs(of))) continue;
    const Value x{of, static_cast<uint16_t>(indices[i])}, gradient = graph.heads()[i];
    const EntryId entry = graph.entry(gradient), expected = graph.entry(x);
    if (inference.shape[entry] == inference.shape[expected] && inference.dtype[entry] == inference.dtype[expected]) continue;
    if (Error error = checkHead(graph, inference, gradient, x)) return error;
  }
  return Error::success();
}

}  // namespace gradc
