// The heap memory of compiled backwards. Tested by tests/imperative/memory/imperative_memory_test.cc
#include "imperative/plans/plan.h"
#include "imperative/tape/tape_shapes.h"

namespace gradc {
namespace {

/// Only the columns of a graph: kinds are the Context's.
size_t bytesOf(const Graph &graph) {
  const GraphColumns &c = graph.columns();
  return heapBlock(sizeof(GraphColumns) + 16) + heapBlock(sizeof(GraphTable) + 16) +
         heapBytesOf(c.kinds, c.kindList, c.inputBegin, c.inputs, c.depBegin, c.deps) +
         heapBytesOf(c.entryBegin, c.nameBegin, c.names, c.origins, c.heads);
}

/// Rows by entry: shape, type, storage; and a slab of shapes.
size_t bytesOf(const Inference &inference) {
  const size_t entries = inference.dtype.size();
  return heapBlock(entries * sizeof(ShapeId)) + heapBlock(entries * sizeof(DType)) +
         heapBlock(entries * sizeof(StorageKind)) + heapBlock(sizeof(ShapeTable) + 16) + heapBlock(4096) + 512;
}

}  // namespace

size_t Plan::heapBytes() const {
  size_t sum = heapBlock(sizeof(Plan) + 16) + list.ownedBytes + heapBlock(list.address.size() * sizeof(char *)) +
               heapBytesOf(list.instructions, list.extras, list.operands, list.operandEntry, list.requests) +
               heapBytesOf(list.steps, list.heads, list.headEntry, list.neededVariables, list.buffers, list.kinds) +
               heapBytesOf(saved, slots, callOf, results, heads, operandsOfHeads, draws, hostCalls, stops, headEntry) +
               places.heapBytes() + isGradient.size() / 8 + heapBytesOf(signatures, shapes);
  if (!list.isTrimmed()) sum += bytesOf(list.graph) + bytesOf(list.inference);
  for (const std::unique_ptr<MovableRunner> &runner : list.runners) sum += runner->heapBytes();
  if (source) sum += source->heapBytes();
  return sum;
}

size_t PlanSource::heapBytes() const {
  size_t bytes = heapBlock(sizeof(PlanSource)) + bytesOf(combined) + bytesOf(split.backward) + bytesOf(inference) +
                 heapBytesOf(split.newId, split.source, split.saved, split.shapesOnly) +
                 heapBytesOf(callOf, leafOf, savedValue, headValue, tapNodes);
  return calls ? bytes + calls->heapBytes() : bytes;
}

size_t PlanSource::Calls::heapBytes() const {
  return heapBlock(sizeof(Calls)) + heapBytesOf(forward, calls, inputs, shapesOnly, outputs, isOthers, kinds, shapes);
}

}  // namespace gradc
