// Compares heads with the side table. Tested by tests/passes/gradient_shapes_test.cc
#include "passes/inference/gradient_shapes.h"

#include "ir/base/error.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

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

Error checkGradientShapes(const Graph &graph, const Inference &inference) {
  if (!graph.table().gradient) return Error::success();
  for (auto [head, gradient] : zip(graph.table().gradient->heads, graph.heads())) {
    if (!head.ofNode.isValid() || head.ofIndex >= graph.numOutputs(head.ofNode)) continue;
    const Value x{head.ofNode, static_cast<uint16_t>(head.ofIndex)};
    const EntryId entry = graph.entry(gradient), expected = graph.entry(x);
    if (inference.shape[entry] == inference.shape[expected] && inference.dtype[entry] == inference.dtype[expected])
      continue;
    if (Error error = checkHead(graph, inference, gradient, x)) return error;
  }
  return Error::success();
}

}  // namespace gradc
