// The kernel of loops, branches and calls. Tested by tests/ops/control_flow_test.cc
#include "ir/rules/run_flow.h"

#include "ir/graph/body_flow.h"
#include "ir/graph/effects.h"
#include "ir/rules/decision.h"
#include "ir/rules/kernel.h"
#include "ir/tensor/dim.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cassert>
#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

constexpr size_t kAlignment = 64;  // of every buffer; a decision takes one such block
size_t rounded(size_t bytes) { return alignTo(bytes, kAlignment); }

bool decisionOf(const TensorRef &tensor) {
  if (const std::optional<bool> decision = isTrue(tensor)) return *decision;
  throw KernelError{("the condition has type " + dtypeName(tensor.dtype) + ", which has no kernels").str(),
                    ErrorKind::DTypeWidth};
}

char *rowOf(const TensorRef &stack, int64_t row) {
  assert(stack.shape[0] > 0 && "a loop over no rows has no step, and an output without elements is not requested");
  return stack.as<char>() + static_cast<int64_t>(stack.bytes()) / stack.shape[0] * row;
}

/// Whether the kernel of a node in a body left an error. Nothing runs after it, and what was computed is discarded.
bool hasFailed(const KernelCall &call) { return call.failure && *call.failure; }

// By row, so that the gradient, which runs in the opposite direction, has the key of the forward step.
RandomKey keyOfRow(const KernelCall &call, int64_t row) {
  return {call.random.seed, call.random.bits(static_cast<uint64_t>(row)), 0};
}

/// Binds what is the same for every step: operands passed whole, and the buffer of a decision.
void bindWhole(const KernelCall &call) {
  const BodyFlow &flow = *call.kind->flow;
  for (size_t b = 0; b < flow.bodies.size(); ++b) {
    for (size_t i = 0; i < flow.bodies[b].inputs.size(); ++i) {
      const uint32_t operand = flow.bodies[b].operandOf[i];
      if (flow.operands[operand] == BodyFlow::Operand::Whole) call.bodies[b]->bindInput(i, call.in[operand].data);
    }
    if (flow.isDecision(b)) call.bodies[b]->bindHead(0, call.workspace);
  }
}

void runBody(const KernelCall &call, size_t b) {
  const std::vector<uint32_t> &outputOf = call.kind->flow->bodies[b].outputOf;
  for (size_t h = 0; h < outputOf.size(); ++h)
    if (call.wants(outputOf[h])) call.bodies[b]->bindHead(h, call.out[outputOf[h]].data);
  call.bodies[b]->run(keyOfRow(call, 0));
}

// False if a kernel failed.
bool decides(const KernelCall &call, int64_t step) {
  call.bodies[0]->run(keyOfRow(call, ~step));
  return !hasFailed(call) && decisionOf(call.bodies[0]->head(0));
}

void runBranch(const KernelCall &call) {
  const bool isFirst = decides(call, 0);
  if (hasFailed(call)) return;
  const std::optional<uint32_t> output = call.kind->flow->decisionOutput;
  if (output && call.wants(*output)) *call.out[*output].as<int64_t>() = isFirst;
  runBody(call, isFirst ? 1 : 2);
}

/// A state while its loop runs.
struct Carried {
  char *now;      // the current value
  char *next[2];  // where this step and the next one write it; equal if it is in place
  char *output;   // null: not requested
  size_t bytes;
};
// The tables in front of the states' buffers: a row per state, then by operand the state that starts with it.
size_t tableBytes(const BodyFlow &flow) {
  return rounded(flow.states.size() * sizeof(Carried) + flow.operands.size() * sizeof(uint32_t));
}

/// Loops nest as deep as bodies do, so the tables are in the workspace to save stack space.
class LoopRun {
 public:
  explicit LoopRun(const KernelCall &call)
      : call(call), flow(*call.kind->flow), last(flow.bodies.size() - 1), body(*call.bodies[last]),
        memory(static_cast<char *>(call.workspace) + (last != 0 ? kAlignment : 0)),
        carried(reinterpret_cast<Carried *>(memory)),
        stateOf(reinterpret_cast<uint32_t *>(carried + flow.states.size())) {
    for (uint32_t s = 0; s < flow.states.size(); ++s) stateOf[flow.states[s].operand] = s;
  }

  void run() {
    const int64_t most = maxSteps();
    const bool isKnown = last == 0;  // whether the number of steps is known before the first
    placeStates(isKnown ? most : 0);
    for (; steps < most; ++steps) {
      if (!isKnown && !goesOn()) break;
      step(flow.isReverse ? most - 1 - steps : steps);
      if (hasFailed(call)) return;
    }
    if (hasFailed(call)) return;
    if (flow.mustEnd && steps == most && goesOn()) return tooManySteps(most);
    if (hasFailed(call)) return;
    for (const Carried &state : states())
      if (state.output && state.now != state.output && state.bytes) std::memcpy(state.output, state.now, state.bytes);
    clearRest();
    if (flow.countOutput && call.wants(*flow.countOutput)) *call.out[*flow.countOutput].as<int64_t>() = steps;
  }

 private:
  MutableArrayRef<Carried> states() { return MutableArrayRef(carried, flow.states.size()); }

  int64_t maxSteps() const {
    int64_t most = flow.maxSteps;
    for (size_t i = 0; i < flow.operands.size() && most == kUnknownDim; ++i)
      if (flow.operands[i] == BodyFlow::Operand::Rows) most = call.in[i].shape[0];
    if (!flow.countOperand) return most;
    const int64_t requested = *call.in[*flow.countOperand].as<const int64_t>();
    if (requested >= 0 && requested <= most) return requested;
    throw KernelError{("the requested number of steps is " + Twine(requested) + ", expected 0 to " + Twine(most) +
                       " (the number of rows)")
                          .str(),
                      ErrorKind::LengthMismatch};
  }

