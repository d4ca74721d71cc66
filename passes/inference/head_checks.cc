// Compares heads with the side table. Tested by tests/passes/gradient/gradient_heads_test.cc and
// tests/passes/gradient_shapes_test.cc
#include "passes/inference/head_checks.h"

#include "ir/base/error.h"
#include "passes/inference/infer.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

ShapeRef shapeOf(const Graph &graph, const Inference &inference, Value v) { return inference.shapeOf(graph.entry(v)); }

Error checkScalar(const Graph &graph, const Inference &inference, Value y) {
  ShapeRef shape = shapeOf(graph, inference, y);
  if (!shape.isFullyKnown() || numElements(shape.dims()) == 1) return Error::success();
  std::string name = graph.listedName(y);
  return Failure(ErrorKind::ImplicitHead,
                 "output '" + name + "' has shape " + toString(shape) + "; an implicit head gradient needs a scalar")
      .at(y.node)
      .remedy(Remedy::GiveHeadGradient, "give '" + name + "' a head gradient", name);
}

Error checkGradientHead(const Graph &graph, const Inference &inference, Value gradient, Value x) {
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

Error checkHeadPair(const Graph &graph, const Inference &inference, HeadPair pair) {
  if (!pair.seed.isValid()) return checkScalar(graph, inference, pair.y);
  std::string subject =
      "head gradient " + std::to_string(pair.position + 1) + ", '" + graph.listedName(pair.seed) + "', has ";
  std::string name = graph.listedName(pair.y);
  ShapeRef shape = shapeOf(graph, inference, pair.y), seedShape = shapeOf(graph, inference, pair.seed);
  if (shape.isFullyKnown() && seedShape.isFullyKnown() && shape.dims() != seedShape.dims())
    return Failure(ErrorKind::HeadShape,
                   subject + "shape " + toString(seedShape) + ", output '" + name + "' has " + toString(shape))
        .at(pair.y.node);
  DType type = inference.dtype[graph.entry(pair.y)], seedType = inference.dtype[graph.entry(pair.seed)];
  if (type != DType::Unknown && seedType != DType::Unknown && isFloating(type) != isFloating(seedType))
    return Failure(ErrorKind::HeadDType,
                   subject + "type " + dtypeName(seedType) + ", output '" + name + "' has " + dtypeName(type))
        .at(pair.y.node);
  return Error::success();
}

bool isFullyChecked(const Graph &graph, const Inference *inference, HeadPair pair) {
  if (!inference || !shapeOf(graph, *inference, pair.y).isFullyKnown()) return false;
  if (!pair.seed.isValid()) return true;
  return shapeOf(graph, *inference, pair.seed).isFullyKnown() &&
         inference->dtype[graph.entry(pair.y)] != DType::Unknown &&
         inference->dtype[graph.entry(pair.seed)] != DType::Unknown;
}

Error checkHeadPairs(const Graph &graph, const Inference &inference) {
  for (const HeadPair &pair : graph.table().headPairs)
    if (Error error = checkHeadPair(graph, inference, pair)) return error;
  return Error::success();
}

Error checkGradientShapes(const Graph &graph, const Inference &inference) {
  if (!graph.table().gradient) return Error::success();
  for (auto [head, gradient] : zip(graph.table().gradient->heads, graph.heads())) {
    if (!head.ofNode.isValid() || head.ofIndex >= graph.numOutputs(head.ofNode)) continue;
    const Value x{head.ofNode, static_cast<uint16_t>(head.ofIndex)};
    const EntryId entry = graph.entry(gradient), expected = graph.entry(x);
    if (inference.shape[entry] == inference.shape[expected] && inference.dtype[entry] == inference.dtype[expected])
      continue;
    if (Error error = checkGradientHead(graph, inference, gradient, x)) return error;
  }
  return Error::success();
}

}  // namespace gradc
