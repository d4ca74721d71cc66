#include "ir/graph/body_roles.h"

#include "ir/graph/body_flow.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

/// The owner's flow; null if there is none.
const BodyFlow *flowOf(ArrayRef<NestedGraph> list, size_t position) {
  if (position == 0) return nullptr;
  return list[list[position].parent].graph.kind(list[position].owner).flow;
}

}  // namespace

std::string valueText(Value v) {
  std::string text = "%" + std::to_string(v.node.value);
  if (v.index) text += ":" + std::to_string(v.index);
  if (v.version) text += "@" + std::to_string(v.version);
  return text;
}

BodyRole inputRole(ArrayRef<NestedGraph> list, size_t position, NodeId input) {
  const BodyFlow *flow = flowOf(list, position);
  if (!flow) return {};
  const NestedGraph &nested = list[position];
  const BodyFlow::Body &body = flow->bodies[nested.body];
  const uint32_t operand =
      body.operandOf[static_cast<size_t>(llvm::lower_bound(body.inputs, input) - body.inputs.begin())];
  const std::string from = valueText(list[nested.parent].graph.inputs(nested.owner)[operand]);
  if (flow->operands[operand] == BodyFlow::Operand::Rows) return {"sliced", "sliced from " + from};
  if (const BodyFlow::State *state = flow->stateOf(operand))
    return {"carried", state->startsAtZero ? "carried from zeros like " + from : "carried from " + from};
  return flow->form == BodyFlow::Form::Loop ? BodyRole{"closed over", "closes over " + from}
                                            : BodyRole{"passed", "passed " + from};
}

BodyRole headRole(ArrayRef<NestedGraph> list, size_t position, size_t head) {
  const BodyFlow *flow = flowOf(list, position);
  if (!flow) return {};
  const NestedGraph &nested = list[position];
  if (flow->isDecision(nested.body)) return {"decision", "decides"};
  const NodeKind &owner = list[nested.parent].graph.kind(nested.owner);
  const uint32_t output = flow->bodies[nested.body].outputOf[head];
  const std::string to = valueText(Value{nested.owner, static_cast<uint16_t>(output)});
  if (output >= owner.numVisible) return {"saved", "saved in " + to};
  if (flow->isStacked[output]) return {"stacked", "stacked in " + to};
  return flow->form == BodyFlow::Form::Loop ? BodyRole{"next state", "next state, the last is " + to}
                                            : BodyRole{"yielded", "yielded as " + to};
}

}  // namespace gradc