  // If there are two buffers, they alternate; if the number of steps is known, the last step writes the output itself.
  void placeStates(int64_t numSteps) {
    char *buffer = memory + tableBytes(flow);
    for (auto [state, row] : llvm::zip(flow.states, states())) {
      const TensorRef &start = call.in[state.operand];
      const uint32_t o = flow.bodies[last].outputOf[state.head];
      row = {start.as<char>(), {nullptr, nullptr}, call.wants(o) ? call.out[o].as<char>() : nullptr, start.bytes()};
      char *first = row.output;
      if (!first) {
        first = buffer;
        buffer += rounded(row.bytes);
      }
      char *second = first;
      if (!state.isInPlace) {
        second = buffer;
        buffer += rounded(row.bytes);
      }
      const bool isLastFirst = numSteps % 2 != 0;  // step numSteps - 1 takes the buffer that step 0 takes
      row.next[0] = isLastFirst ? first : second;
      row.next[1] = isLastFirst ? second : first;
      if (!state.startsAtZero) continue;
      row.now = row.next[1];
      if (row.bytes) std::memset(row.now, 0, row.bytes);
    }
  }

  void bindStates(size_t b) {
    ArrayRef<uint32_t> operandOf = flow.bodies[b].operandOf;
    for (size_t i = 0; i < operandOf.size(); ++i)
      if (flow.operands[operandOf[i]] == BodyFlow::Operand::State)
        call.bodies[b]->bindInput(i, carried[stateOf[operandOf[i]]].now);
  }

  bool goesOn() {
    bindStates(0);
    return decides(call, steps);
  }

  void tooManySteps(int64_t most) const {
    const std::string text = ("the condition still holds after " + Twine(most) + " steps, which is the bound").str();
    if (!call.failure) throw KernelError{text, ErrorKind::LengthMismatch};
    *call.failure =
        Failure(ErrorKind::LengthMismatch, text)
            .remedy(Remedy::AllowMoreSteps, "a larger bound, BlockGraphOptions::maxIterations, allows more");
  }

  void step(int64_t row) {
    bindStates(last);
    ArrayRef<uint32_t> operandOf = flow.bodies[last].operandOf, outputOf = flow.bodies[last].outputOf;
    for (size_t i = 0; i < operandOf.size(); ++i)
      if (flow.operands[operandOf[i]] == BodyFlow::Operand::Rows &&
          call.in[operandOf[i]].data)  // null: nobody reads it
        body.bindInput(i, rowOf(call.in[operandOf[i]], row));
    for (size_t h = 0; h < outputOf.size(); ++h)
      if (flow.isStacked[outputOf[h]] && call.wants(outputOf[h])) body.bindHead(h, rowOf(call.out[outputOf[h]], row));
    for (size_t s = 0; s < flow.states.size(); ++s) body.bindHead(flow.states[s].head, carried[s].next[0]);
    body.run(keyOfRow(call, row));
    for (Carried &state : states()) {
      state.now = state.next[0];
      std::swap(state.next[0], state.next[1]);
    }
  }

  // Readers of other outputs read only the rows that were written.
  void clearRest() {
    for (uint32_t o = 0; o < call.kind->numVisible; ++o) {
      if (!flow.isStacked[o] || !call.wants(o) || flow.isShort[o]) continue;
      char *end = call.out[o].as<char>() + call.out[o].bytes(), *rest = rowOf(call.out[o], steps);
      if (rest != end) std::memset(rest, 0, static_cast<size_t>(end - rest));
    }
  }

  const KernelCall &call;
  const BodyFlow &flow;
  const size_t last;
  BodyRunner &body;
  char *const memory;  // the tables, then the buffers of the states
  Carried *const carried;
  uint32_t *const stateOf;  // by operand; set only for operands that start a state
  int64_t steps = 0;
};

}  // namespace

bool isShortOutput(const NodeKind &kind, uint32_t output) { return kind.flow && kind.flow->isShort[output]; }

void runFlow(const KernelCall &call) {
  bindWhole(call);
  switch (call.kind->flow->form) {
    case BodyFlow::Form::Loop: return LoopRun(call).run();
    case BodyFlow::Form::Branch: return runBranch(call);
    case BodyFlow::Form::Call: return runBody(call, 0);
  }
}

Dim flowWorkspace(const NodeKind &kind, ArrayRef<TensorRef> in, ArrayRef<Request> requests) {
  const BodyFlow &flow = *kind.flow;
  Dim bytes = flow.isDecision(0) ? static_cast<int64_t>(kAlignment) : 0;
  if (flow.form == BodyFlow::Form::Loop) bytes = bytes + static_cast<int64_t>(tableBytes(flow));
  for (const BodyFlow::State &state : flow.states) {
    const bool isWanted = requests[flow.bodies.back().outputOf[state.head]] != Request::Null;
    bytes = bytes + Dim(static_cast<int64_t>(rounded(in[state.operand].bytes()))) * (2 - isWanted - state.isInPlace);
  }
  return bytes;
}

std::vector<Request> headRequests(const BodyFlow &flow, size_t body, size_t numHeads, ArrayRef<Request> requests) {
  if (flow.isDecision(body)) return std::vector<Request>(numHeads, Request::Write);
  std::vector<Request> wanted(numHeads, Request::Null);
  for (size_t h = 0; h < numHeads; ++h)
    if (requests[flow.bodies[body].outputOf[h]] != Request::Null) wanted[h] = Request::Write;
  if (body + 1 == flow.bodies.size())
    for (const BodyFlow::State &state : flow.states) wanted[state.head] = Request::Write;
  return wanted;
}

}  // namespace gradc
