// The gradient of a loop is a loop over the stacked outputs of the forward loop, in the opposite direction. Its states
// are the gradients of the forward states, and running sums of the gradients of operands that every step reads.
// Tested by tests/passes/gradient/loop_gradient_test.cc
#include "ops/control/loop_gradient.h"

#include "ir/graph/effects.h"
#include "ir/rules/run_flow.h"
#include "ops/control/adjoint.h"
#include "ops/control/scan.h"
#include "ops/kit/primitives.h"

#include "llvm/ADT/DenseSet.h"

using namespace llvm;

namespace gradc {
namespace {

using From = AdjointInput::From;

class LoopGradient {
 public:
  explicit LoopGradient(GradRule &g)
      : g(g), flow(*g.kind().flow), ports(flow.bodies.back()), body(g.context(), ports, g.bodies().back()) {}

  void run() {
    findAnswers();
    if (!rows.empty() || !states.empty() || !sums.empty()) return emitLoop(makeBody());
    for (size_t i = 0; i < g.numInputs(); ++i) g.noGrad(i);
  }

 private:
  bool isState(uint32_t operand) const { return flow.operands[operand] == BodyFlow::Operand::State; }
  uint32_t outputOf(const BodyFlow::State &state) const { return ports.outputOf[state.head]; }

  // Whether its rows have exactly the shape of what a step yields or is given.
  bool isStack(const AdjointInput &input) const { return input.from != From::Operand || flow.isStack[input.index]; }

  // Whether only the rows of executed steps have values; the same then holds for its gradients.
  bool isShort(const AdjointInput &input) const {
    if (input.from == From::Operand) return isShortData(g.kind(), input.index);
    return input.from != From::Sum && isShortOutput(g.kind(), input.index);
  }

  // A state takes part if its gradient is nonzero before or after some step. If there are no steps, the gradient of the
  // final state is that of the initial one.
  void findAnswers() {
    DenseSet<uint32_t> given;  // heads of the body whose gradients it reads
    for (const BodyGradient::Input &input : g.bodies().back().inputs)
      if (input.source == BodyGradient::Source::HeadGradient) given.insert(input.index);
    for (const BodyFlow::State &state : flow.states) {
      if (given.contains(state.head) || body.hasGradientOf(state.operand) ||
          (g.wants(state.operand) && !g.isZero(outputOf(state))))
        states.push_back(state);
    }
    for (uint32_t i = 0; i < flow.operands.size(); ++i) {
      if (!body.hasGradientOf(i)) continue;
      if (flow.operands[i] == BodyFlow::Operand::Rows) rows.push_back(i);
      if (flow.operands[i] == BodyFlow::Operand::Whole) sums.push_back(i);
    }
  }

  AdjointBody::Finished makeBody() {
    SmallVector<Value, 16> heads;
    for (uint32_t i : rows) heads.push_back(body.gradientOf(i));
    for (const BodyFlow::State &state : states) {
      if (body.hasGradientOf(state.operand)) heads.push_back(body.gradientOf(state.operand));
      else heads.push_back(body.emit(kZerosLike, {body.variable({From::Gradient, outputOf(state)})}));
    }
    for (uint32_t i : sums) heads.push_back(body.emit(kGradAdd, {body.variable({From::Sum, i}), body.gradientOf(i)}));
    return std::move(body).finish(heads);
  }

  /// The position of an operand of the new loop in its list; appended on first use.
  size_t place(SmallVectorImpl<Value> &list, std::map<AdjointInput, size_t> &known, AdjointInput key, Value v) {
    auto [at, isNew] = known.try_emplace(key, list.size());
    if (isNew) list.push_back(v);
    return at->second;
  }

  Value headOf(uint32_t output) { return g.isZero(output) ? g.emit(kZerosLike, {g.y(output)}) : g.dy(output); }

