// Tested by tests/passes/unroll_test.cc
#include "passes/unroll/unroll_loop.h"

using namespace llvm;

namespace gradc {
namespace {

using Values = SmallVector<Value, 8>;

class LoopUnrolling {
 public:
  LoopUnrolling(Expansion &expansion, const Expansion::Scope &scope, NodeId n, ArrayRef<Value> operands)
      : to(expansion), scope(scope), n(n), flow(*scope.graph().kind(n).flow), last(flow.bodies.size() - 1),
        current(operands), rows(flow.operands.size()), stacks(scope.graph().numOutputs(n)) {}

  Expected<Values> run(std::string &whyNot) {
    const std::optional<int64_t> most = maxSteps(whyNot);
    if (!most || !canSlice(*most, whyNot)) return Values();
    for (const BodyFlow::State &state : flow.states)
      if (state.startsAtZero)
        current[state.operand] = to.emit(scope, n, *to.context().ops.wellKnown.zerosLike, current[state.operand],
                                         "_zeros" + Twine(state.operand));
    int64_t steps = 0;
    for (; steps < *most; ++steps) {
      const int64_t row = flow.isReverse ? *most - 1 - steps : steps;
      const std::string prefix = prefixOf(row);
      if (flow.isDecision(0)) {
        Expected<bool> isNext = goesOn(prefix, whyNot);
        if (!isNext) return isNext.takeError();
        if (!whyNot.empty()) return Values();
        if (!*isNext) break;
      }
      if (Error error = step(row, prefix)) return error;
    }
    if (flow.mustEnd && steps == *most) {
      // Running the loop is an error, which unrolling must not hide.
      Expected<bool> isNext = goesOn(prefixOf(steps), whyNot);
      if (!isNext) return isNext.takeError();
      if (*isNext && whyNot.empty()) whyNot = "its condition still holds after " + std::to_string(*most) + " steps";
      if (!whyNot.empty()) return Values();
    }
    return finish(steps, whyNot);
  }

 private:
  std::string prefixOf(int64_t row) const {
    return scope.prefix + scope.graph().name(n).str() + "[" + std::to_string(row) + "]/";
  }

  Expected<bool> goesOn(StringRef prefix, std::string &whyNot) {
    Expected<Values> decision = to.copyBody(scope, n, 0, current, prefix);
    if (!decision) return decision.takeError();
    const std::optional<bool> isNext = to.values().truth((*decision)[0]);
    if (!isNext) whyNot = "its number of steps is known only at run time";
    return isNext.value_or(false);
  }

  /// Of the first sliced operand of known rank; unknown if there is none.
  int64_t length() const {
    for (size_t i = 0; i < flow.operands.size(); ++i)
      if (flow.operands[i] == BodyFlow::Operand::Rows && shapeOf(i).hasRank() && shapeOf(i).rank() > 0)
        return shapeOf(i)[0];
    return kUnknownDim;
  }
  ShapeRef shapeOf(size_t operand) const {
    return scope.known ? scope.known->shapeOf(scope.graph().entry(scope.graph().inputs(n)[operand])) : ShapeRef();
  }

  std::optional<int64_t> maxSteps(std::string &whyNot) {
    numRows = flow.maxSteps == kUnknownDim ? length() : flow.maxSteps;
    if (numRows == kUnknownDim) return whyNot = "the length of its sliced inputs is not known", std::nullopt;
    if (!flow.countOperand) return numRows;
    const std::optional<int64_t> bound = to.values().count(current[*flow.countOperand]);
    if (!bound) return whyNot = "its number of steps is known only at run time", std::nullopt;
    if (*bound >= 0 && *bound <= numRows) return bound;
    // Running the loop is an error (E-27), which unrolling must not hide.
    return whyNot = "the requested number of steps is " + std::to_string(*bound) + ", expected 0 to " +
                    std::to_string(numRows) + " (the number of rows)",
           std::nullopt;
  }

