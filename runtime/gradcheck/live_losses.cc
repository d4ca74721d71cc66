// Walks backwards from the outputs over edges that carry gradient. Tested by
// tests/runtime/gradcheck/gradcheck_loops_test.cc
#include "runtime/gradcheck/live_losses.h"

#include "ir/graph/body_flow.h"
#include "runtime/gradcheck/held.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

/// Entries of one graph.
struct Marks {
  BitVector isLive;      // a head gradient reaches it
  BitVector isConstant;  // for the gradient
  BitVector isAtHand;    // its value is there for whoever wants it
};

class LossWalk {
 public:
  explicit LossWalk(LiveLosses &found) : found(found) {}

  /// Returns the losses, by node.
  BitVector walk(const Graph &graph, Marks &marks) {
    BitVector losses(graph.numNodes());
    for (uint32_t id = graph.numNodes(); id-- > 0;) {
      const NodeId n(id);
      const uint32_t first = graph.firstEntry(n).value, end = first + graph.numOutputs(n);
      if (graph.isVariable(n) || marks.isLive.find_first_in(first, end) < 0) continue;
      const NodeKind &kind = graph.kind(n);
      if (isMarkedStopped(graph, n) || (isHeld(graph, n) && !isLoss(*kind.op))) continue;
      if (kind.flow) {
        walkBodies(graph, n, marks);
        continue;
      }
      if (isLoss(*kind.op) && hasLabel(graph, n, marks)) losses.set(id);
      for (size_t i = 0; i < graph.inputs(n).size(); ++i) reach(graph, n, i, marks);
    }
    return losses;
  }

 private:
  using Bits = std::vector<bool>;

  static void reach(const Graph &graph, NodeId n, size_t input, Marks &marks) {
    const NodeKind &kind = graph.kind(n);
    const uint32_t e = graph.entry(graph.inputs(n)[input]).value;
    if (!kind.isStopped(input) && !kind.isIgnored(input) && !marks.isConstant[e]) marks.isLive.set(e);
  }

  /// Whether the labels that the loss itself does not read are there all the same.
  bool hasLabel(const Graph &graph, NodeId n, const Marks &marks) {
    const NodeKind &kind = graph.kind(n);
    for (size_t i = 0; i < graph.inputs(n).size(); ++i) {
      if (!kind.isIgnored(i) || marks.isAtHand[graph.entry(graph.inputs(n)[i]).value]) continue;
      found.withoutLabel = graph.describe(n);
      return false;
    }
    return true;
  }

  void walkBodies(const Graph &graph, NodeId n, Marks &marks) {
    const NodeKind &kind = graph.kind(n);
    const BodyFlow &flow = *kind.flow;
    for (size_t b = 0; b < flow.bodies.size(); ++b) {
      if (flow.isDecision(b)) continue;
      const BodyFlow::Body &body = flow.bodies[b];
      Bits heads, isAtHand;
      for (uint32_t o : body.outputOf) heads.push_back(marks.isLive[graph.firstEntry(n).value + o]);
      for (uint32_t operand : body.operandOf)
        isAtHand.push_back(marks.isAtHand[graph.entry(graph.inputs(n)[operand]).value] && !flow.stateOf(operand));
      bool grows = true;  // a state that a step reads is live in the step before
      while (grows) {
        grows = false;
        const Bits reached = walkBody(kind.bodies[b], body, heads, isAtHand);
        for (size_t i = 0; i < reached.size(); ++i) {
          if (!reached[i]) continue;
          const BodyFlow::State *state = flow.stateOf(body.operandOf[i]);
          if (!state || !state->startsAtZero) reach(graph, n, body.operandOf[i], marks);
          if (!state || heads[state->head]) continue;
          heads[state->head] = true;
          grows = true;
        }
      }
    }
  }

  /// Returns the inputs that a gradient reaches.
  const Bits &walkBody(const Graph &body, const BodyFlow::Body &ports, const Bits &heads, const Bits &isAtHand) {
    auto [at, isNew] = known.try_emplace({keyOf(body), heads, isAtHand});
    Bits &reached = at->second;
    if (!isNew) return reached;
    Marks marks{BitVector(body.numEntries()), BitVector(body.numEntries()), BitVector(body.numEntries())};
    for (size_t h = 0; h < heads.size(); ++h)
      if (heads[h]) marks.isLive.set(body.entry(body.heads()[h]).value);
    for (size_t i = 0; i < isAtHand.size(); ++i)
      if (isAtHand[i]) marks.isAtHand.set(body.firstEntry(ports.inputs[i]).value);
    found.inside[keyOf(body)] |= walk(body, marks);
    for (NodeId input : ports.inputs) reached.push_back(marks.isLive[body.firstEntry(input).value]);
    return reached;
  }

  LiveLosses &found;
  std::map<std::tuple<BodyKey, Bits, Bits>, Bits> known;  // bodies walked
};

}  // namespace

LiveLosses findLosses(const CheckProblem &problem) {
  const Graph &graph = problem.function;
  Marks marks{BitVector(graph.numEntries()), BitVector(graph.numEntries()), BitVector(graph.numEntries())};
  for (Value v : problem.held) marks.isConstant.set(graph.entry(v).value);
  for (Value y : graph.heads()) marks.isAtHand.set(graph.entry(y).value);
  for (uint32_t id = 0; id < graph.numNodes(); ++id)
    if (graph.isVariable(NodeId(id))) marks.isAtHand.set(graph.firstEntry(NodeId(id)).value);
  for (const CheckProblem::Output &out : problem.outputs)
    if (const uint32_t e = graph.entry(graph.heads()[out.head]).value; !marks.isConstant[e]) marks.isLive.set(e);
  LiveLosses found;
  const BitVector live = LossWalk(found).walk(graph, marks);
  for (uint32_t id : live.set_bits()) found.nodes.push_back(NodeId(id));
  return found;
}

}  // namespace gradc