  void emitLoop(const AdjointBody::Finished &backward) {
    SmallVector<Value, 8> data, starts, whole;
    std::map<AdjointInput, size_t> dataAt, startAt, wholeAt;
    DimsBuffer zeros;  // starts that only give a shape
    for (const BodyFlow::State &state : states) {
      const uint32_t o = outputOf(state);
      if (g.isZero(o)) zeros.push_back(static_cast<int64_t>(starts.size()));
      place(starts, startAt, {From::Gradient, o}, g.isZero(o) ? g.x(state.operand) : g.dy(o));
    }
    for (uint32_t i : sums) {
      zeros.push_back(static_cast<int64_t>(starts.size()));
      place(starts, startAt, {From::Sum, i}, g.x(i));
    }
    // For each input of the body, its list and its position there.
    SmallVector<std::pair<int, size_t>, 16> places;
    for (const AdjointInput &input : backward.inputs) {
      const bool isStart = input.from == From::Sum || (input.from == From::Gradient && !flow.isStacked[input.index]);
      if (isStart) places.push_back({1, startAt.at(input)});
      else if (input.from == From::Gradient) places.push_back({0, place(data, dataAt, input, headOf(input.index))});
      else if (input.from == From::Output) places.push_back({0, place(data, dataAt, input, g.y(input.index))});
      else if (flow.operands[input.index] == BodyFlow::Operand::Rows)
        places.push_back({0, place(data, dataAt, input, g.x(input.index))});
      else places.push_back({2, place(whole, wholeAt, input, g.x(input.index))});
    }
    if (data.empty() && flow.maxSteps == kUnknownDim)  // some operand has to determine the number of steps
      for (uint32_t i = 0; i < flow.operands.size() && data.empty(); ++i)
        if (flow.operands[i] == BodyFlow::Operand::Rows) data.push_back(g.x(i));
    DimsBuffer stacks, shortData;
    for (const auto &[input, at] : dataAt) {
      if (isStack(input)) stacks.push_back(static_cast<int64_t>(at));
      if (isShort(input)) shortData.push_back(static_cast<int64_t>(at));
    }
    llvm::sort(stacks);
    llvm::sort(shortData);
    const size_t firstOf[] = {0, data.size(), data.size() + starts.size()};
    DimsBuffer locations;
    for (auto [list, at] : places) locations.push_back(static_cast<int64_t>(firstOf[list] + at));
    SmallVector<Value, 16> operands;
    if (flow.countOutput) operands.push_back(g.y(*flow.countOutput));
    else if (flow.countOperand) operands.push_back(g.x(*flow.countOperand));
    const bool hasSteps = !operands.empty();
    for (const auto *list : {&data, &starts, &whole}) append_range(operands, *list);
    SmallVector<AttrText, 12> attrs = {
        {"num_args", g.number(static_cast<int64_t>(operands.size()))},
        {"num_data", g.number(static_cast<int64_t>(data.size()))},
        {"num_states", g.number(static_cast<int64_t>(starts.size()))},
        {"num_out_data", g.number(static_cast<int64_t>(rows.size()))},
        {"input_locs", g.tuple(locations)},
    };
    if (hasSteps) attrs.push_back({"has_steps", "True"});
    if (!flow.isReverse) attrs.push_back({"reverse", "True"});
    if (flow.maxSteps != kUnknownDim) attrs.push_back({"length", g.number(flow.maxSteps)});
    if (!zeros.empty()) attrs.push_back({"zero_states", g.tuple(zeros)});
    if (!stacks.empty()) attrs.push_back({"stacks", g.tuple(stacks)});
    if (!shortData.empty()) attrs.push_back({"short_data", g.tuple(shortData)});
    DimsBuffer shortRows;
    for (size_t k = 0; k < rows.size(); ++k)
      if (isShortData(g.kind(), rows[k])) shortRows.push_back(static_cast<int64_t>(k));
    if (!shortRows.empty()) attrs.push_back({"short_out_data", g.tuple(shortRows)});
    answer(g.emit(kScan, operands, g.context().attrs(attrs), backward.graph));
  }

  // Outputs: rows, then states, then sums.
  void answer(Value loop) {
    if (g.hasFailed()) return;
    SmallVector<bool, 16> isAnswered(g.numInputs(), false);
    size_t o = 0;
    auto next = [&](uint32_t input) {
      isAnswered[input] = true;
      return g.at(loop, o++);
    };
    for (uint32_t i : rows) {
      const Value gradient = next(i);
      // Unless it is a stack, rows of a vector have one axis too many.
      g.dx(i, flow.isStack[i] ? gradient : g.emit(kReshapeLike, {gradient, g.x(i)}));
    }
    for (const BodyFlow::State &state : states) {
      const Value gradient = next(state.operand);
      if (state.startsAtZero) g.noGrad(state.operand);
      else g.dx(state.operand, gradient);
    }
    for (uint32_t i : sums) g.dx(i, next(i));
    for (size_t i = 0; i < isAnswered.size(); ++i)
      if (!isAnswered[i]) g.noGrad(i);
  }

  GradRule &g;
  const BodyFlow &flow;
  const BodyFlow::Body &ports;
  AdjointBody body;
  SmallVector<uint32_t, 8> rows, sums;  // operands
  SmallVector<BodyFlow::State, 4> states;
};

}  // namespace

void loopGradient(GradRule &g) {
  if (!g.bodies().empty()) return LoopGradient(g).run();
  for (size_t i = 0; i < g.numInputs(); ++i) g.noGrad(i);
}

}  // namespace gradc
