#include "passes/inference/carry.h"

#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace gradc {

Inference unknownInference(const Graph &graph, std::shared_ptr<const ShapeTable> shapes) {
  Inference unknown;
  unknown.shape = EntryMap<ShapeId>(graph, kUnknownShape);
  unknown.shapes = std::move(shapes);
  unknown.dtype = EntryMap<DType>(graph, DType::Unknown);
  unknown.storage = EntryMap<StorageKind>(graph, StorageKind::Dense);
  return unknown;
}

void setEntry(Inference &to, EntryId entry, const Inference &from, EntryId of) {
  to.shape[entry] = from.shape[of];
  to.dtype[entry] = from.dtype[of];
  to.storage[entry] = from.storage[of];
}

std::vector<Value> sourcesOf(ArrayRef<NodeId> newId, uint32_t numNodes) {
  std::vector<Value> source(numNodes);
  for (uint32_t n = 0; n < newId.size(); ++n)
    if (newId[n].isValid() && !source[newId[n].value].node.isValid()) source[newId[n].value] = Value{NodeId(n)};
  return source;
}

Inference carry(const Inference &known, const Graph &before, const Graph &now, ArrayRef<Value> source) {
  Inference carried = unknownInference(now, known.shapes);
  for (uint32_t n = 0; n < now.numNodes(); ++n) {
    const uint32_t first = now.firstEntry(NodeId(n)).value;
    const Value from = n < source.size() ? source[n] : Value();
    const uint32_t count = from.isValid() ? before.numOutputs(from.node) - from.index : 0;
    for (uint32_t o = 0; o < now.numOutputs(NodeId(n)); ++o) {
      const EntryId to(first + o);
      if (o < count) setEntry(carried, to, known, EntryId(before.entry(from).value + o));
      carried.numUnknownShapes += !carried.isKnownShape(to);
      carried.numUnknownDTypes += carried.dtype[to] == DType::Unknown;
    }
  }
  return carried;
}

InferRequest knownVariables(const Graph &graph, const Inference &known) {
  InferRequest request;
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    if (!graph.isVariable(NodeId(n))) continue;
    const EntryId e = graph.firstEntry(NodeId(n));
    if (known.shape[e] != kUnknownShape) request.shapes.push_back({NodeId(n), DimsBuffer(known.shapeOf(e).dims())});
    if (known.dtype[e] != DType::Unknown) request.dtypes.push_back({NodeId(n), known.dtype[e]});
  }
  return request;
}

InferRequest knownVariables(const Graph &graph, const Inference &known, const Graph &rewritten) {
  StringMap<EntryId> variables;  // invalid: several different ones have the name
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    if (!graph.isVariable(NodeId(n))) continue;
    const EntryId entry = graph.firstEntry(NodeId(n));
    auto [place, isNew] = variables.try_emplace(graph.name(NodeId(n)), entry);
    EntryId &other = place->second;
    if (isNew || !other.isValid()) continue;
    if (known.shape[entry] != known.shape[other] || known.dtype[entry] != known.dtype[other]) other = EntryId();
  }
  InferRequest request;
  for (uint32_t n = 0; n < rewritten.numNodes(); ++n) {
    auto found = rewritten.isVariable(NodeId(n)) ? variables.find(rewritten.name(NodeId(n))) : variables.end();
    if (found == variables.end() || !found->second.isValid()) continue;
    const EntryId entry = found->second;
    if (known.shapeOf(entry).hasRank()) request.shapes.push_back({NodeId(n), DimsBuffer(known.shapeOf(entry).dims())});
    if (known.dtype[entry] != DType::Unknown) request.dtypes.push_back({NodeId(n), known.dtype[entry]});
  }
  return request;
}

}  // namespace gradc
