#include "runtime/gradcheck/held_bodies.h"

#include "ir/graph/body_flow.h"
#include "runtime/gradcheck/held.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

/// What is held constant in a run of a node: an override without the values.
NodeOverride::Kind heldAs(const Graph &body, NodeId n, const KernelCall &call) {
  if (isHeld(body, n)) return NodeOverride::Kind::Hold;
  const bool varies = any_of(call.in, [](const TensorRef &in) { return isFloating(in.dtype); });
  return call.kind->op->piece && varies ? NodeOverride::Kind::Piece : NodeOverride::Kind::None;
}

}  // namespace

HeldBodies::HeldBodies(const Graph &function, const std::map<BodyKey, BitVector> &losses)
    : graphs(nestedGraphs(function)), liveLosses(losses) {
  for (const NestedGraph &nested : graphs)
    for (uint32_t id = 0; id < nested.graph.numNodes(); ++id) {
      const NodeKind &kind = nested.graph.kind(NodeId(id));
      numDecisions += kind.flow && kind.flow->isDecision(0);
    }
}

void HeldBodies::record(const TensorRef &value) {
  Array array{value.dtype, value.shape.vec(), {}};
  if (value.data) {
    array.bytes.reserve(1);  // null data means that there is no value
    array.bytes.assign(value.as<char>(), value.as<char>() + value.bytes());
  }
  recorded.push_back(std::move(array));
}

TensorRef HeldBodies::next() { return recorded[position++].ref(); }

void HeldBodies::hold() {
  isHolding = true;
  position = 0;
  lossValues.clear();
}

bool HeldBodies::isLiveLoss(const Graph &body, NodeId n) const {
  auto at = liveLosses.find(keyOf(body));
  return at != liveLosses.end() && at->second[n.value];
}

void HeldBodies::count(const Graph &body, NodeId n, const KernelCall &call) {
  BitVector &counted = isCounted[keyOf(body)];
  counted.resize(body.numNodes());
  if (counted[n.value]) return;
  counted.set(n.value);
  const NodeOverride::Kind kind = heldAs(body, n, call);
  numPieces += kind == NodeOverride::Kind::Piece;
  numHeld += kind == NodeOverride::Kind::Hold && !call.kind->op->flags.hasNoGradient;
  for (size_t i = 0; i < call.in.size(); ++i) numInputs += isHeldInput(*call.kind, i);
}

void HeldBodies::noteNotFinite(const Graph &body, NodeId n, const KernelCall &call) {
  if (!notFinite.empty()) return;
  const std::string text = describeNotFinite(body, n, call.out);
  if (text.empty()) return;
  auto isBody = [&](const NestedGraph &nested) { return keyOf(nested.graph) == keyOf(body); };
  notFinite = bodyPath(graphs, static_cast<size_t>(find_if(graphs, isBody) - graphs.begin())) + " > " + text;
}

void HeldBodies::recordRun(const Graph &body, NodeId n, const KernelCall &call, RunKernel kernel) {
  count(body, n, call);
  const NodeOverride::Kind kind = heldAs(body, n, call);
  for (size_t i = 0; i < call.in.size(); ++i)
    if (isHeldInput(*call.kind, i)) record(call.in[i]);
  if (kind == NodeOverride::Kind::Piece) for_each(call.in, [&](const TensorRef &in) { record(in); });
  const size_t before = numRecorded();
  kernel(call);
  noteNotFinite(body, n, call);
  if (kind != NodeOverride::Kind::Hold) return;
  forgetFrom(before);
  for_each(call.out, [&](const TensorRef &out) { record(out); });
}

void HeldBodies::run(const Graph &body, NodeId n, const KernelCall &call, RunKernel kernel) {
  if (!isHolding) return recordRun(body, n, call, kernel);
  NodeOverride replaced;
  replaced.kind = heldAs(body, n, call);
  replaced.inputs.resize(call.in.size());
  for (size_t i = 0; i < call.in.size(); ++i)
    if (isHeldInput(*call.kind, i)) replaced.inputs[i] = next();
  if (replaced.kind == NodeOverride::Kind::Piece)
    for (size_t i = 0; i < call.in.size(); ++i) replaced.base.push_back(next());
  if (replaced.kind == NodeOverride::Kind::Hold)
    for (size_t o = 0; o < call.out.size(); ++o) replaced.base.push_back(next());
  if (isLiveLoss(body, n)) replaced.impliedLoss = &lossValues.emplace_back();
  runReplaced(replaced, call, kernel);
}

void HeldBodies::decide(const TensorRef &decision) {
  if (!isHolding) return record(decision);
  const TensorRef held = next();
  std::memcpy(decision.data, held.data, held.bytes());
}

}  // namespace gradc
