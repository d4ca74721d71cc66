// Tested by tests/passes/lowering/lower_to_test.cc
#include "passes/lowering/emitted_entries.h"

#include "ir/rules/inference.h"

using namespace llvm;

namespace gradc {

void EmittedEntries::add(NodeId node, NodeId of) {
  addUpTo(node.value);
  firstEntry.push_back(static_cast<uint32_t>(entries.size()));
  for (uint32_t o = 0; o < builder.numOutputs(node); ++o) {
    entries.push_back({});
    if (!known) continue;
    const EntryId e(graph->firstEntry(of).value + o);
    entries.back().shape = known->shape[e], entries.back().dtype = known->dtype[e];
  }
}

void EmittedEntries::addUpTo(uint32_t end) {
  for (uint32_t n = static_cast<uint32_t>(firstEntry.size()); n < end; ++n) {
    firstEntry.push_back(static_cast<uint32_t>(entries.size()));
    entries.resize(entries.size() + builder.numOutputs(NodeId(n)));
    if (!known) continue;
    inferShapes(NodeId(n));
    inferTypes(NodeId(n));
  }
}

ShapeRef EmittedEntries::shape(Value v) {
  if (!known) return ShapeRef();
  addUpTo(v.node.value + 1);
  return shapes[entry(v).shape];
}

DType EmittedEntries::dtype(Value v) {
  if (!known) return DType::Unknown;
  addUpTo(v.node.value + 1);
  return entry(v).dtype;
}

bool EmittedEntries::isNeeded(NodeId node) {
  if (!builder.kind(node).mutated.isEmpty()) return true;
  for (uint32_t o = 0; o < builder.numOutputs(node); ++o)
    if (isRead(Value{node, static_cast<uint16_t>(o)})) return true;
  return false;
}

void EmittedEntries::replace(Value v, Value by) {
  Entry &from = entry(v);
  from.isReplaced = true;
  if (!by.isValid()) return;
  from.by = place(by);
  if (!from.by.isValid()) return;
  // More may have been known of the node than of what its rule emitted.
  if (DType &dtype = entry(from.by).dtype; dtype == DType::Unknown) dtype = from.dtype;
  ShapeId &shape = entry(from.by).shape;
  const bool isLessKnown = shape == kUnknownShape || shapes[shape].numUnknown() > shapes[from.shape].numUnknown();
  if (from.shape != kUnknownShape && isLessKnown) shape = from.shape;
}

// Infers the outputs from the inputs, and those of a gradient operator from its forward node (INF-08).
void EmittedEntries::inferShapes(NodeId node) {
  const NodeKind &kind = builder.kind(node);
  if (kind.isVariable()) return;
  SmallVector<ShapeId, 8> in, out(kind.numOutputs, kUnknownShape);
  for (Value v : builder.inputs(node)) in.push_back(entry(v).shape);
  if (const NodeId of = forward(node); of.isValid())
    if (const BackwardLink *link = summaries.link(builder.kindHandle(of), builder.kindHandle(node)))
      for (LinkedEntry output : link->outputs) out[output.position] = entry(builder.inputs(of)[output.of]).shape;
  ShapeInference inference(shapes, kind, in, out, zeroIsUnknown(*graph));
  if (kind.op->shape) kind.op->shape(inference);
  for (uint32_t o = 0; o < kind.numOutputs && !inference.hasFailed(); ++o)
    entry(Value{node, static_cast<uint16_t>(o)}).shape = out[o];
}

void EmittedEntries::inferTypes(NodeId node) {
  const NodeKind &kind = builder.kind(node);
  if (kind.isVariable()) return;
  SmallVector<DType, 8> in, out(kind.numOutputs, DType::Unknown);
  for (Value v : builder.inputs(node)) in.push_back(entry(v).dtype);
  DTypeInference inference(kind, in, out);
  if (kind.op->dtype) kind.op->dtype(inference);
  else inference.sameAll();
  for (uint32_t o = 0; o < kind.numOutputs && !inference.hasFailed(); ++o)
    entry(Value{node, static_cast<uint16_t>(o)}).dtype = out[o];
}

}  // namespace gradc