  bool canSlice(int64_t steps, std::string &whyNot) const {
    for (size_t i = 0; i < flow.operands.size() && steps; ++i) {
      if (flow.operands[i] != BodyFlow::Operand::Rows) continue;
      if (!shapeOf(i).hasRank()) return whyNot = "the shape of input " + std::to_string(i) + " is not known", false;
    }
    // The split has as many outputs, and the stack as many inputs.
    if (numRows <= kMaxIndex) return true;
    return whyNot = "it has " + std::to_string(numRows) + " rows, and at most " + std::to_string(kMaxIndex) +
                    " are unrolled",
           false;
  }

  // An operand is split into all its rows once; the rows of a stack that an unrolled loop made are reused.
  Value rowOf(size_t operand, int64_t row) {
    Value &cut = rows[operand];
    const Value whole = scope.to(scope.graph().inputs(n)[operand]);
    const bool dropsAxis = shapeOf(operand).rank() > 1 || flow.isStack[operand];
    if (const std::vector<Value> *made = to.rowsOf(whole); made && dropsAxis) return (*made)[static_cast<size_t>(row)];
    if (!cut.isValid())
      cut = to.emit(scope, n, to.rowOps().split(to.context(), numRows, dropsAxis), whole, "_rows" + Twine(operand));
    return Value{cut.node, static_cast<uint16_t>(row)};
  }

  Error step(int64_t row, StringRef prefix) {
    for (size_t i = 0; i < flow.operands.size(); ++i)
      if (flow.operands[i] == BodyFlow::Operand::Rows) current[i] = rowOf(i, row);  // also for its shape only
    Expected<Values> heads = to.copyBody(scope, n, last, current, prefix);
    if (!heads) return heads.takeError();
    const std::vector<uint32_t> &outputOf = flow.bodies[last].outputOf;
    for (size_t h = 0; h < heads->size(); ++h) {
      if (!flow.isStacked[outputOf[h]] || !to.isRead(scope, n, outputOf[h])) continue;
      if (stacks[outputOf[h]].empty()) stacks[outputOf[h]].resize(static_cast<size_t>(numRows));
      stacks[outputOf[h]][static_cast<size_t>(row)] = (*heads)[h];
    }
    for (const BodyFlow::State &state : flow.states) current[state.operand] = (*heads)[state.head];
    return Error::success();
  }

  Expected<Values> finish(int64_t steps, std::string &whyNot) {
    Values outputs(stacks.size());
    for (const BodyFlow::State &state : flow.states)
      outputs[flow.bodies[last].outputOf[state.head]] = current[state.operand];
    for (uint32_t o = 0; o < outputs.size(); ++o)
      if (flow.isStacked[o] && to.isRead(scope, n, o)) {
        outputs[o] = steps ? stack(o) : to.emitZeros(scope, n, o, "_output" + Twine(o), whyNot);
      }
    if (flow.countOutput) outputs[*flow.countOutput] = to.emitCount(scope, n, steps, "_steps");
    return outputs;
  }

  // Rows of steps that were not run are zero.
  Value stack(uint32_t o) {
    Value zero;
    const Value some = *llvm::find_if(stacks[o], [](Value v) { return v.isValid(); });
    for (Value &row : stacks[o]) {
      if (row.isValid()) continue;
      if (!zero.isValid()) zero = to.emit(scope, n, *to.context().ops.wellKnown.zerosLike, some, "_rest" + Twine(o));
      row = zero;
    }
    const Value made =
        to.emit(scope, n, to.rowOps().stack(to.context(), stacks[o].size()), stacks[o], "_output" + Twine(o));
    to.noteStack(made, std::move(stacks[o]));
    return made;
  }

  Expansion &to;
  const Expansion::Scope &scope;
  const NodeId n;
  const BodyFlow &flow;
  const size_t last;                       // the body of a step
  Values current;                          // operands of the next step
  std::vector<Value> rows;                 // by sliced operand: the split
  std::vector<std::vector<Value>> stacks;  // by output: its rows
  int64_t numRows = 0;
};

}  // namespace

Expected<SmallVector<Value, 8>> unrollLoop(Expansion &expansion, const Expansion::Scope &scope, NodeId n,
                                           ArrayRef<Value> operands, std::string &whyNot) {
  return LoopUnrolling(expansion, scope, n, operands).run(whyNot);
}

}  // namespace gradc
