// The gradient of a branch is a branch, and that of a call is a call. The forward decision is reused, and inputs that
// the branch taken does not read get zeros. Tested by tests/passes/gradient/loop_gradient_test.cc
#include "ops/control/branch_gradient.h"

#include "ops/control/adjoint.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

using From = AdjointInput::From;

class BranchGradient {
 public:
  explicit BranchGradient(GradRule &g) : g(g), flow(*g.kind().flow) {
    for (size_t b = 0; b < flow.bodies.size(); ++b)
      if (!flow.isDecision(b)) adjoints.emplace_back(g.context(), flow.bodies[b], g.bodies()[b]);
  }

  void run() {
    for (uint32_t i = 0; i < flow.operands.size(); ++i)
      if (llvm::any_of(adjoints, [&](const AdjointBody &body) { return body.hasGradientOf(i); }))
        differentiated.push_back(i);
      else g.noGrad(i);
    if (differentiated.empty()) return;
    if (flow.decisionOutput) operands.push_back(g.y(*flow.decisionOutput));
    for (AdjointBody &body : adjoints) addBody(body);
    emitNode();
  }

 private:
  void addBody(AdjointBody &body) {
    SmallVector<Value, 8> heads;
    for (uint32_t i : differentiated)
      heads.push_back(body.hasGradientOf(i) ? body.gradientOf(i)
                                            : body.emit(kZerosLike, {body.variable({From::Operand, i})}));
    const AdjointBody::Finished made = std::move(body).finish(heads);
    DimsBuffer &at = locations.emplace_back();
    for (const AdjointInput &input : made.inputs) {
      auto [known, isNew] = places.try_emplace(input, operands.size());
      if (isNew) operands.push_back(valueOf(input));
      at.push_back(static_cast<int64_t>(known->second));
    }
    bodies.push_back(made.graph);
  }

  Value valueOf(AdjointInput input) {
    if (input.from == From::Operand) return g.x(input.index);
    if (input.from == From::Output) return g.y(input.index);
    return g.isZero(input.index) ? g.emit(kZerosLike, {g.y(input.index)}) : g.dy(input.index);
  }

  void emitNode() {
    SmallVector<AttrText, 6> attrs = {{"num_outputs", g.number(static_cast<int64_t>(differentiated.size()))}};
    Value made;
    if (flow.decisionOutput) {
      GraphBuilder decision(g.context());
      const Value p = decision.addVariable("is_first", Attrs());
      bodies.insert(bodies.begin(), cantFail(std::move(decision).freeze({p}, {})).graph);
      attrs.push_back({"num_args", g.number(static_cast<int64_t>(operands.size() + 3))});
      attrs.push_back({"cond_input_locs", "(0,)"});
      attrs.push_back({"then_input_locs", g.tuple(locations[0])});
      attrs.push_back({"else_input_locs", g.tuple(locations[1])});
      made = g.emit(kCond, operands, g.context().attrs(attrs), bodies);
    } else {
      attrs.push_back({"num_args", g.number(static_cast<int64_t>(operands.size()))});
      attrs.push_back({"input_locs", g.tuple(locations[0])});
      made = g.emit(kCall, operands, g.context().attrs(attrs), bodies);
    }
    for (size_t k = 0; k < differentiated.size() && !g.hasFailed(); ++k) g.dx(differentiated[k], g.at(made, k));
  }

  GradRule &g;
  const BodyFlow &flow;
  std::vector<AdjointBody> adjoints;        // of all bodies but the decision
  SmallVector<uint32_t, 8> differentiated;  // operands
  SmallVector<Value, 16> operands;          // of the new node
  std::map<AdjointInput, size_t> places;
  SmallVector<DimsBuffer, 2> locations;
  SmallVector<Graph, 3> bodies;
};

}  // namespace

void branchGradient(GradRule &g) {
  if (!g.bodies().empty()) return BranchGradient(g).run();
  for (size_t i = 0; i < g.numInputs(); ++i) g.noGrad(i);
}

}  // namespace gradc
