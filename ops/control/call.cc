// A graph as a node: a body that several places invoke. Tested by tests/ops/control_flow_test.cc
#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ops/control/branch_gradient.h"
#include "ops/control/flow_operator.h"
#include "ops/control/rebody.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

struct CallParams {
  int64_t numArgs, numOutputs;
  std::optional<Dims> inputLocs, saved;

  int64_t numInputs() const { return numArgs; }
  int64_t numVisible() const { return numOutputs; }
  int64_t numHidden() const { return numSaved(saved); }
};

constexpr AttrSpec kCallAttrs[] = {
    required<&CallParams::numArgs>("num_args", "number of inputs").atLeast(0).atMost(1 << 16),
    required<&CallParams::numOutputs>("num_outputs", "number of outputs, the heads of the body")
        .atLeast(1)
        .atMost(kMaxIndex),
    attr<&CallParams::inputLocs>("input_locs", "None",
                                 "which input each input of the body is given; None: in their order"),
    savedAttr<&CallParams::saved>(),
};

Expected<BodyFlow> callFlow(const NodeKind &kind) {
  const CallParams &p = kind.params<CallParams>();
  FlowBuilder flow(kind, BodyFlow::Form::Call);
  expectSaved(flow, p.saved, 1);
  flow.addOperands(BodyFlow::Operand::Whole, static_cast<size_t>(p.numArgs));
  SmallVector<int64_t, 16> operandOf;
  if (p.inputLocs) operandOf.assign(p.inputLocs->begin(), p.inputLocs->end());
  else
    for (int64_t i = 0; i < p.numArgs; ++i) operandOf.push_back(i);
  flow.addBody("input_locs", operandOf);
  flow.addHeads(static_cast<size_t>(p.numOutputs + numSaved(p.saved)), 0, false);
  return std::move(flow).finish();
}

// Emits the nodes of the body in place of the call. The body may overwrite a value only once, so that its versions
// continue those around the call.
class InlinedBody {
 public:
  explicit InlinedBody(DecomposeRule &d)
      : d(d), body(d.kind().bodies[0]), nodes(body.numNodes()), isOverwritten(body.numNodes()),
        isNumbered(body.numNodes()), hasVersions(body.numNodes()), isWritten(body.numNodes()) {
    for (uint32_t n = 0; n < body.numNodes(); ++n)
      for (Value v : body.inputs(NodeId(n))) hasVersions[v.node.value] = hasVersions[v.node.value] || v.version != 0;
  }

  void run() {
    const BodyFlow::Body &ports = d.kind().flow->bodies[0];
    for (size_t i = 0; i < ports.inputs.size(); ++i) {
      const Value given = d.x(ports.operandOf[i]);
      const bool isWrittenHere = d.kind().isMutated(ports.operandOf[i]);
      isOverwritten[ports.inputs[i].value] = isWrittenHere;
      isNumbered[ports.inputs[i].value] = isWrittenHere && given.version != 0;
      nodes[ports.inputs[i].value] = isWrittenHere ? beforeWrite(given) : given;
    }
    for (uint32_t n = 0; n < body.numNodes() && !d.hasFailed(); ++n)
      if (!body.isVariable(NodeId(n))) emit(NodeId(n));
    for (size_t h = 0; h < body.heads().size() && !d.hasFailed(); ++h) {
      Value head = body.heads()[h];
      if (isOverwritten[head.node.value]) head.version = 1;  // what the body leaves behind
      d.y(ports.outputOf[h], at(head));
    }
  }

 private:
  Value at(Value v) {
    // Where the body has no version numbers, its order decides.
    if (v.version == 0 && !hasVersions[v.node.value] && isWritten[v.node.value]) v.version = 1;
    if (!isNumbered[v.node.value]) v.version = 0;  // a first number would change reads around the call
    const Value base = nodes[v.node.value];
    return Value{base.node, static_cast<uint16_t>(base.index + v.index),
                 static_cast<uint16_t>(base.version + v.version)};
  }

  void emit(NodeId n) {
    const NodeKind &kind = body.kind(n);
    SmallVector<Value, 8> inputs;
    for (size_t i = 0; i < body.inputs(n).size(); ++i) {
      Value v = body.inputs(n)[i];
      if (kind.isMutated(i) && v.version == 0) v.version = isWritten[v.node.value] ? 2 : 1;
      if (v.version > 1 && isOverwritten[v.node.value])
        return d.refuse(ErrorKind::UnsupportedOption, "overwrites '" + body.name(v.node) + "' of its body twice");
      inputs.push_back(at(v));
    }
    for (size_t i = 0; i < body.inputs(n).size(); ++i)
      if (kind.isMutated(i)) isWritten[body.inputs(n)[i].node.value] = true;
    ArrayRef<NodeId> deps = body.controlDeps(n);
    const bool isFused = kind.op->flags.isBackward && !deps.empty();
    if (kind.op->flags.isOpaque)
      return d.refuse(ErrorKind::UnknownOp, "has the unknown operator '" + kind.op->name + "' in its body");
    nodes[n.value] = isFused ? d.emitFused(*kind.op, inputs, kind.attrs, nodes[deps[0].value].node)
                             : d.emit(*kind.op, inputs, kind.attrs, kind.bodies);
    for (NodeId dep : deps.drop_front(isFused))
      if (!body.isVariable(dep) && !d.hasFailed()) d.wait(nodes[n.value], nodes[dep.value]);
  }

  DecomposeRule &d;
  const Graph &body;
  std::vector<Value> nodes;  // by node of the body: output 0
  // By variable of the body. Versions of one that the body does not overwrite mean nothing around it.
  std::vector<bool> isOverwritten;
  std::vector<bool> isNumbered;  // overwritten, and its operand has a version number
  std::vector<bool> hasVersions, isWritten;
};

constexpr OpDef callOperator() {
  OpDef op = flowOperator<CallParams>("_call", "runs its body", kCallAttrs);
  op.flow = callFlow;
  op.rebody = [](Context &context, const NodeKind &kind, const NewBodies &given) {
    return rebodied(context, kind, given, {{"input_locs", listText(operandsOf(kind, given, 0))}});
  };
  op.gradient = branchGradient;
  op.decompose = [](DecomposeRule &d) { InlinedBody(d).run(); };
  return op;
}

}  // namespace

constinit const OpDef kCall = callOperator();

constinit const OpFamily kCallFamily = kOps<kCall>;

}  // namespace gradc
