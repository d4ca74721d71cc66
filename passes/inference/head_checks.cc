// Checks head gradients against their outputs. Tested by tests/passes/gradient/gradient_heads_test.cc
#include "passes/inference/head_checks.h"

#include "ir/base/error.h"
#include "passes/inference/infer.h"

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

}  // namespace gradc
