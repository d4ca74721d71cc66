// Head gradients against their outputs. Tested by tests/gradient_heads_test.cc
#include "passes/head_checks.h"

#include "ir/error.h"
#include "passes/infer.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr StringRef kKey = "head_pairs";

ShapeRef shapeOf(const Graph &graph, const Inference &inference, Value v) {
  return inference.shapeOf(graph.entry(v));
}

Error checkScalar(const Graph &graph, const Inference &inference, Value y) {
  ShapeRef shape = shapeOf(graph, inference, y);
  if (!shape.isFullyKnown() || numElements(shape.dims()) == 1) return Error::success();
  std::string name = graph.listedName(y);
  return Failure(ErrorKind::ImplicitHead, "output '" + name + "' has shape " + toString(shape) +
                                              "; an implicit head gradient needs a scalar")
      .at(y.node)
      .note("give a head gradient with --seed " + name + "=NAME");
}

bool isEntry(const Graph &graph, int64_t node, int64_t index) {
  return node >= 0 && node < static_cast<int64_t>(graph.numNodes()) && index >= 0 &&
         index < static_cast<int64_t>(graph.numOutputs(NodeId(static_cast<uint32_t>(node))));
}

Value valueOf(int64_t node, int64_t index) {
  return Value{NodeId(static_cast<uint32_t>(node)), static_cast<uint16_t>(index)};
}

}  // namespace

Error checkHeadPair(const Graph &graph, const Inference &inference, HeadPair pair) {
  if (!pair.seed.isValid()) return checkScalar(graph, inference, pair.y);
  std::string subject = "head gradient " + std::to_string(pair.position + 1) + ", '" + graph.listedName(pair.seed) + "', has ";
  std::string name = graph.listedName(pair.y);
  ShapeRef shape = shapeOf(graph, inference, pair.y), seedShape = shapeOf(graph, inference, pair.seed);
  if (shape.isFullyKnown() && seedShape.isFullyKnown() && shape.dims() != seedShape.dims())
    return Failure(ErrorKind::HeadShape, subject + "shape " + toString(seedShape) + ", output '" + name + "' has " +
                                             toString(shape))
        .at(pair.y.node);
  DType type = inference.dtype[graph.entry(pair.y)], seedType = inference.dtype[graph.entry(pair.seed)];
  if (type != DType::Unknown && seedType != DType::Unknown && isFloating(type) != isFloating(seedType))
    return Failure(ErrorKind::HeadDType, subject + "type " + dtypeName(seedType) + ", output '" + name + "' has " +
                                             dtypeName(type))
        .at(pair.y.node);
  return Error::success();
}

bool isSettled(const Graph &graph, const Inference *inference, HeadPair pair) {
  if (!inference || !shapeOf(graph, *inference, pair.y).isFullyKnown()) return false;
  if (!pair.seed.isValid()) return true;
  return shapeOf(graph, *inference, pair.seed).isFullyKnown() &&
         inference->dtype[graph.entry(pair.y)] != DType::Unknown && inference->dtype[graph.entry(pair.seed)] != DType::Unknown;
}

std::vector<HeadPair> readHeadPairs(const Graph &graph) {
  std::vector<HeadPair> pairs;
  auto at = graph.graphAttrs().find(kKey.str());
  if (at == graph.graphAttrs().end() || at->second.kind != GraphAttr::Kind::ListInt) return pairs;
  ArrayRef<int64_t> numbers = at->second.numbers;
  for (; numbers.size() >= 5; numbers = numbers.drop_front(5)) {
    const bool hasSeed = isEntry(graph, numbers[3], numbers[4]);
    if (!isEntry(graph, numbers[1], numbers[2]) || (numbers[3] >= 0 && !hasSeed)) continue;
    pairs.push_back({static_cast<uint32_t>(numbers[0]), valueOf(numbers[1], numbers[2]),
                     hasSeed ? valueOf(numbers[3], numbers[4]) : Value()});
  }
  return pairs;
}

Graph withHeadPairs(const Graph &graph, ArrayRef<HeadPair> pairs) {
  if (pairs.empty()) return graph;
  GraphAttrs attrs = graph.graphAttrs();
  GraphAttr &list = attrs.try_emplace(kKey.str(), GraphAttr::ofInts({})).first->second;
  for (const HeadPair &pair : pairs) {
    const int64_t seedNode = pair.seed.isValid() ? int64_t{pair.seed.node.value} : -1;
    list.numbers.insert(list.numbers.end(), {int64_t{pair.position}, int64_t{pair.y.node.value}, int64_t{pair.y.index}, seedNode,
                                             pair.seed.isValid() ? int64_t{pair.seed.index} : 0});
  }
  return graph.withGraphAttrs(std::move(attrs));
}

Error checkHeadPairs(const Graph &graph, const Inference &inference) {
  for (const HeadPair &pair : readHeadPairs(graph))
    if (Error error = checkHeadPair(graph, inference, pair)) return error;
  return Error::success();
}

}  // namespace gradc
